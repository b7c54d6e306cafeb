"""`captrial attend` on a small toy world, from the command line to tables and figures."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from PIL import Image

from captrial.errors import DatasetError, InputError
from grounding.study_world import common, pixel_options, run, write_study_world


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_world(tmp_path_factory.mktemp("study"))


def test_attend_writes_tables_and_figures(place: Path, tmp_path: Path) -> None:
    printed = run("attend", *common(place), "--out", tmp_path, "--beam", "1", "--examples", "2", "--json")
    document = orjson.loads(printed)
    assert {row["model"] for row in document["correctness"]["rows"]} == {"one", "two"}
    assert document == orjson.loads((tmp_path / "tables.json").read_bytes())
    for name in ("correctness.csv", "correctness.tex", "size-forced.csv", "spearman.tex", "scores/one-attention.json"):
        assert (tmp_path / name).stat().st_size > 0
    for name in ("histogram-forced.png", "histogram-generated.png", "examples-forced.png", "targets.png"):
        with Image.open(tmp_path / name) as image:
            assert min(image.size) > 100
    shown = run("attend", *common(place), "--out", tmp_path, "--captions", "forced", "--examples", "0", "--limit", "2")
    assert "Attention correctness (Liu 2017 Table 1)" in shown


def test_bad_input_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--captions spoken: there are forced and generated"):
        run("attend", *common(place), "--out", tmp_path, "--captions", "spoken")
    with pytest.raises(InputError, match="--phrase min: there are max and mean"):
        run("attend", *common(place), "--out", tmp_path, "--phrase", "min")
    with pytest.raises(InputError, match="--over words: there are elements and pixels"):
        run("attend", *common(place), "--out", tmp_path / "attend", "--over", "words")
    with pytest.raises(InputError, match="no attribution method 'gaze' for a whole data set"):
        run("attend", *common(place), "--out", tmp_path / "attend", "--methods", "attention,gaze")
    assert not (tmp_path / "attend").exists()  # said before anything was done
    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (40, 30)).save(images / "plain.png")
    with pytest.raises(DatasetError, match=r"image plain.png has no reference caption"):
        run("attend", "--data", images, "--models", place / "one", "--out", tmp_path)


@pytest.mark.full
def test_pixels_from_the_command_line(place: Path, tmp_path: Path) -> None:
    """One image, through the real backbone."""
    options = [*pixel_options(place, tmp_path), "--captions", "forced", "--examples", "0"]
    rows = orjson.loads(run("attend", *options))["correctness"]["rows"]
    assert rows[0]["method"] == "saliency, pixels"
    assert (tmp_path / "out" / "scores" / "model-saliency-pixels.json").stat().st_size > 0
