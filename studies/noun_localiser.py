"""The noun localiser: trained on Flickr8k's captions, measured on human boxes of COCO (docs/vision.md has the figures).

    captrial features DATA/flickr8k/dataset_flickr8k.json --out GRIDS            # 224 pixels, 7 x 7 cells
    captrial features DATA/coco/images --out COCO
    captrial features DATA/coco/images --backbone "efficientnet-lite2?size=384" --out FINER
    python -m studies.noun_localiser train --features GRIDS [--out FOLDER]        # default: the shipped weights
    python -m studies.noun_localiser measure --features COCO --finer FINER [--half] [--json FILE]
    python -m studies.noun_localiser regions --features GRIDS --out REGIONS       # region features for captioners
    python -m studies.noun_localiser draw IMAGE... --out PNG

DATA is `CAPTRIAL_DATA` or `../shared/data`. Classes are those of COCO that the localiser has learnt from captions.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import torch

from captrial.data.datasets import read_boxes, read_coco, read_karpathy
from captrial.data.images import image_size, open_image
from captrial.files import atomic_write
from captrial.language.class_words import COCO_CLASSES, default_table, mentioned
from captrial.progress import track
from captrial.records import Box
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.boxes import ScoredBox, average_precision, covered_share, hits
from captrial.vision.detectors.base import Detection, Detector, RegionBackbone, pack_regions, region_notes
from captrial.vision.detectors.noun_localiser import SHIPPED, NounLocaliser
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.registry import load_backbone
from studies.data_paths import COCO, FLICKR8K_CAPTIONS, OLD_NAMES
from studies.localiser_training import LocaliserRecipe, train_localiser
from studies.printing import print_table


class Human(NamedTuple):
    """An image of COCO: its size, its boxes by class, and the classes that its captions name."""

    id: str
    size: tuple[int, int]
    boxes: dict[str, list[Box]]
    named: frozenset[str]


class Pointing(NamedTuple):
    """One noun on one image: was the map's peak, the image's centre, in a box; how much do the boxes cover."""

    class_: str
    named: bool
    hit: bool
    centre: bool
    chance: float


def humans(ids: Sequence[str]) -> list[Human]:
    """Boxes and captions of those of the images that have human boxes."""
    boxes = {sample.id: sample.regions for sample in read_boxes(COCO / "boxes_val2017.json")}
    captions = {sample.id: sample.captions for sample in read_coco(COCO / "captions_val2017.json")}
    wanted = {identity: str(int(Path(identity).stem)) for identity in ids}  # 000000000139.jpg is 139 in the files
    wanted = {identity: number for identity, number in wanted.items() if boxes.get(number)}
    classes = iter(mentioned([caption for number in wanted.values() for caption in captions[number]]))
    found = []
    for identity, number in wanted.items():
        named = frozenset(name for _ in captions[number] for name in next(classes))
        grouped: dict[str, list[Box]] = {}
        for region in boxes[number]:
            grouped.setdefault(OLD_NAMES.get(str(region.label), str(region.label)), []).append(region.box)
        size = image_size(COCO / "images" / f"{int(number):012d}.jpg")
        found.append(Human(identity, size, grouped, named))
    return found


def point(localiser: NounLocaliser, store: FeatureStore, images: Sequence[Human]) -> list[Pointing]:
    """The pointing game on every class that an image has boxes of."""
    results = []
    classes = known_classes(localiser)
    for human in images:
        grids = localiser.enlarged(store.get([human.id]))[0]
        for name, boxes in human.boxes.items():
            if name in classes:
                width, height = human.size
                y, x = np.unravel_index(int(grids[localiser.nouns.index(classes[name])].argmax()), grids.shape[1:])
                peak = ((x + 0.5) / grids.shape[2] * width, (y + 0.5) / grids.shape[1] * height)
                middle = (width / 2, height / 2)
                share = covered_share(boxes, human.size)
                results.append(Pointing(name, name in human.named, hits(peak, boxes), hits(middle, boxes), share))
    return results


def detections(
    localiser: NounLocaliser, store: FeatureStore, finer: FeatureStore, images: Sequence[Human]
) -> dict[str, list[ScoredBox]]:
    """Boxes of every class on all images, found on the class's own map."""
    classes = known_classes(localiser)
    found: dict[str, list[ScoredBox]] = {name: [] for name in classes}
    names = {noun: name for name, noun in classes.items()}
    usual, localiser.search = localiser.search, replace(localiser.search, alike=1.0, nouns=100)  # no competition
    for human in images:
        features = [each.get([human.id]) for each in (store, finer)]
        for region in localiser.search_maps(*features, [human.size], list(names))[0]:
            found[names[str(region.label)]].append(ScoredBox(human.id, region.box, region.score))
    localiser.search = usual
    return found


