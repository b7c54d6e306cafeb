"""Commands never write over what they did not write: foreign files, hand-made files, their own inputs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from captrial.captioners import loading
from captrial.cli.app import app
from captrial.compete import Competition, SelectionSettings
from captrial.errors import CaptrialError, InputError
from captrial.folders import LOCK
from captrial.judges import SimulatedJudge, SimulatedServer, serve_judge
from cli.writing_verbs import EXTENDING, FILES, FOLDERS, JUDGE, Inputs, contents

# Names that commands write, in a folder of somebody else.
FOREIGN = [
    "index.html", "words.png", "explanation.npz", "pool.parquet", "captions/0.parquet", "captions/0.broken.jsonl",
    "selection/0-1.json", "selection.csv", "images.csv", "tables/selection.csv", "figures/ranking.svg", "store.json",
    "elements.f16", "boxes.f16", "index.jsonl", "gathered.json", "shards/run.json", "part-000000.parquet", "run.json",
    "state.safetensors", "metrics.csv", "best/config.json", "best/model.safetensors", "environment.json",
    "tables.json", "settings.json", "nouns/x.jsonl", "summary.json", "manifest.parquet", "dataset.json",
    "toyworld.json", "checksums.json", "references.jsonl", "notes.txt", ".hidden",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_captioner", lambda *_, **__: pytest.fail("a model was loaded"))


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    made = Inputs(tmp_path / "inputs")
    made.folder.mkdir()
    made.make()
    files = {name: made.folder / f"{name}.json" for name in "AB"}
    Competition.create(made.folder / "COMPETITION", files).select(SelectionSettings(3, 3))
    return made


def refused(line: list[str]) -> str:
    result = CliRunner().invoke(app, line)
    assert isinstance(result.exception, CaptrialError), (line, result.output)
    return str(result.exception)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_others_is_left_as_it_is(name: str, inputs: Inputs, tmp_path: Path) -> None:
    out, content = tmp_path / "out", '{"format": "my own", "files": {}}'
    for place in FOREIGN:
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_text(content)
    line = inputs.arguments(FOLDERS[name], out)
    before = contents(tmp_path)
    refused(line)
    assert contents(tmp_path) == before
    for place in ("best/model.safetensors", "captions/0.parquet", "checksums.json"):  # each of them alone
        for path in sorted(out.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (out / place).parent.mkdir(exist_ok=True)
        (out / place).write_text(content)
        refused(line)
        assert contents(out) == {place: content.encode()}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_others_is_left_as_it_is(name: str, inputs: Inputs, tmp_path: Path) -> None:
    line = inputs.arguments(FILES[name], tmp_path / "out")
    out = Path(next(part for part in line if part.startswith(str(tmp_path / "out"))))
    out.write_text("mine")
    before = contents(tmp_path)
    assert "choose another output" in refused(line)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", FILES)
def test_an_input_is_never_the_output_even_with_overwrite(name: str, inputs: Inputs, tmp_path: Path) -> None:
    line = FILES[name]
    suffix = next(part for part in line if part.startswith("OUT")).removeprefix("OUT")
    given = next((part for part in line if part in ("A", "PHOTO", "REFERENCES")), None)
    if given is None:
        pytest.skip("it reads no file")
    path = next(inputs.folder.glob(f"{given}.*"))
    path = path.rename(path.with_suffix(suffix))
    before = contents(tmp_path)
    assert "is also an input" in refused([*inputs.arguments(line, inputs.folder / given), "--overwrite"])
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "line",
    [
        ["caption", "PHOTO", "--model", "MODEL?beam=2", "--out", "MODEL/config.json"],
        ["caption", "PHOTOS", "--model", "MODEL", "--out", "MODEL/config.json"],
        ["score", "A", "--references", "REFERENCES", "--ids", "IDS", "--per-image", "IDS"],
    ],
)
def test_a_model_and_a_table_of_ids_are_inputs_too(line: list[str], inputs: Inputs, tmp_path: Path) -> None:
    (inputs.folder / "MODEL").mkdir()
    (inputs.folder / "MODEL" / "config.json").write_text("{}")
    (inputs.folder / "IDS.csv").write_text("theirs,ours\n1,2\n")
    before = contents(tmp_path)
    placed = [part.replace("MODEL?", f"{inputs.folder}/MODEL?") for part in inputs.arguments(line, tmp_path)]
    assert "choose another output" in refused([*placed, "--overwrite"])
    assert contents(tmp_path) == before


def test_a_competition_that_cannot_be_made_removes_nothing(inputs: Inputs, tmp_path: Path) -> None:
    """Its own inputs stand where it would write, or one of them is broken."""
    folder = tmp_path / "c"
    (folder / "captions").mkdir(parents=True)
    for number, name in enumerate("AB"):
        (inputs.folder / f"{name}.json").rename(folder / "captions" / f"{number}.parquet")
    before = contents(folder)
    assert "holds other files" in refused(
        ["compete", "new", str(folder), *[f"--captions={n}={folder}/captions/{n}.parquet" for n in (0, 1)]]
    )
    assert contents(folder) == before
    (tmp_path / "empty").mkdir()
    (inputs.folder / "A.json").write_text("[")
    files = [f"--captions={name}={inputs.folder}/{name}.json" for name in "AC"]
    for out in (tmp_path / "empty", tmp_path / "new"):
        refused(["compete", "new", str(out), *files])
    assert not list((tmp_path / "empty").iterdir())
    assert not (tmp_path / "new").exists()


def test_a_folder_of_results_is_replaced_until_somebody_edits_it(inputs: Inputs, tmp_path: Path) -> None:
    line = inputs.arguments(FOLDERS["compete export"], tmp_path / "out")
    for _ in range(2):
        assert CliRunner().invoke(app, line).exit_code == 0
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert CliRunner().invoke(app, line).exit_code == 0
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    (tmp_path / "out" / "selection.csv").write_text("mine")
    before = contents(tmp_path / "out")
    assert "has changed since" in refused(line)
    assert contents(tmp_path / "out") == before
    assert CliRunner().invoke(app, [*line, "--overwrite"]).exit_code == 0
    assert (tmp_path / "out" / "selection.csv").read_text() != "mine"


@pytest.mark.parametrize("name", EXTENDING)
def test_files_of_others_in_a_competition_stay(
    name: str, inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))  # no answers of earlier runs
    directory = inputs.folder / "COMPETITION"
    for place in ("notes.txt", "captions/notes.txt", "selection/notes.txt", "references.jsonl.old"):
        (directory / place).write_text("mine")
    (directory / "references.jsonl").write_text(json.dumps({"id": "0", "captions": ["a dog"]}) + "\n")
    kept = {path: path.read_bytes() for path in directory.rglob("*") if path.suffix in (".txt", ".old", ".jsonl")}
    with serve_judge(SimulatedServer(SimulatedJudge(), lambda first, second: True)) as server:
        line = [part.replace(JUDGE, server.base) for part in inputs.arguments(EXTENDING[name], directory)]
        result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output or result.exception
    assert bool(server.requests) == (name == "judge run")
    assert {path: path.read_bytes() for path in kept} == kept


def test_the_message_names_the_way_out(inputs: Inputs, tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("mine")
    line = inputs.arguments(FILES["per image"], tmp_path / "out")
    with pytest.raises(InputError, match="or replace it with --overwrite"):
        raise CliRunner().invoke(app, line).exception or AssertionError
    assert CliRunner().invoke(app, [*line, "--overwrite"]).exit_code == 0
    assert (tmp_path / "out.csv").read_text() != "mine"


OWN_FOLDERS = ["CAPTION_FILES", "COMPETITION", "MODEL", "PHOTOS", "POOL", "STUDY/features", "STUDY/one", "STUDY/world"]
STUDY = ["--data", "STUDY/world", "--models", "STUDY/one", "--features", "STUDY/features", "--limit", "1"]
LINES = FOLDERS | {
    "attend": ["attend", *STUDY, "--out", "OUT"],
    "attend maps": ["attend", "--data", "STUDY/world", "--maps", "BINARY", "--out", "OUT"],
    "explain": ["explain", "PHOTO", "--model", "MODEL", "--out", "OUT"],
    "ground": ["ground", *STUDY, "--out", "OUT"],
    "papers cornia": ["papers", "cornia", *STUDY, "--out", "OUT"],
    "papers liu": ["papers", "liu", *STUDY, "--out", "OUT"],
    "report": ["compete", "report", "COMPETITION", "--out", "OUT"],
    "train": ["train", "m2-small", "--data", "STUDY/world", "--features", "STUDY/features", "--out", "OUT"],
}


@pytest.mark.slow
@pytest.mark.parametrize("folder", OWN_FOLDERS)
def test_a_folder_of_another_kind_is_never_the_output(folder: str, everything: Inputs, tmp_path: Path) -> None:
    """Every command into every kind of folder that captrial reads or made itself, also by a link to it."""
    inputs = Inputs(tmp_path / "inputs")
    shutil.copytree(everything.folder, inputs.folder)
    (tmp_path / "link").symlink_to(inputs.folder / folder)
    before = contents(inputs.folder)
    for name, line in LINES.items():
        if (name, folder) == ("pool build", "POOL"):
            continue  # built again
        for out in (inputs.folder / folder, tmp_path / "link"):
            result = CliRunner().invoke(app, inputs.arguments(line, out))
            after = {place: found for place, found in contents(inputs.folder).items() if Path(place).name != LOCK}
            assert after == before, f"{name}: {sorted(set(after.items()) ^ set(before.items()))[:2]}"
            assert isinstance(result.exception, CaptrialError | OSError), (name, result.output)
