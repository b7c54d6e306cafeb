"""One image in front of a VLM: its tokens, teacher forcing of captions behind them, and attention to them.

The model is a function of its image tokens' embeddings. They are recorded once, where they enter the language model,
with the rest of the prompt; after that the vision tower is not run again. To caption with other embeddings, the whole
model runs on token ids without pixels (so that positions and masks are its own), and a hook puts the prompt's recorded
embeddings where the language model begins. Whether that gives the model's own logits is checked with the first image of
a captioner.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.image_tokens.layouts import TokenLayout
from captrial.captioners.huggingface.image_tokens.text_stacks import Keep, continued, recorded_attention, text_stack
from captrial.captioners.protocols import LayerAttention, TokenLogits
from captrial.errors import InputError
from captrial.vision.hub_checkpoints import quiet_transformers

LOGIT_TOLERANCE = 1e-3  # of the largest logit: what half precision and other attention kernels may change
DEEPSTACK = "deepstack_visual_embeds"  # Qwen3-VL: what is added to image tokens behind the first layers


class ImageTokens:
    """The tokens of one image behind a prompt.

    `embeddings` (k, d) are all that the language model gets of the tokens that show a part of the image, `boxes` (k, 4)
    which part, relative to the image, and `places` (k,) their positions in the input.
    """

    def __init__(self, model: Any, inputs: dict[str, Tensor], boxes: np.ndarray, layout: TokenLayout) -> None:
        self.model, self.layout = model, layout
        self.prompt = inputs["input_ids"][0]  # (p,)
        self._inputs = inputs
        self.text = text_stack(model, self.prompt)
        self.places = (self.prompt == model.config.image_token_id).nonzero()[:, 0]
        shown = np.isfinite(boxes).all(1)
        self.boxes = torch.from_numpy(np.asarray(boxes[shown], np.float64)).to(model.device)
        with torch.no_grad(), quiet_transformers():
            self.embeddings, self.last_logits = self._record(torch.from_numpy(shown).to(model.device))

    def check(self) -> None:
        """Refuse a model whose logits are not a function of these embeddings."""
        with torch.no_grad():
            any_words = self.prompt[-1:].repeat(3)[None]  # what follows a word must not matter to it
            found = self.decode(self.embeddings[None], any_words).logits[0, 0, 0]
        if not torch.allclose(
            found, self.last_logits, rtol=0, atol=LOGIT_TOLERANCE * float(self.last_logits.abs().max())
        ):
            raise InputError(
                f"a {self.model.config.model_type} model: its words depend on more than its image tokens; use "
                "over='pixels' or method='occlusion'"
            )

    def decode(self, memory: Tensor, tokens: Tensor) -> TokenLogits:
        """Teacher forcing of `tokens` (n, t) behind every row of embeddings (b, k, d): logits (b, n, t, vocabulary)."""
        (b, n), t = (len(memory), len(tokens)), tokens.shape[1]
        logits = self._logits(memory.repeat_interleave(n, 0), tokens.to(memory.device).repeat(b, 1))
        return TokenLogits(logits.reshape(b, n, t, -1))

    def attend(self, tokens: Tensor, keep: Keep, gradients: bool = False) -> tuple[Tensor, list[LayerAttention]]:
        """Logits (1, 1, t, vocabulary) of one caption `tokens` (t,), and what `keep` leaves of every layer's attention.

        Positions of the image are `places`; those that predict the caption's tokens are `queries(t)`. With `gradients`
        weights stay in the graph of the logits.
        """
        with torch.set_grad_enabled(gradients), recorded_attention(self.text, keep) as layers:
            memory = self.embeddings[None]
            if gradients:
                memory = memory.detach().requires_grad_()
            logits = self._logits(memory, tokens.to(memory.device)[None])
        if not layers:
            raise InputError(f"a {self.model.config.model_type} model reports no attention; use saliency")
        return logits[None], layers

    def queries(self, count: int) -> Tensor:
        """The positions whose logits score a caption's first `count` tokens."""
        return self.text.queries(count)

    def spread(self, values: Tensor) -> Tensor:
        """Values of the positions `places` (..., places) as values of the embeddings (..., k)."""
        return values

    # How image tokens enter the language model; another kind of model overrides these three.

    def _record(self, shown: Tensor) -> tuple[Tensor, Tensor]:
        """The embeddings of the tokens that show a part of the image, and the logits of the first word."""
        if len(shown) != len(self.places):
            raise arranged_differently(self.model, f"{len(self.places)} image tokens", len(shown))
        with _entering(self.text.entry, self.model) as recorded:
            first = self.text.read(self.prompt[-1:][None])
            logits = self.model(**{**self._inputs, **first}, use_cache=False).logits[0, -1]
        named = recorded[0]
        self._base = named["inputs_embeds"][0]  # (p, d)
        parts = [self._base[self.places], *(named.get(DEEPSTACK) or ())]
        self.places = self.places[shown]
        return torch.cat([part[shown] for part in parts], -1), logits

    def _entered(self, memory: Tensor) -> AbstractContextManager[Any]:
        """Inside `with`, the language model begins with these embeddings (rows, k, d)."""
        own, *deep = torch.split(memory.to(self._base.dtype), self._base.shape[-1], -1)
        prompt = self._base.expand(len(memory), -1, -1).index_copy(1, self.places, own)
        return _replaced(self.text.entry, prompt, self.places, deep)

    def _beside(self, rows: int) -> dict[str, Tensor]:
        """The layout's own inputs, once a row."""
        named = ((name, self._inputs[name]) for name in self.layout.beside if name in self._inputs)
        return {name: value.repeat(rows, *[1] * (value.ndim - 1)) for name, value in named}

    def _logits(self, memory: Tensor, tokens: Tensor) -> Tensor:
        """(rows, k, d), (rows, t) -> (rows, t, vocabulary)."""
        rows, t = tokens.shape
        read = self.text.read(tokens)
        inputs = {
            **continued(self.model, self._inputs, read["input_ids"]),
            **self._beside(rows),
            **read,
            **_last(self.model, t),
        }
        with self._entered(memory), quiet_transformers():
            logits: Tensor = self.model(**inputs, use_cache=False).logits[:, -t:]
        return logits


