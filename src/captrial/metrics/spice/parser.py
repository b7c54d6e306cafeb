"""Captions -> parses, with spaCy's small English pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata, util
from typing import Any

from captrial.language.nouns import PIPELINES, pipeline
from captrial.metrics.spice.attachment import attach_prepositions, flatten, join_conjuncts
from captrial.metrics.spice.clauses import read_clauses
from captrial.metrics.spice.lexicon import Lemmatizer
from captrial.metrics.spice.parse_tree import Parse
from captrial.metrics.spice.tagging import correct_tags

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


# spaCy's parse of a caption, bent to what the original's parser would have said.
#
# SPICE 1.0 reads captions with an unlexicalised grammar learned from newspapers (CoreNLP's englishPCFG). spaCy is usually
# right where that parser is wrong, but a score is only comparable if it is wrong in the same way. The rules were found by
# comparing with the original's tuples; they depend on tags, positions and short word lists, never on whole captions.


def imitate(parse: Parse) -> None:
    """Change tags, heads and labels of a parse in place."""
    correct_tags(parse)
    flatten(parse)
    join_conjuncts(parse)
    read_clauses(parse)
    attach_prepositions(parse)
