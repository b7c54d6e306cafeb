"""Any transformers vision backbone as visual elements: ViT, CLIP, SigLIP, DINOv2, Swin, ConvNeXt, ResNet, ...

Patches and cells have the boxes they were computed from. A class token is kept, in front, with the whole image as its
box (Cornia 2022: CLIP ViT-B/32, 1 + 49 tokens of 768); registers and distillation tokens have no place in the image and
are left out.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from captrial.errors import InputError
from captrial.vision.backbones.base import Backbone, grid_boxes, weights_hash
from captrial.vision.descriptions import BackboneName, yes_or_no
from captrial.vision.hub_checkpoints import (
    image_processor_settings,
    load_config,
    load_network,
    refuse_random_weights,
    resolve_source,
)
from captrial.vision.preprocess import Preprocess

CLIP = "openai/clip-vit-base-patch32"  # Cornia 2022
MOST_SPECIAL = 16  # class, distillation and register tokens before the patches; the known models have at most 5


class TransformersBackbone(Backbone):
    """Tokens or the last feature map of a transformers model, by name on the hub or local folder.

    `stage` takes an earlier, finer map instead (an `out_features` name of the model's backbone class, e.g. `stage3`).
    `pickle` allows weights that are not safetensors (still loaded with torch's restricted unpickler).
    """

    def __init__(
        self,
        source: str,
        preprocess: Preprocess | None = None,
        stage: str | None = None,
        class_token: bool = True,
        pickle: bool = False,
    ) -> None:
        super().__init__()
        self.source = resolve_source(source)
        self.preprocess = preprocess or usual_preprocess(source)
        config = load_config(self.source)
        config = getattr(config, "vision_config", None) or config  # the vision tower of CLIP, SigLIP and the like
        self.name, self.stage = f"hf:{config.model_type}", stage
        if stage is not None:
            self._choose_stage(config, stage)
        auto = "AutoModel" if stage is None else "AutoBackbone"
        self.network, missing = load_network(self.source, auto, config, pickle)
        self._options = _options(self.network, config, self.preprocess.size)
        self._set_layout(config, class_token)
        refuse_random_weights(self.network, missing, lambda: [self.elements(self._blank())], source)

    def elements(self, pixels: Tensor) -> Tensor:
        """(b, 3, size, size) -> (b, k, width): the class token where there is one, then cells row by row."""
        hidden = self._hidden(pixels)
        if hidden.ndim == 4:
            return hidden.flatten(2).transpose(1, 2)  # (b, width, rows, columns) -> (b, cells, width)
        return torch.cat([hidden[:, : int(self.class_token)], hidden[:, self._special :]], 1)

    def cells(self) -> Tensor:
        """A square grid, and before it the whole image where there is a class token."""
        boxes = grid_boxes(self.side, self.side) * self._covered
        whole = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
        return torch.cat([whole, boxes]) if self.class_token else boxes

    def describe(self) -> dict[str, Any]:
        """Architecture, weights (by content) and tokens kept; see `Backbone.describe`."""
        return {
            **super().describe(),
            "source": self.source,
            "weights": self._weights,
            "stage": self.stage,
            "class_token": self.class_token,
        }

    @cached_property
    def _weights(self) -> str:
        return weights_hash(self.network)

    def _hidden(self, pixels: Tensor) -> Tensor:
        output = self.network(pixels, **self._options)
        hidden: Tensor = output.last_hidden_state if self.stage is None else output.feature_maps[0]
        return hidden

    def _blank(self) -> Tensor:
        return torch.zeros(1, 3, self.preprocess.size, self.preprocess.size)

    def _choose_stage(self, config: Any, stage: str) -> None:
        names = getattr(config, "stage_names", None) or []
        if stage not in names:
            raise InputError(
                f"{self.source} has no stage {stage!r}; it has: {', '.join(names) or 'none to choose from'}"
            )
        config.out_features = [stage]

    def _set_layout(self, config: Any, class_token: bool) -> None:
        """Learn from one blank image how many special tokens and cells there are, and how wide."""
        size = self.preprocess.size
        try:
            with torch.no_grad():
                hidden = self._hidden(self._blank())
        except (AttributeError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{self.source} gives no features of {size} x {size} images: {error}") from None
        self._special, self._covered = 0, 1.0
        if hidden.ndim == 4:
            self.width, self.side = hidden.shape[1], hidden.shape[2]
        else:
            self.width = hidden.shape[2]
            self.side, self._special = _token_layout(hidden.shape[1], config, size, self.source)
            if self._special or _patch(config) * self.side <= size < _patch(config) * (self.side + 1):
                self._covered = _patch(config) * self.side / size  # pixels beyond the last whole patch are not used
        self.class_token = class_token and self._special > 0


def usual_preprocess(source: str) -> Preprocess:
    """How a checkpoint's own image processor prepares images."""
    return Preprocess.from_processor(image_processor_settings(resolve_source(source)), source)


def clip(source: str = CLIP, preprocess: Preprocess | None = None, pickle: bool = False) -> TransformersBackbone:
    """CLIP's vision transformer as in Cornia 2022: class token and patches before the last normalisation."""
    backbone = TransformersBackbone(source, preprocess, pickle=pickle)
    if backbone.name != "hf:clip_vision_model":
        raise InputError(f"{source} is a {backbone.name.removeprefix('hf:')}, not a CLIP model; name it hf:{source}")
    return backbone


def load_clip(name: BackboneName) -> TransformersBackbone:
    """By name: `clip`, or `clip:MODEL?size=336`."""
    source = name.source or CLIP
    return clip(source, name.preprocess(usual_preprocess(source)), name.take("pickle", yes_or_no, False))


def load_transformers_backbone(name: BackboneName) -> TransformersBackbone:
    """By name: `hf:MODEL?stage=stage3&class=no`."""
    source = name.need_source("a model by name or folder")
    return TransformersBackbone(
        source,
        name.preprocess(usual_preprocess(source)),
        stage=name.take("stage", str, None),
        class_token=name.take("class", yes_or_no, True),
        pickle=name.take("pickle", yes_or_no, False),
    )


def restore_transformers_backbone(vision: Mapping[str, Any]) -> TransformersBackbone:
    """From a description."""
    preprocess = Preprocess.from_description(vision["preprocess"])
    return TransformersBackbone(vision["source"], preprocess, vision["stage"], vision["class_token"])


def _token_layout(tokens: int, config: Any, size: int, source: str) -> tuple[int, int]:
    """Side of the grid of patches, and the number of special tokens before them."""
    side = size // _patch(config)
    if 0 <= tokens - side * side <= MOST_SPECIAL:
        return side, tokens - side * side
    side = math.isqrt(tokens)  # hierarchical models merge patches
    if side * side != tokens:
        raise InputError(f"{source}: {tokens} tokens of a {size} x {size} image are no square grid of patches")
    return side, 0


def _patch(config: Any) -> int:
    patch = getattr(config, "patch_size", None) or 1
    return int(patch[0] if isinstance(patch, (list, tuple)) else patch)


def _options(network: torch.nn.Module, config: Any, size: int) -> dict[str, bool]:
    """Position embeddings are interpolated where images have another size than in pretraining."""
    trained = getattr(config, "image_size", None)
    known = "interpolate_pos_encoding" in inspect.signature(network.forward).parameters
    return {"interpolate_pos_encoding": True} if known and trained not in (None, size, [size, size]) else {}
