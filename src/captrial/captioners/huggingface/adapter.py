"""The base of all transformers captioners: how a checkpoint is used (`HfOptions`) and what a family shares.

All of them caption deterministically, in batches in which an image's neighbours do not matter, and can be explained by
gradients where the architecture has one tensor of pixels an image (see `captrial.captioners.protocols`). The
families are in `captrial.captioners.huggingface.families`.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.processors import visible_window, word_spans
from captrial.captioners.protocols import TokenLogits, VisualInput, WordSpan
from captrial.decoding.protocol import require_beam
from captrial.errors import InputError
from captrial.vision.devices import AUTO, find_device
from captrial.vision.hub_checkpoints import quiet_transformers


@dataclass(frozen=True)
class HfOptions:
    """How a transformers captioner is loaded and prompted."""

    prompt: str | None = None  # chat models: the question; captioners: the beginning that they continue
    beam: int | None = None  # None: 5 for captioners, 1 for chat models
    max_tokens: int = 50
    batch: int = 8  # images at a time; halved where the memory of a GPU is too small
    device: str = AUTO  # cuda where there is one
    dtype: str = "auto"  # float32 on the CPU, what the checkpoint is stored in elsewhere
    revision: str | None = None  # of a name on the hub
    trust_remote_code: bool = False  # run Python files that come with the checkpoint
    allow_pickle: bool = False  # read weights that are not safetensors

    def torch_device(self) -> torch.device:
        """The device asked for."""
        return find_device(self.device)

    def torch_dtype(self) -> torch.dtype | str:
        """The dtype asked for; "auto" leaves it to the checkpoint."""
        if self.dtype == "auto":
            return torch.float32 if self.torch_device().type == "cpu" else "auto"
        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise InputError(f"dtype {self.dtype!r}: there are float32, bfloat16 and float16")
        return dtype


class HfCaptioner(abc.ABC):
    """A transformers model that captions images; one subclass a family."""

    default_beam = 5

    def __init__(self, model: Any, processor: Any, options: HfOptions) -> None:
        self.name = type(self).__name__  # in pages; that of its folder or on the hub, where it was loaded from one
        self.model, self.processor, self.options = model.eval().requires_grad_(False), processor, options
        self.tokenizer, self.image_processor = processor.tokenizer, processor.image_processor
        self.tokenizer.padding_side = "left"  # decoders continue at the right end
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token

    @abc.abstractmethod
    def prepare(self, images: Sequence[Image.Image]) -> dict[str, Tensor]:
        """The model's inputs for some RGB images."""

    @abc.abstractmethod
    def encode(self, inputs: Tensor) -> Any:
        """The visual part of the model for pixels (b, 3, h, w); differentiable."""

    @abc.abstractmethod
    def decode(self, memory: Any, tokens: Tensor) -> TokenLogits:
        """Teacher forcing of `tokens` (n, t) on every row of memory: logits (b, n, t, vocabulary)."""

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption an image, in order."""
        return [self._text(tokens) for tokens in self._generate(images)]

    def visual_input(self, image: Image.Image) -> VisualInput:
        """The normalised pixels of an image, and which part of it they show."""
        pixels = self.prepare([image.convert("RGB")])["pixel_values"]
        return VisualInput(pixels[0], None, visible_window(self.image_processor, image.size))

    def generate(self, image: Image.Image) -> list[int]:
        """Token ids of the caption of an image."""
        return self._generate([image])[0]

    def tokenize(self, caption: str) -> list[int]:
        """Token ids of a caption."""
        return list(self.tokenizer(caption, add_special_tokens=False)["input_ids"])

    def word_spans(self, tokens: Sequence[int]) -> list[WordSpan]:
        """The words of some tokens, sub-words merged."""
        return word_spans(self.tokenizer, tokens)

    @torch.inference_mode()
    def _generate(self, images: Sequence[Image.Image]) -> list[list[int]]:
        """Token ids of one caption an image, without prompt and special tokens."""
        found: list[list[int]] = []
        batch = self.options.batch
        while len(found) < len(images):
            some = [image.convert("RGB") for image in images[len(found) : len(found) + batch]]
            try:
                found += self._generate_together(some)
            except torch.OutOfMemoryError:  # of a GPU
                if len(some) == 1:
                    raise InputError(
                        "the memory of the GPU is too small for one image; use --dtype bfloat16, fewer tokens "
                        "(?max_tokens=), or --device cpu"
                    ) from None
                batch = len(some) // 2
        return found

    def _generate_together(self, images: Sequence[Image.Image]) -> list[list[int]]:
        inputs = self.prepare(images)
        with quiet_transformers():
            generated = self.model.generate(**inputs, **self._search())
        return [self._caption_tokens(row) for row in self._continuation(generated, inputs).tolist()]

    def _search(self) -> dict[str, Any]:
        """Deterministic beam search, whatever the checkpoint's own generation settings are."""
        beam = self.options.beam or self.default_beam
        require_beam(beam)
        unused = {"temperature": None, "top_k": None, "top_p": None}
        return {"do_sample": False, "num_beams": beam, "max_new_tokens": self.options.max_tokens, **unused}

    def _continuation(self, generated: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """The tokens after the prompt; models that repeat the prompt have it in front."""
        prompt = inputs.get("input_ids")
        if (
            prompt is None
            or generated.shape[1] < prompt.shape[1]
            or not torch.equal(generated[:, : prompt.shape[1]], prompt)
        ):
            return generated
        return generated[:, prompt.shape[1] :]

    def _caption_tokens(self, tokens: list[int]) -> list[int]:
        special = {*self.tokenizer.all_special_ids, *self._ends()}
        body = tokens[1:] if tokens and tokens[0] in special else tokens  # a decoder's start may be its end, too
        length = next((place for place, token in enumerate(body) if token in self._ends()), len(body))
        return [token for token in body[:length] if token not in special]

    def _ends(self) -> set[int]:
        """Ids of the tokens that end a caption."""
        eos = self.model.generation_config.eos_token_id
        ends = set(eos) if isinstance(eos, list) else {eos}
        return {end for end in {*ends, self.tokenizer.eos_token_id, self.tokenizer.sep_token_id} if end is not None}

    def _text(self, tokens: list[int]) -> str:
        return " ".join(self.tokenizer.decode(tokens, skip_special_tokens=True).split())

    def _to_model(self, inputs: Any) -> dict[str, Tensor]:
        """Tensors on the model's device, floating ones in its dtype."""
        model = self.model
        return {
            name: value.to(model.device, model.dtype if value.is_floating_point() else None)
            for name, value in inputs.items()
            if isinstance(value, Tensor)
        }
