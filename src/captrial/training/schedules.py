"""Learning-rate schedules as data: a name and a few numbers, no state but the step (plateau: the validation scores).

The numbers, steps of warm-up among them, are those of the `recipe`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from captrial.errors import InputError

Kind = Literal["constant", "noam", "cosine", "step", "plateau"]


@dataclass(frozen=True)
class Schedule:
    """How the learning rate moves.

    `rate` is the peak (constant, cosine, step, plateau) or a factor on the Noam curve. Steps count from 1.
    """

    kind: Kind = "cosine"
    rate: float = 7e-4
    warmup: int = 500  # steps of linear rise (noam: where the curve peaks)
    total: int = 10_000  # steps of the whole stage (cosine)
    width: int = 512  # model width (noam)
    every: int = 3_000  # steps between two decays (step)
    decay: float = 0.8  # factor of one decay (step, plateau)
    patience: int = 3  # validations without a better score before a decay (plateau)

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"no schedule {self.kind!r}; there are: {', '.join(get_args(Kind))}")

    def at(self, step: int, scores: Sequence[float] = ()) -> float:
        """The learning rate of step `step` = 1, 2, ..., given the validation scores so far.

        >>> round(Schedule("noam", 1.0, warmup=10_000, width=512).at(10_000), 8)
        0.00044194
        """
        if self.kind == "noam":  # w^-1.5: Cornia 2022 prints w^-0.5, a misprint
            return self.rate * float(self.width**-0.5 * min(step**-0.5, step * max(1, self.warmup) ** -1.5))
        rise = min(1.0, step / self.warmup) if self.warmup else 1.0
        return self.rate * rise * self._fall(step, scores)

    def _fall(self, step: int, scores: Sequence[float]) -> float:
        match self.kind:
            case "constant":
                return 1.0
            case "cosine":
                done = min(1.0, max(0.0, (step - self.warmup) / max(1, self.total - self.warmup)))
                return 0.5 * (1 + math.cos(math.pi * done))
            case "step":
                return self.decay ** ((step - 1) // self.every)
            case _:  # plateau
                return self.decay ** count_plateaus(scores, self.patience)


def count_plateaus(scores: Sequence[float], patience: int) -> int:
    """How often `patience` validations in a row brought no better score.

    >>> count_plateaus([1, 2, 1.5, 1.9, 3, 2, 2], 2)
    2
    """
    best, waited, plateaus = -math.inf, 0, 0
    for score in scores:
        if score > best:
            best, waited = score, 0
        else:
            waited += 1
            if waited == patience:
                plateaus, waited = plateaus + 1, 0
    return plateaus
