"""Captions through an OpenAI-compatible server, by requests in flight: what `--concurrency` is for.

    python -m benchmarks.speed.serving model    a real server on this machine: the shipped captioner, one process with
                                                one thread; waiting requests are captioned together
    python -m benchmarks.speed.serving sleep    a server without a model that takes 64 requests at once, a second each:
                                                what the client can keep in flight

Both run without a name. The captions of `model` are compared with those of the same captioner in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.measuring import Row, compare, environment
from benchmarks.speed.stage_costs import Loaded, images
from captrial.captioners.registry import DEFAULT_CAPTIONER
from captrial.engines import make_engine
from captrial.engines.jobs.caption import CaptionSettings, caption_all, read_captions_of

Numbers = dict[str, Any]
Caption = Callable[[list[Image.Image]], list[str]]
TOGETHER = 32  # images that the server captions at once
SLOTS, SECONDS = 64, 1.0  # of the server that sleeps


class Batcher:
    """Captions together what is waiting, while more arrives."""

    def __init__(self, caption: Caption) -> None:
        self.caption, self.sizes = caption, list[int]()
        self._waiting: asyncio.Queue[tuple[Image.Image, asyncio.Future[str]]] = asyncio.Queue()

    async def caption(self, image: Image.Image) -> str:
        """Wait in line."""
        answer = asyncio.get_running_loop().create_future()
        await self._waiting.put((image, answer))
        return await answer

    async def work(self) -> None:
        """For ever: take all that wait, up to `TOGETHER`."""
        while True:
            some = [await self._waiting.get()]
            while len(some) < TOGETHER and not self._waiting.empty():
                some.append(self._waiting.get_nowait())
            self.sizes.append(len(some))
            captions = await asyncio.to_thread(self.caption, [image for image, _ in some])
            for (_, answer), text in zip(some, captions, strict=True):
                if not answer.done():  # whoever asked may have left
                    answer.set_result(text)


def serve(listening: socket.socket, kind: str) -> None:
    """A server on a socket until its process is ended."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    slots, batcher = asyncio.Semaphore(SLOTS), None
    if kind == "model":
        import torch

        from captrial.captioners.loading import load_captioner

        torch.set_num_threads(1)
        batcher = Batcher(load_captioner(DEFAULT_CAPTIONER).caption)
        batcher.caption([Image.new("RGB", (64, 64))])  # what is only done once

    async def complete(request: Request) -> JSONResponse:
        url = (await request.json())["messages"][0]["content"][1]["image_url"]["url"]
        if batcher is None:
            async with slots:
                await asyncio.sleep(SECONDS)
            text = "a dog runs on the grass"
        else:
            opened = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
            text = await batcher.caption(opened.convert("RGB"))
        return JSONResponse({"choices": [{"message": {"content": text}}]})

    async def sizes(_: Request) -> JSONResponse:
        found = list(batcher.sizes) if batcher else []
        if batcher:
            batcher.sizes.clear()
        return JSONResponse(found)

    async def run() -> None:
        worker = asyncio.create_task(batcher.work()) if batcher else None
        routes = [Route("/v1/chat/completions", complete, methods=["POST"]), Route("/sizes", sizes)]
        server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error"))
        await server.serve(sockets=[listening])
        if worker:
            worker.cancel()

    asyncio.run(run())


@contextmanager
def server(kind: str) -> Iterator[str]:
    """The address of a server in a process of its own. Requests wait in its socket until it has loaded."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        line = [sys.executable, "-m", "benchmarks.speed.serving", "--serve", str(listening.fileno()), kind]
        process = subprocess.Popen(line, pass_fds=[listening.fileno()], env=environment(OMP_NUM_THREADS="1"))
        port = listening.getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def measure(kind: str, flights: Sequence[int], count: int) -> Iterator[Numbers]:
    """Captions a second, by requests in flight; a first call is not counted."""
    import httpx

    with tempfile.TemporaryDirectory() as temporary, server(kind) as address:
        folder = Path(temporary)
        files = images(folder, max(count, 6 * max(flights) if kind == "sleep" else 0))
        model = f"{address}/v1#{kind}"
        caption_all(files[:2], folder / "first", CaptionSettings(model, concurrency=2), make_engine())
        captions = None
        for flight in flights:
            httpx.get(f"{address}/sizes")
            some = files[: 6 * flight] if kind == "sleep" else files[:count]
            outcome = caption_all(
                some, folder / f"out{flight}", CaptionSettings(model, concurrency=flight), make_engine()
            )
            sizes = httpx.get(f"{address}/sizes").json()
            row = {"in flight": flight, "captions": outcome.rows, "errors": outcome.errors}
            row["captions a second"] = outcome.rows / outcome.seconds
            if kind == "sleep":
                row["possible"] = min(flight, SLOTS) / SECONDS
            else:
                row["captioned together"] = sum(sizes) / len(sizes)
                found = dict(read_captions_of(folder / f"out{flight}"))
                row["same captions"] = found == (captions := captions or found)
            yield row
        if kind == "model":
            yield _in_process(files[:count], folder / "here", captions or {})


def _in_process(files: Sequence[Path], out: Path, captions: dict[str, str]) -> Numbers:
    """The same captioner without a server, loaded before; captions differ where JPEG was pressed a second time."""
    import torch

    from captrial.engines.job import JobSpec
    from captrial.engines.jobs.caption import CaptionJob

    torch.set_num_threads(1)
    engine = Loaded(JobSpec(CaptionJob, {"model": DEFAULT_CAPTIONER}, 16))
    outcome = caption_all(files, out, DEFAULT_CAPTIONER, engine)
    found = dict(read_captions_of(out))
    return {
        "in flight": "none: the captioner in this process",
        "captions a second": outcome.rows / outcome.seconds,
        "captions as from the server": sum(found[name] == text for name, text in captions.items()) / len(captions),
    }


def run(images: int = 64) -> list[Row]:
    """Many requests in flight beside one at a time, and beside the same captioner without a server."""
    rate = "captions a second"
    one, many, here = measure("model", (1, 32), images)
    (sleeping,) = measure("sleep", (64,), 1)
    what = f"an endpoint here captions {images} images, 32 in flight"
    return [
        compare(what, "one in flight", many[rate], one[rate], "captions/s"),
        compare(what, "the captioner in this process", many[rate], here[rate], "captions/s"),
        compare(
            "64 requests in flight, a second each", "no time lost", sleeping[rate], sleeping["possible"], "captions/s"
        ),
    ]


FLIGHTS = {"model": (1, 2, 4, 8, 16, 32, 64), "sleep": (8, 32, 64)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="*", help="model, sleep")
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(socket.socket(fileno=arguments.serve), arguments.kind[0])
        return
    for kind in arguments.kind or FLIGHTS:
        for row in measure(kind, FLIGHTS[kind], arguments.images):
            print(json.dumps({"server": kind, **row}), flush=True)


if __name__ == "__main__":
    main()
