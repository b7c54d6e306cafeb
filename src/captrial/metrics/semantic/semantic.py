"""Semantic: similarity in meaning of caption and references, by sentence embeddings; captions of any length.

Captions and references are compared sentence by sentence (see `soft_matching`). For captions of one sentence precision
is the cosine to the nearest reference, recall the mean cosine to the references. With `match="tokens"` the parts are
tokens in context, as in BERTScore (Zhang et al. 2020), without its rescaling and idf weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Literal

import numpy as np

from captrial.errors import InputError
from captrial.language.sentences import sentence_spans
from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import Candidates, MeanState, References, Scores
from captrial.metrics.semantic.sentence_encoder import SentenceEncoder, sentence_encoder
from captrial.metrics.semantic.soft_matching import Parts, grouped, match_columns, soft_match

WORDS_A_PART = 48  # a sentence without end is compared in parts of so many words, far from where any model cuts
Matching = Literal["sentences", "tokens"]


def semantic(
    candidates: Candidates | Corpus,
    references: References | None = None,
    encoder: str | None = None,
    match: Matching = "sentences",
) -> Scores:
    """F of soft precision and recall over sentences, with both as parts; in [0, 1].

    `encoder` is a sentence-embedding model by folder or hub name, by default the installed all-MiniLM-L6-v2.
    """
    return SemanticState.of(Corpus.prepare(candidates, references), encoder, match).scores()


def sentence_similarity(first: Sequence[str], second: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(n,): the F of `semantic` between texts that stand at the same place; the same in both directions.

    An empty text is like another empty one, and like nothing else.
    """
    return sentence_similarities([first, second])[0, 1]


def sentence_similarities(
    texts: Sequence[Sequence[str]],
) -> dict[tuple[int, int], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """`sentence_similarity` of every pair (i < j) of equally long lists of texts; each text is encoded once."""
    parts = sentence_parts(list(chain.from_iterable(texts)), sentence_encoder(None))
    ends = np.cumsum([len(column) for column in texts]).tolist()
    columns = [parts[end - len(column) : end] for column, end in zip(texts, ends, strict=True)]
    empty = [np.array([not text.strip() for text in column], bool) for column in texts]
    found = {}
    for i, j in combinations(range(len(texts)), 2):
        theirs = grouped(columns[j], [1] * len(columns[j]))
        matches = [soft_match(own, other) for own, other in zip(columns[i], theirs, strict=True)]
        values = SemanticState(match_columns(matches, "semantic"), ()).scores().per_image  # NaN without words
        found[i, j] = np.where(empty[i] & empty[j], 1.0, np.nan_to_num(values))
    return found


class SemanticState(MeanState):
    """The means of image scores."""

    @classmethod
    def of(cls, corpus: Corpus, encoder: str | None = None, match: Matching = "sentences") -> SemanticState:
        """Score one shard."""
        if match not in ("sentences", "tokens"):
            raise InputError(f"match {match!r}: choose sentences or tokens")
        model = sentence_encoder(encoder)
        captions, references = corpus.as_written
        parts = (sentence_parts if match == "sentences" else token_parts)(
            [*captions, *chain.from_iterable(references)], model
        )
        of_references = grouped(parts[len(corpus) :], [len(each) for each in references])
        matches = [soft_match(own, theirs) for own, theirs in zip(parts[: len(corpus)], of_references, strict=True)]
        return cls(match_columns(matches, "semantic"), (f"{match} compared by {model.description}",))


def sentence_parts(texts: Sequence[str], encoder: SentenceEncoder) -> list[Parts]:
    """The sentences of each text, weighted by their words."""
    split = [split_sentences(text) for text in texts]
    vectors = encoder.encode(list(chain.from_iterable(split)))
    ends = np.cumsum([len(sentences) for sentences in split])
    weights = [np.array([len(sentence.split()) for sentence in sentences], np.float64) for sentences in split]
    return [Parts(vectors[end - len(own) : end], own) for end, own in zip(ends, weights, strict=True)]


def token_parts(texts: Sequence[str], encoder: SentenceEncoder) -> list[Parts]:
    """The tokens of each text in context."""
    return [Parts(tokens.vectors, np.ones(len(tokens.vectors))) for tokens in encoder.encode_tokens(texts)]


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, those of more than 48 words in parts of 48.

    >>> split_sentences("A dog runs. It is brown.")
    ['A dog runs.', 'It is brown.']
    """
    found: list[str] = []
    for start, end in sentence_spans(text):
        words = text[start:end].split()
        found += [" ".join(words[at : at + WORDS_A_PART]) for at in range(0, len(words), WORDS_A_PART)]
    return found
