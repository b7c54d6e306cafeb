"""Ids of the same image in different files: `139`, `000000000139.jpg` and `/data/photos/000000000139.jpg`.

Caption files, references and folders of images rarely spell ids in the same way. `ImageIds` holds the known ids and
finds another spelling in this order: the same text, the same file name, the same file name without its suffix, the same
number (`139`, `000000000139`, `COCO_val2014_000000000139`). A spelling that could mean several known ids is never
guessed, nor are two spellings that mean the same one. `MatchedIds.report` says what was matched, and how.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from captrial.data.images import IMAGE_SUFFIXES

_NUMBER = re.compile(r"(?:COCO_(?:train|val|test)\d{4}_)?0*(\d{1,18})")
FIRST_IDS = 3  # that a report lists


def file_name(image_id: str) -> str:
    """The last part of an id that is a path.

    >>> file_name("/data/photos/000000000139.jpg"), file_name("139")
    ('000000000139.jpg', '139')
    """
    return image_id.rpartition("/")[2].rpartition("\\")[2]


def file_stem(image_id: str) -> str:
    """The file name of an id without the suffix of an image.

    >>> file_stem("photos/a.b.JPG"), file_stem("v1.2")
    ('a.b', 'v1.2')
    """
    name = file_name(image_id)
    stem, dot, suffix = name.rpartition(".")
    return stem if stem and dot and f".{suffix.lower()}" in IMAGE_SUFFIXES else name


def file_number(image_id: str) -> str:
    """The number of an id without leading zeros; empty where its stem is neither a number nor a file name of COCO.

    >>> file_number("COCO_val2014_000000000139.jpg"), file_number("000139"), file_number("1000268201_693b08cb0e.jpg")
    ('139', '139', '')
    """
    match = _NUMBER.fullmatch(file_stem(image_id))
    return match[1] if match else ""


KEYS: dict[str, Callable[[str], str]] = {  # how ids are matched, in order
    "file name": file_name,
    "file name without suffix": file_stem,
    "number": file_number,
}


def two_styles(first: str, ours: Iterable[str], second: str, theirs: Iterable[str]) -> str:
    """That no ids of two files meet, with an example of each style and the option that maps the ones to the others.

    >>> two_styles("a.json", ["img_1"], "refs.json", ["000001.jpg"])
    "Ids are written like 'img_1' in a.json and like '000001.jpg' in refs.json; --ids TABLE.csv (theirs,ours) maps them"
    """
    one, other = next(iter(ours), ""), next(iter(theirs), "")
    return (
        f"Ids are written like {one!r} in {first} and like {other!r} in {second}; --ids TABLE.csv (theirs,ours) maps "
        "them"
    )


@dataclass(frozen=True, slots=True)
class MatchedIds:
    """Given ids and the known ids that they mean."""

    known: Mapping[str, str]  # given id to known id
    how: Mapping[str, int]  # number of ids by kind of match: "exact" and the keys of `KEYS`
    ambiguous: tuple[str, ...] = ()  # ids that may mean several, or mean the same as another given id
    example: tuple[str, str] = ("", "")  # the first that was not matched exactly, and its known id

    def report(self) -> str:
        """What was matched other than exactly, in words; empty if nothing was.

        >>> ImageIds(["139", "285"]).match(["000000000139.jpg", "000000000285.jpg"]).report()
        '2 ids matched by number (000000000139.jpg is 139)'
        """
        counts = {kind: count for kind, count in self.how.items() if kind != "exact" and count}
        parts = [f"{count} id{'' if count == 1 else 's'} matched by {kind}" for kind, count in counts.items()]
        if parts:
            parts[0] += f" ({self.example[0]} is {self.example[1]})"
        if self.ambiguous:
            listed = ", ".join(self.ambiguous[:FIRST_IDS]) + (", ..." if len(self.ambiguous) > FIRST_IDS else "")
            parts.append(f"{len(self.ambiguous)} could mean several images and are not matched ({listed})")
        return "; ".join(parts)


@dataclass(frozen=True)
class ImageIds:
    """Known ids of images, to be found by other spellings."""

    known: Iterable[str]
    _unique: set[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_unique", set(self.known))

    @cached_property
    def _indices(self) -> dict[str, dict[str, str | None]]:
        """For each kind of match, key to known id; None where several known ids have that key."""
        indices: dict[str, dict[str, str | None]] = {}
        for kind, key_of in KEYS.items():
            index: dict[str, str | None] = {}
            for known in self._unique:
                key = key_of(known)
                if index.setdefault(key, known) != known:
                    index[key] = None
            index.pop("", None)
            indices[kind] = index
        return indices

    def find(self, image_id: str) -> str | None:
        """The known id that an id means; None where there is none, or several."""
        if image_id in self._unique:
            return image_id
        for kind, key_of in KEYS.items():
            key = key_of(image_id)
            if key in self._indices[kind]:
                return self._indices[kind][key]
        return None

    def match(self, ids: Iterable[str]) -> MatchedIds:
        """Match ids that were given together: no two of them are matched with the same known id."""
        given = list(dict.fromkeys(ids))
        found = {one: one for one in given if one in self._unique}
        how, ambiguous = {"exact": len(found)}, list[str]()
        rest, taken = [one for one in given if one not in found], set(found)
        example = ("", "")
        for kind, key_of in KEYS.items() if rest else ():
            index = self._indices[kind]
            meant = {one: index[key] for one in rest if (key := key_of(one)) in index}
            times = Counter(meant.values())
            good = {one: known for one, known in meant.items() if known and times[known] == 1 and known not in taken}
            how[kind] = len(good)
            example = example if example[0] or not good else next(iter(good.items()))
            found |= good
            taken |= set(good.values())
            ambiguous += [one for one in meant if one not in good]
            rest = [one for one in rest if one not in meant]
        return MatchedIds(found, how, tuple(ambiguous), example)
