"""Pictures as people see them: re-encoded, upright, without metadata, never larger than a screen."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from pathlib import Path

from PIL import Image

from captrial.data.pictures import open_picture

LONGEST_SIDE = 1600
_KEEP = 64 * 2**20  # bytes of encoded pictures kept in memory


class PictureServer:
    """Encodes pictures once and keeps the recent ones in memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Path, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def jpeg(self, path: Path) -> bytes:
        """The picture as a JPEG without anything but its pixels; raises `PictureError` where it cannot be opened."""
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
        encoded = _encode(path)
        with self._lock:
            if path not in self._kept:
                self._kept[path] = encoded
                self._size += len(encoded)
            while self._size > _KEEP and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1])
        return encoded


def _encode(path: Path) -> bytes:
    picture = open_picture(path)
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    bare = Image.frombytes("RGB", picture.size, picture.tobytes())  # nothing of the file but its pixels
    buffer = io.BytesIO()
    bare.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
