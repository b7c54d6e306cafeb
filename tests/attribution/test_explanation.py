"""Explanations: saving, loading and drawing; attributions that do not fit their boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from captrial.attribution.attribution import Attribution
from captrial.attribution.explain import explain, explain_features
from captrial.attribution.explanation import Explanation
from captrial.captioners.trained import TrainedCaptioner
from captrial.errors import InputError


def test_features_alone_and_saving(captioner: TrainedCaptioner, image: Image.Image, tmp_path: Path) -> None:
    found = explain_features(captioner.checkpoint, captioner.backbone.extract([image]), caption="two red cats")
    path = found.save(tmp_path / "numbers.npz")
    again = Explanation.load(path)
    assert again.words == ("two", "red", "cats")
    for name in ("scores", "boxes", "signed", "changes", "errors"):
        assert np.array_equal(getattr(again.attribution, name), getattr(found.attribution, name))
    assert (again.attribution.grid, again.attribution.steps) == (found.attribution.grid, found.attribution.steps)
    with pytest.raises(InputError, match="made from features"):
        found.save(tmp_path / "page.html")
    with pytest.raises(InputError, match=r"saved as \.html, \.npz or \.json"):
        found.save(tmp_path / "page.docx")
    np.save(tmp_path / "array.npy", np.zeros(3))
    for content in (b"no", b"", path.read_bytes()[:-40], (tmp_path / "array.npy").read_bytes()):
        (tmp_path / "broken.npz").write_bytes(content)
        with pytest.raises(InputError, match="not a saved explanation"):
            Explanation.load(tmp_path / "broken.npz")


def test_a_page_a_figure_and_json(captioner: TrainedCaptioner, image: Image.Image, tmp_path: Path) -> None:
    found = explain(captioner, image, "saliency", caption="a dog")
    assert "<html" in found.save(tmp_path / "page.html").read_text()
    assert '"words":["a","dog"]' in found.save(tmp_path / "page.json").read_text()
    assert len(found.show().axes) >= 3
    assert found.top(0) == int(found.to_numpy()[0].argmax())


def test_an_attribution_must_fit_its_boxes() -> None:
    with pytest.raises(InputError, match=r"scores are \(1, 2\) for 1 words and 3 boxes"):
        Attribution(("a",), np.zeros((1, 2)), np.zeros((3, 4)), "none")
    with pytest.raises(InputError, match="a grid of 2 x 2 cells has not 3 boxes"):
        Attribution(("a",), np.zeros((1, 3)), np.zeros((3, 4)), "none", grid=(2, 2))
    found = Attribution(("a", "b"), np.ones((2, 3)), np.zeros((3, 4)), "none", errors=np.array([0.1, 0.2]))
    assert found.error == 0.2
    assert len(found.select(slice(0, 1))) == 1
    with pytest.raises(InputError, match="not of a grid"):
        found.maps()
