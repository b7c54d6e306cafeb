"""`captrial verify` recognises a folder by its content and reports damage with exit code 1."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from annotate.annotation_world import write_everything
from captrial.annotate.database.transactions import DATABASE
from captrial.annotate.service import AnnotationService
from captrial.cli.app import app
from captrial.cli.verify import PARTS, VERIFIERS, verifiers
from captrial.compete import Competition
from captrial.data.pools import build_pool
from captrial.errors import InputError
from captrial.judges import JudgeDescription, MachineVerdict, VerdictFile, verdict_file
from captrial.judges.machine_verdicts import FOLDER
from data.pools.photos import write_photos
from judges.judged_competition import make_competition


@pytest.mark.parametrize("line", [["verify"], ["compete", "status"], ["compete", "select", "--k", "3", "--again"]])
def test_a_folder_beside_the_present_one(line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every path with `..` was called damaged."""
    directory = make_competition(tmp_path / "made").directory
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*line, f"../{tmp_path.name}/made/{directory.name}"])
    assert result.exit_code == 0, result.output or result.exception


def test_verify_a_pool(tmp_path: Path) -> None:
    build_pool([write_photos(tmp_path / "photos")], tmp_path / "pool")
    good = CliRunner().invoke(app, ["verify", str(tmp_path / "pool"), "--json"])
    assert good.exit_code == 0
    assert json.loads(good.stdout) == {
        "folder": str(tmp_path / "pool"),
        "kind": "image pool",
        "files": 9,
        "problems": [],
    }
    with (tmp_path / "pool" / "manifest.parquet").open("ab") as stream:
        stream.write(b"x")
    bad = CliRunner().invoke(app, ["verify", str(tmp_path / "pool")])
    assert bad.exit_code == 1
    assert "damaged:" in bad.stdout
    assert "manifest.parquet: has" in bad.stdout


def test_other_folders_are_named(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none", Path(__file__)):
        result = CliRunner().invoke(app, ["verify", str(folder)])
        assert isinstance(result.exception, InputError)
        assert "image pool" in str(result.exception)


@pytest.mark.parametrize("verifier", list(verifiers((*VERIFIERS, *PARTS))), ids=lambda one: one.name)
def test_no_verifier_recognises_a_foreign_folder(verifier: object, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert not verifier.recognise(tmp_path)  # type: ignore[attr-defined]


@pytest.fixture
def annotated(tmp_path: Path) -> Competition:
    """A competition with captions of an annotator and verdicts of a judge."""
    competition = make_competition(tmp_path)
    with closing(AnnotationService(competition.directory)) as service:
        write_everything(service, 1)
    with VerdictFile(competition.directory, JudgeDescription("tiny", "tiny")) as file:
        file.append([MachineVerdict("tiny", str(n), "plain", "wrong", "plain", "plain", key="k") for n in range(6)])
    return competition


def told(folder: Path) -> tuple[int, list[str]]:
    result = CliRunner().invoke(app, ["verify", str(folder), "--json"])
    return result.exit_code, json.loads(result.stdout)["problems"]


def test_annotations_and_verdicts_of_a_competition_are_verified(annotated: Competition) -> None:
    folder = annotated.directory
    files = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    assert told(folder) == (0, [])
    assert {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()} == files
    path = verdict_file(folder, "tiny")
    path.write_bytes(path.read_bytes().replace(b'"preferred":"plain"', b'"preferred":"wrong"', 1))
    code, problems = told(folder)
    assert (code, len(problems)) == (1, 1)
    assert problems[0].startswith(f"damaged: {folder / FOLDER / 'tiny.jsonl'}: line 2 does not match its checksum")


@pytest.mark.parametrize("damage", ["cut", "zeros", "text"])
def test_a_damaged_annotation_database_is_reported(annotated: Competition, damage: str) -> None:
    path = annotated.directory / DATABASE
    content = path.read_bytes()
    path.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "zeros": content[:4096] + bytes(len(content) - 4096),
            "text": b"these are no annotations" * 1000,
        }[damage]
    )
    code, problems = told(annotated.directory)
    assert code == 1
    assert DATABASE in problems[0]


def test_the_database_of_another_competition_is_reported(annotated: Competition, tmp_path: Path) -> None:
    other = make_competition(tmp_path / "other")
    (other.directory / DATABASE).write_bytes((annotated.directory / DATABASE).read_bytes())
    code, problems = told(other.directory)
    assert code == 1
    assert "belongs to another competition" in problems[0]
