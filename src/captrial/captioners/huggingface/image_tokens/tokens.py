"""One image in front of a decoder-only VLM: its tokens, teacher forcing of captions behind them, and attention to them.

The model is a function of its image tokens' embeddings. They are recorded once, where they enter the decoder, with the
rest of the prompt; after that the vision tower is not run again. To caption with other embeddings, the whole model runs
on token ids without pixels (so that positions and masks are its own), and a hook puts the prompt's recorded embeddings
where the decoder begins. Whether that gives the model's own logits is checked with the first image of a captioner.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.image_tokens.layouts import TokenLayout
from captrial.captioners.protocols import TokenLogits
from captrial.errors import InputError
from captrial.vision.hub_checkpoints import quiet_transformers

Keep = Callable[[Tensor], Tensor]
LOGIT_TOLERANCE = 1e-3  # of the largest logit: what half precision and other attention kernels may change


class ImageTokens:
    """The tokens of one image behind a prompt.

    `embeddings` (k, d) are those of the tokens that show a part of the image, `boxes` (k, 4) which part, relative to
    the image, and `places` (k,) their positions in the input.
    """

    def __init__(self, model: Any, inputs: dict[str, Tensor], boxes: np.ndarray, layout: TokenLayout) -> None:
        self.model, self.layout = model, layout
        self.prompt = inputs["input_ids"][0]  # (p,)
        inputs = {name: value for name, value in inputs.items() if name != "labels"}  # PaliGemma's processor makes them
        self._inputs = inputs
        every = (self.prompt == model.config.image_token_id).nonzero()[:, 0]
        if len(every) != len(boxes):
            raise InputError(
                f"a {model.config.model_type} model: {len(every)} image tokens in its input, but {len(boxes)} places "
                "in the image; this version of transformers arranges them differently"
            )
        shown = np.isfinite(boxes).all(1)
        self.boxes = torch.from_numpy(np.asarray(boxes[shown], np.float64)).to(model.device)
        self.places = every[torch.from_numpy(shown).to(every.device)]
        with torch.no_grad(), recorded_embeddings(model) as recorded:
            self.last_logits: Tensor = model(**inputs, use_cache=False).logits[0, -1]
        self.base = recorded[0][0]  # (p, d)
        self.embeddings = self.base[self.places]

    def check(self) -> None:
        """Refuse a model whose logits are not a function of these embeddings."""
        with torch.no_grad():
            found = self.decode(self.embeddings[None], self.prompt[-1:][None]).logits[0, 0, 0]
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

    def attend(self, tokens: Tensor, keep: Keep, gradients: bool = False) -> tuple[Tensor, list[Tensor]]:
        """Logits (1, 1, t, vocabulary) of one caption `tokens` (t,), and what `keep` leaves of every layer's attention.

        `keep` gets the weights (1, heads, length, length) of a layer as soon as they are computed. Positions of the
        image are `places`; those that predict the caption's tokens are `queries(t)`. With `gradients` weights
        stay in the graph of the logits.
        """
        with torch.set_grad_enabled(gradients), recorded_attention(self.model, keep) as layers:
            memory = self.embeddings[None]
            if gradients:
                memory = memory.detach().requires_grad_()
            logits = self._logits(memory, tokens.to(memory.device)[None])
        if not layers:
            raise InputError(f"a {self.model.config.model_type} model reports no attention; use saliency")
        return logits[None], layers

    def queries(self, count: int) -> Tensor:
        """The positions whose logits score a caption's first `count` tokens: that of the token before each."""
        return torch.arange(count, device=self.prompt.device) + len(self.prompt) - 1

    def _logits(self, memory: Tensor, tokens: Tensor) -> Tensor:
        """(rows, k, d), (rows, t) -> (rows, t, vocabulary)."""
        rows, t = tokens.shape
        read = torch.cat([self.prompt.expand(rows, -1), tokens[:, :-1]], 1)
        base = self.base.expand(rows, -1, -1)
        embedded = base.index_copy(1, self.places, memory.to(base.dtype))  # (rows, p, d)
        with replaced_embeddings(self.model, embedded), quiet_transformers():
            output = self.model(input_ids=read, use_cache=False, **self._beside(read), **_last(self.model, t))
        logits: Tensor = output.logits[:, -t:]
        return logits

    def _beside(self, read: Tensor) -> dict[str, Tensor]:
        """Masks and types of tokens, continued for the caption by what they end with, and the layout's own inputs."""
        rows, length = read.shape
        found = {}
        for name, value in self._inputs.items():
            if name != "input_ids" and value.shape == self._inputs["input_ids"].shape:
                more = value[:, -1:].expand(-1, length - value.shape[1])
                found[name] = torch.cat([value, more], 1).expand(rows, -1)
            elif name in self.layout.beside:
                found[name] = value.repeat(rows, *[1] * (value.ndim - 1))
        return found


def image_tokens(
    model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor], layout: TokenLayout
) -> ImageTokens:
    """The tokens of an image whose inputs are prepared."""
    return ImageTokens(model, inputs, layout.function()(model, processor, image, inputs), layout)


def _last(model: Any, count: int) -> dict[str, int]:
    """Only the last `count` rows of logits: those of a whole prompt would not fit into memory."""
    named = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": count} if named else {}


@contextmanager
def recorded_embeddings(model: Any) -> Iterator[list[Tensor]]:
    """Inside `with`, what enters the decoder at every call, (rows, length, d)."""
    recorded: list[Tensor] = []

    def keep(_: Any, __: Any, named: dict[str, Any]) -> None:
        recorded.append(_embeddings(model, named).detach())

    hook = model.get_decoder().register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield recorded
    finally:
        hook.remove()


@contextmanager
def replaced_embeddings(model: Any, prompt: Tensor) -> Iterator[None]:
    """Inside `with`, the decoder's input begins with `prompt` (rows, p, d) instead of its own."""

    def replace(_: Any, positional: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        own = _embeddings(model, named)
        joined = torch.cat([prompt.to(own.dtype), own[:, prompt.shape[1] :]], 1)
        return positional, {**named, "inputs_embeds": joined}

    hook = model.get_decoder().register_forward_pre_hook(replace, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def recorded_attention(model: Any, keep: Keep) -> Iterator[list[Tensor]]:
    """Inside `with`, attention is computed so that it can be read; what `keep` makes of every layer is recorded."""
    decoder = model.get_decoder()
    before = decoder.config._attn_implementation
    recorded: list[Tensor] = []

    def record(_: Any, __: Any, result: Any) -> None:
        if isinstance(result, tuple) and len(result) > 1 and isinstance(result[1], Tensor):
            recorded.append(keep(result[1]))

    modules = [layer.self_attn for layer in getattr(decoder, "layers", ()) if hasattr(layer, "self_attn")]
    hooks = [module.register_forward_hook(record) for module in modules]
    try:
        decoder.set_attn_implementation("eager")
        yield recorded
    finally:
        decoder.set_attn_implementation(before)
        for hook in hooks:
            hook.remove()


def _embeddings(model: Any, named: dict[str, Any]) -> Tensor:
    found = named.get("inputs_embeds")
    if found is None:
        raise InputError(
            f"a {model.config.model_type} model does not hand image tokens to its decoder as embeddings; "
            "use over='pixels'"
        )
    return found  # type: ignore[no-any-return]
