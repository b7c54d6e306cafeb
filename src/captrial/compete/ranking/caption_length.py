"""Captions that are much longer than the references: what that does to a metric, and captions cut to compare fairly.

N-gram metrics count every word that no reference has, and CIDEr-D multiplies by exp(-d^2 / 72) for a difference of d
words: a caption of four sentences scores almost 0 whatever it says. `length_notes` says where that happens and what the
score would be for the first sentence; `default_metric` compares by meaning there; `CaptionCut` cuts captions before
they are scored (`rank --first-sentence`, `--max-words`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from captrial.compete.ranking.pair_scores import CIDER, PairScorer
from captrial.metrics.registry import METRICS, MetricOptions
from captrial.metrics.score_inputs import shorten

LONG = 1.6  # times the length of the references from which on a model is worth a warning
SHORT = 0.5
BY_MEANING = "semantic"  # the best of seven metrics on texts of unequal length: docs/metrics.md, `metric_choices`


@dataclass(frozen=True)
class CaptionCut:
    """How captions are shortened before they are scored; by default they are not."""

    first_sentence: bool = False
    max_words: int | None = None

    def __bool__(self) -> bool:
        return self.first_sentence or self.max_words is not None

    def of(self, caption: str) -> str:
        """The part of a caption that is scored.

        >>> CaptionCut(True, 4).of("A brown dog on a bed. It sleeps.")
        'A brown dog on'
        """
        return shorten(caption, self.first_sentence, self.max_words)

    def all_of(self, captions: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        """Every model's caption of every image."""
        if not self:
            return captions
        return {image: tuple(self.of(text) for text in texts) for image, texts in captions.items()}


def default_metric(scorer: PairScorer) -> str:
    """The metric of a ranking where none is named: CIDEr, or `semantic` where captions are of very different lengths.

    Without a sentence encoder (an extra) it is CIDEr in any case, and `length_notes` says what that means.
    """
    uneven = any(not SHORT <= ratio <= LONG for ratio in length_ratios(scorer))
    return BY_MEANING if uneven and METRICS[BY_MEANING].missing(MetricOptions()) is None else "cider"


def length_ratios(scorer: PairScorer) -> list[float]:
    """Of each model, how many times as long as the references its captions of labelled images are."""
    reference = _reference_words(scorer)
    return [scorer.words(model) / reference if reference else 1.0 for model in range(len(scorer.models))]


def length_notes(scorer: PairScorer, metric: str) -> list[str]:
    """A sentence for every model whose captions are much longer or shorter than the references of labelled images."""
    reference = _reference_words(scorer)
    notes = []
    for (model, name), ratio in zip(enumerate(scorer.models), length_ratios(scorer), strict=True):
        words = scorer.words(model)
        if SHORT <= ratio <= LONG:
            continue
        long = words > reference
        note = f"{name} writes {words:.0f} words per caption, {ratio:.1f} times the references' {reference:.0f}"
        if metric in CIDER:
            apart = (words - reference) ** 2
            damped = f" multiplies its scores by about {np.exp(-apart / 72):.2g}" if metric == "cider" else ""
            note += f": {metric}{damped or ' rewards words that references share, and no others'}"
        elif metric == BY_MEANING:
            note += f": {metric} compares them sentence by sentence, and what references do not say lowers it"
        else:
            note += f": {metric} depends on length"
        fix = "; --first-sentence or --max-words cut captions before they are scored" if long else ""
        if long and metric in CIDER:
            fix += ", --metric semantic compares them by meaning at any length"
        notes.append(note + fix)
    return notes


def _reference_words(scorer: PairScorer) -> float:
    return float(np.mean([len(text.split()) for texts in scorer.references for text in texts] or [0]))
