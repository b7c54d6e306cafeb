"""Nothing a person made is ever overwritten: every command runs over a directory full of hand-made files.

The directory is a competition in which somebody keeps labels, notes, captions, images and tables of their own, some of
them at the very names that commands write by default. After every command all of these have the bytes they had.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from annotate.annotation_world import CAPTION, make_competition, use_settings
from annotate.postgres_server import create_database, postgres_server
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings
from captrial.cli import main
from captrial.cli.app import app
from captrial.compete import Competition

OWNED = (  # what the commands themselves keep in a competition's directory, and may change
    "checksums.json",
    "competition.json",
    "pool.parquet",
    "captions/0.",
    "captions/1.",
    "captions/2.",
    "captions/3.",
    "selection/",
    "annotations.sqlite",
    "references.annotated.jsonl",
    "judgements.annotated.jsonl",
    "judges/nobody.",
)
READERS = {  # these leave the whole directory as it is, and add nothing to it
    "annotate status",
    "annotate export",
    "annotate simulate",
    "compete status",
    "compete rank",
    "compete stability",
    "compete repetition",
    "compete flip",
    "compete plan",
    "compete statistics",
    "data show",
    "data formats",
    "judge rubric",
    "score",
    "verify",
    "doctor",
    "models",
    "pool show",
}
# {d} is the directory, {o} a folder outside. Some of these end with exit code 2: they must be harmless all the same.
FAST = """
annotate serve {d} --port 0
annotate invite {d} Ada
annotate invite {d} Ada --role nonsense
annotate qualification {d} {d}/mine/refs.json
annotate qualification {d} {d}/mine/practice.json
annotate qualification {d} {d}/mine/notes.txt
annotate settings {d}
annotate status {d}
annotate status {d} --json
annotate export {d} {o}/out.json
annotate export {d} {d}/references.jsonl --format jsonl
annotate export {d} {d}/references.jsonl --format jsonl --overwrite
annotate export {d} {d}/annotations.sqlite --overwrite
annotate export {d} {d}/mine/refs.json --format nonsense
annotate import {d} {d}/mine/refs.json
annotate import {d} {d}/mine/notes.txt
annotate settings {d}
annotate status {d}
compete new {d} --captions a={d}/mine/a.json --captions b={d}/mine/b.json
compete new {d}/mine --captions a={d}/mine/a.json --captions b={d}/mine/b.json
compete select {d} --k 3 --again
compete select {d} --k 0
compete add {d} --captions late={d}/mine/a.json
compete add {d} --captions late={d}/mine/notes.txt
compete status {d}
compete images {d} {d}
compete rank {d}
compete rank {d} --references {d}/mine/refs.json
compete stability {d}
compete repetition {d}
compete flip {d}
compete plan {d}
compete statistics {d}
compete report {d} --metrics cider
compete report {d} --metrics cider --out {d}/mine
compete export {d} {d}/tables
compete export {d} {d}/mine
judge compare {d}
judge rank {d} --judge-only
judge rubric
models import m2 {d}/mine/notes.txt --vocabulary {d}/mine/refs.json --out {d}/mine
judge run {d} --judge http://127.0.0.1:9/v1#nobody --text-only --limit 1
judge run {d} --judge http://127.0.0.1:9/v1#nobody --rubric {d}/mine/refs.json --limit 1
score {d}/mine/a.json --references {d}/mine/refs.json --metrics bleu,cider
gate {d}/mine/a.json {d}/mine/a.json --references {d}/mine/refs.json
gate {d}/mine/a.json {d}/mine/notes.txt --references {d}/mine/refs.json
data show {d}/mine/refs.json
data show {d}/mine/notes.txt
data formats
data toyworld {d}/mine --images 2
data contact-sheet {d}/mine/sheet.png --images 2
pool build {d}/mine --from {d}/mine/images
pool build {d} --from {d}/mine/images
sample {d} --images 10
sample {d}/mine --images 10
sample {o}/sample --images 10
pool show {d}
pool show {d}/mine --figure {d}/mine/sheet.png
trial init {d}/mine/refs.json
trial run {d}/mine/refs.json
trial run {d}/mine/trial.yaml
verify {d}
verify {d}/mine
doctor
models
studio --competition {d}/mine
"""
SLOW = """
annotate simulate {d} {d}/mine/refs.json --people 1
caption {d}/mine/images --out {d}/mine/a.json
caption {d}/mine/images --out {o}/captions.json
explain {d}/mine/images/p0.png --out {d}/mine --method attention
features {d}/mine/images --out {d}/mine
train show_attend_tell --data {d}/mine/refs.json --out {d}/mine
ground --data {d}/mine/refs.json --models ort --out {d}/mine
attend --data {d}/mine/refs.json --models ort --out {d}/mine
papers wan --data {d}/mine --out {d}/mine
papers cornia --data {d}/mine/refs.json --models ort --out {d}/mine
papers liu --data {d}/mine/refs.json --models ort --out {d}/mine
"""
NOT_RUN = {"demo"}  # trains for minutes; tests/demo runs it


def commands(text: str, directory: Path, outside: Path) -> list[list[str]]:
    return [shlex.split(line.format(d=directory, o=outside)) for line in text.splitlines() if line]


def add_hand_made_files(directory: Path) -> None:
    """Labels in the places for them, and files of all kinds, some where commands write by default."""
    mine = directory / "mine"
    for folder in (mine / "images", directory / "report", directory / "tables", directory / "served"):
        folder.mkdir(parents=True)
    images = Competition.open(directory).selected_images()
    labels = [f'{{"id":   "{image}", "captions": ["{CAPTION}", "a field"]}}\n' for image in images[1:]]
    refused = f'{{"id": "{images[0]}", "indescribable": true}}\n'
    (directory / "references.jsonl").write_text("".join([*labels, refused]) + "\n\n")
    judged = '{"id": "p1.png", "a": "model0", "b": "model1", "winner": "model1"}\n'
    (directory / "judgements.jsonl").write_text(judged)
    (directory / "indescribable.json").write_text('[ "p3.png" ]')
    (directory / "references.json").write_text(json.dumps({"p1.png": [CAPTION]}, indent=5))
    (directory / "report" / "index.html").write_text("<p>my own summary</p>")
    (directory / "tables" / "selection.csv").write_text("my,own,table\n")
    (directory / "served" / "mine.jpg").write_bytes(b"not an image")
    (directory / "selection" / "notes.txt").write_text("these are hard images\n")
    (directory / "trial.json").write_text('{"complete": "not yet"}')
    (directory / "judges").mkdir()
    (directory / "judges" / "notes.txt").write_text("ask another judge\n")
    (directory / "captions" / "notes.txt").write_text("model0 is the old one\n")
    source = directory.parent / "source"
    for name, file in (("a", "model0.json"), ("b", "model1.json")):
        shutil.copy(source / file, mine / f"{name}.json")
    for image in (source / "images").iterdir():
        shutil.copy(image, mine / "images")
    (mine / "refs.json").write_text(json.dumps({f"p{n}.png": [CAPTION, f"{CAPTION} {n}"] for n in range(12)}))
    (mine / "trial.yaml").write_text('{"out": "..", "models": {"model0": "a.json", "model1": "b.json"}}')
    (mine / "practice.json").write_text(json.dumps({"elsewhere.png": [CAPTION]}))
    for name in ("notes.txt", "index.html", "sheet.png", "competition.txt", "config.json", "selection.csv"):
        (mine / name).write_text(f"{name} is mine\n")


def contents(directory: Path, everything: bool) -> dict[str, bytes]:
    """All files, or those that people made."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and (everything or name == "selection/notes.txt" or not name.startswith(OWNED)):
            found[name] = path.read_bytes()
    return found


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A competition full of hand-made files, in which all commands are run."""
    made = make_competition(tmp_path)
    add_hand_made_files(made)
    monkeypatch.chdir(made)
    return made


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve` and `studio` stop at once instead of serving."""
    import uvicorn

    def run(server: uvicorn.Server, sockets: object) -> None:
        application: Any = server.config.app
        if hasattr(application.state, "context"):
            application.state.context.close()

    monkeypatch.setattr(uvicorn.Server, "run", run)


