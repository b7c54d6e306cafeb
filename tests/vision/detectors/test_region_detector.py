"""The region detector: it memorises boxes, ignores what it should, loads, repeats itself, and keeps to its limits."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data as photographs

from captrial.errors import DatasetError, InputError
from captrial.records import Box, ImageRef, Phrase, Region, Sample
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.detectors.base import Detector, RegionBackbone
from captrial.vision.detectors.region_detector import SHIPPED, WEIGHTS, RegionDetector
from captrial.vision.detectors.region_network import RegionLabels, RegionNetwork, RegionSettings, cell_centres
from studies.detector_training import (
    DetectorRecipe,
    TargetMaker,
    detector_loss,
    paired_iou,
    train_detector,
    tuned_stages,
)
from studies.region_labels import LabelledBox, LabelledImage, add_teacher_boxes, choose_labels, label_images

LABELS = RegionLabels(
    ("person", "group of people", "car", "ball"), (0, 0, 0, 2), ("car", "ball"), ("red", "blue"), ("car", "ball")
)
SMALL = RegionSettings(version=0, size=128, width=32, depth=1, tuned_from=5)
needs_weights = pytest.mark.skipif(not (SHIPPED / WEIGHTS).is_file(), reason="no weights of the region detector here")


def board(number: int) -> tuple[LabelledImage, Image.Image]:
    """A grey image with a red ball and a blue car somewhere."""
    generator = np.random.default_rng(number)
    pixels = generator.integers(110, 130, (96, 120, 3)).astype(np.uint8)
    boxes = []
    for name, slot, channel in (("ball", 2, 0), ("car", 0, 2)):
        width, height = generator.integers(30, 60, 2)
        x, y = generator.integers(0, 120 - width), generator.integers(0, 96 - height)
        pixels[y : y + height, x : x + width] = 0
        pixels[y : y + height, x : x + width, channel] = 250
        relative = (x / 120, y / 96, (x + width) / 120, (y + height) / 96)
        kind, colour = ("other", "red") if name == "ball" else ("vehicles", "blue")
        boxes.append(LabelledBox(relative, slot, {kind}, Counter([name]), {colour}, {name}))
    mentioned = {"type:other", "type:vehicles", "car", "ball"}
    return LabelledImage(f"{number}.png", (120, 96), boxes, mentioned, set()), Image.fromarray(pixels)


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[LabelledImage], dict[str, Path]]:
    folder = tmp_path_factory.mktemp("boards")
    images, paths = [], {}
    for number in range(4):
        image, pixels = board(number)
        pixels.save(folder / image.id)
        images.append(image)
        paths[image.id] = folder / image.id
    return images, paths


def trained(boards: tuple[list[LabelledImage], dict[str, Path]], folder: Path, epochs: int) -> RegionDetector:
    torch.manual_seed(0)
    network = RegionNetwork(LABELS, SMALL)
    recipe = DetectorRecipe(epochs=epochs, batch=4, rate=3e-3, crop=1.0, average=0.9)
    train_detector(network, *boards, recipe, folder)
    return RegionDetector(network)


def test_training_memorises_boxes_labels_and_adjectives(boards: tuple, tmp_path: Path) -> None:
    images, paths = boards
    detector = trained(boards, tmp_path, 120)
    for image in images:
        opened = Image.open(paths[image.id])
        for box in image.boxes:
            (name,) = box.nouns
            best = detector.locate(opened, name)[0]
            x1, y1, x2, y2 = box.box
            assert best.box.iou(Box(x1 * 120, y1 * 96, x2 * 120, y2 * 96)) > 0.6
        regions = detector.detect([opened])[0]
        assert {region.label for region in regions[:2]} == {"ball", "car"}
        assert all(("red" in region.attributes) == (region.label == "ball") for region in regions[:2])


def test_training_resumes_to_the_same_weights(boards: tuple, tmp_path: Path) -> None:
    whole = trained(boards, tmp_path / "whole", 6).trained_weights()
    recipe = DetectorRecipe(epochs=6, batch=4, rate=3e-3, crop=1.0, average=0.9)

    def stop(network: RegionNetwork, epoch: int) -> dict[str, int]:
        if epoch == 3:
            raise KeyboardInterrupt
        return {}

    torch.manual_seed(0)
    with pytest.raises(KeyboardInterrupt):
        train_detector(RegionNetwork(LABELS, SMALL), *boards, recipe, tmp_path / "parts", stop)
    parts = trained(boards, tmp_path / "parts", 6).trained_weights()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_gradients_pass_fixed_depthwise_convolutions() -> None:
    network = RegionNetwork(LABELS, SMALL)
    pixels = torch.randn(1, 3, 128, 128)
    block = network.grid.network._blocks[SMALL.tuned_from]
    weight = block._expand_conv.weight.requires_grad_(True)
    tuned_stages(network, pixels, SMALL.tuned_from)[-1].square().sum().backward()
    own, weight.grad = weight.grad.clone(), None
    network.stages(pixels)[-1].square().sum().backward()
    assert torch.allclose(own, weight.grad, rtol=1e-3, atol=1e-4 * float(weight.grad.abs().max()))


def test_each_box_has_cells_on_the_level_of_its_size() -> None:
    maker = TargetMaker(LABELS, 384, 0.5)
    image = LabelledImage(
        "a",
        (100, 100),
        [LabelledBox((0.1, 0.1, 0.12, 0.12), 0, {"people"}), LabelledBox((0.0, 0.0, 1.0, 1.0), 2, {"scene"})],
        {"type:people", "type:scene"},
        set(),
    )
    targets = maker(image, (0.0, 0.0, 1.0, 1.0), mirrored=False)
    _, strides = cell_centres(384)
    assert set(strides[targets.chosen[:, 0] == 0].tolist()) == {16.0}
    assert set(strides[targets.chosen[:, 2] == 1].tolist()) == {64.0}
    assert (targets.chosen[:, 1] == -1).all()


def test_unmentioned_classes_are_weak_negatives_and_unplaced_ones_none() -> None:
    maker = TargetMaker(LABELS, 128, 0.25)
    group = LabelledBox((0.0, 0.0, 0.5, 0.5), 0, {"people"}, classes={"group of people"}, group=True)
    image = LabelledImage("a", (10, 10), [group], {"type:people", "group of people", "ball"}, {"ball"})
    targets = maker(image, (0.0, 0.0, 1.0, 1.0), mirrored=False)
    weights = dict(zip(LABELS.scored, targets.weights.tolist(), strict=True))
    assert weights["ball"] == 0
    assert weights["car"] == 0.25
    assert weights["type:people"] == 1
    inside = (cell_centres(128)[0] < 64).all(1)
    assert torch.equal(targets.ignored, inside)


def test_person_inside_a_group_has_no_class_loss() -> None:
    network = RegionNetwork(LABELS, SMALL)
    maker = TargetMaker(LABELS, 128, 1.0)
    group = LabelledBox((0.0, 0.0, 1.0, 1.0), 0, {"people"}, classes={"group of people"}, group=True)
    targets = maker(LabelledImage("a", (10, 10), [group], set(), set()), (0.0, 0.0, 1.0, 1.0), mirrored=False)
    predictions = network(torch.zeros(1, 3, 128, 128))
    predictions.scores.retain_grad()
    detector_loss(network, predictions, [targets], DetectorRecipe())["classes"].backward()
    assert predictions.scores.grad is not None
    assert float(predictions.scores.grad[..., LABELS.scored.index("person")].abs().max()) == 0


def test_paired_iou_is_that_of_boxes() -> None:
    first, second = torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 3.0, 2.0]])
    overlap, generalised = paired_iou(first, second)
    assert float(overlap) == pytest.approx(1 / 3)
    assert float(generalised) == pytest.approx(1 / 3)


def test_labels_come_from_heads_of_phrases() -> None:
    man, shirt, people = (Region(Box(0, 0, 50, 90)), Region(Box(10, 20, 40, 50)), Region(Box(0, 0, 100, 100)))
    phrases = (
        Phrase("A young man", 0, 3, (man,), "1", ("people",)),
        Phrase("a red shirt", 4, 7, (shirt,), "2", ("clothing",)),
        Phrase("a group of people", 8, 12, (people,), "3", ("people",)),
        Phrase("the beach", 13, 15, (), "4", ("scene", "nobox")),
    )
    (image,) = label_images([Sample(ImageRef("1.jpg", None, 100, 100), ("...",), phrases=(phrases,))])
    first, second, third = image.boxes
    assert first.nouns == {"man": 1}
    assert first.classes == {"person"}
    assert first.slot == 0
    assert second.classes == {"shirt"}
    assert "red" in second.adjectives
    assert second.slot == 1
    assert third.group
    assert third.classes == {"group of people"}
    assert "sand" in image.unplaced
    assert "shirt" in image.mentioned
    assert choose_labels([image], 1, 1).parents[0] in ("person", "group of people", "shirt")


def test_boxes_of_a_teacher_are_added_where_people_drew_none() -> None:
    image = LabelledImage(
        "a", (10, 10), [LabelledBox((0, 0, 0.5, 0.5), 0, {"people"}, classes={"person"})], set(), set()
    )
    more = add_teacher_boxes(image, [("person", (0, 0, 0.5, 0.52)), ("car", (0.6, 0.6, 1.0, 1.0))])
    assert [box.classes for box in more.boxes] == [{"person"}, {"car"}]
    assert more.boxes[1].types == {"vehicles"}
    assert not more.boxes[1].nouns


def test_a_folder_without_a_detector_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no region detector"):
        RegionDetector.from_pretrained(tmp_path)


def test_saved_and_loaded_detectors_agree(tmp_path: Path) -> None:
    torch.manual_seed(0)
    detector = RegionDetector(RegionNetwork(LABELS, SMALL), ((1, 0.5, -0.25),) * 3)
    detector.save_pretrained(tmp_path)
    again = RegionDetector.from_pretrained(tmp_path)
    first, second = detector.describe(), again.describe()
    assert {**first, "source": None} == {**second, "source": None}


@pytest.fixture(scope="module")
def shipped() -> RegionDetector:
    return RegionDetector.from_pretrained()


@needs_weights
def test_shipped_detector_finds_the_astronaut(shipped: RegionDetector) -> None:
    assert isinstance(shipped, Detector)
    image = Image.fromarray(photographs.astronaut())
    best = shipped.locate(image, "person")[0]
    assert best.box.iou(Box(25, 0, 465, 512)) > 0.5
    regions = shipped.detect([image])[0]
    people = {"person", "man", "woman", "girl", "boy", "child", "lady", "kid", "player"}
    assert regions[0].label in people
    assert regions[0].score > 0.5
    assert all(first.score >= second.score for first, second in itertools.pairwise(regions))
    assert all(0 <= r.box.x1 < r.box.x2 <= 512 and 0 <= r.box.y1 < r.box.y2 <= 512 for r in regions)


@needs_weights
def test_shipped_detector_repeats_itself(shipped: RegionDetector) -> None:
    image = Image.fromarray(photographs.coffee())
    assert shipped.detect([image, image])[0] == RegionDetector.from_pretrained().detect([image])[0]


@needs_weights
def test_shipped_detector_gives_regions_for_captioners(shipped: RegionDetector) -> None:
    backbone = RegionBackbone(shipped, EfficientNetLite(2))
    features = backbone.extract([Image.fromarray(photographs.astronaut())])
    assert features.elements.shape[-1] == 1280


@needs_weights
def test_features_of_its_own_are_those_of_the_network(shipped: RegionDetector) -> None:
    """Parts of a region's vector, computed a second time: means of the backbone inside the box, scores at its cell."""
    detector, image = RegionDetector.from_pretrained(features=True), Image.fromarray(photographs.astronaut())
    backbone = RegionBackbone(detector)
    features, regions = backbone.extract([image]), backbone.regions([image])[0]
    assert features.elements.shape == (1, len(regions), backbone.width) == (1, 36, 1012)
    assert regions == shipped.detect([image])[0][:36]  # features change neither boxes nor labels
    region, network = regions[0], detector.network
    assert float(features.elements.std()) < 3  # standardised
    vector = features.elements[0, 0] * network.feature_std + network.feature_mean
    stage = network.stages(network.grid.preprocess(image)[None])[2][0]  # (352, 14, 14)
    fine = stage.repeat_interleave(32, 1).repeat_interleave(32, 2)  # every pixel has the vector of its cell
    x1, y1, x2, y2 = (round(value * 448 / 512) for value in region.box)
    assert torch.allclose(vector[:352], fine[:, y1:y2, x1:x2].mean((1, 2)), atol=0.05)
    labels = network.labels
    classes, nouns = vector[-len(labels.nouns) - len(labels.scored) : -len(labels.nouns)], vector[-len(labels.nouns) :]
    assert labels.nouns[int(nouns.argmax())] == region.label
    assert float(nouns.sum()) == pytest.approx(1, abs=1e-2)
    assert labels.scored[int(classes.argmax())] in ("person", "type:people")


