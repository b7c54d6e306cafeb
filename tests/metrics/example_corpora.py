"""Small corpora and similarities for the tests of metrics, and the COCO toolkit's scores of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from captrial.metrics import Corpus

WORDS = np.array(["a", "the", "dog", "cat", "runs", "sits", "on", "grass", "red", "big"])
GIVEN = {frozenset(("man", "person")): 0.5, frozenset(("horse", "beach")): 0.1}


class GivenSimilarity:
    """Similarities from a table; 1 for equal words, otherwise 0."""

    def __init__(self, table: dict[frozenset[str], float]) -> None:
        self.table = table

    def matrix(self, words: Sequence[str], others: Sequence[str]) -> np.ndarray:
        return np.array([[1.0 if a == b else self.table.get(frozenset((a, b)), 0.0) for b in others] for a in words])


def corpus_of(images: Sequence[tuple[str, Sequence[str]]]) -> Corpus:
    """A corpus of tokenised captions, each with its references."""
    captions, references = [caption for caption, _ in images], [list(texts) for _, texts in images]
    return Corpus([str(i) for i in range(len(images))], captions, references)


def noun_corpus(images: Sequence[tuple[str, Sequence[str]]]) -> Corpus:
    """A corpus whose every word is a noun."""
    corpus = corpus_of(images)
    corpus.__dict__["noun_lists"] = [text.split() for text in corpus.texts]
    return corpus


def noisy_corpus(n: int, noise: float, seed: int = 0) -> Corpus:
    """Candidates that copy their reference up to `noise` changed words."""
    rng = np.random.default_rng(seed)
    references = [list(rng.choice(WORDS, 8)) for _ in range(n)]
    noisy = np.random.default_rng(seed + 1)
    captions = [[noisy.choice(WORDS) if noisy.random() < noise else word for word in row] for row in references]
    return corpus_of([(" ".join(row), [" ".join(text)]) for row, text in zip(captions, references, strict=True)])


def toolkit_scores(scorer: Any, corpus: Corpus, **options: object) -> tuple[np.ndarray, np.ndarray]:
    """Corpus and image scores of a corpus by a scorer of pycocoevalcap."""
    references = dict(zip(corpus.ids, corpus.references, strict=True))
    candidates = {image: [caption] for image, caption in zip(corpus.ids, corpus.candidates, strict=True)}
    total, images = scorer.compute_score(references, candidates, **options)
    return np.array(total), np.array(images)
