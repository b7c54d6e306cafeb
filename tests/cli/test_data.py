from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from captrial.cli.app import app, main
from captrial.errors import InputError

RUNNER = CliRunner()


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    def image(name: str, split: str, *captions: str) -> dict[str, object]:
        return {"filename": name, "split": split, "sentences": [{"raw": caption} for caption in captions]}

    images = [image("a.jpg", "train", "A dog.", "Un perro y un gato."), image("b.jpg", "val", "The cat sleeps.")]
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").touch()
    (tmp_path / "dataset.json").write_bytes(orjson.dumps({"images": images}))
    return tmp_path


def test_table(dataset: Path) -> None:
    result = RUNNER.invoke(app, ["data", "show", str(dataset)])
    assert result.exit_code == 0
    for part in ("Karpathy JSON", "train", "val", "all", "not English? a.jpg: Un perro y un gato."):
        assert part in result.output


def test_brackets_are_not_markup(tmp_path: Path) -> None:
    (tmp_path / "boxes.json").write_text('{"1": [[0, 0, 1, 1, "dog"]]}')
    result = RUNNER.invoke(app, ["data", "show", str(tmp_path / "boxes.json")])
    assert "[[x1, y1, x2, y2" in " ".join(result.output.split())


def test_json(dataset: Path) -> None:
    result = RUNNER.invoke(app, ["data", "show", str(dataset), "--split", "train", "--json"])
    document = orjson.loads(result.stdout)
    assert document["format"] == "karpathy"
    (row,) = document["splits"]
    assert row == {
        "split": "train", "images": 1, "files there": 1, "captions": 2, "regions": 0, "phrases": 0, "classes": 0
    }  # fmt: skip
    assert document["not_english"] == [{"id": "a.jpg", "caption": "Un perro y un gato."}]


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["data", "show", str(tmp_path / "none")])
    assert caught.value.code == 2
    assert "no such file or folder" in " ".join(capsys.readouterr().err.split())


def test_toyworld(tmp_path: Path) -> None:
    line = [
        "data",
        "toyworld",
        str(tmp_path / "w"),
        "--images",
        "3",
        "--size",
        "48",
        "--splits",
        "train=2,test",
        "--json",
    ]
    result = RUNNER.invoke(app, line)
    assert result.exit_code == 0
    assert orjson.loads(result.stdout)["splits"] == {"train": 2, "test": 1}
    assert (tmp_path / "w/images/test/test_000000.png").is_file()
    assert "--images 3 --seed 0 --size 48 --splits train=2,test=1" in (tmp_path / "w/README.txt").read_text()
    with pytest.raises(InputError, match="NAME=SHARE"):
        RUNNER.invoke(app, [*line[:-3], "--splits", "train=lots"], catch_exceptions=False)
