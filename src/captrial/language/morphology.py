"""Lemmas of tagged words, and singular forms of nouns: spaCy's rules, with repairs measured on captions.

`singular.txt` and `verbs.txt` list forms on which the rules go wrong, or nouns without a singular (`scissors`);
`not_nouns.txt` has words that the tagger now and then takes for nouns and that captions hardly ever use as such
(`standing`, `grassy`), `always_nouns.txt` things that it often takes for something else (`hydrant`, in every second
caption).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from captrial.files import content_hash

NOUN_TAGS = frozenset({"NN", "NNS", "NNP", "NNPS"})


@cache
def singular_forms() -> dict[str, str]:
    """The repairs of `singular.txt`: form -> lemma."""
    return _forms("singular.txt")


@cache
def verb_forms() -> dict[str, str]:
    """The repairs of `verbs.txt`: form -> lemma."""
    return _forms("verbs.txt")


@cache
def not_nouns() -> frozenset[str]:
    """The words of `not_nouns.txt`."""
    return frozenset(word for line in table_lines("not_nouns.txt") for word in line.split())


@cache
def always_nouns() -> frozenset[str]:
    """The words of `always_nouns.txt`."""
    return frozenset(word for line in table_lines("always_nouns.txt") for word in line.split())


@cache
def repairs_version() -> str:
    """A hash of all repairs: what was computed with others is out of date."""
    tables = (singular_forms(), verb_forms(), sorted(not_nouns()), sorted(always_nouns()))
    return content_hash(repr(tables), 8)


def _forms(name: str) -> dict[str, str]:
    pairs = (line.split() for line in table_lines(name))
    return {form: lemma for lemma, *forms in pairs for form in (forms or [lemma])}


def table_lines(name: str) -> list[str]:
    """The lines of one of this package's text files, without comments and blank lines."""
    text = files("captrial.language").joinpath(name).read_text(encoding="utf-8")
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


class Word(NamedTuple):
    """What a word with its tag is: a noun or not, its lemma, its universal part of speech."""

    noun: bool
    lemma: str
    position: str


class Lemmatizer:
    """(word, tag) -> `Word`, computed once for each pair: captions have few words that are new."""

    def __init__(self, nlp: Any) -> None:
        self._nlp = nlp
        self._known: dict[tuple[str, str], Word] = {}
        table = nlp.get_pipe("lemmatizer").lookups.get_table("lemma_index", {})
        self._index = frozenset(table.get("noun", ()))

    def learn(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Compute all pairs that are new, together."""
        new = sorted({pair for pair in pairs if pair not in self._known})
        if not new:
            return
        words = {word for word, tag in new if tag in NOUN_TAGS or word in always_nouns()}
        spacy = self._spacy(sorted({*new, *((word, tag) for word in words for tag in ("NN", "NNS"))}))
        for word, tag in new:
            position, lemma = spacy[word, tag]
            if word in always_nouns() and tag not in NOUN_TAGS:
                position, lemma = spacy[word, "NN"]
            noun = position in ("NOUN", "PROPN") and word not in not_nouns()
            if noun:
                lemma = self._singular(word, lemma, spacy[word, "NNS"][1])
            self._known[word, tag] = Word(noun, lemma if noun else verb_forms().get(word, lemma), position)

    def __getitem__(self, pair: tuple[str, str]) -> Word:
        return self._known[pair]

    def _singular(self, word: str, lemma: str, as_plural: str) -> str:
        repaired = singular_forms().get(word)
        if repaired is not None:
            return repaired
        # "zebras" tagged as a name or a singular: believe the plural rule where it leads to a known noun.
        if lemma == word and word not in self._index and as_plural in self._index:
            return as_plural
        return lemma.split("_")[0]

    def _spacy(self, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
        from spacy.tokens import Doc

        doc = Doc(self._nlp.vocab, words=[word for word, _ in pairs], tags=[tag for _, tag in pairs])
        for name in ("attribute_ruler", "lemmatizer"):
            doc = self._nlp.get_pipe(name)(doc)
        return {pair: (token.pos_, token.lemma_) for pair, token in zip(pairs, doc, strict=True)}
