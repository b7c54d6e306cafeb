"""`captrial explain`."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
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
