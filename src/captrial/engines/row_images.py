"""From a row to an opened image: bytes in the row, a file, or a URL."""

from __future__ import annotations

import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from urllib.parse import unquote, urlparse

import httpx
from PIL import Image

from captrial.data.images import open_image
from captrial.engines.job import Row
from captrial.errors import ImageError

TIMEOUT = 20.0  # seconds without a byte
LONGEST = 120.0  # seconds for all of an image: a server may send a byte now and then for ever
LARGEST = 64 << 20  # bytes of a download
AT_ONCE = 16  # downloads in flight


def open_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows with their `image`, or with an `error` that says why it cannot be had; downloads run at the same time."""
    if not any("url" in row for row in rows):
        return [_opened(row) for row in rows]
    with (
        httpx.Client(verify=_certificates(), timeout=TIMEOUT, follow_redirects=True) as client,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        return list(threads.map(partial(_opened, client=client), rows))


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust: reading it takes longer than decoding five images."""
    return httpx.create_ssl_context()


def _opened(row: Row, client: httpx.Client | None = None) -> Row:
    if row.get("error"):
        return {"id": row["id"], "error": row["error"]}
    try:
        return {"id": row["id"], "image": _open(row, client)}
    except (ImageError, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return {"id": row["id"], "error": str(error) or type(error).__name__}


def _open(row: Row, client: httpx.Client | None) -> Image.Image:
    for column in ("image", "bytes", "path", "url"):
        value = row.get(column)
        if isinstance(value, dict):  # the image column of Hugging Face data sets: {"bytes": ..., "path": ...}
            value = value.get("bytes") or value.get("path")
        if value is not None:
            source = _download(value, client) if column == "url" else value
            return open_image(source, name=str(row["id"]) if isinstance(source, bytes) else None)
    raise ImageError(f"{row['id']}: the row has no image, bytes, path or url")


def _download(url: str, client: httpx.Client | None) -> bytes | str:
    address = urlparse(url)
    if address.scheme in ("", "file") or client is None:
        return unquote(address.path)
    content, deadline = bytearray(), time.monotonic() + LONGEST
    with client.stream("GET", url) as answer:
        answer.raise_for_status()
        for chunk in answer.iter_bytes():
            content += chunk
            if len(content) > LARGEST:
                raise ImageError(f"{url}: more than {LARGEST >> 20} MiB")
            if time.monotonic() > deadline:
                raise ImageError(f"{url}: not all there after {LONGEST:g} seconds")
    return bytes(content)
