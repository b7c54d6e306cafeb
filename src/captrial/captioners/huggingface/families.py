"""The families of transformers captioners and VLMs: how each is prompted, and how its words depend on the pixels.

A new family is a subclass of `HfCaptioner` and one entry of `FAMILIES`. `load_transformers` finds the family of a
checkpoint by the `model_type` of its `config.json`; what no entry names is a chat model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from captrial.captioners.endpoint import PROMPT
from captrial.captioners.huggingface.adapter import HfCaptioner, HfOptions
from captrial.captioners.huggingface.image_tokens.layouts import find_layout
from captrial.captioners.huggingface.image_tokens.text_stacks import continued, text_stack
from captrial.captioners.huggingface.image_tokens.tokens import ImageTokens, image_tokens
from captrial.captioners.huggingface.processors import load_processor
from captrial.captioners.protocols import TokenLogits, VisualInput
from captrial.errors import InputError, MissingExtraError
from captrial.vision.hub_checkpoints import find_checkpoint, quiet_transformers

# The prompts that models without a chat template were trained with.
PLAIN_PROMPTS = {
    "paligemma": "<image>caption en",
    "florence2": "<CAPTION>",
    "kosmos-2": "An image of",
    "blip-2": "a photo of",
    "instructblip": "A short image description:",
}


class Blip(HfCaptioner):
    """BLIP: the decoder begins with BOS and, where given, a prompt such as "a picture of"."""

    def prepare(self, images: Sequence[Image.Image]) -> dict[str, Tensor]:
        """Pixels and the beginning of the caption; `generate` cuts one token (their tokeniser's SEP) off its end."""
        pixels = self._to_model(self.image_processor(images, return_tensors="pt"))["pixel_values"]
        start = torch.tensor([[*self._start, self.tokenizer.sep_token_id]], device=pixels.device)
        return {"pixel_values": pixels, "input_ids": start.expand(len(images), -1).clone()}

    def encode(self, inputs: Tensor) -> Tensor:
        """(b, patches, d)."""
        hidden: Tensor = self.model.vision_model(pixel_values=inputs).last_hidden_state
        return hidden

    def decode(self, memory: Tensor, tokens: Tensor) -> TokenLogits:
        """The text decoder on every pair of image and caption."""
        rows, read = _pairs(memory, tokens, self._start)
        logits = self.model.text_decoder(input_ids=read, encoder_hidden_states=rows).logits
        return TokenLogits(_last(logits, memory, tokens))

    def _continuation(self, generated: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        return generated[:, inputs["input_ids"].shape[1] - 1 :]

    @cached_property
    def _start(self) -> list[int]:
        return [self.model.config.text_config.bos_token_id, *self.tokenize(self.options.prompt or "")]


class Git(HfCaptioner):
    """GIT: the words follow the image's patches in one decoder; the first is CLS."""

    def prepare(self, images: Sequence[Image.Image]) -> dict[str, Tensor]:
        """Pixels and the beginning of the caption."""
        pixels = self._to_model(self.image_processor(images, return_tensors="pt"))["pixel_values"]
        start = torch.tensor([self._start], device=pixels.device).expand(len(images), -1)
        return {"pixel_values": pixels, "input_ids": start}

    def encode(self, inputs: Tensor) -> Tensor:
        """The pixels themselves: words and patches meet in the first layer."""
        return inputs

    def decode(self, memory: Tensor, tokens: Tensor) -> TokenLogits:
        """The decoder on every pair; images are encoded once, and repeated for the captions by the model."""
        read = _shifted(tokens.to(memory.device), self._start)
        read = read.repeat_interleave(len(memory), 0)  # caption by caption, as the model repeats images
        logits = self.model(input_ids=read, pixel_values=memory).logits[:, -tokens.shape[1] :]
        return TokenLogits(logits.reshape(len(tokens), len(memory), tokens.shape[1], -1).transpose(0, 1))

    @cached_property
    def _start(self) -> list[int]:
        return [self.tokenizer.cls_token_id, *self.tokenize(self.options.prompt or "")]


class EncoderDecoder(HfCaptioner):
    """A vision encoder and a text decoder joined by cross-attention."""

    def prepare(self, images: Sequence[Image.Image]) -> dict[str, Tensor]:
        """Pixels, and the beginning of the caption where a prompt is given."""
        inputs = self._to_model(self.image_processor(images, return_tensors="pt"))
        inputs = {"pixel_values": inputs["pixel_values"]}
        if self.options.prompt:
            start = torch.tensor([self._start], device=self.model.device)
            inputs["decoder_input_ids"] = start.expand(len(images), -1)
        return inputs

    def encode(self, inputs: Tensor) -> Tensor:
        """(b, patches, d)."""
        hidden: Tensor = self.model.encoder(pixel_values=inputs)[0]
        return hidden

    def decode(self, memory: Tensor, tokens: Tensor) -> TokenLogits:
        """The decoder on every pair of image and caption."""
        rows, read = _pairs(memory, tokens, self._start)
        logits = self.model(encoder_outputs=(rows,), decoder_input_ids=read, use_cache=False).logits
        return TokenLogits(_last(logits, memory, tokens))

    def _continuation(self, generated: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        return generated[:, len(self._start) :]

    @cached_property
    def _start(self) -> list[int]:
        config, generation = self.model.config, self.model.generation_config
        candidates = [generation.decoder_start_token_id, config.decoder_start_token_id, generation.bos_token_id]
        first = next((token for token in candidates if token is not None), self.tokenizer.bos_token_id)
        return [first, *self.tokenize(self.options.prompt or "")]


class Chat(HfCaptioner):
    """A model that is prompted with an image, by its chat template or, without one, by plain text."""

    default_beam = 1
    _checked = False

    def prepare(self, images: Sequence[Image.Image]) -> dict[str, Tensor]:
        """Prompt and images, padded on the left."""
        question = self._question
        begins = self.tokenizer.bos_token is not None and question.startswith(self.tokenizer.bos_token)
        inputs = self.processor(
            text=[question] * len(images),
            images=[[image] for image in images],
            padding=True,
            return_tensors="pt",
            **({"add_special_tokens": False} if begins else {}),
        )
        return self._to_model({name: value for name, value in inputs.items() if name != "labels"})  # of PaliGemma

    def image_tokens(self, image: Image.Image) -> ImageTokens:
        """The tokens of an image behind the prompt, with the part of the image that each shows."""
        image = image.convert("RGB")
        layout = find_layout(self.model.config.model_type)
        found = image_tokens(self.model, self.processor, image, self.prepare([image]), layout)
        if not self._checked:
            found.check()
            self._checked = True
        return found

    def visual_input(self, image: Image.Image) -> VisualInput:
        """The pixels, where they are one tensor of fixed size an image."""
        visual = super().visual_input(image)
        whole = visual.inputs.ndim >= 3 and visual.inputs.shape[:-3].numel() == 1
        found = self.prepare([image.convert("RGB")])["pixel_values"].shape  # with tiles, one after the other, if any
        if not whole or found != self._blank["pixel_values"].shape:
            raise InputError(
                f"a {self.model.config.model_type} model cuts images into pieces that depend on their size; "
                "over='pixels' needs one tensor of fixed size (as in BLIP, GIT, vision-encoder-decoder, LLaVA): use "
                "over='elements', which explains by image tokens"
            )
        return visual._replace(inputs=visual.inputs.reshape(visual.inputs.shape[-3:]))

    def encode(self, inputs: Tensor) -> Tensor:
        """Projected patches (b, patches, d) of LLaVA; elsewhere the pixels, which `decode` takes through the model."""
        if not self._separable:
            return inputs
        config = self.model.config
        chosen = {"vision_feature_layer": config.vision_feature_layer}
        chosen["vision_feature_select_strategy"] = config.vision_feature_select_strategy
        return torch.stack(list(self.model.get_image_features(pixel_values=inputs, **chosen).pooler_output))

    def decode(self, memory: Tensor, tokens: Tensor) -> TokenLogits:
        """The language model on every pair, after the prompt."""
        rows, captions = memory.repeat_interleave(len(tokens), 0), tokens.to(memory.device).repeat(len(memory), 1)
        read = text_stack(self.model, self._blank["input_ids"][0]).read(captions)
        if self._separable:
            words = self.model.get_input_embeddings()(read["input_ids"])
            places = (read["input_ids"] == self.model.config.image_token_id).unsqueeze(-1).expand_as(words)
            logits = self.model(
                inputs_embeds=words.masked_scatter(places, rows.to(words.dtype)), use_cache=False
            ).logits
        else:
            logits = self.model(**self._beside(rows, read["input_ids"]), **read, use_cache=False).logits
        return TokenLogits(_last(logits, memory, tokens))

    def _beside(self, rows: Tensor, read: Tensor) -> dict[str, Tensor]:
        """The model's other inputs: pixels, masks that go on for the caption, and others once a row."""
        own = {name: value for name, value in self._blank.items() if name not in ("pixel_values", "input_ids")}
        repeated = {name: value.repeat_interleave(len(read), 0) for name, value in own.items()}
        pixels = rows.view(-1, *self._blank["pixel_values"].shape[1:])
        return {**repeated, **continued(self.model, own, read), "pixel_values": pixels}

    @cached_property
    def _question(self) -> str:
        """The text with the image's place in it."""
        config = self.model.config
        if self.processor.chat_template is None:
            return self.options.prompt or PLAIN_PROMPTS.get(config.model_type, PROMPT)
        content = [{"type": "image"}, {"type": "text", "text": self.options.prompt or PROMPT}]
        text = self.processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        return str(text)

    @cached_property
    def _blank(self) -> dict[str, Tensor]:
        """The inputs for an empty image: the prompt with as many places as an image has patches."""
        return self.prepare([Image.new("RGB", (64, 64))])

    @property
    def _separable(self) -> bool:
        return self.model.config.model_type in ("llava", "vipllava")


@dataclass(frozen=True)
class Family:
    """Transformers models that are used in the same way."""

    title: str
    description: str
    captioner: type[HfCaptioner]
    model_types: tuple[str, ...] = ()  # of `config.json`; without any it is the family of all other models


FAMILIES = [
    Family("BLIP", "an image encoder and a text decoder that attends to it", Blip, ("blip",)),
    Family("GIT", "a text decoder with the image in front of the words", Git, ("git",)),
    Family(
        "encoder-decoder",
        "any vision encoder with any text decoder (ViT-GPT2, TrOCR)",
        EncoderDecoder,
        ("vision-encoder-decoder",),
    ),
    Family("chat", "image-text-to-text models (LLaVA, SmolVLM, Qwen2-VL, PaliGemma, ...), given a prompt", Chat),
]


def find_family(model_type: str) -> Family:
    """The family of a model type; the one without model types where no other names it.

    >>> find_family("blip").title, find_family("llava").title
    ('BLIP', 'chat')
    """
    named = (family for family in FAMILIES if model_type in family.model_types)
    return next(named, next(family for family in FAMILIES if not family.model_types))


def load_transformers(source: str, options: HfOptions | None = None) -> HfCaptioner:
    """The captioner of a transformers checkpoint, by folder or by name on the hub."""
    options = options or HfOptions()
    try:
        library: Any = import_module("transformers")
        captions: Any = import_module("transformers.models.auto.modeling_auto")
    except ModuleNotFoundError:
        raise MissingExtraError(f"captioner {source}", "hf") from None
    code = options.trust_remote_code
    folder = find_checkpoint(source, revision=options.revision, code=code, pickle=options.allow_pickle)
    with quiet_transformers():
        try:
            config = library.AutoConfig.from_pretrained(folder, trust_remote_code=code)
            if config.model_type not in captions.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES and not code:
                raise InputError(f"{source}: a {config.model_type} model does not caption images")
            processor = load_processor(folder, config, code)
            model = library.AutoModelForImageTextToText.from_pretrained(
                folder,
                config=config,
                trust_remote_code=code,
                use_safetensors=None if options.allow_pickle else True,
                dtype=options.torch_dtype(),
            )
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise InputError(f"{source}: {_why(error)}") from None
    made = find_family(config.model_type).captioner(model.to(options.torch_device()), processor, options)
    made.name = source.rstrip("/").rpartition("/")[2]
    return made


def _why(error: Exception) -> str:
    message = " ".join(str(error).split())
    if "trust_remote_code" in message:
        flag = "--trust-remote-code, or ?trust_remote_code=true behind its name"
        return f"it runs code of its own; read that code, then allow it: {flag}"
    return f"transformers cannot load it ({message[:200]})"


def _shifted(tokens: Tensor, start: list[int]) -> Tensor:
    """The input that `tokens` (n, t) are predicted from: the start and all but the last."""
    first = torch.tensor([start], device=tokens.device, dtype=tokens.dtype).expand(len(tokens), -1)
    return torch.cat([first, tokens[:, :-1]], 1)


def _pairs(memory: Tensor, tokens: Tensor, start: list[int]) -> tuple[Tensor, Tensor]:
    """Every image with every caption: memory (b n, ...) and what is read (b n, start + t - 1)."""
    read = _shifted(tokens.to(memory.device), start).repeat(len(memory), 1)
    return memory.repeat_interleave(len(tokens), 0), read


def _last(logits: Tensor, memory: Tensor, tokens: Tensor) -> Tensor:
    """(b n, ..., vocabulary) -> (b, n, t, vocabulary): the positions that score `tokens`."""
    n, t = tokens.shape
    return logits[:, -t:].reshape(len(memory), n, t, -1)
