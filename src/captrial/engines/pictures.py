"""From a row to an opened picture: bytes in the row, a file, or a URL."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlparse

import httpx
from PIL import Image

from captrial.data.pictures import open_picture
from captrial.engines.job import Row
from captrial.errors import PictureError

TIMEOUT = 20.0  # seconds for a picture to arrive
LARGEST = 64 << 20  # bytes of a download
AT_ONCE = 16  # downloads in flight


def open_rows(rows: Sequence[Row]) -> list[Image.Image | str]:
    """The picture of each row, or why it cannot be had; downloads run at the same time."""
    if len(rows) > 1 and any("url" in row for row in rows):
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return list(threads.map(_open, rows))
    return [_open(row) for row in rows]


def _open(row: Row) -> Image.Image | str:
    try:
        for column in ("image", "bytes", "path", "url"):
            value = row.get(column)
            if value is not None:
                if isinstance(value, dict):  # datasets' image column: {"bytes": ..., "path": ...}
                    value = value.get("bytes") or value["path"]
                if column == "url":
                    value = _download(value)
                return open_picture(value, name=str(row["id"]) if isinstance(value, bytes) else None)
        return "no picture: the row has no image, bytes, path or url"
    except (PictureError, httpx.HTTPError, OSError) as error:
        return str(error) or type(error).__name__


def _download(url: str) -> bytes | str:
    address = urlparse(url)
    if address.scheme in ("", "file"):
        return unquote(address.path)
    with httpx.stream("GET", url, timeout=TIMEOUT, follow_redirects=True) as answer:
        answer.raise_for_status()
        content = bytearray()
        for chunk in answer.iter_bytes():
            content += chunk
            if len(content) > LARGEST:
                raise PictureError(f"{url}: more than {LARGEST >> 20} MiB")
        return bytes(content)
