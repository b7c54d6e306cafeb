"""Pictures as people see them: re-encoded, upright, without metadata, never larger than a screen.

A picture is encoded once in the life of a competition and kept in its `served/` folder, which can be deleted at any
time. `prepare` does so ahead of the people, in a thread that rests most of the time.
"""

from __future__ import annotations

import io
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from PIL import Image

from captrial.data.pictures import open_picture
from captrial.errors import PictureError
from captrial.files import content_hash

LONGEST_SIDE = 1600
_KEEP = 64 * 2**20  # bytes of encoded pictures kept in memory


class PictureServer:
    """Encodes pictures once; keeps all on disk and the recent ones in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept: OrderedDict[Path, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def jpeg(self, path: Path) -> bytes:
        """The picture as a JPEG without anything but its pixels; raises `PictureError` where it cannot be opened."""
        file = self._file(path)
        with self._lock:
            if file in self._kept:
                self._kept.move_to_end(file)
                return self._kept[file]
        encoded = self._encoded(path, file)
        with self._lock:
            if file not in self._kept:
                self._kept[file] = encoded
                self._size += len(encoded)
            while self._size > _KEEP and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1])
        return encoded

    def prepare(
        self, find: Callable[[str], Path | None], pictures: Iterable[str], stop: threading.Event, rest: float = 4.0
    ) -> None:
        """Encode what is not encoded yet, until told to stop; for a thread of its own.

        It rests four times as long as it works. (A low priority instead would be worse: a thread that waits for the
        processor while it holds the interpreter's lock stops all others.)
        """
        for picture in pictures:
            begun = time.perf_counter()
            path = find(picture)
            if path is not None:
                with suppress(PictureError, OSError):
                    self._encoded(path, self._file(path))
            if stop.wait(rest * (time.perf_counter() - begun)):
                return

    def _encoded(self, path: Path, file: Path) -> bytes:
        if file.is_file():
            return file.read_bytes()
        encoded = encode(path)
        with suppress(OSError):  # a full disk, a folder that is not ours: people still see their pictures
            self.folder.mkdir(exist_ok=True)
            partial = file.with_suffix(f".{threading.get_ident()}")
            partial.write_bytes(encoded)
            partial.replace(file)
        return encoded

    def _file(self, path: Path) -> Path:
        """Where the picture is kept: another file when the picture changes."""
        try:
            found = path.stat()
        except OSError as error:
            raise PictureError(f"{path}: cannot be read ({error.strerror})") from None
        return self.folder / f"{content_hash(f'{path}:{found.st_size}:{found.st_mtime_ns}:{LONGEST_SIDE}')}.jpg"


def encode(path: Path) -> bytes:
    """A JPEG of the picture's pixels."""
    picture = open_picture(path, draft=(LONGEST_SIDE, LONGEST_SIDE))
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    bare = Image.frombytes("RGB", picture.size, picture.tobytes())  # nothing of the file but its pixels
    buffer = io.BytesIO()
    bare.save(buffer, "JPEG", quality=88)
    return buffer.getvalue()
