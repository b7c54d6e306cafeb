"""One file a metric; every metric is a function of captions and references, or of a `Corpus` prepared once.

>>> from captrial.metrics import Corpus, bleu, rouge_l
>>> corpus = Corpus.prepare(["A dog runs."], [["A dog runs fast.", "The dog is running."]])
>>> round(bleu(corpus).parts["bleu_1"].corpus, 4), round(rouge_l(corpus).corpus, 4)
(0.7165, 0.8356)

CIDEr as a reward on token ids is in `captrial.metrics.reward`, which compiles with numba and is imported apart.
"""

from captrial.metrics.bleu import bleu
from captrial.metrics.bootstrap import Interval, confidence_intervals
from captrial.metrics.chair import chair
from captrial.metrics.cider import cider, cider_plain
from captrial.metrics.clipscore import clip_score
from captrial.metrics.corpus import Corpus
from captrial.metrics.coverage import coverage
from captrial.metrics.df import DocumentFrequencies
from captrial.metrics.meteor import meteor
from captrial.metrics.noun_iou import noun_iou
from captrial.metrics.nw import nw
from captrial.metrics.paired import Comparison, compare
from captrial.metrics.repetition import repetition
from captrial.metrics.rouge import rouge_l
from captrial.metrics.scores import MeanState, Scores, State
from captrial.metrics.scoring import ScoreTable, score
from captrial.metrics.spice import spice
from captrial.metrics.statistics import statistics

__all__ = [
    "Comparison",
    "Corpus",
    "DocumentFrequencies",
    "Interval",
    "MeanState",
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
    "meteor",
    "noun_iou",
    "nw",
    "repetition",
    "rouge_l",
    "score",
    "spice",
    "statistics",
]
