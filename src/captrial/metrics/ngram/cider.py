"""CIDEr-D, which the COCO toolkit calls CIDEr, and the undamped CIDEr.

tf-idf vectors of n-grams, n = 1..4, idf(g) = log N - log max(1, df(g)); cosine similarity with each reference; mean
over n and references, x10. CIDEr-D clips the candidate's weights at the reference's and multiplies by
exp(-d^2 / (2 * 6^2)), d the difference in the number of bigrams.

Document frequencies need the references of every shard, so the state of CIDEr is the tokenised corpus itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.corpus import Corpus
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.ngram_counts import ORDERS, Counts
from captrial.metrics.scores import Candidates, MeanState, References, Scores, State

SIGMA = 6.0
ONE_IMAGE = "CIDEr of one image is 0 by definition (idf = log 1); score more images, or give document frequencies"
Floats = NDArray[np.float64]


def cider(
    candidates: Candidates | Corpus,
    references: References | None = None,
    document_frequencies: DocumentFrequencies | None = None,
) -> Scores:
    """CIDEr-D; document frequencies are those of the references unless a table is given."""
    return CiderState.of(Corpus.prepare(candidates, references), document_frequencies).scores()


def cider_plain(
    candidates: Candidates | Corpus,
    references: References | None = None,
    document_frequencies: DocumentFrequencies | None = None,
) -> Scores:
    """CIDEr without clipping and length penalty."""
    return CiderPlainState.of(Corpus.prepare(candidates, references), document_frequencies).scores()


@dataclass(frozen=True)
class CiderState:
    """The corpus of one shard, and the table of document frequencies if one was given."""

    corpus: Corpus
    document_frequencies: DocumentFrequencies | None = None
    name: str = "cider"

    @classmethod
    def of(cls, corpus: Corpus, document_frequencies: DocumentFrequencies | None = None) -> Self:
        """The state of one shard."""
        return cls(corpus, document_frequencies)

    @classmethod
    def merge(cls, states: Sequence[Self]) -> Self:
        """All shards; their references make the document frequencies together."""
        return cls(Corpus.merge([state.corpus for state in states]), states[0].document_frequencies)

    @cached_property
    def means(self) -> MeanState:
        """Image scores, document frequencies settled."""
        per_image = cider_per_image(self.corpus, self.document_frequencies, damped=self.name == "cider")
        alone = len(self.corpus) == 1 and self.document_frequencies is None
        return MeanState({self.name: per_image}, (ONE_IMAGE,) * alone)

    def scores(self) -> Scores:
        """CIDEr of each image, and their mean."""
        return self.means.scores()

    def statistics(self) -> Floats:
        """(n, 2): score and 1, document frequencies fixed."""
        return self.means.statistics()

    def corpus_scores(self, totals: Floats) -> dict[str, Floats]:
        """The mean."""
        return self.means.corpus_scores(totals)

    def with_statistics(self, statistics: Floats) -> State:
        """Image scores of other images, computed with the same document frequencies."""
        return self.means.with_statistics(statistics)


@dataclass(frozen=True)
class CiderPlainState(CiderState):
    """The same without clipping and damping."""

    name: str = "cider_plain"


def cider_per_image(corpus: Corpus, table: DocumentFrequencies | None = None, damped: bool = True) -> Floats:
    """(n,): CIDEr of each image."""
    n = len(corpus)
    if not n:
        return np.zeros(0)
    idfs = _idfs(corpus, table)
    similarity = sum(_cosines(corpus, order, idf, damped) for order, idf in zip(corpus.counts, idfs, strict=True))
    if damped:
        bigrams = np.maximum(corpus.tokens.lengths - 1, 0)
        apart = bigrams[corpus.image_of[n:]] - bigrams[n:]
        similarity = similarity * np.exp(-(apart**2) / (2 * SIGMA**2))
    totals = np.bincount(corpus.image_of[n:], similarity, minlength=n)
    return 10 * totals / ORDERS / corpus.reference_counts


def _idfs(corpus: Corpus, table: DocumentFrequencies | None) -> list[Floats]:
    """By order, (grams,)."""
    if table is None:
        return [np.log(len(corpus)) - np.log(np.maximum(order.documents, 1)) for order in corpus.counts]
    known = table.lookup([order.keys for order in corpus.counts], corpus.tokens.vocabulary)
    return [table.idf(order, numbers) for order, numbers in enumerate(known, 1)]


def _cosines(corpus: Corpus, order: Counts, idf: Floats, clipped: bool) -> Floats:
    """(references,): similarity of each reference to its candidate on the n-grams of one order."""
    n, texts = len(corpus), len(corpus.texts)
    weight = idf[order.gram]  # (entries,)
    norms = np.sqrt(np.bincount(order.text, (order.count * weight) ** 2, minlength=texts))
    own = order.candidate[order.group]
    shared = np.minimum(own, order.count) if clipped else own
    product = np.bincount(order.text, shared * order.count * weight**2, minlength=texts)[n:]
    scale = norms[corpus.image_of[n:]] * norms[n:]
    return product / np.where(scale > 0, scale, 1.0)
