"""Flickr8k with every training picture's mirror image beside it.

    python -m experiments.mirrored STORE

Makes the feature store of the entries of `experiments.flickr8k` that have mirror images, or adds them to a copy of the
grid's. Mirrored pictures are written beside the store while it is made; they are new training pictures of the same
captions, without those that tell left from right.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PIL import ImageOps

from captrial.data.pictures import open_picture
from captrial.data.readers.karpathy import read_karpathy
from captrial.progress import track
from captrial.records import Sample
from captrial.training.extraction import features_of
from captrial.vision.loading import load_backbone
from experiments.shared import FLICKR8K, FLICKR8K_CAPTIONS

PREFIX = "mirrored/"
_SIDES = re.compile(r"\b(left|right)\b", re.IGNORECASE)


def mirror(samples: Sequence[Sample]) -> list[Sample]:
    """The training pictures' mirror images, as far as they have captions that hold for them."""
    mirrored = []
    for sample in samples:
        captions = tuple(caption for caption in sample.captions if not _SIDES.search(caption))
        if sample.split == "train" and captions:
            picture = replace(sample.picture, id=PREFIX + sample.id)
            mirrored.append(replace(sample, picture=picture, captions=captions))
    return mirrored


def write_mirrored(samples: Sequence[Sample], folder: Path) -> list[Sample]:
    """Write the mirror images; the samples with their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for sample in track(mirror(samples), "mirroring"):
        assert sample.picture.path is not None
        path = folder / sample.picture.path.name
        if not path.exists():
            ImageOps.mirror(open_picture(sample.picture.path)).save(path, quality=95)
        written.append(replace(sample, picture=replace(sample.picture, path=path)))
    return written


def main() -> None:
    """Make the store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    arguments = parser.parse_args()
    samples = read_karpathy(FLICKR8K_CAPTIONS, images=FLICKR8K / "images")
    everything = [*samples, *write_mirrored(samples, arguments.store.with_name(f"{arguments.store.name}-pictures"))]
    features_of(everything, load_backbone("efficientnet-lite2"), arguments.store)


if __name__ == "__main__":
    main()
