"""Captioners without gradients, and names of captioners."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from captrial.captioners.registry import DEFAULT_CAPTIONER, shipped_captioners
from captrial.errors import InputError
from captrial.grounding.score import Grounder
from captrial.studio.image_explainer import ImageExplainer, _named
from captrial.studio.tasks import StudioTask


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("image") / "red.png"
    Image.new("RGB", (60, 40), "red").save(path)
    return path.read_bytes()


class TextOnlyCaptioner:
    """A captioner that gives no gradients."""

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        return ["a dog" for _ in images]


class EmptyDetector:
    """A detector that knows dogs and finds none."""

    name, labels = "empty", ("dog",)

    def detect(self, images: Sequence[Image.Image]) -> list[list[Any]]:
        return [[] for _ in images]


def test_a_captioner_without_gradients_shows_its_caption_and_the_problem(red: bytes, monkeypatch: Any) -> None:
    explainer = ImageExplainer(["owner/mine"])
    monkeypatch.setitem(explainer._captioners, "owner/mine", TextOnlyCaptioner())
    monkeypatch.setattr(explainer, "_detection", (EmptyDetector(), Grounder(["dog"])))
    task = StudioTask(1, explainer.count_steps(["owner/mine"]))
    explainer.run(task, red, "red.png", ["owner/mine"], "saliency")
    preview, captioned = task.results
    assert preview["preview"].startswith("data:image/jpeg;base64,")
    assert captioned["caption"] == "a dog"
    assert "use method='occlusion'" in captioned["problem"]
    explainer.run(task, red, "red.png", ["owner/mine"], "occlusion")
    assert [word["text"] for word in task.results[-1]["words"]] == ["a", "dog"]
    assert task.results[-1]["captioner"] == "owner/mine"


def test_folders_are_named_by_their_own_names(tmp_path: Path) -> None:
    for name in ("mine/best", "transformer", "other/mine"):
        (tmp_path / name).mkdir(parents=True)
    best, ship, other = (str(tmp_path / name) for name in ("mine/best", "transformer", "other/mine"))
    assert _named([best, ship, other, "owner/model"]) == {
        "mine": best,
        ship: ship,
        other: other,
        "owner/model": "owner/model",
    }
    with pytest.raises(InputError, match="one or two"):
        ImageExplainer().check(["transformer"] * 3, "saliency")
    assert ImageExplainer(["owner/mine"]).names[0] == DEFAULT_CAPTIONER
    assert sorted(ImageExplainer(["owner/mine"]).names) == sorted([*shipped_captioners(), "owner/mine"])
