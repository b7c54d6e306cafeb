"""Images for the pages: re-encoded, upright, without metadata, never larger than a screen.

An image is encoded once and kept in the `served/` folder of the competition, which can be deleted at any time. Nothing
is cached in memory: the operating system caches files.
"""

from __future__ import annotations

import io
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from PIL import Image

from captrial.data.image_source import ImageSource
from captrial.data.images import open_image
from captrial.errors import ImageError
from captrial.files import content_hash

_log = logging.getLogger(__name__)

LONGEST_SIDE = 1600
INTERVAL = 10.0  # seconds between two checks for new images


class ImageServer:
    """Encodes the images of a competition once, and keeps them in a folder."""

    def __init__(self, folder: Path, images: ImageSource | None) -> None:
        self.folder, self.images = folder, images

    def jpeg(self, image: str) -> bytes:
        """The image as a JPEG of nothing but its pixels; raises `ImageError` where it cannot be opened."""
        file = self._file(image)
        with suppress(FileNotFoundError):
            return file.read_bytes()
        encoded = encode(self._opened(image))
        with suppress(OSError):  # a full disk, a folder without permission: people still get the image
            self.folder.mkdir(exist_ok=True)
            partial = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            partial.write_bytes(encoded)
            partial.replace(file)
        return encoded

    def missing(self, images: Iterable[str]) -> list[str]:
        """Those of the images that are not there; whether the others can be opened shows when they are encoded."""
        return [image for image in images if self.images is None or image not in self.images]

    def prepare(self, images: Iterable[str], stop: threading.Event, rest: float = 4.0) -> None:
        """Encode images that are not encoded yet, until `stop` is set.

        It rests four times as long as it works. (A low priority would be worse: a thread that waits for the processor
        while it holds the interpreter's lock stops all others.)
        """
        for image in images:
            begun = time.perf_counter()
            try:
                if not self._file(image).is_file():
                    self.jpeg(image)
            except (ImageError, OSError) as error:
                _log.warning("people cannot be shown the image %s: %s", image, error)
            if stop.wait(rest * (time.perf_counter() - begun)):
                return

    def prepare_new(self, wanted: Callable[[], Iterable[str]], stop: threading.Event) -> None:
        """Encode wanted images as they change, until `stop` is set; runs in a thread of its own."""
        seen: set[str] = set()
        while not stop.is_set():
            try:
                new = set(wanted()) - seen
                self.prepare(sorted(new), stop)
                seen |= new
            except Exception:  # a database that restarts; images are also encoded on request
                _log.exception("could not encode images in advance; trying again")
            stop.wait(INTERVAL)

    def _opened(self, image: str) -> Image.Image:
        path = self.images.path(image) if self.images else None
        if path is not None:
            return open_image(path, draft=(LONGEST_SIDE, LONGEST_SIDE))
        opened = self.images.open(image) if self.images else None
        if opened is None:
            raise ImageError(f"{image}: is missing or cannot be opened")
        return opened

    def _file(self, image: str) -> Path:
        """The file of the encoded image: another one when the image changes."""
        path = self.images.path(image) if self.images else None
        try:
            found = path.stat() if path else None
        except OSError as error:
            raise ImageError(f"{path}: cannot be read ({error.strerror})") from None
        which = f"{path}:{found.st_size}:{found.st_mtime_ns}" if found else f"pool:{image}"
        return self.folder / f"{content_hash(f'{which}:{LONGEST_SIDE}')}.jpg"


def encode(image: Image.Image) -> bytes:
    """A JPEG of the image's pixels."""
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    bare = Image.frombytes("RGB", image.size, image.tobytes())  # nothing of the file but its pixels
    buffer = io.BytesIO()
    bare.save(buffer, "JPEG", quality=88)
    return buffer.getvalue()
