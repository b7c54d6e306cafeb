"""Put a trained captioner into the package: float16 weights, its vocabulary, and a card.

python -m studies.ship_captioner RUN NAME    # RUN: of studies.paper_runs or studies.flickr8k; NAME: e.g. transformer
python -m studies.ship_captioner RUN NAME --attend    # RUN: a run folder of studies.attend_entities
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import ARCHITECTURES, SHIPPED, architecture_of
from captrial.files import atomic_write
from captrial.vision.backbones.base import Backbone
from captrial.vision.detectors.base import RegionBackbone
from captrial.vision.registry import load_backbone
from studies.flickr8k import RESULTS
from studies.paper_runs import RESULTS as PAPER_RUNS
from studies.paper_runs import SUMMARY

CARD = """# {name}

{title}, {parameters:,} parameters, trained by the captrial project to caption photographs in English.

| | |
| --- | --- |
| architecture | {title} (`{architecture}`; `captrial models`), preset `{preset}` |
| features | {backbone}, {elements} |
| training data | Flickr8k: 6 000 photographs with five captions each (Karpathy-style split) |
| training | {training} |
| made by | `{command}`, seed {seed}; every figure below comes from that run |

## Scores
On the 500 test photographs of Flickr8k, beam {beam}, document frequencies from their references (x100):

| BLEU-4 | METEOR | CIDEr | SPICE |
| --- | --- | --- | --- |
| {bleu_4:.1f} | {meteor:.1f} | {cider:.1f} | {spice:.1f} |
{attention}
## Licence
The code is Apache-2.0. The weights are derived from Flickr8k, which is given for research use: use them for research
and demonstrations, and train your own captioner for anything else.

## Limits
It knows what Flickr8k shows: people (many of them doing sports), dogs, beaches, streets, snow; {words} words in all. On
other images (food, documents, drawings, screens) it will name what it knows. It counts badly, guesses genders from
clothes and hair as its training captions do, and must not be relied on to describe people.
"""


ATTENTION = """
Attention correctness on them (Liu 2017; the boxes of Flickr30k Entities; `captrial attend`):

| captions | phrases | uniform | correctness |
| --- | --- | --- | --- |
| forced | {forced_phrases} | {forced_area:.3f} | {forced:.3f} |
| generated | {generated_phrases} | {generated_area:.3f} | {generated:.3f} |
"""


def attention_result(run: Path, best: Checkpoint) -> dict[str, Any]:
    """What the card of a run of `studies.attend_entities` needs, scored from its kept captions."""
    from captrial.data.datasets import read_entities
    from captrial.metrics import score
    from studies.attend_entities import RESULTS as MEASURED
    from studies.data_paths import ENTITIES

    kept = orjson.loads((MEASURED / f"{run.name}.json").read_bytes())
    references = {sample.id.removesuffix(".jpg"): list(sample.captions) for sample in read_entities(ENTITIES)}
    captions = {image: (text, references[image.split("_")[0]]) for image, text in kept["captions"].items()}
    table = score(
        {image: text for image, (text, _) in captions.items()},
        {image: known for image, (_, known) in captions.items()},
        ["bleu", "meteor", "cider", "spice"],
    )
    places = orjson.loads((MEASURED / "phrases.json").read_bytes())
    areas = {"forced": [place[3] for place in places], "generated": [place[2] for place in kept["generated"]["places"]]}
    found: dict[str, Any] = {"parameters": best.captioner.count_parameters(), "beam": 5}
    for setting, shares in areas.items():
        found[f"{setting}_phrases"], found[f"{setting}_area"] = len(shares), float(np.mean(shares))
        found[setting] = float(np.mean(kept[setting]["correctness"]))
    values = next(iter(table.to_dict().values()))
    atomic_write(MEASURED / f"{run.name}.json", orjson.dumps({**kept, "scores": values}))
    return {**found, **values}


def kept_result(run: str) -> tuple[dict[str, Any], str]:
    """What was kept of a run of `studies.paper_runs` or `studies.flickr8k`, and the command that made it."""
    kept = PAPER_RUNS / run / SUMMARY
    if kept.exists():
        summary = orjson.loads(kept.read_bytes())
        return {**summary, **summary["scores"]["flickr8k"]}, f"python -m studies.paper_runs run {run}"
    return orjson.loads((RESULTS / f"{run}.json").read_bytes()), f"python -m studies.flickr8k {run}"


def ship(run: Path, name: str, attend: bool = False) -> Path:
    """Write `captioners/shipped/NAME`."""
    best = Checkpoint.from_pretrained(run / "best")
    settings = orjson.loads((run / "run.json").read_bytes())
    if attend:
        result, command = attention_result(run, best), f"python -m studies.attend_entities train --only {run.name}"
    else:
        result, command = kept_result(run.name)
    folder = SHIPPED / name
    scores = {key: round(100 * result[key], 1) for key in ("bleu_4", "meteor", "cider", "spice")}
    shown = f"Flickr8k test: CIDEr {scores['cider']}, BLEU-4 {scores['bleu_4']}"
    notes = {**best.notes, "scores": shown, "licence": "weights: research use (Flickr8k)"}
    if attend:
        notes["data"] = "Flickr8k with the phrases and boxes of Flickr30k Entities, 6 000 training images"
        notes["experiment"] = f"attend/{run.name}"
    elif (PAPER_RUNS / run.name).exists():
        notes["experiment"] = f"paper_runs/{run.name}"
    replace(best, notes=notes).save_pretrained(folder, torch.float16)
    facts = {**_facts(name, run.name, best, settings, result), "command": command}
    facts["attention"] = ATTENTION.format(**result) if attend else ""
    atomic_write(folder / "README.md", CARD.format(**facts, **scores))
    return folder


def _facts(
    name: str, experiment: str, best: Checkpoint, settings: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    architecture = architecture_of(best.captioner)
    recipe, vision = settings["recipe"], settings["vision"]
    training = f"{recipe['epochs']} epochs of cross-entropy (label smoothing {recipe['smoothing']})"
    if recipe["scst_epochs"]:
        training = f"cross-entropy, then self-critical training (CIDEr-D), the best of {result['epochs']} epochs"
    if "mirror" in f"{experiment} {best.notes.get('data', '')}":
        training += "; mirror images of the photographs, too"
    if recipe["supervision"] != "implicit":
        weight = f"lambda {recipe['attention_weight']:g}"
        training += f"; {recipe['supervision']}ly supervised attention (Liu 2017 Eq. 9, {weight})"
    return {
        "name": name,
        "architecture": architecture,
        "title": ARCHITECTURES[architecture].title,
        "preset": settings["preset"],
        "parameters": result["parameters"],
        "backbone": vision["backbone"],
        "elements": _elements(load_backbone(vision)),
        "training": training,
        "seed": recipe["seed"],
        "beam": result["beam"],
        "words": len(best.vocabulary),
    }


def _elements(backbone: Backbone) -> str:
    """What a captioner attends to, for its card."""
    if isinstance(backbone, RegionBackbone):
        return f"up to {backbone.most} regions of width {backbone.width}"
    side = math.isqrt(len(backbone.cells()))
    return f"{backbone.preprocess.size} pixels, {side} x {side} elements of width {backbone.width}"


def main() -> None:
    """Ship the run named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--attend", action="store_true", help="a run of studies.attend_entities")
    arguments = parser.parse_args()
    print(ship(arguments.run, arguments.name, arguments.attend))


if __name__ == "__main__":
    main()
