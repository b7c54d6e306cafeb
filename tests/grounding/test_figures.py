"""What the figures of Liu 2017 show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attribution.toyworld_captioner import ToyFeatures, toy_checkpoint, toy_samples
from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.grounding import figures
from captrial.grounding.attention_correctness import FORCED, GENERATED, measure_attention
from captrial.grounding.figures import CELLS, AttentionStudy, FigurePanel, draw_side_by_side, draw_targets
from captrial.language.tokenizer import tokenize_all
from captrial.records import Box, ImageRef, Region, Sample
from captrial.training.attention_supervision import make_targets, to_elements
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.preprocess import Preprocess

Rows = list[tuple[Image.Image, Sequence[FigurePanel]]]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Rows, Sequence[str]]]:
    """The rows of panels, and the captions, of every figure that is drawn; it is drawn all the same."""
    found: list[tuple[Rows, Sequence[str]]] = []
    draw = figures.draw_panels

    def recorded(rows: Rows, path: Path, captions: Sequence[str] = ()) -> Path:
        found.append((rows, captions))
        return draw(rows, path, captions)

    monkeypatch.setattr(figures, "draw_panels", recorded)
    return found


def on_disk(sample: Sample, folder: Path) -> Sample:
    """The sample with a grey image of its size."""
    size = (sample.image.width or 0, sample.image.height or 0)
    path = folder / f"{sample.id}.png"
    Image.new("RGB", size, (150, 150, 150)).save(path)
    return Sample(
        ImageRef(sample.id, path, *size), sample.captions, sample.split, sample.regions, sample.phrases, sample.extra
    )


@pytest.mark.parametrize("masks", [False, True])
def test_targets_are_those_of_training_with_and_without_the_list(
    masks: bool, drawn: list[tuple[Rows, Sequence[str]]], tmp_path: Path
) -> None:
    """Fig. 3: a scene word is uniform, and beside that as its class alone would have it."""
    half = np.zeros((60, 80), bool)
    half[:, :20] = True
    man, field = Region(Box(0, 0, 40, 60), "man", mask=half), Region(Box(0, 30, 80, 60), "field")
    sample = on_disk(Sample(ImageRef("a", None, 80, 60), ("A man in a field.",), regions=(man, field)), tmp_path)
    draw_targets([sample], Preprocess(), tmp_path / "targets.png", masks=masks)
    ((_, panels),) = drawn[0][0]
    assert [panel.title for panel in panels] == ["image", "man", "field, without the list", "field"]
    targets = make_targets("weak", [sample], {"preprocess": Preprocess().describe()}, masks=masks)
    assert targets is not None
    trained = targets.maps(0, 0)
    assert sorted(trained) == [1, 4]
    cells = grid_boxes(CELLS, CELLS).double().numpy()
    for panel, position in ((panels[1], 1), (panels[3], 4)):
        expected = to_elements(trained[position], cells).reshape(CELLS, CELLS)
        np.testing.assert_array_equal(panel.map, expected)
    assert np.ptp(panels[3].map) == 0  # type: ignore[arg-type]
    assert panels[1].map[:, CELLS // 2 :].sum() == 0  # type: ignore[index]
    assert (panels[1].map[:, CELLS // 4 + 1 :].sum() == 0) == masks  # type: ignore[index]
    assert panels[2].map[: CELLS // 2].sum() == 0  # type: ignore[index]


class Quoting(DatasetAttributor):
    """A captioner whose own captions are the first references."""

    def caption(self, image_ids: Sequence[str]) -> list[str]:
        first = {sample.id: sample.captions[0] for sample in toy_samples()}
        return tokenize_all([first[image] for image in image_ids])


def test_examples_have_the_best_word_or_two_words_of_a_phrase(
    drawn: list[tuple[Rows, Sequence[str]]], tmp_path: Path
) -> None:
    """Fig. 5 has one map a model, that of the measured correctness; Fig. 6 one for each of two words."""
    samples = [on_disk(sample, tmp_path) for sample in toy_samples()]
    attributors = [Quoting(name, toy_checkpoint(seed=seed), ToyFeatures()) for seed, name in enumerate(("one", "two"))]
    results = [measure_attention(attributor, samples, [FORCED, GENERATED]) for attributor in attributors]
    study = AttentionStudy(attributors, results, samples)
    for setting in (FORCED, GENERATED):
        assert draw_side_by_side(study, setting, tmp_path / f"{setting}.png", 3) is not None
    (forced, captions), (generated, _) = drawn
    measured = {(score.text, f"{score.correctness:.2f} (uniform {score.area:.2f})") for score in results[1].scores}
    for (_, panels), caption in zip(forced, captions, strict=True):
        assert [panel.title for panel in panels] == ["image", "one", "two"]
        assert (caption.split("'")[1], panels[2].below) in measured
        assert panels[1].boxes == panels[2].boxes != ()
    titles = [panel.title for panel in generated[0][1]]
    first, second = (title.removeprefix("one, ") for title in titles[1:3])
    assert titles == ["image", f"one, {first}", f"one, {second}", f"two, {first}", f"two, {second}"]
    assert first != second