def run_all(text: str, directory: Path, database: str | None = None) -> dict[str, int]:
    """Run the commands and compare the files after each; returns the last exit code of each kind."""
    outside = directory.parent / "outside"
    outside.mkdir(exist_ok=True)
    codes = {}
    for line in commands(text, directory, outside):
        name = " ".join(line[:2]) if " ".join(line[:2]) in all_commands() else line[0]
        if database and name.startswith("annotate") and name != "annotate simulate":
            line += ["--database", database]
        hand_made, whole = contents(directory, False), contents(directory, True)
        with pytest.raises(SystemExit) as ended:
            main(line)
        codes[shlex.join(line)] = int(ended.value.code or 0)
        after = contents(directory, False)
        assert {path: after.get(path) for path in hand_made} == hand_made, f"captrial {shlex.join(line)}"
        if name in READERS:
            assert contents(directory, True) == whole, f"captrial {shlex.join(line)} only reads"
    return codes


def all_commands() -> set[str]:
    """Every command of every verb, as typed."""

    def names(command: Any, path: tuple[str, ...]) -> Iterator[str]:
        for name, part in getattr(command, "commands", {}).items():
            yield from names(part, (*path, name))
        if not getattr(command, "commands", {}) or (path and command.invoke_without_command):
            yield " ".join(path)

    return set(names(typer.main.get_command(app), ()))


