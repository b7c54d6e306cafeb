"""The twelve architectures by name, and presets: named sizes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from captrial.captioners.architectures.aoa import Aoa
from captrial.captioners.architectures.att2in import Att2in
from captrial.captioners.architectures.disc import Disc
from captrial.captioners.architectures.m2 import M2
from captrial.captioners.architectures.ort import Ort
from captrial.captioners.architectures.sgae import Sgae
from captrial.captioners.architectures.show_attend_tell import ShowAttendTell
from captrial.captioners.architectures.smart import Smart
from captrial.captioners.architectures.stack_cap import StackCap
from captrial.captioners.architectures.top_down import TopDown
from captrial.captioners.architectures.transformer import Transformer
from captrial.captioners.architectures.x_lan import XLan
from captrial.captioners.base import Captioner
from captrial.errors import InputError


@dataclass(frozen=True)
class Architecture:
    """A captioner class and the columns of Wan 2022 Table 1."""

    captioner: type[Captioner]
    title: str
    sees: str  # visual information extractor
    speaks: str  # language decoder
    attends_in_encoder: str
    attends_in_decoder: str


ARCHITECTURES: dict[str, Architecture] = {
    "show_attend_tell": Architecture(ShowAttendTell, "Show, Attend and Tell", "grid", "LSTM", "–", "soft"),
    "att2in": Architecture(Att2in, "SCST-Att2in", "grid", "LSTM", "–", "soft"),
    "stack_cap": Architecture(StackCap, "Stack-Cap", "grid", "LSTM", "–", "soft"),
    "top_down": Architecture(TopDown, "Top-Down", "regions", "LSTM", "–", "soft"),
    "disc": Architecture(Disc, "Disc", "regions", "LSTM", "–", "soft"),
    "ort": Architecture(Ort, "ORT", "regions", "Transformer", "self, geometric", "multi-head"),
    "sgae": Architecture(Sgae, "SGAE", "regions", "LSTM", "graph", "soft"),
    "aoa": Architecture(Aoa, "AoANet", "regions", "LSTM", "self, on attention", "multi-head, on attention"),
    "x_lan": Architecture(XLan, "X-LAN", "regions", "LSTM", "X-linear", "X-linear"),
    "transformer": Architecture(Transformer, "Transformer", "regions or ViT", "Transformer", "self", "multi-head"),
    "smart": Architecture(Smart, "SMArT", "regions or ViT", "Transformer", "self, memory", "multi-head"),
    "m2": Architecture(M2, "M2", "regions or ViT", "Transformer", "self, memory", "multi-head, meshed"),
}


@dataclass(frozen=True)
class Preset:
    """A named size of an architecture; what is not named keeps the paper's default."""

    architecture: str
    options: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


_SMALL_TRANSFORMER = {"width": 192, "heads": 6, "hidden": 512, "dropout": 0.2, "embed_dropout": 0.2}
_SMALL_LSTM = {"width": 256, "attention": 192}

PRESETS: dict[str, Preset] = {
    **{name: Preset(name, note="the paper's sizes") for name in ARCHITECTURES},
    "show_attend_tell-flickr30k": Preset("show_attend_tell", {"width": 1300}, "Liu 2017's Flickr30k size"),
    "transformer-pre-norm": Preset(
        "transformer",
        {
            "encoder_layers": 6,
            "decoder_layers": 6,
            "pre_norm": True,
            "embed_norm": False,
            "embed_dropout": 0.5,
            "scale_words": True,
            "output_bias": True,
        },
        "6 + 6 layers, as most public code trains it",
    ),
    "ort-no-geometry": Preset("ort", {"geometry": False}, "Wan 2022 Fig. 12's control"),
    "show_attend_tell-small": Preset("show_attend_tell", {"width": 320, "embedding": 192, "attention": 192}),
    "att2in-small": Preset("att2in", _SMALL_LSTM),
    "stack_cap-small": Preset("stack_cap", {"width": 192, "attention": 192, "stages": 2}),
    "top_down-small": Preset("top_down", {"width": 224, "attention": 192}),
    "disc-small": Preset("disc", {**_SMALL_LSTM, "critic_width": 256, "critic_embedding": 128}),
    "ort-small": Preset("ort", {**_SMALL_TRANSFORMER, "encoder_layers": 2, "decoder_layers": 2}),
    "ort-no-geometry-small": Preset(
        "ort", {**_SMALL_TRANSFORMER, "encoder_layers": 2, "decoder_layers": 2, "geometry": False}
    ),
    "sgae-small": Preset("sgae", {"width": 192, "attention": 128, "dictionary": 1000}),
    "aoa-small": Preset("aoa", {"width": 192, "heads": 6, "layers": 2, "dropout": 0.3}),
    "x_lan-small": Preset("x_lan", {"width": 192, "heads": 6, "blocks": 2, "squeeze": 16, "dropout": 0.3}),
    "transformer-small": Preset("transformer", {**_SMALL_TRANSFORMER, "encoder_layers": 2, "decoder_layers": 2}),
    "smart-small": Preset("smart", {**_SMALL_TRANSFORMER, "memory_slots": 20}),
    "m2-small": Preset("m2", {**_SMALL_TRANSFORMER, "encoder_layers": 2, "decoder_layers": 2, "memory_slots": 20}),
}


def create(preset: str, *, words: int, features: int, **options: Any) -> Captioner:
    """A new, untrained captioner of a preset for a vocabulary size and a width of visual elements.

    `options` replace single sizes of the preset.
    """
    chosen = find_preset(preset)
    return build(chosen.architecture, {**chosen.options, **options, "words": words, "features": features})


def build(architecture: str, options: Mapping[str, Any]) -> Captioner:
    """A captioner from its architecture's name and complete options, as stored in `config.json`."""
    captioner = find_architecture(architecture).captioner
    known = {entry.name for entry in fields(captioner.Config)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InputError(f"{architecture} has no option {unknown[0]!r}; it has: {', '.join(sorted(known))}")
    config = captioner.Config(**options)
    heads = getattr(config, "heads", 1)
    if heads < 1 or config.width % heads:
        raise InputError(f"{architecture}: width {config.width} is no multiple of {heads} heads; choose one that is")
    try:
        return captioner(config)
    except (ValueError, RuntimeError) as error:  # torch on a negative size, a dropout above 1, ...
        raise InputError(f"{architecture} cannot be built with these sizes: {error}") from error


def find_preset(name: str) -> Preset:
    """The preset of that name."""
    if name not in PRESETS:
        raise InputError(f"no preset {name!r}; there are: {', '.join(sorted(PRESETS))}")
    return PRESETS[name]


def find_architecture(name: str) -> Architecture:
    """The architecture of that name."""
    if name not in ARCHITECTURES:
        raise InputError(f"no architecture {name!r}; there are: {', '.join(sorted(ARCHITECTURES))}")
    return ARCHITECTURES[name]
