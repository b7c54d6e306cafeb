"""Put a trained captioner into the package: float16 weights, its vocabulary, and a card.

python -m studies.ship_captioner RUN NAME    # RUN: a run folder of studies.flickr8k; NAME: e.g. transformer
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import torch

from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import ARCHITECTURES, SHIPPED, architecture_of
from captrial.files import atomic_write
from captrial.vision.backbones.efficientnet import STRIDE
from studies.flickr8k import RESULTS

CARD = """# {name}

{title}, {parameters:,} parameters, trained by the captrial project to caption photographs in English.

| | |
| --- | --- |
| architecture | {title} (`{architecture}`; `captrial models`), preset `{preset}` |
| features | {backbone}, {size} pixels, {cells} elements of width {width} |
| training data | Flickr8k: 6 000 photographs with five captions each (Karpathy-style split) |
| training | {training} |
| made by | `python -m studies.flickr8k {experiment}`, seed {seed}; every figure below comes from that run |

## Scores
On the 500 test photographs of Flickr8k, beam {beam}, document frequencies from their references (x100):

| BLEU-4 | METEOR | CIDEr | SPICE |
| --- | --- | --- | --- |
| {bleu_4:.1f} | {meteor:.1f} | {cider:.1f} | {spice:.1f} |

## Licence
The code is Apache-2.0. The weights are derived from Flickr8k, which is given for research use: use them for research
and demonstrations, and train your own captioner for anything else.

## Limits
It knows what Flickr8k shows: people (many of them doing sports), dogs, beaches, streets, snow; {words} words in all. On
other images (food, documents, drawings, screens) it will name what it knows. It counts badly, guesses genders from
clothes and hair as its training captions do, and must not be relied on to describe people.
"""


def ship(run: Path, name: str) -> Path:
    """Write `captioners/shipped/NAME`."""
    best = Checkpoint.from_pretrained(run / "best")
    settings = orjson.loads((run / "run.json").read_bytes())
    result = orjson.loads((RESULTS / f"{run.name}.json").read_bytes())
    folder = SHIPPED / name
    scores = {key: round(100 * result[key], 1) for key in ("bleu_4", "meteor", "cider", "spice")}
    shown = f"Flickr8k test: CIDEr {scores['cider']}, BLEU-4 {scores['bleu_4']}"
    notes = {**best.notes, "scores": shown, "licence": "weights: research use (Flickr8k)"}
    replace(best, notes=notes).save_pretrained(folder, torch.float16)
    atomic_write(folder / "README.md", CARD.format(**_facts(name, run.name, best, settings, result), **scores))
    return folder


def _facts(
    name: str, experiment: str, best: Checkpoint, settings: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    architecture = architecture_of(best.captioner)
    recipe, vision = settings["recipe"], settings["vision"]
    training = f"{recipe['epochs']} epochs of cross-entropy (label smoothing {recipe['smoothing']})"
    if recipe["scst_epochs"]:
        training = f"cross-entropy, then self-critical training (CIDEr-D), the best of {result['epochs']} epochs"
    if "mirrored" in experiment:
        training += "; mirror images of the photographs, too"
    return {
        "name": name,
        "experiment": experiment,
        "architecture": architecture,
        "title": ARCHITECTURES[architecture].title,
        "preset": settings["preset"],
        "parameters": result["parameters"],
        "backbone": vision["backbone"],
        "size": vision["preprocess"]["size"],
        "width": vision["width"],
        "cells": "{0} x {0}".format(math.ceil(vision["preprocess"]["size"] / STRIDE)),
        "training": training,
        "seed": recipe["seed"],
        "beam": result["beam"],
        "words": len(best.vocabulary),
    }


def main() -> None:
    """Ship the run named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    arguments = parser.parse_args()
    print(ship(arguments.run, arguments.name))


if __name__ == "__main__":
    main()