def known_classes(localiser: NounLocaliser) -> dict[str, str]:
    """The classes of COCO that are nouns of the localiser, by COCO's name and by the noun."""
    table = default_table()
    nouns = {name: name if name in localiser.nouns else table.canonical(name) for name in COCO_CLASSES}
    return {name: noun for name, noun in nouns.items() if noun in localiser.nouns}


def precision(found: dict[str, list[ScoredBox]], images: Sequence[Human], iou: float) -> dict[str, float]:
    """Average precision a class that has boxes."""
    truth = {name: {human.id: human.boxes[name] for human in images if name in human.boxes} for name in found}
    return {name: average_precision(found[name], truth[name], iou) for name in found if truth[name]}


def measure(arguments: argparse.Namespace) -> None:
    """Print the table of classes."""
    localiser = NounLocaliser.from_pretrained(arguments.localiser, use_finer=arguments.finer is not None)
    store = FeatureStore(arguments.features, localiser.grid.describe())
    finer = store if localiser.finer is None else FeatureStore(arguments.finer, localiser.finer.describe())
    images = humans(list(store))
    images = images[1::2] if arguments.half else images
    pointed = point(localiser, finer, images)
    found = detections(localiser, store, finer, images)
    tables = {iou: precision(found, images, iou) for iou in (0.3, 0.5)}
    rows = class_rows(pointed, tables)
    header = ["class", "pairs", "pointing", "centre", "chance", "AP 0.3", "AP 0.5"]
    cells = [[str(row[0]), str(row[1]), *(f"{100 * value:.1f}" for value in row[2:])] for row in rows]
    print_table(
        f"{len(images)} images, places at {finer.vision['preprocess']['size']} pixels",
        header,
        cells,
    )
    if arguments.json:
        result = [dict(zip(header, row, strict=True)) for row in rows]
        atomic_write(arguments.json, orjson.dumps(result, option=orjson.OPT_INDENT_2))


def class_rows(pointed: Sequence[Pointing], tables: dict[float, dict[str, float]]) -> list[list[Any]]:
    """A row a class, most frequent first; then the mean over classes, over pairs, and over pairs that captions name."""
    classes = sorted({each.class_ for each in pointed}, key=lambda name: -sum(each.class_ == name for each in pointed))
    rows: list[list[Any]] = []
    for name in classes:
        of_class = [each for each in pointed if each.class_ == name]
        rows.append([name, *_shares(of_class), *(tables[iou][name] for iou in sorted(tables))])
    means = np.array([row[2:] for row in rows]).mean(0).tolist()
    rows.append([f"mean of {len(classes)} classes", len(pointed), *means])
    empty = [float("nan")] * len(tables)
    rows.append(["all pairs", *_shares(pointed), *empty])
    rows.append(["pairs that a caption names", *_shares([each for each in pointed if each.named]), *empty])
    return rows


def _shares(pointed: Sequence[Pointing]) -> list[float]:
    values = np.array([(each.hit, each.centre, each.chance) for each in pointed], float)
    return [len(pointed), *values.mean(0).tolist()]


def train(arguments: argparse.Namespace) -> None:
    """Train and write the weights."""
    samples = read_karpathy(FLICKR8K_CAPTIONS)
    splits = [[sample for sample in samples if sample.split == split] for split in ("train", "val")]
    store = FeatureStore(arguments.features)
    recipe = LocaliserRecipe(epochs=arguments.epochs)
    localiser = train_localiser(*splits, store, load_backbone(store.vision), recipe)
    notes = {"data": "Flickr8k, 6 000 training images with 5 captions each", "recipe": asdict(recipe)}
    localiser.finer = EfficientNetLite(2, arguments.finer)
    localiser.save_pretrained(arguments.out, notes)
    print(f"{len(localiser.nouns)} nouns and {len(localiser.adjectives)} adjectives in {arguments.out}")


