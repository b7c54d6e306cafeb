"""How a shipped captioner's beam ranks captions of several lengths: chosen on validation, measured on test.

    python -m studies.length_power NAME [--work FOLDER]     # NAME: a captioner that comes with the package

A hypothesis is ranked by its summed log-probability / length ** power. The power with the best CIDEr on the validation
photographs of Flickr8k is written into the checkpoint and its card; the test photographs only show what that changes.
Results are kept in `studies/results/length_power/NAME.json`. Feature stores are those of `studies.paper_runs`.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from captrial.captioners.checkpoint import LENGTH_POWER, Checkpoint
from captrial.captioners.registry import SHIPPED
from captrial.files import atomic_write
from captrial.metrics import score
from captrial.metrics.ngram.cider import cider
from studies.data_paths import ROOT
from studies.paper_runs import BACKBONES, BEAM, Work, caption, flickr8k
from studies.seed_comparison import compare_runs

RESULTS = Path(__file__).parent / "results" / "length_power"
POWERS = (0.5, LENGTH_POWER, 0.85, 1.0, 1.15, 1.3, 1.5)
METRICS = ("bleu_4", "meteor", "cider", "spice")


def measure(best: Checkpoint, store: Path) -> dict[str, Any]:
    """CIDEr on validation by power, the best power, and the test scores of the default and of the best."""
    validation, test = flickr8k("val"), flickr8k("test")
    tried = {}
    for power in POWERS:
        captions = caption(best, store, validation, power)
        tried[power] = cider(
            [captions[sample.id] for sample in validation], [sample.captions for sample in validation]
        ).corpus
        print(f"power {power}: {100 * tried[power]:.2f}", flush=True)
    chosen = max(tried, key=lambda power: tried[power])
    references = {sample.id: sample.captions for sample in test}
    scores, per_image, words = {}, {}, {}
    for power in sorted({LENGTH_POWER, chosen}):
        captions = caption(best, store, test, power)
        table = score(captions, references)
        (values,) = table.scores.values()
        (scores[str(power)],) = table.to_dict().values()
        per_image[power] = np.asarray(values["cider"].per_image)[None]
        words[str(power)] = float(np.mean([len(text.split()) for text in captions.values()]))
    difference = compare_runs(per_image[chosen], per_image[LENGTH_POWER])
    return {
        "beam": BEAM,
        "validation_cider": {str(power): value for power, value in tried.items()},
        "chosen": chosen,
        "test": {power: {metric: values[metric] for metric in METRICS} for power, values in scores.items()},
        "test_words": words,
        "test_cider_difference": [difference.value, difference.low, difference.high],
    }


def update_card(text: str, name: str, found: dict[str, Any]) -> str:
    """The card with the test scores at the chosen power, the power itself, and the command that they come from."""
    values = found["test"][str(found["chosen"])]
    cells = " | ".join(f"{100 * values[metric]:.1f}" for metric in METRICS)
    scored = f"scores: `python -m studies.length_power {name}`"
    text = text.replace("every figure below comes from that run", scored)
    text = re.sub(r"(\| BLEU-4 .*\n\| ---.*\n)\|.*\|", lambda match: f"{match[1]}| {cells} |", text)
    row = f"| decoding | hypotheses ranked by log-probability / length ** {found['chosen']} (chosen on validation) |"
    return re.sub(r"(\n\| training \|.*)(\n\| decoding \|.*)?", lambda match: f"{match[1]}\n{row}", text)


def main() -> None:
    """Choose, measure, keep and write the power of the captioner named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "paper_runs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = SHIPPED / arguments.name
    best = Checkpoint.from_pretrained(folder)
    stores = {backbone: features for features, backbone in BACKBONES.items()}
    if best.vision["backbone"] not in stores:
        parser.error(f"{arguments.name} has features of {best.vision['backbone']}; there are stores of {list(stores)}")
    found = measure(best, Work(arguments.work).store("flickr8k", stores[best.vision["backbone"]]))
    atomic_write(RESULTS / f"{arguments.name}.json", orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")
    test = {metric: round(100 * value, 1) for metric, value in found["test"][str(found["chosen"])].items()}
    notes = {**best.notes, "scores": f"Flickr8k test: CIDEr {test['cider']}, BLEU-4 {test['bleu_4']}"}
    card = update_card((folder / "README.md").read_text(), arguments.name, found)
    replace(best, length_power=found["chosen"], notes=notes).save_pretrained(folder, torch.float16)
    atomic_write(folder / "README.md", card)
    print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())


if __name__ == "__main__":
    main()
