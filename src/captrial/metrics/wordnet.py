"""WordNet synonym sets, as METEOR 1.5 and SPICE 1.0 look them up.

Both tools read the tables `english.synsets` and `english.exceptions` of the METEOR jar, which the `pycocoevalcap` wheel
carries (extra `meteor`). Only look-up happens here; each metric uses synonyms in its own way.
"""

from __future__ import annotations

import importlib.util
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from captrial.errors import InputError, MissingExtraError

# Suffix -> replacement, in WordNet's order: nouns, verbs, adjectives. The first result that is a known word wins.
_SUFFIXES = (
    *(
        ("s", ""),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    *(("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    *(("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
)


class WordNet:
    """Words, their synonym sets, and the irregular forms that lead to other words' sets.

    A word's sets are numbers, or a line of numbers that is read when the word is first looked up.
    """

    def __init__(self, synsets: Mapping[str, frozenset[int] | str], exceptions: Mapping[str, tuple[str, ...]]) -> None:
        self._synsets = synsets
        self._exceptions = exceptions
        self._found: dict[str, frozenset[int]] = {}

    def synsets(self, word: str) -> frozenset[int]:
        """Synonym sets of a word or of its base form; blanks and case do not matter.

        >>> table = WordNet({"dog": frozenset({1}), "goose": frozenset({2})}, {"geese": ("goose",)})
        >>> sorted(table.synsets("Dogs")), sorted(table.synsets("geese")), sorted(table.synsets("zebra"))
        ([1], [2], [])
        """
        found = self._found.get(word)
        if found is None:
            found = self._found[word] = self._look_up(word.strip().lower().replace(" ", "_"))
        return found

    def morph(self, word: str) -> str:
        """The first base form of a regularly inflected word that the table knows; else the word itself."""
        stem, ending = (word[:-3], "ful") if word.endswith("ful") else (word, "")
        if stem.endswith("ss") or len(stem) <= 2:
            return word
        for suffix, replacement in _SUFFIXES:
            if stem.endswith(suffix):
                base = stem[: -len(suffix)] + replacement
                if base in self._synsets:
                    return base + ending
        return word

    def _look_up(self, word: str) -> frozenset[int]:
        bases = self._exceptions.get(word) or (self.morph(word),)
        return frozenset().union(*map(self._own, (word, *bases)))

    def _own(self, word: str) -> frozenset[int]:
        sets = self._synsets.get(word, frozenset())
        return frozenset(map(int, sets.split())) if isinstance(sets, str) else sets


def read_wordnet(jar: Path | str, kind: type[WordNet] = WordNet) -> WordNet:
    """Read both tables from a METEOR jar."""
    try:
        with zipfile.ZipFile(jar) as archive:
            synsets = archive.read("synonym/english.synsets").decode()
            exceptions = archive.read("synonym/english.exceptions").decode()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{jar}: not a METEOR 1.5 jar with English synonym tables ({error})") from None
    bases: dict[str, list[str]] = {}
    for base, forms in _pairs(exceptions):
        for form in forms.split():
            bases.setdefault(form, []).append(base)
    return kind(dict(_pairs(synsets)), {form: tuple(words) for form, words in bases.items()})


@lru_cache(maxsize=1)
def default_wordnet() -> WordNet:
    """The tables of the installed `pycocoevalcap` wheel."""
    return read_wordnet(meteor_jar())


def meteor_jar() -> Path:
    """Where the installed `pycocoevalcap` wheel keeps METEOR's jar."""
    spec = importlib.util.find_spec("pycocoevalcap")  # found, not imported: its import is slow and prints
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        jar = Path(folder) / "meteor" / "meteor-1.5.jar"
        if jar.is_file():
            return jar
    raise MissingExtraError("Matching synonyms (WordNet tables of METEOR)", "meteor")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Both tables alternate two lines: a word, and what belongs to it."""
    lines = iter(text.splitlines())
    return zip(lines, lines, strict=False)
