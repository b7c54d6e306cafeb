"""`captrial gate`: one line of JSON and an exit code; captions that are missing are no way to pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captrial.cli.app import main
from compete import synthetic


def ending(line: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(line)
    return ended.value.code or 0


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Captions of 60 images; `bad` are those of other images for half of them."""
    made, references = synthetic.write_files(tmp_path, synthetic.captions(60, 2))
    good = json.loads(next(iter(made.values())).read_text())
    rows = good if isinstance(good, list) else [{"image_id": key, "caption": text} for key, text in good.items()]
    bad = [{**row, "caption": "zebra" if at % 2 else row["caption"]} for at, row in enumerate(rows)]
    contents = {"good": rows, "bad": bad, "part": rows[:40]}
    for name, content in contents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return {name: str(tmp_path / f"{name}.json") for name in contents} | {"references": str(references)}


@pytest.mark.parametrize(
    ("old", "new", "code", "verdict"),
    [("good", "good", 0, "not worse"), ("good", "bad", 1, "worse"), ("bad", "good", 0, "not worse")],
)
def test_verdicts_and_exit_codes(
    old: str, new: str, code: int, verdict: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(["gate", files[old], files[new], "--references", files["references"]]) == code
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    found = json.loads(printed)
    assert (found["verdict"], found["metric"], found["images"]) == (verdict, "cider", 60)
    assert found["changed"] == (0 if old == new else 30)


def test_a_margin_that_the_images_cannot_settle(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    line = ["gate", files["good"], files["bad"], "--references", files["references"], "--metric", "bleu_1"]
    ending(line)
    loss = -json.loads(capsys.readouterr().out)["difference"]
    assert ending([*line, "--fail-if-worse", str(loss)]) == 3
    assert json.loads(capsys.readouterr().out)["verdict"] == "undecided"


def test_what_is_refused(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for old, new, options, said in (
        ("good", "part", [], "new: 20 images have no caption"),
        ("part", "good", [], "old: 20 images have no caption"),
        ("good", "bad", ["--metric", "bleu"], "name one of its columns, bleu_1"),
        ("good", "bad", ["--metric", "nonsense"], "nonsense"),
        ("good", "bad", ["--fail-if-worse", "-1"], "must be a number from 0 on"),
        ("good", "bad", ["--risk", "0.9"], "below 0.5"),
    ):
        assert ending(["gate", files[old], files[new], "--references", files["references"], *options]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
