from __future__ import annotations

import numpy as np
from pycocoevalcap.rouge.rouge import Rouge

from captrial.metrics import Corpus
from captrial.metrics.ngram.rouge import rouge_l


def corpus_of(images: list[tuple[str, list[str]]]) -> Corpus:
    return Corpus([str(i) for i in range(len(images))], [said for said, _ in images], [refs for _, refs in images])


def theirs(scorer: object, corpus: Corpus, **options: object) -> tuple[np.ndarray, np.ndarray]:
    references = dict(zip(corpus.ids, corpus.references, strict=True))
    candidates = {image: [said] for image, said in zip(corpus.ids, corpus.candidates, strict=True)}
    total, images = scorer.compute_score(references, candidates, **options)
    return np.array(total), np.array(images)


def test_long_sentences_take_every_width_of_the_lcs() -> None:
    rng = np.random.default_rng(0)
    lengths = [1, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 100, 300]
    sentences = [" ".join(rng.choice(list("abcdef"), length)) for length in lengths]
    corpus = corpus_of([(said, [reference]) for said in sentences for reference in sentences])
    np.testing.assert_allclose(rouge_l(corpus).per_image, theirs(Rouge(), corpus)[1], atol=1e-12)
