"""Images, captioners and methods of a study."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from attribution.toyworld_captioner import VISION
from captrial.errors import InputError, MismatchError
from captrial.grounding.study_data import DataSource, StudyAttribution, load_models
from captrial.toyworld import OBJECT_CLASSES
from captrial.vision.features.feature_store import FeatureWriter
from grounding.study_world import write_study_world


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_world(tmp_path_factory.mktemp("study"))


def test_results_over_pixels_have_files_of_their_own() -> None:
    assert StudyAttribution("elements", 8).file_stem("m2", "saliency") == "m2-saliency"
    pixels = StudyAttribution("pixels", 8)
    assert StudyAttribution("pixels").file_stem("m2", "saliency") == "m2-saliency-pixels"
    assert pixels.file_stem("m2", "integrated_gradients") == "m2-integrated_gradients-pixels-8-steps"
    assert pixels.file_stem("m2", "attention") == "m2-attention"  # always over visual elements


def test_splits_and_missing_images(place: Path) -> None:
    found = DataSource(place / "world", limit=2).read()
    assert (len(found.samples), found.present, found.total) == (2, 6, 6)
    assert found.labels == DataSource(place / "world").read().labels  # of all images
    assert set(found.labels) <= set(OBJECT_CLASSES)
    splits = DataSource(place / "world", limit=1).read_splits(["test", "val"])
    assert {name: len(part.samples) for name, part in splits.items()} == {"test": 1}
    with pytest.raises(InputError, match="has no split val; it has test"):
        DataSource(place / "world").read_splits(["val"])
    assert DataSource(place / "world").read_splits(["val"], required=False) == {}


def test_the_first_store_that_fits_is_taken(place: Path, tmp_path: Path) -> None:
    (model,) = load_models(str(place / "one"))
    with FeatureWriter(tmp_path / "other", {**VISION, "width": 3}):
        pass
    samples = DataSource(place / "world").read().samples
    store = model.features_among(samples, [str(tmp_path / "other"), str(place / "features")], tmp_path)
    assert store.directory == place / "features"
    with pytest.raises(MismatchError):
        model.features(samples, tmp_path / "other", tmp_path)


def test_boxes_of_robot_sequences_in_another_folder(tmp_path: Path) -> None:
    for folder in ("frames/room", "boxes/room"):
        (tmp_path / folder).mkdir(parents=True)
    Image.new("RGB", (20, 10)).save(tmp_path / "frames/room/0.png")
    (tmp_path / "boxes/room/boxes.json").write_text('{"0.png": [[1, 2, 9, 8, "chair"]]}')
    found = DataSource(tmp_path / "frames", boxes=tmp_path / "boxes").read()
    assert found.labels == ["chair"]
    assert found.samples[0].extra["sequence"] == "room"