def image_tokens(
    model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor], layout: TokenLayout
) -> ImageTokens:
    """The tokens of an image whose inputs are prepared."""
    boxes = layout.function("boxes")(model, processor, image, inputs)
    made: ImageTokens = layout.function("tokens")(model, inputs, boxes, layout)
    return made


def arranged_differently(model: Any, found: str, places: int) -> InputError:
    """The error for a model whose tokens are not those that its layout expects."""
    return InputError(
        f"a {model.config.model_type} model: {found} in its input, but {places} places in the image; this version of "
        "transformers arranges them differently"
    )


def _last(model: Any, count: int) -> dict[str, int]:
    """Only the last `count` rows of logits: those of a whole prompt would not fit into memory."""
    named = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": count} if named else {}


@contextmanager
def _entering(entry: Any, model: Any) -> Iterator[list[dict[str, Any]]]:
    """Inside `with`, the named inputs of the language model at every call."""
    recorded: list[dict[str, Any]] = []

    def keep(_: Any, __: Any, named: dict[str, Any]) -> None:
        if named.get("inputs_embeds") is None:
            raise InputError(
                f"a {model.config.model_type} model does not hand image tokens to its language model as embeddings; "
                "use over='pixels'"
            )
        recorded.append(named)

    hook = entry.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield recorded
    finally:
        hook.remove()


@contextmanager
def _replaced(entry: Any, prompt: Tensor, places: Tensor, deep: list[Tensor]) -> Iterator[None]:
    """Inside `with`, the language model begins with `prompt` (rows, p, d); `deep` (rows, k, d) goes to its layers."""

    def replace(_: Any, positional: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        own: Tensor = named["inputs_embeds"]
        joined = torch.cat([prompt.to(own.dtype), own[:, prompt.shape[1] :]], 1)
        more: dict[str, Any] = {"inputs_embeds": joined}
        if deep:
            seen = torch.zeros(joined.shape[:2], dtype=torch.bool, device=joined.device)
            seen[:, places] = True
            more |= {"visual_pos_masks": seen, DEEPSTACK: [part.flatten(0, 1) for part in deep]}
        return positional, {**named, **more}

    hook = entry.register_forward_pre_hook(replace, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
