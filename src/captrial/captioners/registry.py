"""The registry of captioner architectures, their presets (named sizes) and the captioners that come with the package.

    create("transformer-small", words=len(vocabulary), features=1280)     a new captioner
    ARCHITECTURES["ort"].title                                            what tables and pages call it
    shipped_captioners()["ort"]                                           the folder of a trained one

A new architecture is one file in `captrial.captioners.architectures` and one entry here. Entries import their module
when they are used, so importing the registry needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from captrial.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from captrial.captioners.base import Captioner

SHIPPED = Path(__file__).parent / "shipped"
DEFAULT_CAPTIONER = "ort"  # the best of the shipped ones


@dataclass(frozen=True)
class Architecture:
    """A captioner class and how it is described; the last four are the columns of Wan 2022 Table 1."""

    place: str | type[Captioner]  # the class, or "module:class" of captrial.captioners.architectures
    title: str
    description: str
    needs: str  # what its features must have
    features: str  # visual information extractor
    decoder: str  # language decoder
    encoder_attention: str
    decoder_attention: str

    @property
    def captioner(self) -> type[Captioner]:
        """The class."""
        if not isinstance(self.place, str):
            return self.place
        module, _, name = self.place.partition(":")
        found: type[Captioner] = getattr(import_module(f"captrial.captioners.architectures.{module}"), name)
        return found


ANY = "any features"
# fmt: off
ARCHITECTURES: dict[str, Architecture] = {
    "show_attend_tell": Architecture(
        "show_attend_tell:ShowAttendTell", "Show, Attend and Tell",
        "an LSTM with soft attention before every word (Xu et al. 2015), the captioner of Liu 2017",
        ANY, "grid", "LSTM", "–", "soft"),
    "att2in": Architecture(
        "att2in:Att2in", "SCST-Att2in",
        "a maxout LSTM whose attended vector enters the cell's candidate only (Rennie et al. 2017)",
        ANY, "grid", "LSTM", "–", "soft"),
    "stack_cap": Architecture(
        "stack_cap:StackCap", "Stack-Cap", "a coarse caption refined by one or more fine stages (Gu et al. 2018)",
        ANY, "grid", "LSTM", "–", "soft"),
    "top_down": Architecture(
        "top_down:TopDown", "Top-Down", "an attention LSTM and a language LSTM (Anderson et al. 2018)",
        ANY, "regions", "LSTM", "–", "soft"),
    "disc": Architecture(
        "disc:Disc", "Disc", "Att2in rewarded for captions that tell an image from others (Luo et al. 2018)",
        ANY, "regions", "LSTM", "–", "soft"),
    "ort": Architecture(
        "ort:Ort", "ORT", "a Transformer whose encoder compares boxes (Herdade et al. 2019)",
        "features with boxes", "regions", "Transformer", "self, geometric", "multi-head"),
    "sgae": Architecture(
        "sgae:Sgae", "SGAE", "scene graphs and a dictionary learnt from captions (Yang et al. 2019)",
        "labelled regions with relations, or relations=false", "regions", "LSTM", "graph", "soft"),
    "aoa": Architecture(
        "aoa:Aoa", "AoANet", "attention on attention, in the encoder and the LSTM (Huang et al. 2019)",
        ANY, "regions", "LSTM", "self, on attention", "multi-head, on attention"),
    "x_lan": Architecture(
        "x_lan:XLan", "X-LAN", "X-linear attention: second-order interactions (Pan et al. 2020)",
        ANY, "regions", "LSTM", "X-linear", "X-linear"),
    "transformer": Architecture(
        "transformer:Transformer", "Transformer", "the fully attentive captioner of Cornia 2022",
        ANY, "regions or ViT", "Transformer", "self", "multi-head"),
    "smart": Architecture(
        "smart:Smart", "SMArT", "a shallow Transformer with memory slots in the encoder (Cornia et al. 2020)",
        ANY, "regions or ViT", "Transformer", "self, memory", "multi-head"),
    "m2": Architecture(
        "m2:M2", "M2", "the Meshed-Memory Transformer (Cornia et al. 2020)",
        ANY, "regions or ViT", "Transformer", "self, memory", "multi-head, meshed"),
}
# fmt: on


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
        raise InputError(f"{architecture}: width {config.width} is not a multiple of {heads} heads; choose one that is")
    try:
        return captioner(config)
    except (ValueError, RuntimeError) as error:  # torch on a negative size, a dropout above 1, ...
        raise InputError(f"{architecture} cannot be built with these sizes: {error}") from error


def find_preset(name: str) -> Preset:
    """The preset of that name."""
    if name not in PRESETS:
        raise InputError(f"no preset {name!r}; there are: {', '.join(sorted(PRESETS))}{did_you_mean(name, PRESETS)}")
    return PRESETS[name]


def find_architecture(name: str) -> Architecture:
    """The architecture of that name."""
    if name not in ARCHITECTURES:
        raise InputError(f"no architecture {name!r}; there are: {', '.join(sorted(ARCHITECTURES))}")
    return ARCHITECTURES[name]


def architecture_of(captioner: Captioner) -> str:
    """The registered name of a captioner's architecture."""
    place = f"{type(captioner).__module__.rpartition('.')[2]}:{type(captioner).__name__}"
    named = (name for name, entry in ARCHITECTURES.items() if entry.place in (place, type(captioner)))
    name = next(named, None)
    if name is None:
        raise InputError(f"{type(captioner).__name__} is not a registered architecture; add it to ARCHITECTURES")
    return name


def presets_of(architecture: str) -> list[str]:
    """The names of the presets of an architecture."""
    return [name for name, preset in PRESETS.items() if preset.architecture == architecture]


def shipped_captioners() -> dict[str, Path]:
    """Name -> checkpoint folder of every captioner that comes with the package.

    They are small, and were trained by this project on Flickr8k (see the card in each folder).
    """
    return {path.parent.name: path.parent for path in sorted(SHIPPED.glob("*/config.json"))}


def shipped_notes() -> dict[str, dict[str, str]]:
    """Name -> what is known of each shipped captioner: preset, data, scores, licence."""
    return {
        name: orjson.loads((path / "config.json").read_bytes())["notes"] for name, path in shipped_captioners().items()
    }
