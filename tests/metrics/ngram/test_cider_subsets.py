"""`CiderPanel` must give what `cider` gives for a corpus of just the chosen images."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.metrics.corpus import Corpus
from captrial.metrics.ngram.cider import cider, cider_plain
from captrial.metrics.ngram.cider_subsets import CiderPanel

sentence = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=9).map(" ".join)
images = st.lists(st.tuples(sentence, sentence, st.lists(sentence, min_size=1, max_size=3)), min_size=1, max_size=7)


@settings(max_examples=60, deadline=None)
@given(images, st.data(), st.booleans())
def test_equals_cider_of_the_choice(images, data, damped) -> None:  # type: ignore[no-untyped-def]
    systems = [[row[system] for row in images] for system in range(2)]
    references = [row[2] for row in images]
    panel = CiderPanel(systems, references, damped=damped)
    for _ in range(2):  # the second choice must not feel the first
        chosen = data.draw(st.lists(st.integers(0, len(images) - 1), min_size=1, unique=True))
        for system in range(2):
            corpus = Corpus([str(index) for index in range(len(images))], systems[system], references).select(chosen)
            expected = (cider if damped else cider_plain)(corpus).per_image
            np.testing.assert_allclose(panel.scores(system, chosen), expected, rtol=1e-12, atol=1e-12)


def test_no_images_no_scores() -> None:
    panel = CiderPanel([["a dog"]], [["a dog runs"]])
    assert panel.scores(0, []).shape == (0,)
    assert panel.scores(0, [0]) == pytest.approx([0.0])  # one image: idf = log 1
