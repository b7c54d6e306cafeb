"""Where the pictures of a competition are: a folder, or a pool that `captrial pool build` made."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from captrial.data import PictureProblem, open_picture, try_open
from captrial.data.pool import Pool
from captrial.data.pool.pool import MANIFEST
from captrial.errors import CaptrialError

_SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp")
_COCO = ("{:012d}.jpg", "COCO_val2014_{:012d}.jpg", "COCO_train2014_{:012d}.jpg", "COCO_test2014_{:012d}.jpg")


class Pictures:
    """Pictures by id, none of them outside the root."""

    def __init__(self, root: Path) -> None:
        """The root is a folder of picture files, or the directory of a pool."""
        self.root = root
        self._pool = Pool.load(root) if (root / MANIFEST).is_file() else None
        self._known = {picture.id: picture for picture in self._pool.pictures()} if self._pool else {}

    def path(self, picture_id: str) -> Path | None:
        """The file of a picture; None where there is none (a pool may keep pictures in tar shards)."""
        if self._pool is None:
            return find_picture(self.root, picture_id)
        picture = self._known.get(picture_id)
        return picture.path if picture else None

    def open(self, picture_id: str) -> Image.Image | None:
        """A picture in RGB, or None where it is not there or cannot be opened."""
        if self._pool is not None and picture_id in self._known:
            try:
                return open_picture(self._pool.read(picture_id), name=picture_id)
            except CaptrialError:
                return None
        path = self.path(picture_id)
        opened = try_open(path) if path else None
        return None if isinstance(opened, PictureProblem) else opened

    def label(self, picture_id: str) -> str | None:
        """The class of a picture: what the pool says, or the folder that its id names."""
        known = self._known.get(picture_id)
        return known.label if known and known.label else class_of(picture_id)


def find_picture(root: Path, picture_id: str) -> Path | None:
    """The file of a picture: its id as a relative path, with a usual suffix, or COCO's name for a number.

    None where there is no such file, or where the id leads out of the root.
    """
    names = [f"{picture_id}{suffix}" for suffix in _SUFFIXES]
    if picture_id.isascii() and picture_id.isdigit() and len(picture_id) <= 12:
        names += [pattern.format(int(picture_id)) for pattern in _COCO]
    inside = root.resolve()
    for name in names:
        try:
            path = (root / name).resolve()
            if path.is_relative_to(inside) and path.is_file():
                return path
        except (OSError, ValueError):  # too long for a file name, or with characters that none can have
            continue
    return None


def class_of(picture_id: str) -> str | None:
    """The class of a picture in a pool of folders: the folder it is in.

    >>> class_of("dog/0001.jpg"), class_of("42")
    ('dog', None)
    """
    folder, slash, _ = picture_id.rpartition("/")
    return folder if slash else None
