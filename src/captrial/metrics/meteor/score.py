"""METEOR's formula: from counts of matched words to scores, for segments and for a corpus.

A row of statistics has 23 counts: words of the candidate and of the reference, function words of both; for each of the
modules exact, stem, synonym and paraphrase the matched content words (candidate, reference) and function words
(candidate, reference); chunks; matched words of the candidate and of the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

STATISTICS = 23
CHUNKS = 20
# The parameters of task `rank` for English, which COCO's evaluation uses.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.20, 0.60, 0.75
MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])


def meteor_scores(stats: NDArray[Any]) -> NDArray[np.float64]:
    """The score of every row of statistics; (..., 23) -> (...).

    >>> row = [2, 2, 1, 1, 1, 1, 1, 1, *[0] * 12, 1, 2, 2]  # "a dog" against "a dog"
    >>> meteor_scores(np.array([row])).tolist()
    [1.0]
    """
    stats = np.asarray(stats, np.float64)
    function = stats[..., 2:4]  # (..., 2): candidate, reference
    length = DELTA * (stats[..., :2] - function) + (1 - DELTA) * function
    modules = stats[..., 4:CHUNKS].reshape(*stats.shape[:-1], 4, 2, 2)  # module, content or function, side
    weighted = MODULE_WEIGHTS[:, None] * (DELTA * modules[..., 0, :] + (1 - DELTA) * modules[..., 1, :])
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = weighted.sum(axis=-2) / length
        precision, recall = sides[..., 0], sides[..., 1]
        f_mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragmentation = additive(stats)[..., CHUNKS] / ((stats[..., 21] + stats[..., 22]) / 2)
        scores = f_mean * (1 - GAMMA * fragmentation**BETA)
    bounded: NDArray[np.float64] = np.maximum(np.nan_to_num(scores, nan=0.0), 0.0)
    return bounded


def meteor_corpus(stats: NDArray[Any]) -> float:
    """The score of a corpus (n, 23): that of its summed statistics, not the mean of the segments' scores."""
    return float(meteor_scores(additive(stats).sum(axis=0)))


def additive(stats: NDArray[Any]) -> NDArray[Any]:
    """Statistics as they are summed: where all words of both sides match in one chunk, nothing is fragmented."""
    whole = (stats[..., 21] == stats[..., 0]) & (stats[..., 22] == stats[..., 1]) & (stats[..., CHUNKS] == 1)
    added: NDArray[Any] = np.where(whole[..., None] & (np.arange(STATISTICS) == CHUNKS), 0, stats)
    return added
