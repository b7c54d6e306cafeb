"""Texts -> scene tuples: parse, convert, extract; what was parsed before comes from the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from captrial.files import cache_directory, content_hash
from captrial.metrics.spice import parsing
from captrial.metrics.spice.cache import TupleCache
from captrial.metrics.spice.dependencies import universal
from captrial.metrics.spice.habits import imitate
from captrial.metrics.spice.scene_graph import SceneTuple, extract
from captrial.progress import progress_bar

_CHUNK = 2048  # texts parsed between two visits to the cache: what a killed run has done is kept


class SentenceGraph(NamedTuple):
    """What a sentence says: its objects, their attributes, and relations (subject, object, predicate)."""

    objects: list[str]
    attributes: list[tuple[str, str]]
    relations: list[tuple[str, str, str]]


def scene_tuples(texts: Sequence[str], *, cache: bool = True) -> list[list[SceneTuple]]:
    """SPICE's tuples of texts of PTB tokens (lower-case, joined by blanks), in the original's order of emission.

    Parsed texts are kept in the cache directory by content; `cache=False` neither reads nor writes it.
    """
    wanted = list(dict.fromkeys(texts))
    store = tuple_cache() if cache else None
    found = store.get(wanted) if store else {}
    missing = sorted((text for text in wanted if text not in found), key=len)  # similar lengths batch well
    with progress_bar() as progress:
        task = progress.add_task("Parsing captions for SPICE", total=len(missing))
        for chunk in _chunks(missing):
            fresh = dict(zip(chunk, _extract(chunk), strict=True))
            found.update(fresh)
            if store:
                store.put(fresh)
            progress.advance(task, len(chunk))
    return [found[text] for text in texts]


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


@lru_cache(maxsize=1)
def version() -> str:
    """Fingerprint of the parser and of our rules: tuples cached under another one are not used."""
    rules = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return f"{parsing.pipeline_version()} {content_hash(rules)}"


def tuple_cache() -> TupleCache:
    """The cache of this version in the cache directory."""
    return TupleCache(cache_directory() / "spice.sqlite", version())


def _extract(texts: Sequence[str]) -> Iterator[list[SceneTuple]]:
    lemma = parsing.lemmatizer().lemma
    for parses in parsing.parse(texts):
        found: list[SceneTuple] = []
        for parse in parses:
            imitate(parse)
            lemmas = [lemma(word, tag) for word, tag in zip(parse.words, parse.tags, strict=True)]
            found += extract(universal(parse, lemmas))
        yield found


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(texts)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk
