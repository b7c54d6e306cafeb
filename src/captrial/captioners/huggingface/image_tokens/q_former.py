"""BLIP-2 and InstructBLIP: a Q-Former reads the patches of the vision tower and writes a few tokens.

Those tokens have no place in the image, so the patches are what words are explained by. Attention to the tokens is
spread over the patches by the Q-Former's attention to them, the mean over its layers and heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.image_tokens.token_boxes import Floats, grid_boxes, square_side
from captrial.captioners.huggingface.image_tokens.tokens import ImageTokens, arranged_differently
from captrial.captioners.protocols import WHOLE


def patch_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """A class token, which shows the whole image, and the patches of the stretched image row by row."""
    config = model.config.vision_config
    side = config.image_size // config.patch_size
    return np.concatenate([np.array([WHOLE]), grid_boxes(side, side)])


class QFormerTokens(ImageTokens):
    """The patches behind a Q-Former: its output enters the language model."""

    def spread(self, values: Tensor) -> Tensor:
        """Values of the Q-Former's tokens as values of the patches that these attend to."""
        return values @ self._attention().to(values)

    def _record(self, shown: Tensor) -> tuple[Tensor, Tensor]:
        with _recorded_output(self.model.vision_model) as recorded:
            read = self.text.read(self.prompt[-1:][None])
            logits = self.model(**{**self._inputs, **read}, use_cache=False).logits[0, -1]
        patches: Tensor = recorded[0].last_hidden_state[0]
        if len(patches) != len(shown):
            raise arranged_differently(self.model, f"{len(patches)} patches", len(shown))
        square_side(len(patches) - 1)
        return patches, logits

    def _entered(self, memory: Tensor) -> AbstractContextManager[Any]:
        return _replaced_output(self.model.vision_model, memory.to(self.embeddings.dtype))

    @torch.no_grad()
    def _attention(self) -> Tensor:
        """(tokens, patches): what share of each token's attention a patch has."""
        former = self.model.qformer
        recorded: list[Tensor] = []

        def record(_: Any, __: Any, result: Any) -> None:
            recorded.append(result[1][0].mean(0))

        before = former.config._attn_implementation
        layers = [layer for layer in former.encoder.layer if layer.has_cross_attention]
        hooks = [layer.crossattention.attention.register_forward_hook(record) for layer in layers]
        try:
            former.set_attn_implementation("eager")
            self._logits(self.embeddings[None], self.prompt[-1:][None])
        finally:
            former.set_attn_implementation(before)
            for hook in hooks:
                hook.remove()
        return torch.stack(recorded).mean(0)


@contextmanager
def _recorded_output(module: Any) -> Iterator[list[Any]]:
    """Inside `with`, what a module returns at every call."""
    recorded: list[Any] = []
    hook = module.register_forward_hook(lambda _, __, output: recorded.append(output))
    try:
        yield recorded
    finally:
        hook.remove()


@contextmanager
def _replaced_output(module: Any, hidden: Tensor) -> Iterator[None]:
    """Inside `with`, a vision tower returns `hidden` without running."""
    outputs: Any = import_module("transformers.modeling_outputs")
    given = outputs.BaseModelOutputWithPooling(last_hidden_state=hidden, pooler_output=hidden[:, 0])
    module.forward = lambda *_, **__: given  # hides the method of the class
    try:
        yield
    finally:
        del module.forward
