"""Texts -> scene tuples: parse, imitate, convert, extract; what was parsed before comes from the cache on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import orjson

from captrial.files import content_hash
from captrial.language.text_cache import TextCache
from captrial.metrics.spice.dependencies import universal
from captrial.metrics.spice.habits import imitate
from captrial.metrics.spice.parse import Parse
from captrial.metrics.spice.parsing import lemmatizer, parse, parser_version
from captrial.metrics.spice.scene_graph import SceneTuple, extract


class SentenceGraph(NamedTuple):
    """What a sentence says: its objects, their attributes, and relations (subject, object, predicate)."""

    objects: list[str]
    attributes: list[tuple[str, str]]
    relations: list[tuple[str, str, str]]


def scene_tuples(texts: Sequence[str]) -> list[list[SceneTuple]]:
    """SPICE's tuples of texts of PTB tokens (lower-case, joined by blanks), in the original's order of emission.

    A text is parsed once: results are kept in the cache directory by content, for this parser and these rules.
    """
    lines = TextCache(f"spice-{version()}", "parsing captions for SPICE").complete(texts, _lines)
    return [[tuple(item) for item in orjson.loads(line)] for line in lines]


def sentence_graph(tuples: Iterable[SceneTuple]) -> SentenceGraph:
    """Sort the tuples of one sentence by kind, once each; objects include those of attributes and relations.

    >>> sentence_graph([("man", "horse", "ride"), ("horse", "brown"), ("man",)])
    SentenceGraph(objects=['man', 'horse'], attributes=[('horse', 'brown')], relations=[('man', 'horse', 'ride')])
    """
    unique = list(dict.fromkeys(tuples))
    ends = (word for item in unique for word in (item[:2] if len(item) == 3 else item[:1]))
    return SentenceGraph(
        list(dict.fromkeys(ends)),
        [(item[0], item[1]) for item in unique if len(item) == 2],
        [(item[0], item[1], item[2]) for item in unique if len(item) == 3],
    )


def tuples_of(parses: Iterable[Parse]) -> list[SceneTuple]:
    """The tuples of the parses of one text, which are changed on the way."""
    lemma = lemmatizer().lemma
    found: list[SceneTuple] = []
    for tree in parses:
        imitate(tree)
        lemmas = [lemma(word, tag) for word, tag in zip(tree.words, tree.tags, strict=True)]
        found += extract(universal(tree, lemmas))
    return found


@cache
def version() -> str:
    """Fingerprint of the parser and of our rules: what another one produced is not used."""
    rules = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return f"{parser_version()}-{content_hash(rules)}"


def _lines(texts: list[str]) -> Iterator[str]:
    return (orjson.dumps(tuples_of(parses)).decode() for parses in parse(texts))
