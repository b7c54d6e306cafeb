from __future__ import annotations

import numpy as np

from captrial.metrics.nouns.noun_iou import noun_iou
from metrics.example_corpora import GIVEN, GivenSimilarity, noun_corpus


def test_noun_iou() -> None:
    rows = [("man", ["man"]), ("man", ["person"]), ("man horse", ["man"]), ("man", [""]), ("", ["man"])]
    ours = noun_iou(noun_corpus(rows), similarity=GivenSimilarity(GIVEN)).per_image
    np.testing.assert_allclose(ours, [1.0, 0.75 / 1.25, 1 / 2, 1.0, 0.0])
