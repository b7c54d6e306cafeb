"""Our own table of words for classes (`classes.txt`) and our own list of scene words (`scenes.txt`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from captrial.errors import InputError
from captrial.files import content_hash
from captrial.language.morphology import table_lines

COCO_CLASSES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip
"""The 80 classes of COCO's instance annotations, by their official names and in their order."""


class Mention(NamedTuple):
    """Some words `[start, end)` of a caption that name a class."""

    start: int
    end: int
    name: str  # the entry of the table that matched: "teddy bear", "puppy"


@dataclass(frozen=True)
class ClassTable:
    """Which words mean a class: its synonyms, every kind of it, and wider words that captions use for it.

    >>> table = ClassTable.parse(["dog: =hound, puppy", "animal: dog, cat"])
    >>> table.means("puppy", "dog"), table.means("puppy", "animal"), table.means("dog", "puppy")
    (True, True, False)
    >>> table.means("dog", "hound")
    True
    """

    kinds: Mapping[str, frozenset[str]]  # class -> all words that mean it or a kind of it, itself included
    synonyms: Mapping[str, str]  # synonym -> the class it stands for
    _longest: int = field(init=False, repr=False, compare=False)
    _names: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = frozenset(word for words in self.kinds.values() for word in words)
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "_longest", max((len(name.split()) for name in names), default=0))

    @classmethod
    def parse(cls, lines: Iterable[str], source: str = "class table") -> ClassTable:
        """Read lines `class: kind, =synonym, ~wider word`; a kind that is itself a class brings its own words along."""
        own: dict[str, list[str]] = {}
        synonyms: dict[str, str] = {}
        loose: dict[str, list[str]] = {}
        for line in lines:
            if line.startswith("["):
                continue  # a section's heading
            name, words = _entry(line, source)
            if name in own:
                raise InputError(f"{source}: the class {name!r} has two lines; join them")
            own[name] = [word.removeprefix("=") for word in words if not word.startswith("~")]
            loose[name] = [word[1:] for word in words if word.startswith("~")]
            for synonym in (word[1:] for word in words if word.startswith("=")):
                if synonyms.setdefault(synonym, name) != name:
                    raise InputError(f"{source}: {synonym!r} cannot mean both {synonyms[synonym]!r} and {name!r}")
        return cls({name: frozenset([*_closure(name, own), *loose[name]]) for name in own}, synonyms)

    @classmethod
    def load(cls, path: Path | str) -> ClassTable:
        """A table of your own, in the form of `classes.txt`."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: not a readable class table: {error}") from None
        return cls.parse([line for line in (raw.split("#")[0].strip() for raw in text.splitlines()) if line], str(path))

    def __contains__(self, class_: object) -> bool:
        return isinstance(class_, str) and self.canonical(class_) in self.kinds

    @property
    def fingerprint(self) -> str:
        """A hash of the table's content."""
        return content_hash(repr(sorted((name, sorted(words)) for name, words in self.kinds.items())), 8)

    def canonical(self, class_: str) -> str:
        """The class a name stands for: itself, or the one it is a synonym of.

        >>> default_table().canonical("sofa")
        'couch'
        """
        return class_ if class_ in self.kinds else self.synonyms.get(class_, class_)

    def words(self, class_: str) -> frozenset[str]:
        """All words that mean a class, the class included; just the name where the table does not know it."""
        return self.kinds.get(self.canonical(class_), frozenset({class_})) | {class_}

    def means(self, word: str, class_: str) -> bool:
        """Whether a word (a lemma, or several) means a class."""
        return word in self.words(class_) or self.canonical(word) in self.words(class_)

    def meanings(self, classes: Sequence[str]) -> dict[str, list[str]]:
        """Every word of these classes, and which of them it means."""
        found: dict[str, list[str]] = {}
        for class_ in classes:
            for word in self.words(class_):
                found.setdefault(word, []).append(class_)
        return found

    def mentions(self, lemmas: Sequence[str], nouns: Iterable[int]) -> list[Mention]:
        """The mentions of a caption: the longest entries of the table that end at a noun, other nouns alone.

        `"a teddy bear on a sofa"` has the mentions `teddy bear` and `sofa`, not `teddy`, `bear` and `sofa`.
        """
        ends = sorted(set(nouns), reverse=True)
        found: list[Mention] = []
        free = len(lemmas)
        for last in ends:
            if last < free:
                found.append(self._ending_at(lemmas, last))
                free = found[-1].start
        return found[::-1]

    def _ending_at(self, lemmas: Sequence[str], last: int) -> Mention:
        for start in range(max(0, last + 1 - self._longest), last):
            name = " ".join(lemmas[start : last + 1])
            if name in self._names:
                return Mention(start, last + 1, name)
        return Mention(last, last + 1, lemmas[last])


def mentioned(texts: Sequence[str], classes: Sequence[str] = COCO_CLASSES) -> list[list[str]]:
    """The classes that each text mentions, one for each mention, in order.

    A word that may mean several of the classes (a *glass*: a wine glass or a cup) is not counted.
    """
    from captrial.language.nouns import analyse

    table = default_table()
    name_class = {name: class_ for class_ in classes for name in (class_, table.canonical(class_))}
    for word, meant in table.meanings(classes).items():
        if len(meant) == 1:
            name_class.setdefault(word, meant[0])
    return [
        [name_class[mention.name] for mention in table.mentions(one.lemmas, one.nouns) if mention.name in name_class]
        for one in analyse(texts, phrases=False)
    ]


@cache
def default_table() -> ClassTable:
    """The table of `classes.txt`: COCO's classes, the toy world's kinds and further nouns."""
    return ClassTable.parse(table_lines("classes.txt"), "classes.txt")


@cache
def scene_words() -> frozenset[str]:
    """Place words of `scenes.txt`: such a word means the whole image."""
    return frozenset(word.replace("-", " ") for line in table_lines("scenes.txt") for word in line.split())


def is_scene(word: str) -> bool:
    """Whether a word (a lemma) means a place, and so the whole image.

    >>> is_scene("kitchen"), is_scene("dog")
    (True, False)
    """
    return word in scene_words()


def _entry(line: str, source: str) -> tuple[str, list[str]]:
    name, colon, rest = (part.strip() for part in line.partition(":"))
    if not (name and colon):
        raise InputError(f"{source}: {line!r} must be `class: word, word`")
    return name, [word.strip() for word in rest.split(",") if word.strip()]


def _closure(name: str, own: Mapping[str, list[str]]) -> Iterator[str]:
    seen, waiting = {name}, [name]
    while waiting:
        word = waiting.pop()
        yield word
        fresh = [kind for kind in own.get(word, ()) if kind not in seen]
        seen.update(fresh)
        waiting += fresh
