"""Captions to dependency parses, with spaCy's small English pipeline: an editable `Parse` a caption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from captrial.language.nouns import pipeline
from captrial.metrics.spice.lemmatizer import MorphaLemmatizer


@dataclass(slots=True)
class Parse:
    """One entry a word: Penn tags, spaCy's labels (ClearNLP style), and heads; `heads[i] == i` marks a root."""

    words: list[str]
    tags: list[str]
    heads: list[int]
    labels: list[str]

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)

    @property
    def root(self) -> int:
        """The first root."""
        return next(word for word, head in enumerate(self.heads) if head == word)

    def noun(self, word: int) -> bool:
        """Whether a word is tagged as a noun."""
        return self.tags[word].startswith("NN")

    def verb(self, word: int) -> bool:
        """Whether a word is tagged as a verb."""
        return self.tags[word].startswith("V")

    def word(self, index: int) -> str:
        """A word, or nothing beyond either end."""
        return self.words[index] if 0 <= index < len(self.words) else ""

    def children(self, head: int, *labels: str) -> list[int]:
        """Dependents of a word, left to right; only those with one of the labels, if any are given."""
        return [
            word
            for word, above in enumerate(self.heads)
            if above == head and word != head and (not labels or self.labels[word] in labels)
        ]

    def attach(self, word: int, head: int, label: str = "") -> bool:
        """Move a word with all below it under another head, unless it stands above that head itself."""
        above = head
        while self.heads[above] != above and above != word:
            above = self.heads[above]
        if above == word:
            return False
        self.heads[word] = head
        self.labels[word] = label or self.labels[word]
        return True

    def replace(self, old: int, new: int, label: str) -> None:
        """Let a child of `old` take its place; `old` hangs below it with the label."""
        self.heads[new] = new if self.heads[old] == old else self.heads[old]
        self.labels[new] = self.labels[old]
        self.heads[old], self.labels[old] = new, label

    def adopt(self, head: int, children: list[int]) -> None:
        """Move children of some word to another head, which must not hang below them."""
        for child in children:
            if child != head:
                self.heads[child] = head

    def crown(self, verb: int, subject: int) -> None:
        """Make a verb the root, with the present root as its subject."""
        self.heads[verb], self.labels[verb] = verb, "ROOT"
        self.heads[subject], self.labels[subject] = verb, "nsubj"


_LONGEST = 250  # words of one parse; more (a paragraph in place of a caption) is parsed in pieces


@cache
def lemmatizer() -> MorphaLemmatizer:
    """Our lemmatiser on the pipeline's look-up tables."""
    return MorphaLemmatizer.of(pipeline().get_pipe("lemmatizer").lookups)


def parse(texts: Iterable[str]) -> Iterator[list[Parse]]:
    """Parse tokenised texts (tokens joined by blanks), each into one `Parse`, or several if very long, or none."""
    from spacy.tokens import Doc

    nlp = pipeline()
    pieces = (
        (Doc(nlp.vocab, words=words[start : start + _LONGEST]), start + _LONGEST >= len(words))
        for words in (_clean(text).split() for text in texts)
        for start in range(0, max(len(words), 1), _LONGEST)
    )
    found: list[Parse] = []
    for doc, last in nlp.pipe(pieces, as_tuples=True, batch_size=512, disable=["attribute_ruler", "lemmatizer"]):
        if len(doc):
            found.append(_parse(doc))
        if last:
            yield found
            found = []


def _clean(text: str) -> str:
    """Lone surrogates, which spaCy cannot store, become question marks."""
    return text.encode("utf-8", "replace").decode()


def _parse(doc: Any) -> Parse:
    return Parse(
        [token.text for token in doc],
        [token.tag_ for token in doc],
        [token.head.i for token in doc],
        [token.dep_ for token in doc],
    )
