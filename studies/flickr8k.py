"""Train and test all captioners on Flickr8k, in one resumable script (docs/flickr8k.md has the results).

    python -m studies.flickr8k --features STORE --runs RUNS [NAME...]

Trains what is named (default: everything that there is a store for), continues what was stopped, and writes
`studies/results/flickr8k/NAME.json` with the scores on the 500 test images as each one finishes. Stores are made by
`captrial features` (grid, regions) and by `studies.mirrored_features`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import torch

from captrial.captioners.base import evaluating
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import shipped_captioners
from captrial.captioners.trained import caption_by_id, with_graphs
from captrial.data.datasets.karpathy import read_karpathy
from captrial.decoding import greedy
from captrial.files import atomic_write
from captrial.grounding.regions import detect_regions
from captrial.metrics.caption_statistics import repetition
from captrial.metrics.meteor.meteor import meteor
from captrial.metrics.ngram.bleu import bleu
from captrial.metrics.ngram.cider import cider
from captrial.metrics.spice.spice import spice
from captrial.records import Sample
from captrial.training.run import TrainingData, train
from captrial.vision.features.feature_store import FeatureStore
from captrial.vision.registry import load_detector
from studies.data_paths import FLICKR8K, FLICKR8K_CAPTIONS, find_yolo
from studies.mirrored_features import mirror

RESULTS = Path(__file__).parent / "results" / "flickr8k"
TESTED = "test.json"  # in a run folder: the captions of the test images; an entry with it is finished
LSTMS = ("show_attend_tell", "att2in", "stack_cap", "top_down")
TRANSFORMERS = ("transformer", "smart", "m2", "ort", "aoa", "x_lan")


@dataclass(frozen=True)
class Entry:
    """One row of the table: a preset, the features it sees, and how it is trained."""

    preset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    after: str | None = None  # another entry whose best checkpoint this one goes on from
    store: str = "grid"
    mirrored: bool = False  # train on the mirror images too
    detected: bool = False  # with a detector's boxes on the training images, for weakly supervised attention


XE = {"epochs": 7, "batch": 16, "warmup": 150, "patience": 3}
SCST = {"epochs": 0, "scst_epochs": 5, "batch": 16, "scst_rate": 3e-5, "scst_warmup": 100, "patience": 2}
TWICE = {"epochs": 4, "batch": 16, "warmup": 150, "patience": 3}  # of twice as many images
TWICE_SCST = {**SCST, "average": 0.999}

PLAN: dict[str, Entry] = {
    **{name: Entry(f"{name}-small", XE) for name in (*TRANSFORMERS, *LSTMS)},
    "transformer": Entry("transformer-small", {**XE, "epochs": 10}),
    "sgae": Entry("sgae-small", XE, store="regions"),  # its scene graphs are made of labelled regions
    # Until its critic is used Disc is Att2in.
    "disc": Entry("disc-small", {**SCST, "critic_epochs": 8, "warmup": 100}, after="att2in"),
    "ort-no-geometry": Entry("ort-no-geometry-small", XE),
    **{
        f"{name}-scst": Entry(f"{name}-small", SCST, after=name)
        for name in ("show_attend_tell", "top_down", "transformer", "m2", "ort")
    },
    **{f"{name}-regions": Entry(f"{name}-small", XE, store="regions") for name in ("transformer", "smart", "m2")},
    "show_attend_tell-weak": Entry("show_attend_tell-small", {**XE, "supervision": "weak"}, detected=True),
    "ort-fine": Entry("ort-small", XE, store="mirrored"),
    "ort-mirrored": Entry("ort-small", TWICE, store="mirrored", mirrored=True),
    "ort-mirrored-scst": Entry("ort-small", TWICE_SCST, after="ort-mirrored", store="mirrored", mirrored=True),
}


def run(name: str, samples: list[Sample], stores: Mapping[str, Path], runs: Path, beam: int = 5) -> dict[str, Any]:
    """Train and test one entry; what is finished is not repeated."""
    entry, folder, result = PLAN[name], runs / name, RESULTS / f"{name}.json"
    if (folder / TESTED).exists() and result.exists():
        return dict(orjson.loads(result.read_bytes()))
    store = FeatureStore(stores[entry.store])
    splits = {split: [sample for sample in samples if sample.split == split] for split in ("train", "val", "test")}
    if entry.mirrored:
        splits["train"] = [*splits["train"], *mirror(splits["train"])]
    if entry.detected:
        splits["train"] = detect_regions(splits["train"], load_detector(find_yolo()), runs / "detected.json")
    start = find_best(entry.after, runs) if entry.after else None
    if entry.after and start is None:
        run(entry.after, samples, stores, runs)
        start = find_best(entry.after, runs)
    best = train(
        entry.preset,
        TrainingData(
            splits["train"],
            splits["val"],
            store,
            store.vision,
            {"data": "Flickr8k, 6 000 training images", "experiment": name},
        ),
        folder,
        {key: str(value) for key, value in entry.options.items()},
        start=start,
    )
    return test(name, best, splits["test"], store, folder, beam)


def find_best(name: str, runs: Path) -> Path | None:
    """The best checkpoint of a finished entry: of its run, or as it was shipped, in half precision."""
    if (runs / name / TESTED).exists():
        return runs / name / "best"
    for folder in shipped_captioners().values():
        if orjson.loads((folder / "config.json").read_bytes())["notes"].get("experiment") == name:
            return folder
    return None


def test(
    name: str, best: Checkpoint, samples: list[Sample], store: FeatureStore, folder: Path, beam: int
) -> dict[str, Any]:
    """Scores on the test images, with the captions in the run folder."""
    ids = [sample.id for sample in samples]
    captions = caption_by_id(best.captioner, best.vocabulary, store, ids, beam=beam)
    atomic_write(folder / TESTED, orjson.dumps(dict(zip(ids, captions, strict=True)), option=orjson.OPT_INDENT_2))
    references = [sample.captions for sample in samples]
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    epochs = [row for row in rows if row["cider"]]  # of captions
    before = max((float(row["seconds"]) for row in rows if not row["cider"]), default=0.0)  # of critics and sentences
    result = {
        "name": name,
        "bleu_4": bleu(captions, references).corpus,
        "meteor": meteor(captions, references).corpus,
        "cider": cider(captions, references).corpus,
        "spice": spice(captions, references).corpus,
        "parameters": sum(parameter.numel() for parameter in best.captioner.parameters()),
        "epochs": len(epochs),
        "seconds_an_epoch": round((float(epochs[-1]["seconds"]) - before) / len(epochs), 1),
        "val_cider": max(float(row["cider"]) for row in epochs),
        "beam": beam,
        "repetitions": count_repetitions(best, samples, store),
        "options": dict(PLAN[name].options),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    atomic_write(RESULTS / f"{name}.json", orjson.dumps(result, option=orjson.OPT_INDENT_2))
    return result


def count_repetitions(best: Checkpoint, samples: list[Sample], store: FeatureStore) -> dict[str, int]:
    """Test captions with a word two, or three, or more times in a row, spoken greedily and without our constraints."""
    source = with_graphs(best.captioner, best.vocabulary, store)
    with evaluating(best.captioner), torch.no_grad():
        memory = best.captioner.encode(source.get([sample.id for sample in samples]))
        captions = [" ".join(best.vocabulary.decode(words)) for words in greedy(best.captioner, memory).best()]
    references = [sample.captions for sample in samples]
    return {
        str(times): round(len(samples) * repetition(captions, references, in_a_row=times).corpus) for times in (2, 3)
    }


def main() -> None:
    """Run the entries named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PLAN))
    parser.add_argument("--features", type=Path, required=True, help="Store of grid features.")
    parser.add_argument("--regions", type=Path, help="Store of region features.")
    parser.add_argument("--mirrored", type=Path, help="Store made by studies.mirrored_features.")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    samples = read_karpathy(FLICKR8K_CAPTIONS, images=FLICKR8K / "images")
    stores = {"grid": arguments.features, "regions": arguments.regions, "mirrored": arguments.mirrored}
    for name in arguments.names or [name for name, entry in PLAN.items() if stores[entry.store]]:
        print(run(name, samples, stores, arguments.runs), flush=True)


if __name__ == "__main__":
    main()
