"""How often verdicts are right, if the classes in every image are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.grounding.score import Verdict
from captrial.grounding.study import GroundingResult
from captrial.grounding.tables import Cell, Estimate, Table
from captrial.language.similarity import Similarity
from captrial.metrics.significance.bootstrap import REPLICATES, interval, resamples
from captrial.records import Sample

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VerdictAccuracy:
    """Counts of nouns that are not in the image in truth, and by verdict."""

    nouns: int  # checkable ones
    wrong: int  # not in the image
    flagged: int  # by verdict
    right: int  # both

    @property
    def precision(self) -> float:
        """The share of the flagged that is wrong; 0 if nothing is flagged."""
        return self.right / self.flagged if self.flagged else 0.0

    @property
    def recall(self) -> float:
        """The share of the wrong that is flagged; 0 if nothing is wrong."""
        return self.right / self.wrong if self.wrong else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / (self.flagged + self.wrong) if self.flagged + self.wrong else 0.0

    @property
    def chance(self) -> float:
        """F1 of flagging as many nouns at random."""
        expected = self.wrong * self.flagged / self.nouns if self.nouns else 0.0
        return 2 * expected / (self.flagged + self.wrong) if self.flagged + self.wrong else 0.0

    @property
    def always(self) -> float:
        """F1 of flagging every noun."""
        return 2 * self.wrong / (self.nouns + self.wrong) if self.wrong else 0.0

    def to_dict(self) -> dict[str, float]:
        """Counts and rates."""
        rates = {name: getattr(self, name) for name in ("precision", "recall", "f1", "chance", "always")}
        return {**asdict(self), **rates}


def verdict_accuracy(
    result: GroundingResult,
    truth: Mapping[str, Sequence[str]],
    similarity: Similarity,
    verdict: Verdict | None = None,
) -> VerdictAccuracy:
    """Compare verdicts with `truth`, the classes in each image; nouns that cannot be checked are left out.

    A noun is flagged if it has the `verdict`, by default if no top region up to the noun is of it.
    """
    counts = counts_by_image(result, truth, similarity, verdict).values()
    return VerdictAccuracy(*(sum(column) for column in zip((0, 0, 0, 0), *counts, strict=True)))


def counts_by_image(
    result: GroundingResult,
    truth: Mapping[str, Sequence[str]],
    similarity: Similarity,
    verdict: Verdict | None = None,
) -> dict[str, list[int]]:
    """The counts of `VerdictAccuracy` by image; of a null model with several draws the sums over the draws."""
    counts: dict[str, list[int]] = {}
    for image in result.images:
        own = counts.setdefault(image.image, [0, 0, 0, 0])
        present = truth.get(image.image, ())  # nouns of an image without regions have no verdict
        for noun in image.grounding.nouns:
            if not noun.checkable:
                continue
            wrong = not any(similarity.table.means(noun.name, class_) for class_ in present)
            flagged = noun.verdict is verdict if verdict is not None else noun.ungrounded
            for index, held in enumerate((True, wrong, flagged, wrong and flagged)):
                own[index] += held
    return counts


def f1_lead(
    result: GroundingResult,
    null: GroundingResult,
    truth: Mapping[str, Sequence[str]],
    similarity: Similarity,
    seed: int = 0,
) -> Estimate:
    """F1 of flagging ungrounded nouns less that of a null model on the same captions, with its paired 95% interval."""
    own, other = (counts_by_image(each, truth, similarity) for each in (result, null))
    images = [image for image in own if image in other]
    counts = np.array([[*own[image], *other[image]] for image in images], np.float64).reshape(len(images), 8)
    value = float(_f1_difference(counts.sum(0)))
    if len(images) < 2:  # an image resampled is the same image
        return Estimate(value, None, None, len(images))
    drawn = np.concatenate([_f1_difference(weights @ counts) for weights in resamples(len(counts), REPLICATES, seed)])
    limits = interval(drawn)
    return Estimate(value, limits.low, limits.high, len(images))


def _f1_difference(sums: Floats) -> Floats:
    """From sums (..., 8): two times nouns, wrong, flagged, right; F1 is 0 where nothing is wrong or flagged."""
    first, second = (
        2 * sums[..., start + 3] / np.maximum(sums[..., start + 1] + sums[..., start + 2], 1.0) for start in (0, 4)
    )
    return np.asarray(first - second)


def detection_table(results: Sequence[GroundingResult], samples: Sequence[Sample], similarity: Similarity) -> Table:
    """How often nouns that a verdict flags are not there, if the samples' regions show everything; nulls beside it."""
    truth = classes_present(samples)
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        first = (result.model, result.features, result.method)
        rows.append((*first, "not in the image", *_counts(result, truth, similarity, Verdict.NOT_IN_IMAGE)))
        rows.append((*first, "not grounded", *_counts(result, truth, similarity, None)))
        for name, null in result.null_results.items():
            rows.append((*first[:2], f"null: {name}", "not grounded", *_counts(null, truth, similarity, None)))
    columns = (
        "model",
        "features",
        "method",
        "flagged as",
        "nouns",
        "not there",
        "flagged",
        "precision",
        "recall",
        "F1",
    )
    notes = (
        "checkable nouns of images with regions; not there: no class of the data set's boxes is meant by the noun",
        "not grounded: not in the image, or there, but not looked at (hallucinated in Cornia 2022)",
        "with these boxes as regions (--regions data) *not in the image* reads the truth itself: right by construction",
        "chance: F1 of flagging as many nouns at random; all: of flagging every noun",
    )
    title = "Flagged by verdict, and not there by the boxes of the data set"
    return Table("detection", title, (*columns, "chance", "all"), tuple(rows), notes)


def verdict_accuracies(
    results: Sequence[GroundingResult], samples: Sequence[Sample], similarity: Similarity
) -> list[dict[str, dict[str, float]]]:
    """Of every result the accuracy of both flags and of the null models, for `--json`."""
    truth = classes_present(samples)
    return [
        {
            "not in the image": verdict_accuracy(result, truth, similarity, Verdict.NOT_IN_IMAGE).to_dict(),
            "not grounded": verdict_accuracy(result, truth, similarity).to_dict(),
            **{
                f"null: {name}": verdict_accuracy(null, truth, similarity).to_dict()
                for name, null in result.null_results.items()
            },
        }
        for result in results
    ]


def _counts(
    result: GroundingResult, truth: Mapping[str, Sequence[str]], similarity: Similarity, verdict: Verdict | None
) -> tuple[Cell, ...]:
    found = verdict_accuracy(result, truth, similarity, verdict)
    counts, rates = (found.nouns, found.wrong, found.flagged), (found.precision, found.recall, found.f1)
    return (*counts, *rates, found.chance, found.always)


def classes_present(samples: Sequence[Sample]) -> dict[str, list[str]]:
    """The classes of every image's regions, by id."""
    return {sample.id: sorted({region.label for region in sample.regions if region.label}) for sample in samples}
