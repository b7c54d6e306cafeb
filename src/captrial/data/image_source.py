"""Images by id, from a folder of image files or from a pool that `captrial pool build` made."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from PIL import Image

from captrial.data.image_ids import ImageIds
from captrial.data.images import IMAGE_SUFFIXES, ImageProblem, image_size, open_image, try_open
from captrial.data.pools.image_pool import MANIFEST, ImagePool
from captrial.errors import CaptrialError, ImageError
from captrial.records import Sample

_SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp")
MISSING = "is not in the folder"
_COCO = ("{:012d}.jpg", "COCO_val2014_{:012d}.jpg", "COCO_train2014_{:012d}.jpg", "COCO_test2014_{:012d}.jpg")


def sample_image(sample: Sample) -> Path | bytes | None:
    """The file of a sample's image, or its bytes where the data set holds them (`extra["image"]`); None for neither."""
    if sample.image.path is not None:
        return sample.image.path
    content = sample.extra.get("image")
    return None if content is None else bytes(content)  # type: ignore[call-overload]


class ImageSource:
    """Images by id; files outside the root are never opened.

    An id that is not found as it is may be another spelling of one that is there (see `captrial.data.image_ids`).
    """

    def __init__(self, root: Path) -> None:
        """The root is a folder of image files, or the directory of a pool."""
        self.root = root
        self._pool = ImagePool.load(root) if (root / MANIFEST).is_file() else None
        self._known = {image.id: image for image in self._pool.images()} if self._pool else {}

    @cached_property
    def _ids(self) -> ImageIds:
        """The ids of the pool, or the relative paths of the image files in the folder."""
        if self._pool is not None:
            return ImageIds(self._known)
        paths = (path for path in self.root.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
        return ImageIds(path.relative_to(self.root).as_posix() for path in paths)

    def _find(self, image_id: str) -> str | None:
        """The id in the spelling of this source: `139` may be `000000000139.jpg` here."""
        return image_id if image_id in self._known else self._ids.find(image_id)

    def __contains__(self, image_id: str) -> bool:
        """Whether there is such an image; whether it can be opened is not checked."""
        return self._find(image_id) in self._known if self._pool is not None else self.path(image_id) is not None

    def path(self, image_id: str) -> Path | None:
        """The file of an image; None where there is none (a pool may keep images in tar shards)."""
        if self._pool is None:
            direct = find_image(self.root, image_id)
            found = None if direct else self._find(image_id)
            return find_image(self.root, found) if found else direct
        image = self._known.get(self._find(image_id) or "")
        return image.path if image else None

    @property
    def is_pool(self) -> bool:
        """Whether the root is the directory of a pool."""
        return self._pool is not None

    def first(self) -> str | None:
        """The name of some image file that is there."""
        return next((path.name for path in self.root.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES), None)

    def problem(self, image_id: str, whole: bool = False) -> str:
        """Why the file of an image cannot be used; empty if it can, `MISSING` if there is none.

        From its header, or by decoding it `whole` (small, where its format can).
        """
        path = self.path(image_id)
        if path is None:
            return MISSING
        try:
            if whole:
                open_image(path, draft=(1, 1), name=image_id)
            else:
                image_size(path, name=image_id)
        except ImageError as error:
            return str(error).removeprefix(f"{image_id}: ")
        return ""

    def content(self, image_id: str) -> bytes | None:
        """The bytes of an image's file, or None where it is not there."""
        known = self._find(image_id) if self._pool is not None else None
        try:
            if self._pool is not None and known is not None:
                return self._pool.read(known)
            path = self.path(image_id)
            return path.read_bytes() if path else None
        except (CaptrialError, OSError):
            return None

    def open(self, image_id: str) -> Image.Image | None:
        """An image in RGB, or None where it is not there or cannot be opened."""
        known = self._find(image_id) if self._pool is not None else None
        if self._pool is not None and known is not None:
            try:
                return open_image(self._pool.read(known), name=image_id)
            except CaptrialError:
                return None
        path = self.path(image_id)
        opened = try_open(path) if path else None
        return None if isinstance(opened, ImageProblem) else opened

    def label(self, image_id: str) -> str | None:
        """The class of an image: the one in the pool, or the folder in its id."""
        known = self._known.get(self._find(image_id) or "") if self._pool is not None else None
        return known.label if known and known.label else class_of(image_id)


def find_image(root: Path, image_id: str) -> Path | None:
    """The file of an image: its id as a relative path, with a usual suffix, or COCO's name for a number.

    None where there is no such file, or where the id points outside the root.
    """
    names = [f"{image_id}{suffix}" for suffix in _SUFFIXES]
    if image_id.isascii() and image_id.isdigit() and len(image_id) <= 12:
        names += [pattern.format(int(image_id)) for pattern in _COCO]
    inside = root.resolve()
    for name in names:
        try:
            path = (root / name).resolve()
            if path.is_relative_to(inside) and path.is_file():
                return path
        except (OSError, ValueError):  # too long for a file name, or with invalid characters
            continue
    return None


def class_of(image_id: str) -> str | None:
    """The class of an image in a pool of folders: the folder it is in.

    >>> class_of("dog/0001.jpg"), class_of("42")
    ('dog', None)
    """
    folder, slash, _ = image_id.rpartition("/")
    return folder if slash else None
