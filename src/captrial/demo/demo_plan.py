"""Sizes and settings of the demonstration, chosen for a few minutes on two cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

IMPLICIT, SUPERVISED = "show-attend-tell", "show-attend-tell, supervised"
PHOTOGRAPHS = ("chelsea", "motorcycle_left", "coffee")  # that are explained, where they are installed


@dataclass(frozen=True)
class DemoCaptioner:
    """A captioner of the demonstration: a preset and the options that differ from it."""

    name: str
    preset: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """Its name, as the name of a folder."""
        return self.name.replace(", ", "-")


# LSTMs learn more from more, smaller steps; Transformers do not (measured on the wild images, docs/training.md).
_LSTM = {"width": "160", "attention": "96", "batch": "8", "captions": "1", "epochs": "14"}
_TRANSFORMER = {"width": "128", "heads": "4", "hidden": "256"}

CAPTIONERS = (
    DemoCaptioner(IMPLICIT, "show_attend_tell-small", {**_LSTM, "embedding": "96"}),
    DemoCaptioner(SUPERVISED, "show_attend_tell-small", {**_LSTM, "embedding": "96", "supervision": "strong"}),
    DemoCaptioner("top-down", "top_down-small", _LSTM),
    DemoCaptioner("transformer", "transformer-small", _TRANSFORMER),
    DemoCaptioner("m2", "m2-small", _TRANSFORMER),
)


@dataclass(frozen=True)
class DemoPlan:
    """Sizes of the demonstration; the tests run a smaller one."""

    images: Mapping[str, int] = field(default_factory=lambda: {"train": 400, "val": 40, "test": 60, "wild": 320})
    wild_training: int = 550  # wild images, none of those that are captioned, that captioners learn from, too
    size: int = 224
    backbone: str = "efficientnet-lite0"
    captioners: tuple[DemoCaptioner, ...] = CAPTIONERS
    recipe: Mapping[str, str] = field(
        default_factory=lambda: {
            "epochs": "9",
            "batch": "16",
            "captions": "2",
            "rate": "2e-3",
            "warmup": "40",
            "min_count": "3",
            "patience": "100",
            "standardise": "true",
        }
    )
    k: int = 15  # images per pair that are labelled
    annotators: int = 4  # simulated annotators of each role
    beam: int = 3
    explained: int = 2  # wild images whose captions are explained
    photographs: tuple[str, ...] = PHOTOGRAPHS
    shipped: tuple[str, ...] = ("ort", "m2", "transformer", "show_attend_tell")  # compete on photographs
    explained_by: tuple[str, ...] = ("show_attend_tell", "m2")  # of these, whose captions are explained
    seed: int = 0
    workers: int | None = None  # processes that train and render; by default one per processor

    @property
    def rendered(self) -> dict[str, int]:
        """Images that are rendered, by split."""
        return {**self.images, "wild": self.images["wild"] + self.wild_training}
