from __future__ import annotations

import numpy as np
from pycocoevalcap.rouge.rouge import Rouge

from captrial.metrics.ngram.rouge import rouge_l
from metrics.example_corpora import corpus_of, toolkit_scores


def test_long_sentences_take_every_width_of_the_lcs() -> None:
    rng = np.random.default_rng(0)
    lengths = [1, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 100, 300]
    sentences = [" ".join(rng.choice(list("abcdef"), length)) for length in lengths]
    corpus = corpus_of([(said, [reference]) for said in sentences for reference in sentences])
    np.testing.assert_allclose(rouge_l(corpus).per_image, toolkit_scores(Rouge(), corpus)[1], atol=1e-12)
