"""`captrial explain`."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from PIL import Image
from skimage import data as photographs
from typer.testing import CliRunner

from attribution.small_captioners import noise_image, trained_captioner
from captrial.cli.app import app
from captrial.errors import InputError


def test_regions_of_a_grid_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("captrial.captioners.loading.load_captioner", lambda *_: trained_captioner())
    noise_image().save(tmp_path / "image.png")
    arguments = ["explain", tmp_path / "image.png", "--caption", "a dog", "--method", "saliency", "--regions", "grid"]
    done = CliRunner().invoke(app, [*map(str, arguments), "--out", str(tmp_path / "out"), "--json"])
    assert orjson.loads(done.stdout)["problem"] == "the image has no region with a label"
    written = (tmp_path / "out" / "index.html").read_text()
    (panel,) = orjson.loads(written.split('id="data">')[1].split("</script>")[0])
    assert len(panel["regions"]) == 49
    assert [len(word["top"]) for word in panel["words"]] == [3, 3]


def test_bad_options_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    for option, value, sentence in (
        ("--regions", "nonsense", "there are region-detector, localiser, onnx:FILE, detr:MODEL, grid, none"),
        ("--method", "nonsense", "no attribution method 'nonsense'; there are: integrated_gradients"),
        ("--over", "nonsense", "nothing can be explained over 'nonsense'"),
        ("--contrast", "cat", "write WORD=OTHER"),
    ):
        with pytest.raises(InputError, match=sentence):
            CliRunner().invoke(app, ["explain", str(tmp_path / "no.png"), option, value], catch_exceptions=False)


def test_a_flag_carries_the_error_rate_of_its_kind_of_noun(tmp_path: Path) -> None:
    """The shipped detector on scikit-image's motorcycle: there is neither a guitar nor a jacket."""
    photograph = Path(photographs.__file__).parent / "motorcycle_left.png"
    Image.open(photograph).resize((256, 172)).save(tmp_path / "photo.jpg")
    caption = "a guitar and a jacket on a motorcycle"
    arguments = ["explain", tmp_path / "photo.jpg", "--caption", caption, "--method", "attention"]
    command = [*map(str, arguments), "--out", str(tmp_path / "out"), "--overwrite"]
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "200"}, catch_exceptions=False).stdout
    document = orjson.loads(CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False).stdout)
    rates = {word["word"]: word["error_by_eye"] for word in document["words"]}
    by_eye = document["error_rates_by_eye"]
    assert rates["guitar"] == by_eye["not in the image, things"]["error"]
    assert rates["jacket"] == by_eye["not in the image, scenery and clothes"]["error"]
    assert rates["motorcycle"] is rates["a"] is None
    for noun in ("guitar", "jacket"):
        assert f"{noun}: no {noun} was found in the image." in shown
        assert f"not in the image ({rates[noun]:.0%} wrong by eye)" in shown
    (panel,) = orjson.loads((tmp_path / "out" / "index.html").read_text().split('id="data">')[1].split("</script>")[0])
    motorcycle = document["words"][-1]
    assert motorcycle["error_by_references"] == document["error_rates"][motorcycle["verdict"]]
    assert f"{motorcycle['verdict']} ({motorcycle['error_by_references']:.0%} wrong by references)" in shown
    expected = [word["error_by_eye"] or word["error_by_references"] for word in document["words"]]
    assert [word["wrong"] for word in panel["words"]] == expected
