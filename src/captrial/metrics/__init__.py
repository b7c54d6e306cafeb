"""Metrics of captions: every metric is a function of captions and references, or of a `Corpus` prepared once.

>>> from captrial.metrics import Corpus, bleu, rouge_l
>>> corpus = Corpus.prepare(["A dog runs."], [["A dog runs fast.", "The dog is running."]])
>>> round(bleu(corpus).parts["bleu_1"].corpus, 4), round(rouge_l(corpus).corpus, 4)
(0.7165, 0.8356)

- `score` scores one or several systems with any metrics of the registry (`captrial.metrics.registry`).
- Sub-packages: `ngram`, `nouns`, `meteor`, `spice`, `semantic`, and `significance` for intervals and tests.
- `captrial.metrics.score_inputs` reads caption files, references and what else `captrial score` is given.

CIDEr as a reward on token ids is `captrial.metrics.ngram.cider_reward`, which compiles with numba and is imported
separately. Names are imported when first used: scoring by BLEU does not load the parser's rules of SPICE.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.metrics.caption_statistics import repetition, statistics
    from captrial.metrics.corpus import Corpus
    from captrial.metrics.meteor.meteor import meteor
    from captrial.metrics.ngram.bleu import bleu
    from captrial.metrics.ngram.cider import cider, cider_plain
    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
    from captrial.metrics.ngram.rouge import rouge_l
    from captrial.metrics.nouns.chair import chair
    from captrial.metrics.nouns.coverage import coverage
    from captrial.metrics.nouns.needleman_wunsch import nw
    from captrial.metrics.nouns.noun_iou import noun_iou
    from captrial.metrics.registry import METRICS, Metric, MetricOptions, register
    from captrial.metrics.scores import MeanState, Scores, State
    from captrial.metrics.scoring import ScoreTable, score
    from captrial.metrics.semantic.clipscore import clip_score
    from captrial.metrics.semantic.facts import FactReport, fact_reports, facts
    from captrial.metrics.semantic.semantic import semantic
    from captrial.metrics.semantic.unsupported_words import unsupported, word_scores
    from captrial.metrics.significance.bootstrap import Interval, confidence_intervals
    from captrial.metrics.significance.paired import Comparison, compare
    from captrial.metrics.spice.spice import spice

__all__ = [
    "METRICS",
    "Comparison",
    "Corpus",
    "DocumentFrequencies",
    "FactReport",
    "Interval",
    "MeanState",
    "Metric",
    "MetricOptions",
    "ScoreTable",
    "Scores",
    "State",
    "bleu",
    "chair",
    "cider",
    "cider_plain",
    "clip_score",
    "compare",
    "confidence_intervals",
    "coverage",
    "fact_reports",
    "facts",
    "meteor",
    "noun_iou",
    "nw",
    "register",
    "repetition",
    "rouge_l",
    "score",
    "semantic",
    "spice",
    "statistics",
    "unsupported",
    "word_scores",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "caption_statistics": "repetition statistics",
        "corpus": "Corpus",
        "meteor.meteor": "meteor",
        "ngram.bleu": "bleu",
        "ngram.cider": "cider cider_plain",
        "ngram.document_frequencies": "DocumentFrequencies",
        "ngram.rouge": "rouge_l",
        "nouns.chair": "chair",
        "nouns.coverage": "coverage",
        "nouns.needleman_wunsch": "nw",
        "nouns.noun_iou": "noun_iou",
        "registry": "METRICS Metric MetricOptions register",
        "scores": "MeanState Scores State",
        "scoring": "ScoreTable score",
        "semantic.clipscore": "clip_score",
        "semantic.facts": "FactReport fact_reports facts",
        "semantic.semantic": "semantic",
        "semantic.unsupported_words": "unsupported word_scores",
        "significance.bootstrap": "Interval confidence_intervals",
        "significance.paired": "Comparison compare",
        "spice.spice": "spice",
    },
)
