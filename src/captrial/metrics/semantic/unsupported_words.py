"""Unsupported words: which words of a caption nothing in the references (or the given objects) supports. No image.

An open-vocabulary successor of CHAIR. Every content word (noun, verb, adjective, adverb, number) is compared in its
context with every word of the references in theirs: its support is the largest cosine of their token vectors, and
1 - support is its hallucination score. A caption has the mean over its content words, and its worst word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from captrial.language.nouns import Analysis, analyse
from captrial.language.token_spans import words_of_tokens
from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import Candidates, MeanState, References, Scores
from captrial.metrics.semantic.sentence_encoder import Floats, TokenVectors, sentence_encoder

CONTENT = ("NN", "JJ", "VB", "CD", "RB")  # beginnings of Penn tags
_AUXILIARIES = frozenset({"be", "have", "do"})
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class WordScore:
    """A content word of a caption, its characters `[start, end)`, and how little supports it, in [0, 1]."""

    word: str
    start: int
    end: int
    score: float


def unsupported(
    candidates: Candidates | Corpus,
    references: References | None = None,
    objects: Mapping[str, Sequence[str]] | None = None,
    encoder: str | None = None,
) -> Scores:
    """The mean score of the content words of each caption, with the worst word's as a part; lower is better."""
    return WordsState.of(Corpus.prepare(candidates, references), objects, encoder).scores()


def word_scores(
    candidates: Candidates | Corpus,
    references: References | None = None,
    objects: Mapping[str, Sequence[str]] | None = None,
    encoder: str | None = None,
) -> list[list[WordScore]]:
    """The content words of every caption with their scores; words of `objects` (by image id) count as references."""
    corpus = Corpus.prepare(candidates, references)
    captions, written = corpus.as_written
    wanted = [[*texts, *((objects or {}).get(image, ()))] for image, texts in zip(corpus.ids, written, strict=True)]
    model = sentence_encoder(encoder)
    texts = list(dict.fromkeys(chain(captions, *wanted)))
    vectors = dict(zip(texts, model.encode_tokens(texts), strict=True))
    words = {text: _word_vectors(text, vectors.pop(text)) for text in texts}
    analysed = analyse([" ".join(caption.split()) for caption in captions], phrases=False)
    return [
        _scored(caption, words[caption], content_words(caption, analysis), [words[text] for text in of_image])
        for caption, analysis, of_image in zip(captions, analysed, wanted, strict=True)
    ]


class WordsState(MeanState):
    """The means of image scores; a caption without content words is left out."""

    @classmethod
    def of(
        cls, corpus: Corpus, objects: Mapping[str, Sequence[str]] | None = None, encoder: str | None = None
    ) -> WordsState:
        """Score one shard."""
        found = [[word.score for word in words] for words in word_scores(corpus, objects=objects, encoder=encoder)]
        mean = np.array([np.mean(scores) if scores else np.nan for scores in found], np.float64)
        worst = np.array([max(scores, default=np.nan) for scores in found], np.float64)
        note = f"words compared in context by {sentence_encoder(encoder).description}"
        return cls({"unsupported": mean, "unsupported_worst": worst}, (note,))


def content_words(text: str, analysis: Analysis) -> list[int]:
    """The numbers of the words of a text (split at blanks) that carry content."""
    word_of = words_of_tokens(text.split())
    carrying = (
        word
        for word, tag, lemma in zip(word_of, analysis.tags, analysis.lemmas, strict=False)
        if tag.startswith(CONTENT) and lemma not in _AUXILIARIES
    )
    return sorted(set(carrying))


def _scored(text: str, own: Floats, content: Sequence[int], references: Sequence[Floats]) -> list[WordScore]:
    places = [match.span() for match in _WORD.finditer(text)]
    theirs = np.concatenate(references)
    if not content or not len(theirs):
        return []
    support = (own[list(content)] @ theirs.T).max(axis=1).clip(0, 1)
    return [
        WordScore(text[slice(*places[word])], *places[word], 1 - float(value))
        for word, value in zip(content, support, strict=True)
    ]


def _word_vectors(text: str, tokens: TokenVectors) -> Floats:
    """(words, d): the mean direction of the tokens of each word (split at blanks); 0 for a word without a token."""
    ends: NDArray[np.int64] = np.array([match.end() for match in _WORD.finditer(text)], np.int64)
    width = tokens.vectors.shape[1]
    sums = np.zeros((len(ends), width), np.float32)
    if len(ends):
        np.add.at(sums, np.searchsorted(ends, tokens.spans[:, 0], "right").clip(0, len(ends) - 1), tokens.vectors)
    return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12), np.float32)
