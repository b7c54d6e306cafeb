"""Tiny transformers checkpoints with random weights, complete on disk: configuration, weights, image processor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

SIDE = 64
VIT: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": SIDE,
    "patch_size": 16,
}
TEXT: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 30,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
SWIN: dict[str, Any] = {
    "image_size": SIDE,
    "patch_size": 4,
    "embed_dim": 8,
    "depths": [1, 1, 1],
    "num_heads": [1, 2, 2],
    "window_size": 4,
}
CONVOLUTIONS: dict[str, Any] = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
STRETCHED: dict[str, Any] = {
    "do_resize": True,
    "size": {"height": SIDE, "width": SIDE},
    "resample": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}


def _clip() -> Any:
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=TEXT, vision_config=VIT))


def _siglip() -> Any:
    return transformers.SiglipModel(transformers.SiglipConfig(text_config=TEXT, vision_config=VIT))


def _registers() -> Any:
    config = transformers.Dinov2WithRegistersConfig(**VIT, num_register_tokens=4)
    return transformers.Dinov2WithRegistersModel(config)


def _resnet() -> Any:
    return transformers.ResNetModel(transformers.ResNetConfig(embedding_size=8, **CONVOLUTIONS))


BACKBONES: dict[str, Callable[[], Any]] = {
    "clip": _clip,
    "clip_vision": lambda: transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**VIT)),
    "siglip": _siglip,
    "vit": lambda: transformers.ViTModel(transformers.ViTConfig(**VIT)),
    "vit_classifier": lambda: transformers.ViTForImageClassification(transformers.ViTConfig(**VIT)),
    "deit": lambda: transformers.DeiTModel(transformers.DeiTConfig(**VIT)),
    "dinov2": lambda: transformers.Dinov2Model(transformers.Dinov2Config(**VIT)),
    "dinov2_registers": _registers,
    "swin": lambda: transformers.SwinModel(transformers.SwinConfig(**SWIN)),
    "convnext": lambda: transformers.ConvNextModel(transformers.ConvNextConfig(**CONVOLUTIONS)),
    "resnet": _resnet,
}


def save_model(model: Any, folder: Path, settings: dict[str, Any] | None = None) -> str:
    """Write a model and its image processor's settings; the folder's path."""
    bars = transformers.utils.logging
    bars.disable_progress_bar()
    model.save_pretrained(folder)
    bars.enable_progress_bar()
    (folder / "preprocessor_config.json").write_text(json.dumps(settings or STRETCHED))
    return str(folder)


def make_backbone(kind: str, folder: Path, settings: dict[str, Any] | None = None) -> str:
    """A tiny checkpoint of one architecture; the folder's path."""
    torch.manual_seed(0)
    return save_model(BACKBONES[kind]().eval(), folder, settings)


DETECTOR: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "num_queries": 7,
    "id2label": {0: "N/A", 1: "dog", 2: "cat"},
    "label2id": {"N/A": 0, "dog": 1, "cat": 2},
}


def _detr_like(model: str, config: str) -> Any:
    convolutions = transformers.ResNetConfig(embedding_size=8, **CONVOLUTIONS, out_features=["stage4"])
    own = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
    settings = getattr(transformers, config)(**DETECTOR, **own, backbone_config=convolutions)
    return getattr(transformers, model)(settings)


def _yolos() -> Any:
    settings = {**VIT, "image_size": [SIDE, SIDE], "num_detection_tokens": 7}
    names = {key: DETECTOR[key] for key in ("id2label", "label2id")}
    return transformers.YolosForObjectDetection(transformers.YolosConfig(**settings, **names))


DETECTORS: dict[str, Callable[[], Any]] = {
    "detr": lambda: _detr_like("DetrForObjectDetection", "DetrConfig"),
    "conditional": lambda: _detr_like("ConditionalDetrForObjectDetection", "ConditionalDetrConfig"),
    "yolos": _yolos,
}
ASPECT_KEPT = {**STRETCHED, "size": {"shortest_edge": 64, "longest_edge": 100}}


def make_detector(kind: str, folder: Path) -> str:
    """A tiny DETR-type checkpoint; the folder's path."""
    torch.manual_seed(0)
    return save_model(DETECTORS[kind]().eval(), folder, ASPECT_KEPT)
