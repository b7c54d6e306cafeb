"""Load on the annotation server, from a second process.

    python -m benchmarks.speed.annotate [--people 200] [--seconds 60]

People think for a while (exponential, mean 5 s), then submit a caption, or a vote, and fetch the next image. What is
measured: how long they wait for an answer, errors, acknowledged submissions that are not in the database, and the
server's memory. `--people 200 400 800` shows where it bends.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import orjson
from PIL import Image
from sqlalchemy import func, select

from benchmarks.measuring import Row, compare
from benchmarks.speed.annotator_load import WORDS, LoadResult, random_caption, run_people
from captrial.annotate import accounts
from captrial.annotate.database.schema import captions, votes
from captrial.annotate.database.transactions import Store
from captrial.annotate.service import AnnotationService
from captrial.annotate.web.image_server import ImageServer
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import SelectionSettings

IMAGES, K, FILES = 4000, 70, 64  # 9 models: 36 pairs of 70 images, as Wan 2022; FILES different images
MODELS = 9
INSPECTING = 0.3  # share of people who inspect
DESCRIBED = 400  # images of about 1640 that are described before the run, so that there is something to inspect


def run(people: int = 200, seconds: float = 20) -> list[Row]:
    """Rows for the table of all benchmarks; there is no peer to compare with, so the goal is shown in its place."""
    with tempfile.TemporaryDirectory() as folder:
        found = trial(prepare_world(Path(folder) / "world"), people, seconds)
    return [
        _row(f"p50 of {people} people", found.quantile(0.5), 100, "ms"),
        _row(f"p99 of {people} people", found.quantile(0.99), 100, "ms"),
        _row("errors", len(found.errors), 0, ""),
        _row("acknowledged submissions lost", found.acknowledged - found.stored, 0, ""),
        _row("growth of memory", found.memory[-1] - found.memory[len(found.memory) // 2], 20, "MiB"),
    ]


def _row(what: str, ours: float, goal: float, unit: str) -> Row:
    return compare(f"annotation server: {what}", "the goal", ours, goal, unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="*", default=[200], help="one run for each number")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server of its own instead of SQLite")
    parser.add_argument("--lead", action="store_true", help="a lead watches the live page meanwhile")
    parser.add_argument("--world", type=Path, help="keep the competition in this folder, and find it there again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        world = prepare_world(arguments.world or Path(folder) / "world")
        for people in arguments.people:
            with database() if arguments.postgres else nullcontext() as url:
                show(trial(world, people, arguments.seconds, url, arguments.lead))


@contextmanager
def database() -> Iterator[str]:
    """The URL of an empty database of a PostgreSQL server that syncs what it commits."""
    from tests.annotate.postgres_server import create_database, postgres_server

    with postgres_server(durable=True) as address:
        yield create_database(address, "benchmark")


def show(found: LoadResult) -> None:
    images = 1000 * float(np.quantile(found.images, 0.99)) if found.images else float("nan")
    half = found.memory[len(found.memory) // 2]
    print(
        f"{found.people} people: p50 {found.quantile(0.5):.1f} ms, p99 {found.quantile(0.99):.1f} ms, "
        f"images p99 {images:.1f} ms, {len(found.waits)} answers, {len(found.errors)} errors, "
        f"{found.acknowledged} acknowledged, {found.stored} stored, memory {half:.0f} -> {found.memory[-1]:.0f} MiB, "
        f"server {100 * found.processor:.0f}% of a core, started in {found.startup:.1f} s, "
        f"load average {found.load:.1f}"
    )
    if found.idle:
        print(f"  {found.idle} people had nothing left to do before the end: the load was lower than it should be")
    for error in sorted(set(found.errors))[:5]:
        print("  error:", error)


def trial(world: Path, people: int, seconds: float, database: str | None = None, lead: bool = False) -> LoadResult:
    """One run on a fresh copy of the competition."""
    with tempfile.TemporaryDirectory(dir=world) as folder:
        directory = Path(shutil.copytree(world / "competition", Path(folder) / "competition", copy_function=os.link))
        tokens = invite(directory, database, people)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "captrial", "annotate", "serve", str(directory), "--port", str(port)]
        begun = time.perf_counter()
        server = subprocess.Popen(
            [*command, *(["--database", database] if database else [])], stdout=subprocess.DEVNULL
        )
        try:
            _wait(port)
            found = LoadResult(people, startup=time.perf_counter() - begun)
            asyncio.run(run_people(port, tokens, seconds, found, server.pid, lead))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        found.stored = _count(Store.in_directory(directory, database))
        found.load = os.getloadavg()[0]
    return found


def prepare_world(folder: Path) -> Path:
    """A folder with the competition and its encoded images: a server that has been up for minutes has those."""
    if not (folder / "ready").exists():
        folder.mkdir(parents=True)
        competition = make_competition(folder)
        images = ImageServer(competition.directory / "served", competition.image_source)
        images.prepare(competition.selected_images(), threading.Event(), rest=0)
        (folder / "ready").touch()
    return folder


def make_competition(folder: Path) -> Competition:
    """Nine invented models; images of noise, whose files are as large as those of photographs can be."""
    images, generator, files = folder / "images", np.random.default_rng(0), {}
    images.mkdir()
    for number in range(FILES):
        coarse = Image.fromarray(generator.integers(0, 255, (48, 64, 3), dtype=np.uint8))
        coarse.resize((1024, 768), Image.Resampling.BICUBIC).save(images / f"{number}.jpg", quality=90)
    for number in range(FILES, IMAGES):
        (images / f"{number}.jpg").hardlink_to(images / f"{number % FILES}.jpg")
    for model in range(MODELS):
        words_of = generator.choice(WORDS, (IMAGES, 10))
        records = [{"image_id": f"{number}.jpg", "caption": " ".join(words)} for number, words in enumerate(words_of)]
        files[f"model{model}"] = folder / f"{model}.json"
        files[f"model{model}"].write_bytes(orjson.dumps(records))
    competition = Competition.create(folder / "competition", files, images=images)
    competition.select(SelectionSettings(K, K))
    return competition


def invite(directory: Path, database: str | None, people: int) -> list[tuple[str, str]]:
    """(role, token) of everybody; some of the writing is done already."""
    service = AnnotationService(directory, Store.in_directory(directory, database))
    tokens = []
    with service.store.change() as connection:
        for number in range(people + 4):
            role = "lead" if number == 0 else "inspector" if number % 10 < 10 * INSPECTING else "annotator"
            person, token = accounts.invite(service.store, connection, f"person {number}", role)
            accounts.consent(service.store, connection, person.id)
            accounts.qualify(service.store, connection, person.id)
            tokens.append((role, token, person.id))
        early = [person for _, _, person in tokens[-3:]]
        for image in range(1, DESCRIBED + 1):
            rows = [{"image": image, "person": person, "text": random_caption(), "state": "live"} for person in early]
            connection.execute(
                captions.insert(), [{**row, "hints": "", "created": 0.0, "seconds": 9.0} for row in rows]
            )
    service.close()
    return [(role, token) for role, token, _ in tokens[: people + 1]]


def _wait(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)


def _count(store: Store) -> int:
    """Submissions in the database, those made while preparing aside."""
    with store.read() as connection:
        written = select(func.count()).select_from(captions).where(captions.c.created > 0)
        cast = select(func.count()).select_from(votes)
        total = connection.execute(written).scalar_one() + connection.execute(cast).scalar_one()
    store.close()
    return int(total)


if __name__ == "__main__":
    main()
