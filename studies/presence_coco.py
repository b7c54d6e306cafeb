"""How often *not in the image* is right on other photographs: COCO, whose boxes show everything of 80 classes.

    python -m studies.presence_coco CACHE measure [--models ort,m2]
    python -m studies.presence_coco CACHE tables        what docs/ground_measured.md shows

Nothing was trained or chosen on COCO for these verdicts. The nouns are those of the shipped captioners' captions that
mean one of the 80 classes; a noun is there if the image has a human box of such a class. CACHE is that of
`studies.noun_presence`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from captrial.files import atomic_write
from captrial.grounding.presence import image_presence
from captrial.grounding.regions import dataset_regions
from captrial.grounding.score import PERSON, Grounder, Verdict
from captrial.language.class_words import COCO_CLASSES, default_table
from captrial.vision.registry import DEFAULT_DETECTOR
from studies.noun_presence import MEASURED, RESULTS, accuracy, captions, nulls, precision_bounds, said_nouns, summary
from studies.region_rules import load

PATH = RESULTS / "presence_coco.json"
KINDS = {"all": (True, False), "people": (True,), "other things": (False,)}
Row = Sequence[Any]  # captioner, image, noun, verdict, probability of absence, is it there


def classes_of(noun: str) -> list[str]:
    """The classes of COCO that a noun means."""
    return [name for name in COCO_CLASSES if default_table().means(noun, name)]


def measure(cache: Path, models: Sequence[str]) -> None:
    """Verdicts on the nouns of the captions of COCO's photographs, against human boxes."""
    samples = load("coco")
    there = {sample.id: {region.label for region in sample.regions} for sample in samples}
    detected, labels = dataset_regions(samples, [], DEFAULT_DETECTOR, cache / "coco")
    grounder = Grounder(labels)
    presences = {sample.id: image_presence(grounder, sample) for sample in detected}
    rows = []
    for captioner, image, noun in said_nouns(captions(samples, cache, "coco", models)):
        stated, meant = presences[image].absent(noun), classes_of(noun)
        if stated is not None and meant:
            verdict = Verdict.NOT_IN_IMAGE if stated >= presences[image].threshold else Verdict.NOT_LOOKED_AT
            rows.append([captioner, image, noun, str(verdict), round(stated, 4), bool(there[image] & set(meant))])
    labelled = {sample.id: [region.label for region in sample.regions] for sample in detected}
    found = {}
    for kind, wanted in KINDS.items():
        own = [row for row in rows if (PERSON in classes_of(row[2])) in wanted]
        found[kind] = {"summary": summary(own), "nulls": nulls(own, labelled, grounder)}
    atomic_write(PATH, orjson.dumps({"rows": rows, "kinds": found}))


def tables() -> None:
    """Print the tables of docs/ground_measured.md."""
    document = orjson.loads(PATH.read_bytes())
    lines = ["| flagged as not in the image, COCO | nouns | not there | precision | recall |", "| --- " * 5 + "|"]
    for kind, wanted in KINDS.items():
        own = [row for row in document["rows"] if (PERSON in classes_of(row[2])) in wanted]
        absent = np.array([not row[5] for row in own])
        low, high = precision_bounds(own)
        flagged = accuracy(np.array([row[3] == Verdict.NOT_IN_IMAGE for row in own]), absent)
        shown = f"{flagged['precision']:.2f} [{low:.2f}, {high:.2f}] | {flagged['recall']:.2f} |"
        lines.append(f"| **the verdict, {kind}** | {len(own)} | {absent.mean():.0%} | {shown}")
        for name, entry in document["kinds"][kind]["nulls"].items():
            lines.append(f"| {name} | | | {entry['precision']:.2f} | {entry['recall']:.2f} |")
    for kind in KINDS:
        curve = document["kinds"][kind]["summary"]["reliability"]
        lines += ["", f"| {kind} | " + " | ".join(str(row[0]) for row in curve) + " |"]
        lines.append("| --- " * (len(curve) + 1) + "|")
        for title, number in (("not there", 1), ("nouns", 2)):
            lines.append(f"| {title} | " + " | ".join(str(row[number]) for row in curve) + " |")
    print("\n".join(lines))


def main() -> None:
    """Measure or print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("verb", choices=("measure", "tables"))
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MEASURED))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.verb == "measure":
        measure(arguments.cache, arguments.models)
    else:
        tables()


if __name__ == "__main__":
    main()