@needs_weights
def test_an_image_of_nothing_still_has_one_region_for_a_captioner() -> None:
    backbone = RegionBackbone(RegionDetector.from_pretrained(features=True, threshold=1.0))
    features = backbone.extract([Image.new("RGB", (50, 40))])
    assert features.elements.shape == (1, 1, 1012)
    assert torch.isfinite(features.elements).all()


@needs_weights
def test_unknown_labels_are_an_error(shipped: RegionDetector) -> None:
    with pytest.raises(InputError, match="has not learnt 'quark'"):
        shipped.locate(Image.fromarray(photographs.coffee()), "quark")


@needs_weights
def test_shipped_detector_keeps_to_its_limits(shipped: RegionDetector) -> None:
    assert (SHIPPED / WEIGHTS).stat().st_size <= 15_000_000
    image = Image.fromarray(photographs.astronaut())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times, backbone = [], []
        for _ in range(5):
            start = time.process_time()  # of this process alone: others may be busy
            shipped.detect([image])
            times.append(time.process_time() - start)
            start = time.process_time()
            shipped.network.stages(shipped.network.grid.preprocess(image)[None])
            backbone.append(time.process_time() - start)
    finally:
        torch.set_num_threads(threads)
    assert min(times) < max(0.15, 2.5 * min(backbone))  # slower processors are slower at the backbone, too