def regions(arguments: argparse.Namespace) -> None:
    """Regions on stored grids: as by `captrial features --backbone "localiser?finer=no&whole=yes&most=20"`, quicker."""
    localiser = NounLocaliser.from_pretrained(arguments.localiser, use_finer=False)
    store = FeatureStore(arguments.features, localiser.grid.describe())
    backbone = RegionBackbone(localiser, most=arguments.most, whole=True)
    with FeatureWriter(arguments.out, backbone.describe()) as writer:
        todo = [identity for identity in store if identity not in writer.done]
        for start in track(range(0, len(todo), 50), "finding regions"):
            ids = todo[start : start + 50]
            sizes = [(1, 1)] * len(ids)  # boxes in a store are relative to the image
            found = backbone.regions_on(store.get(ids), sizes)
            writer.add(ids, pack_regions(found, sizes), region_notes(found))


def draw(arguments: argparse.Namespace) -> None:
    """Images with their best regions, side by side."""
    localiser = NounLocaliser.from_pretrained(arguments.localiser)
    draw_sheet(localiser, arguments)


@dataclass(frozen=True)
class SheetSettings:
    """How a sheet of images with regions is drawn."""

    columns: int = 4
    most: int = 5  # regions per image
    least: float = 0.0  # score of a region that is drawn
    dpi: int = 80


def add_sheet_arguments(parser: argparse.ArgumentParser, defaults: SheetSettings) -> None:
    """The arguments that `draw_sheet` reads."""
    parser.add_argument("images", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--columns", type=int, default=defaults.columns)
    parser.add_argument("--least", type=float, default=defaults.least)
    parser.add_argument("--most", type=int, default=defaults.most)
    parser.add_argument("--dpi", type=int, default=defaults.dpi)


def draw_sheet(detector: Detector, settings: argparse.Namespace) -> None:
    """Images with the best regions of a detector, side by side; `settings` are those of `add_sheet_arguments`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    columns = min(settings.columns, len(settings.images))
    rows = -(-len(settings.images) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4 * columns, 3.4 * rows), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, path in zip(axes.flat, settings.images, strict=False):
        image = open_image(path)
        axis.imshow(image)
        for number, region in enumerate(detector.detect([image])[0][: settings.most]):
            if region.score >= settings.least:
                draw_region(axis, region, pyplot.colormaps["tab10"](number % 10))
    figure.tight_layout(pad=0.5)
    figure.savefig(settings.out, dpi=settings.dpi, facecolor="white")


def draw_region(axis: Any, region: Detection, colour: Any) -> None:
    """Draw a box with its label and score."""
    x1, y1, x2, y2 = region.box
    axis.plot([x1, x2, x2, x1, x1], [y1, y1, y2, y2, y1], color=colour, linewidth=2)
    words = " ".join([*region.attributes[:1], str(region.label)])
    axis.text(x1 + 4, y1 + 4, f"{words} {region.score:.2f}", color="white", fontsize=9, va="top",
              bbox={"facecolor": colour, "pad": 1, "linewidth": 0})  # fmt: skip


def main() -> None:
    """Train, measure or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    training = verbs.add_parser("train")
    training.add_argument("--features", type=Path, required=True, help="Store of Flickr8k's grid features.")
    training.add_argument("--out", type=Path, default=SHIPPED)
    training.add_argument("--epochs", type=int, default=LocaliserRecipe().epochs)
    training.add_argument("--finer", type=int, default=384, help="Pixels of the finer grid, for boxes.")
    training.set_defaults(run=train)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("--features", type=Path, required=True, help="Store of the COCO images' grid features.")
    measuring.add_argument("--finer", type=Path, help="Store of the same at 384 pixels; without it, places at 224.")
    measuring.add_argument("--half", action="store_true", help="Every second image: those no setting was chosen on.")
    measuring.add_argument("--localiser", type=Path, default=SHIPPED)
    measuring.add_argument("--json", type=Path)
    measuring.set_defaults(run=measure)
    storing = verbs.add_parser("regions")
    storing.add_argument("--features", type=Path, required=True, help="Store of grid features.")
    storing.add_argument("--localiser", type=Path, default=SHIPPED)
    storing.add_argument("--out", type=Path, required=True)
    storing.add_argument("--most", type=int, default=20)
    storing.set_defaults(run=regions)
    drawing = verbs.add_parser("draw")
    drawing.add_argument("--localiser", type=Path, default=SHIPPED)
    add_sheet_arguments(drawing, SheetSettings())
    drawing.set_defaults(run=draw)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
