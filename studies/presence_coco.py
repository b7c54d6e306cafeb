"""How well *not in the image* tells apart what is there on other photographs: COCO, with human boxes of 80 classes.

    python -m studies.presence_coco CACHE measure [--images 200]
    python -m studies.presence_coco CACHE tables        what docs/ground_measured.md shows

Nothing was trained or chosen on COCO for this verdict. Every noun is judged in every image, as if a captioner had said
it: so the shares that are flagged, of images with and without the thing, do not depend on how often captioners are
wrong. A thing is there if the image has a human box of its class. CACHE is that of `studies.noun_presence`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest

from captrial.files import atomic_write
from captrial.grounding.presence import image_presence, learnt_names
from captrial.grounding.regions import dataset_regions
from captrial.grounding.score import PERSON, Grounder
from captrial.language.class_words import COCO_CLASSES
from captrial.vision.detectors.noun_presence import read_table
from captrial.vision.detectors.region_detector import SHIPPED
from captrial.vision.registry import DEFAULT_DETECTOR
from studies.noun_presence import RESULTS
from studies.region_rules import load

PATH = RESULTS / "presence_coco.json"
LEAST = 15  # images with a class
SAID = {"man": PERSON}  # nouns beside the names of the classes


def measure(cache: Path, images: int | None) -> None:
    """What is stated of every noun in every image, and whether it is there."""
    samples = load("coco")[:images]
    known = read_table(SHIPPED).nouns
    detected, labels = dataset_regions(samples, [], DEFAULT_DETECTOR, cache / "coco")
    there = [{region.label for region in sample.regions} for sample in samples]
    nouns = {**SAID, **{name: name for name in COCO_CLASSES}}
    grounder = Grounder(labels)
    document: dict[str, dict[str, Any]] = {}
    presences = [image_presence(grounder, sample) for sample in detected]
    for noun, name in nouns.items():
        present = [name in classes for classes in there]
        if learnt_names(noun, known) and sum(present) >= LEAST:
            stated = [round(float(presence.absent(noun) or 0), 4) for presence in presences]
            document[noun] = {"class": name, "there": present, "absent": stated}
    atomic_write(PATH, orjson.dumps({"threshold": presences[0].threshold, "nouns": document}))


def ranked_right(absent: NDArray[np.float64], there: NDArray[np.bool_]) -> float:
    """How often an image without the thing has the higher probability of absence; half of the ties."""
    without, with_it = absent[~there][:, None], absent[there][None]
    return float((without > with_it).mean() + (without == with_it).mean() / 2)


def tables() -> None:
    """Print the table of docs/ground_measured.md."""
    document = orjson.loads(PATH.read_bytes())
    print("| noun | images with it | flagged there | images without it | flagged there | ranked right |")
    print("| --- " * 6 + "|")
    rows: list[tuple[str, dict[str, Any]]] = sorted(document["nouns"].items(), key=lambda one: -sum(one[1]["there"]))
    for noun, row in rows:
        there, absent = np.array(row["there"]), np.array(row["absent"])
        flagged = absent >= document["threshold"]
        cells = []
        for part in (there, ~there):
            rate = binomtest(int(flagged[part].sum()), int(part.sum()))
            limits = rate.proportion_ci(method="wilson")
            cells.append(f"{part.sum()} | {rate.statistic:.0%} [{limits.low:.0%}, {limits.high:.0%}]")
        print(f"| {noun} | {cells[0]} | {cells[1]} | {100 * ranked_right(absent, there):.0f}% |")


def main() -> None:
    """Measure or print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("verb", choices=("measure", "tables"))
    parser.add_argument("--images", type=int, help="only the first ones")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.verb == "measure":
        measure(arguments.cache, arguments.images)
    else:
        tables()


if __name__ == "__main__":
    main()
