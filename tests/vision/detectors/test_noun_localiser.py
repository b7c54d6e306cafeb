"""The noun localiser: learnt from captions in seconds, searched for boxes; the shipped one on photographs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data as photographs
from torch import Tensor

from captrial.data.datasets import read_boxes
from captrial.data.images import open_image
from captrial.errors import DatasetError, InputError, MismatchError
from captrial.records import Box, ImageRef, Sample
from captrial.vision.backbones.base import Backbone, grid_boxes
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.boxes import ScoredBox, average_precision, covered_share, hits
from captrial.vision.detectors.base import Detector, GridDetector, RegionBackbone
from captrial.vision.detectors.noun_localiser import SHIPPED, NounLocaliser, find_peaks
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess
from captrial.vision.registry import load_backbone
from studies.localiser_training import (
    LocaliserRecipe,
    caption_words,
    choose_labels,
    noisy_or_loss,
    targets,
    train_localiser,
)

CELLS, SIDE = 8, 64


class Patches(Backbone):
    """Colours of an 8 x 8 grid and products of them: enough to tell coloured things apart, without a network."""

    name, width = "patches", 19

    def __init__(self) -> None:
        super().__init__()
        self.preprocess = Preprocess(SIDE, "stretch", SIDE, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        self.anchor = torch.nn.Parameter(torch.zeros(()))

    def elements(self, pixels: Tensor) -> Tensor:
        cells = torch.nn.functional.avg_pool2d(pixels, SIDE // CELLS).flatten(2).transpose(1, 2)
        squares = (cells.unsqueeze(-1) * cells.unsqueeze(-2)).flatten(2)
        return torch.cat([cells, squares, squares[..., :7] ** 2], -1)

    def cells(self) -> Tensor:
        return grid_boxes(CELLS, CELLS)


class ImageFeatures:
    """Features of images by id."""

    def __init__(self, backbone: Backbone, images: dict[str, Image.Image]) -> None:
        self.backbone, self.images = backbone, images

    def get(self, image_ids: Sequence[str]) -> Features:
        return self.backbone.extract([self.images[image_id] for image_id in image_ids])


def boards(count: int, seed: int) -> tuple[list[Sample], dict[str, Image.Image]]:
    """Grey images with a red ball or a blue car (or both) somewhere, and what a caption would say."""
    generator = np.random.default_rng(seed)
    samples, images = [], {}
    for number in range(count):
        pixels = np.full((SIDE, SIDE, 3), 120, np.uint8) + generator.integers(0, 10, (SIDE, SIDE, 3)).astype(np.uint8)
        shown = [("red ball", 0), ("blue car", 2)][:: 1 if generator.random() < 0.5 else -1][: generator.integers(1, 3)]
        for _, channel in shown:
            x, y = generator.integers(0, 5, 2) * 8
            pixels[y : y + 24, x : x + 24] = 20
            pixels[y : y + 24, x : x + 24, channel] = 230
        name = f"{seed}-{number}"
        samples.append(Sample(ImageRef(name), tuple(f"a {words} on the ground" for words, _ in shown)))
        images[name] = Image.fromarray(pixels)
    return samples, images


@pytest.fixture(scope="module")
def learnt() -> NounLocaliser:
    train, of_train = boards(300, 0)
    val, of_val = boards(60, 1)
    backbone = Patches()
    recipe = LocaliserRecipe(least_nouns=20, least_adjectives=20, components=19, epochs=30, rate=0.05)
    return train_localiser(train, val, ImageFeatures(backbone, {**of_train, **of_val}), backbone, recipe)


def test_nouns_are_learnt_without_any_box(learnt: NounLocaliser) -> None:
    assert {"ball", "car"} <= set(learnt.nouns)
    assert "ground" not in learnt.nouns, "it is on every image: nothing tells it from the others"
    assert {"red", "blue"} <= set(learnt.adjectives)
    _, images = boards(40, 2)
    right = total = 0
    for image in images.values():
        pixels = np.asarray(image)
        for noun, channel in (("ball", 0), ("car", 2)):
            place = pixels[..., channel] > 200
            if place.sum() > 200:
                y, x = np.unravel_index(learnt.locate(image, noun).argmax(), (CELLS, CELLS))
                right += bool(place[y * 8 + 4, x * 8 + 4])
                total += 1
    assert total > 40
    assert right / total > 0.9


def test_boxes_have_labels_and_adjectives(learnt: NounLocaliser) -> None:
    pixels = np.full((60, 120, 3), 124, np.uint8)
    pixels[10:40, 60:100] = (230, 20, 20)
    found = learnt.detect([Image.fromarray(pixels)])[0]
    ball = next(region for region in found if region.label == "ball")
    assert ball.box.iou(Box(60, 10, 100, 40)) > 0.4
    assert ball.attributes[:1] == ("red",)
    assert [region.score for region in found] == sorted((region.score for region in found), reverse=True)


def test_labels_come_from_the_coarse_grid_and_boxes_from_the_finer_one(learnt: NounLocaliser) -> None:
    red, blue = (np.full((SIDE, SIDE, 3), 124, np.uint8) for _ in range(2))
    red[8:32, 8:32], red[40:64, 40:64] = (230, 20, 20), (20, 20, 230)  # a ball above, a car below
    blue[8:32, 8:32], blue[40:64, 40:64] = (20, 20, 230), (230, 20, 20)  # the other way round
    coarse, finer = (learnt.grid.extract([Image.fromarray(pixels)]) for pixels in (red, blue))
    here, there = (learnt.search_maps(coarse, look, [(SIDE, SIDE)], ["ball"])[0][0] for look in (coarse, finer))
    assert here.box.y2 < there.box.y2
    assert here.score == pytest.approx(there.score)


def test_the_finer_grid_needs_the_images(learnt: NounLocaliser) -> None:
    closer = NounLocaliser(learnt.nouns, learnt.adjectives, learnt.grid, Patches())
    closer.load_state_dict(learnt.state_dict(), strict=False)
    images = list(boards(2, 7)[1].values())
    assert closer.detect(images) == learnt.detect(images)  # the same grid twice: the same places
    with pytest.raises(InputError, match="needs the images"):
        closer.detect_on(learnt.grid.extract(images), [(64, 64)] * 2)


def test_it_is_a_detector_that_shares_its_grid(learnt: NounLocaliser) -> None:
    assert isinstance(learnt, Detector)
    assert isinstance(learnt, GridDetector)
    backbone = RegionBackbone(learnt, most=5, whole=True)
    assert backbone.grid is learnt.grid
    images = list(boards(3, 3)[1].values())
    direct = backbone.extract(images)
    stored = backbone.regions_on(learnt.grid.extract(images), [image.size for image in images])
    assert direct.mask.sum(1).tolist() == [len(each) for each in stored]
    first = stored[1][1].feature
    assert first is not None
    assert torch.equal(direct.elements[1, 1], first)


def test_save_and_load(learnt: NounLocaliser, tmp_path: Path) -> None:
    learnt.save_pretrained(tmp_path)
    again = NounLocaliser.from_pretrained(tmp_path, Patches())
    images = list(boards(2, 4)[1].values())
    first, second = learnt.detect(images), again.detect(images)
    assert [[region.label for region in each] for each in first] == [[r.label for r in each] for each in second]
    assert {**learnt.describe(), "source": ""} == {**again.describe(), "source": ""}
    with pytest.raises(MismatchError, match="a noun localiser for patches"):
        NounLocaliser.from_pretrained(tmp_path, EfficientNetLite(0))
    with pytest.raises(DatasetError, match="no noun localiser"):
        NounLocaliser.from_pretrained(tmp_path / "nothing")
    with pytest.raises(InputError, match="has not learnt 'zebra'"):
        again.locate(images[0], "zebra")


def test_training_depends_on_the_seed_alone() -> None:
    train, images = boards(60, 5)
    backbone = Patches()
    recipe = LocaliserRecipe(least_nouns=5, least_adjectives=5, components=8, epochs=2)
    heads = [
        train_localiser(train, train, ImageFeatures(backbone, images), backbone, recipe).head.weight for _ in range(2)
    ]
    assert torch.equal(*heads)


def test_noisy_or_is_the_cross_entropy_of_at_least_one() -> None:
    maps = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = torch.tensor([[1, 0], [0, 1], [1, 1]]).double()
    some = 1 - (1 - torch.sigmoid(maps)).prod(1)
    expected = torch.nn.functional.binary_cross_entropy(some, wanted, reduction="none").sum(1).mean()
    assert torch.allclose(noisy_or_loss(maps, wanted), expected)


def test_words_of_a_kind_are_positives_of_the_class() -> None:
    texts = ["a puppy and a boy in an orange shirt", "an orange dog", "a man with glasses", "a red shirt"]
    words = caption_words([Sample(ImageRef(str(number)), (text,)) for number, text in enumerate(texts)])
    labels = choose_labels(words, least_nouns=1, least_adjectives=1)
    assert {"dog", "person", "puppy", "shirt"} <= set(labels.nouns)
    assert "orange" not in labels.nouns
    assert labels.adjectives == ("orange", "red")
    found = targets(words, labels)
    assert found[:, labels.nouns.index("dog")].tolist() == [1, 1, 0, 0]
    assert found[:, labels.nouns.index("person")].tolist() == [1, 0, 1, 0]
    assert found[:, len(labels.nouns) + 1].tolist() == [0, 0, 0, 1]


def test_peaks_at_several_levels() -> None:
    values = np.zeros((10, 10))
    values[1:4, 1:4] = 1.0
    values[1:4, 6:9] = 0.6
    values[2, 4:6] = 0.3  # joins the two at a low level
    boxes = [peak.box for peak in find_peaks(values, (0.2, 0.5))]
    assert (0.1, 0.1, 0.4, 0.4) in boxes
    assert (0.6, 0.1, 0.9, 0.4) in boxes
    assert (0.1, 0.1, 0.9, 0.4) in boxes
    assert find_peaks(np.zeros((4, 4)), (0.5,)) == []


def test_average_precision_by_hand() -> None:
    truth = {"a": [Box(0, 0, 10, 10), Box(20, 0, 30, 10)], "b": [Box(0, 0, 10, 10)]}
    found = [
        ScoredBox("a", Box(0, 0, 10, 10), 0.9),  # right
        ScoredBox("a", Box(0, 0, 10, 9), 0.8),  # a second one on the same box: wrong
        ScoredBox("b", Box(50, 50, 60, 60), 0.7),  # wrong
        ScoredBox("b", Box(1, 0, 10, 10), 0.6),  # right: precision 2/4
    ]
    assert average_precision(found, truth) == pytest.approx((1 + 0.5) / 3)
    assert np.isnan(average_precision(found, {}))
    assert hits((5, 5), truth["a"])
    assert not hits((15, 5), truth["a"])
    assert covered_share([Box(0, 0, 50, 100), Box(0, 0, 50, 50)], (100, 100)) == pytest.approx(0.5)


def test_the_shipped_weights_are_small() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.glob("localiser.*")) < 3_000_000
    assert (SHIPPED / "localiser.md").is_file()


@pytest.mark.slow
def test_the_shipped_one_finds_a_motorcycle() -> None:
    backbone = load_backbone("localiser?most=10")
    assert isinstance(backbone, RegionBackbone)
    image = Image.fromarray(photographs.stereo_motorcycle()[0])
    regions = backbone.regions([image])[0]
    found = next(region for region in regions if region.label == "motorcycle")
    width, height = image.size
    assert found.score > 0.5
    assert found.box.iou(Box(0.09 * width, 0.12 * height, width, 0.88 * height)) > 0.5  # by eye
    assert all(region.feature is not None for region in regions)
    again = load_backbone(backbone.describe())
    assert torch.equal(again.extract([image]).elements, backbone.extract([image]).elements)


@pytest.mark.slow
@pytest.mark.needs("data")
def test_the_shipped_one_points_at_large_things_of_photographs(data: Path) -> None:
    localiser = NounLocaliser.from_pretrained()
    results = []
    for sample in read_boxes(data / "coco" / "boxes_val2017.json"):
        path = data / "coco" / "images" / f"{int(sample.id):012d}.jpg"
        names = {region.label for region in sample.regions} & {"bed", "bus", "train"}
        if path.exists() and len(results) < 8:
            for name in names:
                image = open_image(path)
                values = localiser.locate(image, name)
                y, x = np.unravel_index(values.argmax(), values.shape)
                point = ((x + 0.5) / len(values) * image.width, (y + 0.5) / len(values) * image.height)
                results.append(hits(point, [region.box for region in sample.regions if region.label == name]))
    assert len(results) >= 8
    assert np.mean(results) >= 0.6