def test_every_command_is_among_those_that_are_run(tmp_path: Path) -> None:
    lines = commands(FAST + SLOW, tmp_path, tmp_path)
    run = {" ".join(line[:2]) for line in lines} | {line[0] for line in lines}
    assert all_commands() - run == NOT_RUN
    assert all_commands() >= READERS


@pytest.mark.slow
def test_no_command_changes_a_hand_made_file(directory: Path) -> None:
    codes = run_all(FAST, directory)
    assert {0, 2} <= set(codes.values())
    assert codes[f"annotate status {directory}"] == 0
    assert codes[f"compete rank {directory}"] == 0


@pytest.mark.slow
def test_no_slow_command_changes_a_hand_made_file(directory: Path) -> None:
    service = AnnotationService(directory)
    use_settings(service, AnnotationSettings(writers=1, inspectors=0, min_captions=1))
    service.close()
    assert 0 in run_all(SLOW, directory).values()


ANNOTATE = "\n".join(line for line in FAST.strip().splitlines() if line.startswith("annotate")) + "\ncompete status {d}"


def test_an_empty_file_in_place_of_the_database(directory: Path) -> None:
    (directory / "annotations.sqlite").touch()
    codes = run_all(ANNOTATE, directory)
    assert codes[f"annotate status {directory}"] == 2
    assert (directory / "annotations.sqlite").read_bytes() == b""


def test_something_else_in_place_of_the_database(directory: Path) -> None:
    (directory / "annotations.sqlite").write_text("a list of annotations that I keep here\n")
    codes = run_all(ANNOTATE, directory)
    assert codes[f"annotate status {directory}"] == 2
    assert (directory / "annotations.sqlite").read_text() == "a list of annotations that I keep here\n"


def test_the_database_of_another_competition(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    other = make_competition(tmp_path / "other")
    AnnotationService(other).close()
    before = contents(other, True)
    codes = run_all(ANNOTATE, directory, f"sqlite:///{other / 'annotations.sqlite'}")
    assert all(code == 2 for line, code in codes.items() if line.startswith("annotate"))
    assert "belongs to another competition" in capsys.readouterr().err
    assert contents(other, True) == before


@pytest.mark.needs("postgres")
def test_a_postgresql_annotation_without_its_url(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with postgres_server() as address:
        database = create_database(address, "annotations")
        run_all("annotate import {d} {d}/mine/refs.json", directory, database)
        derived = (directory / "references.annotated.jsonl").read_bytes()
        assert derived.count(b"captions") > 2
        capsys.readouterr()
        codes = run_all(ANNOTATE, directory)
        assert codes[f"annotate status {directory}"] == codes[f"annotate invite {directory} Ada"] == 2
        assert "give that one by --database" in capsys.readouterr().err
        assert (directory / "references.annotated.jsonl").read_bytes() == derived
        assert not (directory / "annotations.sqlite").exists()
        assert run_all("annotate status {d}", directory, database).popitem()[1] == 0


def test_a_hand_made_file_of_the_name_of_a_derived_one(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory / "references.annotated.jsonl"
    path.write_text((directory / "references.jsonl").read_text())
    run_all(ANNOTATE, directory)
    assert "rename it to references.jsonl" in capsys.readouterr().err
    path.unlink()
    AnnotationService(directory).close()
    edited = path.read_text() + '{"id": "p1.png", "captions": ["mine"]}\n'
    path.write_text(edited)
    run_all(ANNOTATE, directory)
    assert path.read_text() == edited


READ_ONLY = (
    'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && ! touch "$1/x" 2>/dev/null || exit 77; shift; "$@"'
)


@pytest.mark.slow
@pytest.mark.parametrize("running", [False, True], ids=["closed", "not closed"])
def test_commands_that_read_work_on_read_only_media(directory: Path, running: bool) -> None:
    """On a read-only mount, also of a database that was copied while a server had it open (with its -wal file)."""
    service = AnnotationService(directory)
    service.import_references({image: [CAPTION, "a field"] for image in service.competition.selected_images()})
    medium = directory.parent / "medium"
    if not running:
        service.close()
    shutil.copytree(directory, medium, ignore=shutil.ignore_patterns("*-shm"))
    if running:
        service.close()
        assert (medium / "annotations.sqlite-wal").stat().st_size > 0
    (medium / "selection" / "captions.parquet").unlink()  # as in a competition of an earlier version
    before = contents(medium, True)
    for line in ("compete status", "compete rank", "annotate status"):
        command = ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", str(medium)]
        command += [sys.executable, "-m", "captrial", *line.split(), str(medium), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 77 or "unshare failed" in done.stderr:
            pytest.skip("nothing can be mounted here")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert line != "annotate status" or found["statistics"]["refs"] == 2
    assert contents(medium, True) == before
