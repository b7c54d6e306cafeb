"""Downloading a URL list: many files in parallel, with retries for temporary errors and early stops for other files.

An image is written to a temporary file and renamed when it is complete. Each finished download is a line of a journal,
so that the next run downloads only the rest. Only public addresses are reached unless `allow_private` is set (see
`captrial.data.public_network`); passwords in URLs are used for the request, and written nowhere.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx

from captrial.data.images import SUFFIXES, describe_file, image_format
from captrial.data.public_network import PrivateAddressError, public_async_client
from captrial.errors import DatasetError
from captrial.files import atomic_write, content_hash, without_passwords
from captrial.progress import progress_bar
from captrial.version import __version__

MAX_WAIT = 30.0  # seconds; the longest `Retry-After` of a server that is respected


@dataclass(frozen=True, slots=True)
class DownloadSettings:
    """Options of downloads; times in seconds, sizes in bytes."""

    concurrency: int = 16
    retries: int = 3  # after the first attempt
    backoff: float = 0.5  # wait before the first retry; doubled for each further one
    timeout: float = 60.0  # of one attempt to download a whole file
    max_bytes: int = 32 << 20
    allow_private: bool = False  # whether addresses of this machine and its network may be reached


class _PermanentError(Exception):
    """A failure that a retry would not change."""


class _TemporaryError(Exception):
    """A failure that a retry may change, after at least `wait` seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def download(urls: Iterable[str], folder: Path, settings: DownloadSettings) -> dict[str, Path | str]:
    """Download each URL into `folder`; returns its file, or the reason why there is none.

    Files that are finished according to the journal in `folder`, and complete, are not downloaded again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = dict.fromkeys(urls)
    finished = dict(_finished(folder))
    results: dict[str, Path | str] = {
        url: finished[without_passwords(url)] for url in wanted if without_passwords(url) in finished
    }
    missing = [url for url in wanted if url not in results]
    with _journal(folder) as journal, progress_bar() as bar:
        task = bar.add_task("downloading", total=len(wanted), completed=len(results))

        def report(url: str, outcome: Path | str) -> None:
            results[url] = outcome
            if isinstance(outcome, Path):
                entry = {
                    "url": without_passwords(url),
                    "file": outcome.relative_to(folder).as_posix(),
                    "size": outcome.stat().st_size,
                }
                journal.write(json.dumps(entry) + "\n")
                journal.flush()
            bar.advance(task)

        try:
            _run(lambda: _fetch_all(missing, folder, settings, report))
        except ExceptionGroup as group:  # from the workers: e.g. a full disk stops all of them
            raise group.exceptions[0] from None
    return results


def _run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """`asyncio.run`, also where a loop is already running (in a notebook)."""
    if asyncio._get_running_loop() is None:
        asyncio.run(work())
        return
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(work())).result()


async def _fetch_all(
    urls: list[str], folder: Path, settings: DownloadSettings, report: Callable[[str, Path | str], None]
) -> None:
    queue = iter(urls)  # shared by the workers; without a task per URL, memory does not grow with the list
    limits = httpx.Limits(max_connections=settings.concurrency, max_keepalive_connections=settings.concurrency)
    # No compressed transfer: the size limit must hold for the bytes that arrive.
    headers = {"user-agent": f"captrial/{__version__}", "accept": "image/*", "accept-encoding": "identity"}
    async with public_async_client(
        settings.allow_private,
        limits=limits,
        headers=headers,
        follow_redirects=True,
        max_redirects=5,
        timeout=settings.timeout,
    ) as client:

        async def worker() -> None:
            for url in queue:
                outcome = await _fetch(client, url, folder, settings)
                report(url, without_passwords(outcome) if isinstance(outcome, str) else outcome)

        async with asyncio.TaskGroup() as group:
            for _ in range(settings.concurrency):
                group.create_task(worker())


async def _fetch(client: httpx.AsyncClient, url: str, folder: Path, settings: DownloadSettings) -> Path | str:
    """The file, or the reason why there is none, after the allowed number of attempts."""
    reason = ""
    for attempt in range(settings.retries + 1):
        try:
            async with asyncio.timeout(settings.timeout):
                return await _attempt(client, url, folder, settings)
        except (_PermanentError, PrivateAddressError) as error:
            return str(error)
        except (httpx.UnsupportedProtocol, httpx.TooManyRedirects, httpx.InvalidURL) as error:
            return f"the address is not usable ({error})"
        except _TemporaryError as error:
            reason, wait = str(error), error.wait
        except TimeoutError:
            reason, wait = f"took longer than {settings.timeout:g} s", 0.0
        except httpx.HTTPError as error:
            reason, wait = f"the connection failed ({str(error) or type(error).__name__})", 0.0
        if attempt < settings.retries:
            await asyncio.sleep(max(wait, settings.backoff * 2**attempt))
    return f"{reason}, {settings.retries + 1} times; try again later"


async def _attempt(client: httpx.AsyncClient, url: str, folder: Path, settings: DownloadSettings) -> Path:
    async with client.stream("GET", url) as response:
        _check_answer(response, settings.max_bytes)
        name = content_hash(without_passwords(url))
        place = folder / name[:2]
        with _part(place, f".{name}.part") as (part, stream):
            start, size = b"", 0
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > settings.max_bytes:
                    raise _PermanentError(f"has more than {settings.max_bytes} bytes")
                if len(start) < 64:
                    start = (start + chunk)[:64]
                    _check_start(start)
                stream.write(chunk)
            stream.flush()
            form = image_format(start)
            if form is None:
                raise _PermanentError("is empty" if not start else f"is {describe_file(start)}, not an image")
            return part.replace(place / f"{name}{SUFFIXES[form][0]}")


def _check_answer(response: httpx.Response, max_bytes: int) -> None:
    status = response.status_code
    if status == 429 or status >= 500:
        raise _TemporaryError(f"the server answered {status}", _retry_after(response))
    if status != 200:
        raise _PermanentError(f"the server answered {status}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise _PermanentError("the server sends it compressed, which was not requested")
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise _PermanentError(f"has {length} bytes, more than {max_bytes}")


def _retry_after(response: httpx.Response) -> float:
    value = response.headers.get("retry-after", "")
    return min(float(value), MAX_WAIT) if value.isdecimal() and len(value) < 9 else 0.0


def _check_start(start: bytes) -> None:
    """Stop early on files that are not images, such as an error page or a large video."""
    if len(start) >= 16 and image_format(start) is None:
        raise _PermanentError(f"is {describe_file(start)}, not an image")


@contextmanager
def _part(place: Path, name: str) -> Iterator[tuple[Path, IO[bytes]]]:
    """A temporary file to write to; removed afterwards unless it was renamed."""
    part = place / name
    try:
        place.mkdir(exist_ok=True)
        with part.open("wb") as stream:
            yield part, stream
    except OSError as error:
        raise DatasetError(
            f"{part}: cannot be written ({error.strerror or error}); free some space and run again"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink()


def _finished(folder: Path) -> Iterator[tuple[str, Path]]:
    """(URL, file) of the journal's entries whose file is complete; a line cut short by a kill is ignored."""
    try:
        lines = (folder / "journal.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
            path = folder / entry["file"]
            if path.stat().st_size == entry["size"] and path.resolve().is_relative_to(folder.resolve()):
                yield without_passwords(entry["url"]), path
        except (ValueError, KeyError, TypeError, OSError):
            continue


@contextmanager
def _journal(folder: Path) -> Iterator[IO[str]]:
    path = folder / "journal.jsonl"
    if path.exists():  # journals of earlier versions have passwords
        text = path.read_text(encoding="utf-8", errors="replace")
        if without_passwords(text) != text:
            atomic_write(path, without_passwords(text))
    cut = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as stream:
        if cut:
            stream.write("\n")
        yield stream
