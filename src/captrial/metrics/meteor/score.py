"""METEOR's formula: from counts of matched words to scores, for segments and for a corpus.

A row of statistics: words of the candidate and of the reference, function words of both; for each of the modules exact,
stem, synonym and paraphrase the matched content words (candidate, reference) and function words (candidate, reference);
chunks; matched words of candidate and reference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# The parameters of task `rank` for English, which COCO's evaluation uses.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.20, 0.60, 0.75
MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])

Floats = NDArray[np.float64]


def meteor_scores(stats: NDArray[np.integer]) -> Floats:
    """The score of every row of statistics (n, 23); (n,).

    >>> import numpy as np
    >>> row = [2, 2, 1, 1, 1, 1, 1, 1, *[0] * 12, 1, 2, 2]  # "a dog" against "a dog"
    >>> meteor_scores(np.array([row])).tolist()
    [1.0]
    """
    stats = np.asarray(stats, np.float64)
    content, function = stats[:, :2] - stats[:, 2:4], stats[:, 2:4]  # (n, 2): candidate, reference
    length = DELTA * content + (1 - DELTA) * function
    modules = stats[:, 4:20].reshape(-1, 4, 2, 2)  # (n, module, content or function, side)
    matches = (MODULE_WEIGHTS[:, None] * (DELTA * modules[:, :, 0] + (1 - DELTA) * modules[:, :, 1])).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = (matches / length).T
        f_mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragmentation = np.where(_is_whole(stats), 0, stats[:, 20] / (stats[:, 21:].sum(axis=1) / 2))
        scores = f_mean * (1 - GAMMA * fragmentation**BETA)
    return np.maximum(np.nan_to_num(scores, nan=0.0), 0.0)


def meteor_corpus(stats: NDArray[np.integer]) -> float:
    """The score of a corpus: of its summed statistics, not the mean of the segments' scores."""
    if len(stats) == 0:
        return 0.0
    total = np.where(_is_whole(stats)[:, None] & (np.arange(stats.shape[1]) == 20), 0, stats).sum(axis=0)
    return float(meteor_scores(total[None])[0])


def _is_whole(stats: NDArray[np.integer] | Floats) -> NDArray[np.bool_]:
    """Is every word of both sides matched, in one chunk? Such a segment has no fragmentation; (n,)."""
    return (stats[:, 21] == stats[:, 0]) & (stats[:, 22] == stats[:, 1]) & (stats[:, 20] == 1)
