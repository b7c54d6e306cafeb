"""Captions -> parses, with spaCy's small English pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata, util
from typing import Any

from captrial.language.nouns import PIPELINES, pipeline
from captrial.metrics.spice.lexicon import Lemmatizer
from captrial.metrics.spice.parse import Parse

_LONGEST = 250  # words of one parse; more (a paragraph in place of a caption) is parsed in pieces


@cache
def parser_version() -> str:
    """Names the parser without loading it: parses of different ones must not be mixed."""
    name = next((name for name in PIPELINES if util.find_spec(name)), "none")
    return "-".join([name, *(metadata.version(part) for part in (name, "spacy") if part != "none")])


@cache
def lemmatizer() -> Lemmatizer:
    """Our lemmatiser on the pipeline's look-up tables."""
    return Lemmatizer.of(pipeline().get_pipe("lemmatizer").lookups)


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
