"""From a picture's id to its file under the image root, never outside it."""

from __future__ import annotations

from pathlib import Path

_SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp")
_COCO = ("{:012d}.jpg", "COCO_val2014_{:012d}.jpg", "COCO_train2014_{:012d}.jpg", "COCO_test2014_{:012d}.jpg")


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
