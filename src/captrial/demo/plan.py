"""What the demonstration does, in numbers: everything here is chosen for two cores and a few minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

IMPLICIT, SUPERVISED = "show-attend-tell", "show-attend-tell, supervised"
PHOTOGRAPHS = ("chelsea.png", "motorcycle_left.png", "coffee.png")  # of scikit-image, if it is installed


@dataclass(frozen=True)
class Trainee:
    """A captioner of the demonstration: a preset, and what is changed about it."""

    name: str
    preset: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """Its name as a folder's."""
        return self.name.replace(", ", "-")


_LSTM = {"width": "160", "attention": "96"}
_TRANSFORMER = {"width": "128", "heads": "4", "hidden": "256"}

TRAINEES = (
    Trainee(IMPLICIT, "show_attend_tell-small", {**_LSTM, "embedding": "96"}),
    Trainee(SUPERVISED, "show_attend_tell-small", {**_LSTM, "embedding": "96", "supervision": "strong"}),
    Trainee("top-down", "top_down-small", _LSTM),
    Trainee("transformer", "transformer-small", _TRANSFORMER),
    Trainee("m2", "m2-small", _TRANSFORMER),
)


@dataclass(frozen=True)
class Plan:
    """Sizes of the demonstration; the tests run a smaller one."""

    images: Mapping[str, int] = field(default_factory=lambda: {"train": 400, "val": 40, "test": 60, "wild": 320})
    size: int = 224
    backbone: str = "efficientnet-lite0"
    trainees: tuple[Trainee, ...] = TRAINEES
    recipe: Mapping[str, str] = field(
        default_factory=lambda: {
            "epochs": "10",
            "batch": "16",
            "captions": "3",
            "rate": "1.5e-3",
            "warmup": "40",
            "min_count": "3",
            "patience": "100",
        }
    )
    k: int = 15  # images a pair that people label
    crew: int = 4  # simulated people of each role
    beam: int = 3
    explained: int = 2  # wild images whose captions are explained
    photographs: tuple[str, ...] = PHOTOGRAPHS
    shipped: tuple[str, ...] = ("show_attend_tell", "m2")  # who captions them
    seed: int = 0
