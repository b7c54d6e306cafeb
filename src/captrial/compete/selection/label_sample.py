"""The labels of a competition as a random sample: in which order images are labelled, and with what probability.

A label reaches an image in two ways: as part of D, whose strata are labelled in a random order each, and as part of the
sample of the whole pool. The two are independent, so an image is labelled with probability
1 - (1 - pi_D)(1 - pi_sample): pi_D is the labelled share of its stratum of D (0 outside D), pi_sample that of
`design.SampleOrder` after the images that have been labelled without a gap.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

import numpy as np
from numpy.typing import NDArray

from captrial.compete.selection.design import SampleOrder, uniform_order

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabelSample:
    """What was drawn: D in strata, and a sample of the pool."""

    images: Sequence[str]  # the pool
    strata: Mapping[str, int]  # of the images of D
    order: SampleOrder | None  # None: no sample was drawn
    wanted: int  # images of the sample
    seed: int
    indescribable: frozenset[str] = frozenset()

    def to_label(self) -> list[str]:
        """All images of the design in the order of labelling: D and the sample in turn, each in a random order."""
        parts: dict[int, list[str]] = {}
        for image in self.strata:
            parts.setdefault(self.strata[image], []).append(image)
        selected = [image for number in sorted(parts) for image in uniform_order(parts[number], self.seed)]
        sampled = self.sampled(self.wanted)
        turns = (image for both in zip_longest(selected, sampled) for image in both if image is not None)
        return list(dict.fromkeys(turns))

    def sampled(self, count: int) -> list[str]:
        """The first `count` describable images of the sample's order."""
        if self.order is None:
            return []
        drawn = (self.images[row] for row in self.order.rows.tolist())
        return list(islice((image for image in drawn if image not in self.indescribable), count))

    def prefix(self, labelled: Collection[str]) -> int:
        """How many places of the sample's order are labelled, or indescribable, without a gap."""
        if self.order is None:
            return 0
        for place, row in enumerate(self.order.rows.tolist()):
            image = self.images[row]
            if image not in labelled and image not in self.indescribable:
                return place
        return len(self.order.rows)

    def probabilities(self, labelled: Collection[str]) -> dict[str, float]:
        """The probability of images to be labelled: of all images of D, and of the sample's labelled ones."""
        count = self.prefix(labelled)
        drawn = self.order.probabilities(count) if self.order is not None else np.zeros(len(self.images))
        rows = self.order.rows[:count].tolist() if self.order is not None else []
        found = {self.images[row]: float(drawn[row]) for row in rows if self.images[row] not in self.indescribable}
        shares = self._stratum_shares(labelled, found.keys())
        place = {image: row for row, image in enumerate(self.images)}
        for image, number in self.strata.items():
            sample = float(drawn[place[image]]) if place else 0.0
            found[image] = 1 - (1 - shares[number]) * (1 - sample)
        return found

    def drawn(self, labelled: Collection[str]) -> tuple[list[str], Floats, Floats]:
        """The sample's images that are labelled without a gap, in its order, and their `SampleOrder.draws`."""
        if self.order is None:
            return [], np.zeros(0), np.zeros(0)
        count = self.prefix(labelled)
        place = {image: row for row, image in enumerate(self.images)}
        rate, left = self.order.draws(count, [place[image] for image in self.indescribable if image in place])
        images = [self.images[row] for row in self.order.rows[:count]]
        kept = np.array([image not in self.indescribable for image in images], np.bool_)
        return [image for image in images if image not in self.indescribable], rate[kept], left[kept]

    def unused(self, labelled: Collection[str]) -> str | None:
        """Which labelled images tell nothing about the pool, and why; None where all do."""
        if self.order is None:
            return None
        count, own = self.prefix(labelled), set(self.sampled(self.wanted))
        reached = {self.images[row] for row in self.order.rows[:count].tolist()}
        rest = set(self.images).intersection(labelled) - reached - self.strata.keys() - self.indescribable
        waiting, outside = len(rest & own), len(rest - own)
        reasons = []
        if waiting:
            gap = self.images[int(self.order.rows[count])]
            reasons.append(f"{waiting} come after image {gap} of the sample, which has no label yet")
        if outside:
            reasons.append(f"{outside} were not drawn, so nobody knows how likely they were to be labelled")
        return f"{len(rest)} labelled images are not used for the pool: {'; '.join(reasons)}" if rest else None

    def _stratum_shares(self, labelled: Collection[str], sampled: Collection[str]) -> dict[int, float]:
        """The labelled share of each stratum of D, by the images that the sample did not reach anyway."""
        counts: dict[int, list[int]] = {}
        for image, number in self.strata.items():
            known, size = counts.setdefault(number, [0, 0])
            if image not in sampled:
                counts[number] = [known + (image in labelled), size + 1]
        return {number: known / size if size else 0.0 for number, (known, size) in counts.items()}
