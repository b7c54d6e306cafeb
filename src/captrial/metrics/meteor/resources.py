"""Where METEOR's data files are found, and what is done without them.

The files come with the `pycocoevalcap` wheel (extra `meteor`): word lists and synonyms inside `meteor-1.5.jar`, the
paraphrase table in `data/paraphrase-en.gz`. Nothing of Java is run; a jar is a zip file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from captrial.errors import InputError
from captrial.metrics.meteor.normalize import NUMERIC_ONLY
from captrial.metrics.meteor.paraphrase import ParaphraseTable
from captrial.metrics.wordnet import WordNet, read_wordnet

JAR = "meteor-1.5.jar"
TABLE = "data/paraphrase-en.gz"

# For the reduced variant only: our own list of English closed-class words.
_CLOSED_CLASS = """
    a an the this that these those some any no each every all both and or but nor if while because as than of in on at
    to from by with without for about into onto over under near up down out off is are was were be been being am has
    have had do does did will would can could may might must shall should not he she it they them his her its their we
    us our you your i me my who which what where when there here
"""


class MeteorWordNet(WordNet):
    """Synonym sets as METEOR's jar looks them up: words in -ful have no base form there ("handsful")."""

    def morph(self, word: str) -> str:
        """The base form of a regularly inflected word; the word itself where there is none."""
        return word if word.endswith("ful") else super().morph(word)


@dataclass(frozen=True)
class MeteorResources:
    """What METEOR knows of English. `synonyms` and `paraphrases` are both there, or both absent: then it is another
    metric, and `name` says so."""

    function_words: frozenset[str]
    prefixes: dict[str, bool]  # words whose dot ends no sentence -> only before a number?
    synonyms: WordNet | None = None
    paraphrases: ParaphraseTable | None = None

    @property
    def name(self) -> str:
        """`meteor`, or `meteor_exact_stem` for the reduced variant that matches by exact word and stem only."""
        return "meteor_exact_stem" if self.paraphrases is None else "meteor"

    @classmethod
    def find(cls, path: Path | str | None = None) -> MeteorResources:
        """Load the data files from a folder, or from the installed `pycocoevalcap`; without both, the reduced variant.

        `path` is a folder with `meteor-1.5.jar` and `data/paraphrase-en.gz`.
        """
        if path is not None:
            return _load(Path(path).resolve())
        spec = find_spec("pycocoevalcap")
        for place in (spec.submodule_search_locations or []) if spec else []:
            if all((Path(place) / "meteor" / name).exists() for name in (JAR, TABLE)):
                return _load(Path(place).resolve() / "meteor")
        return cls.reduced()

    @classmethod
    def reduced(cls) -> MeteorResources:
        """Exact and stem matches only; needs no files."""
        return cls(frozenset(_CLOSED_CLASS.split()), {})


@lru_cache(maxsize=4)
def _load(directory: Path) -> MeteorResources:
    for name in (JAR, TABLE):
        if not (directory / name).is_file():
            raise InputError(f"{directory}: METEOR's {name} is not there; pip install 'captrial[meteor]'")
    try:
        with ZipFile(directory / JAR) as jar:
            functions = jar.read("function/english.words").decode()
            prefixes = jar.read("nonbreaking/english.prefixes").decode()
    except (BadZipFile, KeyError) as error:
        raise InputError(f"{directory / JAR}: not METEOR's jar ({error}); install pycocoevalcap again") from None
    return MeteorResources(
        frozenset(functions.split()),
        _prefixes(prefixes),
        read_wordnet(directory / JAR, MeteorWordNet),
        ParaphraseTable.load(directory / TABLE),
    )


def _prefixes(text: str) -> dict[str, bool]:
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {line[0]: NUMERIC_ONLY in line for line in lines if line}
