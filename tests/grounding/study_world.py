"""A toy world with features and two untrained captioners, for `captrial ground` and `captrial attend`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
from typer.testing import CliRunner

from attribution.toyworld_captioner import VISION, ToyFeatures, toy_checkpoint
from captrial.cli.app import app
from captrial.data.datasets import masks
from captrial.toyworld import ToyWorldSettings, read_toyworld, write_toyworld
from captrial.vision.features.feature_store import FeatureWriter


def write_study_world(folder: Path) -> Path:
    """Write the images to `world`, features to `features`, captioners to `one` and `two`."""
    write_toyworld(folder / "world", ToyWorldSettings(6, size=64, shares={"test": 1}))
    with FeatureWriter(folder / "features", VISION) as writer:
        writer.add(image_ids(folder), ToyFeatures().get(image_ids(folder)))
    for number, name in enumerate(("one", "two")):
        toy_checkpoint(seed=number).save_pretrained(folder / name / "best")
    return folder


def image_ids(world: Path) -> list[str]:
    return [sample.id for sample in read_toyworld(world / "world")]


def official_coco(world: Path, root: Path) -> Path:
    """The toy world's images as an official COCO folder: captions and instances of one set, masks in all three forms.

    Objects are in turn compressed RLE, RLE with counts as numbers (`iscrowd`, as COCO's crowds), and polygons: one a
    pixel row, so that they cover the same pixels.
    """
    (root / "annotations").mkdir(parents=True)
    instances = orjson.loads((world / "world" / "instances.json").read_bytes())
    for image in instances["images"]:
        image.pop("split", None)  # official files tell the split by their names
    for number, record in enumerate(instances["annotations"]):
        size = record["segmentation"]["size"]
        if number % 3 == 1:
            counts = masks.decompress(record["segmentation"]["counts"]).tolist()
            record |= {"segmentation": {"size": size, "counts": counts}, "iscrowd": 1}
        if number % 3 == 2:
            record["segmentation"] = _rows_as_polygons(masks.decode(record["segmentation"]))
    captions = [
        {"id": number, "image_id": int(sample.id), "caption": caption}
        for sample in read_toyworld(world / "world")
        for number, caption in enumerate(sample.captions)
    ]
    document = {"images": instances["images"], "annotations": captions}
    (root / "annotations" / "captions_val2017.json").write_bytes(orjson.dumps(document))
    (root / "annotations" / "instances_val2017.json").write_bytes(orjson.dumps(instances))
    return root


def _rows_as_polygons(mask: np.ndarray) -> list[list[float]]:
    """A rectangle for every run of pixels of every row."""
    found: list[list[float]] = []
    for y, row in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
        for left, right in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            found.append([left, y, right, y, right, y + 1, left, y + 1])
    return found


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def common(world: Path) -> list[str | Path]:
    """Options of both commands."""
    models = f"{world / 'one'},{world / 'two' / 'best'}"
    return ["--data", world / "world", "--models", models, "--features", world / "features"]


def pixel_options(world: Path, folder: Path) -> list[str | Path]:
    """Options for one image through the real backbone; writes a captioner for it to `folder`."""
    from dataclasses import replace

    from captrial.captioners.registry import create
    from captrial.vision.backbones.efficientnet import EfficientNetLite

    backbone, toy = EfficientNetLite(0), toy_checkpoint()
    captioner = create("show_attend_tell-small", words=len(toy.vocabulary), features=backbone.width).eval()
    replace(toy, captioner=captioner, vision=backbone.describe()).save_pretrained(folder / "model")
    options = ["--data", world / "world", "--models", folder / "model", "--out", folder / "out", "--beam", "1"]
    return [*options, "--over", "pixels", "--methods", "saliency", "--limit", "1", "--json"]
