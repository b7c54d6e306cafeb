"""Designs: which images of the pool are labelled, in which order, and with what probability.

Every image has a random number of its own, a hash of seed and id, so that an order of labelling is fixed before any
label exists and each prefix of it is a random sample with known probabilities.

`uniform_order` is the order in which D is labelled: whoever stops early has labelled a random part of every D_ij.

`SampleOrder` is the order of a sample of the whole pool. Image x carries an exponential clock with rate s_x and is
labelled when the clock rings. With equal rates this is simple random sampling; with s_x growing with the disagreement
of the captions it is sampling with probability proportional to size, without replacement (Rosén 1997). After n labels,
time has come to T, the time at which the next clock rings, and the probability of x to be among them is
1 - exp(-s_x T) (Cohen and Kaplan 2007: conditional on T the clocks are independent, so sums weighted by the inverse
probabilities are unbiased). Clocks have no memory, so the rates may change on the way: a second wave of labels may
concentrate on the models that are still open, or take an added model into account. Exposures s_x T then add up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DEFAULT_DESIGN = "hybrid"  # chosen by measurement: docs/competition.md
DISCREPANCY_SHARE = 0.2  # of the labels of the hybrid design, for D; chosen by measurement: docs/competition.md
LABELS_PER_SELECTED = 2.5  # of the hybrid design, images in all for one of D, where k is given but no number of labels
LEAST_RATE = 0.3  # of the mean rate, for an image on which all captions are the same: with less, a label of such an
# image would have so much weight that intervals of scores cover less than they should


@dataclass(frozen=True)
class Design:
    """One way to choose the images that people label."""

    name: str
    description: str
    discrepancy: bool  # whether D, the images on which captions differ most, is labelled
    sample: str | None  # a sample of the whole pool: "uniform", "weighted" or none


DESIGNS: dict[str, Design] = {
    design.name: design
    for design in (
        Design("discrepancy", "the images on which captions differ most (Wan 2022)", True, None),
        Design("random", "a random sample of the pool", False, "uniform"),
        Design("weighted", "a sample of the pool, likelier where captions disagree", False, "weighted"),
        Design("hybrid", "a fifth the most different captions, four fifths a weighted sample", True, "weighted"),
    )
}


TARGETS = {
    "discrepancy": "who is better where captions differ most (Eq. 7 of Wan 2022)",
    "pool": "who is better on the whole pool, by the mean score over all of its images",
}  # what is asked of the labels


def target_help() -> str:
    """All targets in one line, for a help text."""
    return "; ".join(f"{name}: {description}" for name, description in TARGETS.items())


def design_named(name: str) -> Design:
    """The design of this name."""
    if name not in DESIGNS:
        raise InputError(f"no design {name!r}; choose from {', '.join(DESIGNS)}")
    return DESIGNS[name]


def design_help() -> str:
    """All designs in one line, for a help text."""
    return "; ".join(f"{design.name}: {design.description}" for design in DESIGNS.values())


def random_numbers(images: Sequence[str], purpose: str, seed: int) -> Floats:
    """(n,) numbers in (0, 1), one an image: independent between purposes, the same whenever they are asked for."""
    digests = (hashlib.blake2b(f"{purpose}:{seed}:{image}".encode(), digest_size=8).digest() for image in images)
    numbers = np.frombuffer(b"".join(digests), ">u8").astype(np.float64)
    return np.asarray((numbers + 0.5) / 2.0**64)


def uniform_order(images: Iterable[str], seed: int) -> list[str]:
    """The images in the order in which D is labelled; every prefix is a random part of every subset."""
    names = sorted(images)
    return [names[place] for place in np.argsort(random_numbers(names, "label", seed), kind="stable")]


def rates(agreement: NDArray[np.floating[Any]]) -> Floats:
    """(n,) the rate s_x of every image from the agreement (n, models) of its captions.

    The variance of a difference between two models' scores was measured to grow in proportion to their disagreement;
    the probability that keeps the variance of the estimate smallest is proportional to its square root (Neyman 1934).
    """
    disagreement = 1 - agreement.mean(axis=1, dtype=np.float64)
    found = np.sqrt(np.maximum(disagreement, 0.0))
    return np.asarray(np.maximum(found, LEAST_RATE * found.mean() if found.any() else 1.0))


class SampleOrder:
    """The order in which a sample of the pool is labelled, and the probabilities that follow from it.

    `waves` are (rates (n,), labels) pairs: `labels` images in all are labelled at the end of a wave; the last wave
    goes on to the end of the pool whatever it says.
    """

    def __init__(self, images: Sequence[str], seed: int, waves: Sequence[tuple[Floats, int]]) -> None:
        if not waves:
            raise InputError("a sample needs at least one wave of labels")
        self.clocks = -np.log(random_numbers(images, "sample", seed))  # (n,) exponential
        self.waves = list(waves)
        size = len(images)
        self.rows = np.empty(size, np.int64)  # images in the order of labelling, as rows of the pool
        self._times = np.empty(size)  # by place: when the clock rings, counted from the start of its wave
        self._wave = np.empty(size, np.int64)  # by place
        self._ends: list[Floats] = []  # by finished wave: exposure of every image so far
        exposure, start = np.zeros(size), 0
        left = np.arange(size)
        for number, (rate, labels) in enumerate(self.waves):
            last = number == len(self.waves) - 1
            ringing = (self.clocks[left] - exposure[left]) / rate[left]
            order = np.argsort(ringing, kind="stable")
            stop = size if last else min(max(labels, start), size)
            chosen = order[: stop - start]
            self.rows[start:stop], self._times[start:stop] = left[chosen], ringing[chosen]
            self._wave[start:stop] = number
            if len(chosen):  # the time of the last ring: clocks that have not rung yet start again from there
                exposure = exposure + rate * ringing[chosen[-1]]
            self._ends.append(exposure.copy())
            left, start = left[order[stop - start :]], stop

    def probabilities(self, count: int) -> Floats:
        """(n,) the probability of every image to be among the first `count`; 1 once all are."""
        if count >= len(self.rows):
            return np.ones(len(self.rows))
        if count <= 0:
            return np.zeros(len(self.rows))
        wave = int(self._wave[count])  # in which the next image would be labelled
        before = self._ends[wave - 1] if wave else np.zeros(len(self.rows))
        return np.asarray(-np.expm1(-(before + self.waves[wave][0] * self._times[count])))

    def rate(self, count: int) -> Floats:
        """(n,) the rates with which the image at this place was drawn."""
        return self.waves[int(self._wave[min(count, len(self.rows) - 1)])][0]

    def draws(self, count: int, left_out: Collection[int] = ()) -> tuple[Floats, Floats]:
        """Of each of the first images: its rate (count,), and the sum (count,) of the rates of all images left then.

        Their ratio is the probability to be drawn next, given those before. Rates are on a scale on which the mean over
        the pool is 1. `left_out` are rows that are no part of the pool: the sums are without them.
        """
        kept = np.ones(len(self.rows))
        kept[list(left_out)] = 0.0
        own, left = np.empty(count), np.empty(count)
        for number, (rate, _) in enumerate(self.waves):
            places = np.flatnonzero(self._wave[:count] == number)
            if len(places):
                in_order = rate[self.rows[places[0] :]] / rate.mean()
                remaining = np.cumsum((in_order * kept[self.rows[places[0] :]])[::-1])[::-1]
                own[places], left[places] = in_order[: len(places)], remaining[: len(places)]
        return own, left
