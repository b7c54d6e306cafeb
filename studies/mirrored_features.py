"""Features of Flickr8k, with the mirror image of every training image.

    python -m studies.mirrored_features STORE [--backbone region-detector]

Makes the feature stores of `studies.paper_runs` and of the finer entries of `studies.flickr8k`; a stopped one
continues. The default backbone is the grid of the shipped ORT.
Mirror images are new training images of the same captions, without those that tell left from right.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image, ImageOps

from captrial.data.datasets.karpathy import read_karpathy
from captrial.data.images import open_image
from captrial.progress import track
from captrial.records import Sample
from captrial.training.feature_extraction import extract_batch
from captrial.vision.features.feature_store import FeatureWriter
from captrial.vision.registry import load_backbone
from studies.data_paths import FLICKR8K, FLICKR8K_CAPTIONS

BACKBONE = "efficientnet-lite2?size=288"
PREFIX = "mirrored/"
BATCH = 32
_SIDES = re.compile(r"\b(left|right)\b", re.IGNORECASE)


def mirror(samples: Sequence[Sample]) -> list[Sample]:
    """The training images' mirror images, as far as they have captions that hold for them."""
    mirrored = []
    for sample in samples:
        captions = tuple(caption for caption in sample.captions if not _SIDES.search(caption))
        if sample.split == "train" and captions:
            image = replace(sample.image, id=PREFIX + sample.id)
            mirrored.append(replace(sample, image=image, captions=captions))
    return mirrored


def opened(sample: Sample) -> Image.Image:
    """The image, mirrored where its id marks a mirror image."""
    assert sample.image.path is not None
    image = open_image(sample.image.path)
    return ImageOps.mirror(image) if sample.id.startswith(PREFIX) else image


def extract_mirrored(store: Path, name: str, mirrored: bool = True) -> None:
    """Add what the store lacks: every image of Flickr8k, then the mirror images of the training images."""
    samples = read_karpathy(FLICKR8K_CAPTIONS, images=FLICKR8K / "images")
    backbone = load_backbone(name)
    with FeatureWriter(store, backbone.describe()) as writer:
        wanted = [*samples, *mirror(samples)] if mirrored else samples
        todo = [sample for sample in wanted if sample.id not in writer.done]
        for start in track(range(0, len(todo), BATCH), "extracting features"):
            part = todo[start : start + BATCH]
            features, notes = extract_batch(backbone, [opened(sample) for sample in part])
            writer.add([sample.id for sample in part], features, notes)


def main() -> None:
    """Make the store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--backbone", default=BACKBONE)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    extract_mirrored(arguments.store, arguments.backbone)


if __name__ == "__main__":
    main()
