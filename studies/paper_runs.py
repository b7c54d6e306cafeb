"""The captioners of Wan 2022 and Cornia 2022, trained on Flickr8k: one plan, one resumable command.

    python -m studies.paper_runs list                   what there is to train, in order, and how far each run is
    python -m studies.paper_runs features               make all feature stores now; `run` makes those it needs
    python -m studies.paper_runs run ALL                every run that is not finished; or the names of some
    python -m studies.paper_runs table                  the table of docs/results.md, from the kept results
    python -m studies.paper_runs collect FOLDER         copy finished runs that `--results FOLDER` kept elsewhere
    python -m studies.paper_runs export FOLDER          caption files and references, for `captrial papers wan --data`

A run is one captioner x features x stage x seed. It trains with one thread, continues after a kill, and at its end
writes `studies/results/paper_runs/RUN/`: `run.json` (settings, parameters, processor time, scores), `curve.csv` (a row
an epoch) and `captions.csv.gz` (every caption of each set, with its scores); for the captioners of Cornia 2022 after
their last stage also `grounding.csv.gz` (GroundingScore of each caption of COCO, by method, beside null models).
Several processes may run the same command: each takes the next run that no other process holds. Stores and run folders
are in `--work`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray

from captrial.attribution.dataset_attribution import DatasetAttributor, RecordedCaptions
from captrial.attribution.methods.registry import AttributionSettings
from captrial.captioners.base import evaluating
from captrial.captioners.checkpoint import LENGTH_POWER, Checkpoint
from captrial.captioners.registry import ARCHITECTURES, PRESETS
from captrial.captioners.trained import BATCH, caption_by_id, with_graphs
from captrial.data.datasets import read_coco, read_karpathy
from captrial.decoding import BeamSettings, beam_search
from captrial.decoding.constraints import Suppress
from captrial.errors import StateError
from captrial.files import atomic_write, csv_table
from captrial.folders import lock_folder
from captrial.grounding.baselines import NULLS
from captrial.grounding.score import DELTAS, Grounder, name_delta
from captrial.grounding.study import GroundingResult, ground_dataset
from captrial.grounding.study_data import DataSource
from captrial.language.vocabulary import UNK
from captrial.metrics import score
from captrial.metrics.ngram.cider import cider
from captrial.records import Sample
from captrial.training.feature_extraction import extract_dataset
from captrial.training.loop import METRICS
from captrial.training.run import TrainingData, train
from captrial.vision.features.feature_store import FeatureStore
from studies.data_paths import COCO, FLICKR8K, FLICKR8K_CAPTIONS, ROOT
from studies.mirrored_features import BACKBONE, extract_mirrored, mirror


def has_bfloat16_units() -> bool:
    """Whether this processor multiplies in bfloat16 (AVX-512 BF16 or AMX)."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


RESULTS = Path(__file__).parent / "results" / "paper_runs"
SUMMARY, CURVE, CAPTIONS, GROUNDING = "run.json", "curve.csv", "captions.csv.gz", "grounding.csv.gz"
BACKBONES = {"regions": "region-detector", "grid": BACKBONE}  # 36 regions, 1012 wide; 9 x 9 cells, 1280 wide
BEAM = 5
LENGTH_POWERS = (LENGTH_POWER, 1.0)  # both are validated; the sets are captioned with the first
GROUNDING_METHODS, STEPS = ("saliency", "guided_backprop", "integrated_gradients"), 8  # of Cornia 2022; docs/ground.md
WAIT = 60  # seconds until a process that finds all runs held by others looks again

# Layers, memory slots and stages are the papers' own but for ORT (6 + 6); widths are what two cores can train.
_TRANSFORMER = {"width": 256, "heads": 8, "hidden": 1024, "encoder_layers": 3, "decoder_layers": 3}
SIZES: dict[str, dict[str, Any]] = {
    "transformer": _TRANSFORMER,
    "smart": {**_TRANSFORMER, "encoder_layers": 2, "decoder_layers": 2, "memory_slots": 40},
    "m2": {**_TRANSFORMER, "memory_slots": 40},
    "ort": _TRANSFORMER,
    "ort-no-geometry": _TRANSFORMER,
    "att2in": {"width": 320, "attention": 256},
    "disc": {},  # Att2in's, which it continues from
    "top_down": {"width": 288, "attention": 256},
    "stack_cap": {"width": 256, "attention": 256, "stages": 3},
    "sgae": {"width": 256, "attention": 192, "dictionary": 1000},
    "aoa": {"width": 256, "heads": 8, "layers": 3},
    "x_lan": {"width": 256, "heads": 8, "blocks": 3},
}
# The comparisons are made by short runs, so that all captioners, features and seeds can be trained; what ships was
# trained longer, also on mirror images: its epochs are twice as long. bfloat16 halves a step where the processor has
# units for it and takes many times as long where it has none; run.json says which it was.
LENGTHS = {"short": {"epochs": 8, "scst_epochs": 2}, "long": {"epochs": 6, "scst_epochs": 3}}
_SHARED = {"batch": 16, "patience": 3, "autocast": str(has_bfloat16_units()).lower()}
XE = {**_SHARED, "warmup": 500, "rate": 5e-4}
RL = {**_SHARED, "scst_rate": 3e-5, "scst_warmup": 100, "average": 0.999}
DISC = {"critic_epochs": 4, "warmup": 200, "critic_width": 256, "critic_embedding": 128}  # its critic comes first

WAN = ("ort", "m2", "top_down", "att2in", "disc", "aoa", "x_lan", "stack_cap", "sgae")
CORNIA = ("transformer", "m2", "smart")
SETS = {"flickr8k": "500 test photographs of Flickr8k", "coco": "390 photographs of COCO val2017"}


@dataclass(frozen=True)
class Run:
    """One captioner on one kind of features, in one stage, by one seed, for a short or long time."""

    captioner: str  # a key of SIZES
    features: str  # a key of BACKBONES
    stage: str = "xe"  # or "rl": the captioner's own self-critical stage, from the best checkpoint of "xe"
    seed: int = 0
    length: str = "short"  # a key of LENGTHS

    @property
    def name(self) -> str:
        """E.g. `m2-regions-rl-1`, and `m2-regions-rl-0-long`."""
        name = f"{self.captioner}-{self.features}-{self.stage}-{self.seed}"
        return name if self.length == "short" else f"{name}-{self.length}"

    @property
    def mirrored(self) -> bool:
        """Whether it is also trained on mirror images."""
        return self.length == "long"

    @property
    def preset(self) -> str:
        """The preset that `SIZES` changes; small ones are trained by captrial's recipe, not by a paper's."""
        return f"{self.captioner}-small"

    @property
    def after(self) -> Run | None:
        """The run that this one continues from. Until its critic is used, Disc is Att2in."""
        if self.stage == "xe":
            return None
        return replace(self, captioner="att2in" if self.captioner == "disc" else self.captioner, stage="xe")

    @property
    def options(self) -> dict[str, str]:
        """What `captrial train --set` is given."""
        epochs = LENGTHS[self.length]
        if self.stage == "xe":
            chosen = {**SIZES[self.captioner], **XE, "epochs": epochs["epochs"]}
        else:
            chosen = {**RL, "epochs": 0, "scst_epochs": epochs["scst_epochs"]}
        if self.captioner == "disc":
            chosen |= DISC
        return {name: str(value) for name, value in {**chosen, "seed": self.seed}.items()}


def plan() -> list[Run]:
    """All runs; those that decide most come first, and each captioner's stages one after the other."""
    runs = [run for name in WAN for run in stages(name, "regions", 0)]
    for seed in (0, 1, 2):
        claimed = (*CORNIA, "ort", "ort-no-geometry")
        runs += [run for name in claimed for run in stages(name, "regions", seed)]
    for seed in (0, 1, 2):
        runs += [run for name in CORNIA for run in stages(name, "grid", seed)]
    for seed in (1, 2):
        runs += [run for name in WAN for run in stages(name, "regions", seed)]
    runs += stages("ort", "grid", 0)
    return list(dict.fromkeys([*runs, *LONG]))


def stages(captioner: str, features: str, seed: int) -> list[Run]:
    """The short runs of a captioner in their order. Disc has no cross-entropy of its own."""
    chosen = ("rl",) if captioner == "disc" else ("xe", "rl")
    return [Run(captioner, features, stage, seed) for stage in chosen]


LONG = tuple(
    Run(name, "regions", stage, 0, "long")
    for name, stage in (("transformer", "xe"), ("m2", "xe"), ("m2", "rl"), ("ort", "xe"), ("ort", "rl"))
)
"""Trained for what may be shipped; no claim rests on them."""


@dataclass(frozen=True)
class Work:
    """Where stores and run folders are, and where results are kept."""

    folder: Path
    results: Path = RESULTS

    def store(self, images: str, features: str) -> Path:
        """The feature store of a set of images."""
        return self.folder / "features" / f"{images}-{features}"

    def run_folder(self, run: Run) -> Path:
        """Where a run is trained."""
        return self.folder / "runs" / run.name

    def is_finished(self, run: Run) -> bool:
        """Whether the results of a run are kept."""
        return (self.results / run.name / SUMMARY).exists()

    def has_weights(self, run: Run) -> bool:
        """Whether another run can continue from this one here."""
        return self.is_finished(run) and (self.run_folder(run) / "best").is_dir()


@cache
def flickr8k(split: str, mirrored: bool = False) -> list[Sample]:
    """The images of a split of Flickr8k, of its training split also the mirror images if wanted."""
    everything = read_karpathy(FLICKR8K_CAPTIONS, images=FLICKR8K / "images")
    samples = [sample for sample in everything if sample.split == split]
    return [*samples, *mirror(samples)] if mirrored else samples


@cache
def coco() -> list[Sample]:
    """The photographs of COCO whose files are there."""
    samples = read_coco(COCO / "captions_val2017.json", images=COCO / "images")
    return [sample for sample in samples if sample.image.path is not None and sample.image.path.is_file()]


@cache
def boxed_coco() -> tuple[list[Sample], list[str]]:
    """Those that people drew boxes in, with their labelled regions, and all labels."""
    read = DataSource(COCO / "captions_val2017.json", COCO / "images", COCO / "boxes_val2017.json").read()
    known = {sample.id for sample in coco()}
    return [sample for sample in read.samples if sample.regions and sample.id in known], list(read.labels)


def make_stores(work: Work, runs: Iterable[Run]) -> None:
    """Extract what the stores of some runs lack."""
    for features, mirrored in sorted({(run.features, run.mirrored) for run in runs}, reverse=True):
        extract_mirrored(work.store("flickr8k", features), BACKBONES[features], mirrored)
        extract_dataset(coco(), BACKBONES[features], work.store("coco", features))


def run_all(runs: Sequence[Run], work: Work) -> None:
    """Train runs in their order; one that another process holds, or that waits for another run, is left for later.

    A run whose results are kept is trained again where one that continues from it finds no weights on this machine, and
    its new results replace the old ones: both stages of a table are of the same weights.
    """
    left = with_predecessors([run for run in runs if not work.is_finished(run)], work)
    while left := [run for run in left if not work.has_weights(run)]:
        started = False
        for run in left:
            if run.after is not None and not work.has_weights(run.after):
                continue
            try:
                print(f"{time.strftime('%H:%M:%S')} {run.name}", flush=True)
                make_stores(work, [run])
                run_one(run, work)
                started = True
                break
            except StateError as error:  # held by another process
                print(f"  {error}", flush=True)
        if not started:
            time.sleep(WAIT)


def with_predecessors(runs: Sequence[Run], work: Work) -> list[Run]:
    """Runs, each after the one that it continues from where that one has no weights here."""
    found: dict[Run, None] = {}
    for run in runs:
        if run.after is not None and not work.has_weights(run.after):
            found[run.after] = None
        found[run] = None
    return list(found)


def run_one(run: Run, work: Work) -> None:
    """Train a run, or continue it, and keep its results."""
    with lock_folder(work.run_folder(run), "training run"):
        if work.has_weights(run):
            return
        store = FeatureStore(work.store("flickr8k", run.features))
        images = "6 000 training images" + (" and their mirror images" if run.mirrored else "")
        notes = {"data": f"Flickr8k, {images}", "experiment": run.name}
        data = TrainingData(flickr8k("train", run.mirrored), flickr8k("val"), store, store.vision, notes)
        start = None if run.after is None else work.run_folder(run.after) / "best"
        best = train(run.preset, data, work.run_folder(run), run.options, start=start)
        keep(run, best, work)


def keep(run: Run, best: Checkpoint, work: Work) -> None:
    """Caption and score every set, and write what later comparisons need; the summary comes last."""
    rows: list[list[object]] = []
    columns: list[str] = []
    scores = {}
    for images, samples in {"flickr8k": flickr8k("test"), "coco": coco()}.items():
        store = work.store(images, run.features)
        captions, free = caption(best, store, samples), caption_freely(best, store, samples)
        table = score(captions, {sample.id: sample.captions for sample in samples})
        columns = table.columns
        (scores[images],) = table.to_dict().values()
        (values,) = table.scores.values()
        for number, image in enumerate(table.ids):
            cells = (f"{values[column].per_image[number]:.6g}" for column in columns)
            rows.append([images, image, captions[image], free[image], *cells])
    folder, curve = work.results / run.name, (work.run_folder(run) / METRICS).read_text()
    folder.mkdir(parents=True, exist_ok=True)
    _write_packed(folder / CAPTIONS, ["set", "image_id", "caption", "free_caption", *columns], rows)
    atomic_write(folder / CURVE, curve)
    if run.stage == "rl" and run.captioner in CORNIA:
        _write_packed(folder / GROUNDING, *ground(run, best, {row[1]: row[2] for row in rows}, work))  # type: ignore[misc]
    summary = {**vars(run), **describe(run, best, curve, work), "scores": scores}
    atomic_write(folder / SUMMARY, orjson.dumps(summary, option=orjson.OPT_INDENT_2) + b"\n")


def _write_packed(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    atomic_write(path, gzip.compress(csv_table(columns, rows), mtime=0))


def caption_freely(best: Checkpoint, store: Path, samples: Sequence[Sample]) -> dict[str, str]:
    """Captions as the papers' code decodes: words may follow themselves and captions may end anywhere.

    Wan 2022 counts repeated words, which `captrial caption` never generates.
    """
    source = with_graphs(best.captioner, best.vocabulary, FeatureStore(store))
    settings = BeamSettings(BEAM, constraints=(Suppress((UNK,)),))
    found: dict[str, str] = {}
    with evaluating(best.captioner), torch.no_grad():
        for start in range(0, len(samples), BATCH):
            ids = [sample.id for sample in samples[start : start + BATCH]]
            words = beam_search(best.captioner, best.captioner.encode(source.get(ids)), settings).best()
            found.update(zip(ids, (" ".join(best.vocabulary.decode(row)) for row in words), strict=True))
    return found


def ground(run: Run, best: Checkpoint, captions: Mapping[str, str], work: Work) -> tuple[list[str], list[list[object]]]:
    """GroundingScore of every caption of COCO by method, and that of null models; columns and rows (Cornia 2022)."""
    samples, labels = boxed_coco()
    rows: list[list[object]] = []
    store = FeatureStore(work.store("coco", run.features))
    for method in GROUNDING_METHODS:
        settings = AttributionSettings(steps=STEPS)
        attributor = DatasetAttributor(run.name, best, store, method, BEAM, settings=settings)
        kept = work.run_folder(run) / f"grounding-{method}.jsonl"
        recorded = RecordedCaptions(attributor, dict(captions))
        result = ground_dataset(recorded, samples, Grounder(labels), run.features, kept)
        columns = grounding_columns(result)
        for number, one in enumerate(result.images):
            rows.append([method, one.image, *(float(f"{values[number]:.6g}") for values in columns.values())])
    return ["method", "image_id", *columns], rows


def grounding_columns(result: GroundingResult) -> dict[str, NDArray[np.float64]]:
    """What is kept of every caption (n,): GroundingScore at every delta, of checkable nouns too, and of null models."""
    columns = {f"score_{name_delta(delta)}": result.scores(delta) for delta in DELTAS}
    columns |= {f"checkable_{name_delta(delta)}": result.scores(delta, checkable=True) for delta in DELTAS}
    return columns | {f"null_{name}": result.null_scores(name) for name in NULLS}


def caption(best: Checkpoint, store: Path, samples: Sequence[Sample], power: float = LENGTH_POWER) -> dict[str, str]:
    """Captions by image id, from stored features."""
    ids = [sample.id for sample in samples]
    found = caption_by_id(best.captioner, best.vocabulary, FeatureStore(store), ids, BEAM, power)
    return dict(zip(ids, found, strict=True))


def describe(run: Run, best: Checkpoint, curve: str, work: Work) -> dict[str, Any]:
    """What the table shows of a run beside its scores, and how it can be made again."""
    epochs = list(csv.DictReader(io.StringIO(curve)))
    validation = flickr8k("val")
    references = [sample.captions for sample in validation]
    decoded = {
        str(power): list(caption(best, work.store("flickr8k", run.features), validation, power).values())
        for power in LENGTH_POWERS
    }
    return {
        "preset": run.preset,
        "options": run.options,
        "after": None if run.after is None else run.after.name,
        "vision": best.vision["backbone"],
        "parameters": best.captioner.count_parameters(),
        "epochs": len(epochs),
        "processor_seconds": float(epochs[-1]["processor"]),
        "beam": BEAM,
        "length_power": LENGTH_POWER,
        "validation_cider": {
            "greedy": max(float(row["cider"]) for row in epochs if row["cider"]),
            **{power: cider(captions, references).corpus for power, captions in decoded.items()},
        },
    }


def read_summaries(results: Path = RESULTS) -> dict[Run, dict[str, Any]]:
    """The kept runs, in the order of the plan."""
    return {run: orjson.loads(path.read_bytes()) for run in plan() if (path := results / run.name / SUMMARY).exists()}


def table(results: Path = RESULTS) -> str:
    """Every kept run, scores x100 on the test photographs of Flickr8k; Markdown."""
    lines = [
        "| captioner | features | training | seed | BLEU-4 | METEOR | CIDEr | SPICE | COCO CIDEr | parameters | epochs "
        "| processor hours |",
        "| --- " * 12 + "|",
    ]
    for run, kept in read_summaries(results).items():
        scores = kept["scores"]["flickr8k"]
        shown = " | ".join(f"{100 * scores[column]:.1f}" for column in ("bleu_4", "meteor", "cider", "spice"))
        stage = ("XE + RL" if run.stage == "rl" else "XE") + (", long" if run.length == "long" else "")
        size, hours = f"{kept['parameters'] / 1e6:.1f} M", f"{kept['processor_seconds'] / 3600:.2f}"
        other = f"{100 * kept['scores']['coco']['cider']:.1f}"
        cells = (title(run), run.features, stage, run.seed, shown, other, size, kept["epochs"], hours)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def title(run: Run) -> str:
    """A captioner as tables name it."""
    name = ARCHITECTURES[PRESETS[run.preset].architecture].title
    return f"{name} without geometry" if run.captioner == "ort-no-geometry" else name


def progress(work: Work) -> str:
    """One line a run: finished, the epochs it has had, or nothing yet."""
    lines = []
    for run in plan():
        log = work.run_folder(run) / METRICS
        epochs = len(log.read_text().splitlines()) - 1 if log.exists() else 0
        state = "finished" if work.is_finished(run) else f"{epochs} epochs" if epochs else "-"
        lines.append(f"{run.name:32} {state}")
    return "\n".join(lines)


def collect(folder: Path, results: Path = RESULTS) -> list[str]:
    """Copy the finished runs of another folder of results that are not kept here yet; their names."""
    new = [run for run in read_summaries(folder) if not (results / run.name / SUMMARY).exists()]
    for run in new:
        shutil.copytree(folder / run.name, results / run.name, dirs_exist_ok=True)
    return [run.name for run in new]


def read_captions(run: Run, results: Path = RESULTS) -> list[dict[str, str]]:
    """The kept captions of a run: set, image id, caption and its scores, as text."""
    return _read_packed(results / run.name / CAPTIONS)


def read_grounding(run: Run, results: Path = RESULTS) -> list[dict[str, str]]:
    """The kept GroundingScores of a run: method, image id, scores and those of null models, as text."""
    rows = _read_packed(results / run.name / GROUNDING)  # the first runs were kept with ' before negative numbers
    return [{name: cell.removeprefix("'") for name, cell in row.items()} for row in rows]


def _read_packed(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode())))


def export(folder: Path, results: Path = RESULTS) -> list[str]:
    """Write a pool for Wan 2022: both sets, a caption file for each of the nine after all its stages, references.

    ORT without geometry is a tenth, for Fig. 12. Returns the names of the captioners.
    """
    kept = read_summaries(results)
    chosen = [Run(name, "regions", "rl") for name in (*WAN, "ort-no-geometry")]
    there = [run for run in chosen if run in kept]
    references = {
        f"{images}/{sample.id}": list(sample.captions)
        for images, samples in {"flickr8k": flickr8k("test"), "coco": coco()}.items()
        for sample in samples
    }
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / "references.json", orjson.dumps(references))
    for run in there:
        captions = {f"{row['set']}/{row['image_id']}": row["caption"] for row in read_captions(run, results)}
        atomic_write(folder / f"{title(run)}.json", orjson.dumps(captions))
    return [title(run) for run in there]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "paper_runs", help="Stores and run folders.")
    parser.add_argument("--results", type=Path, default=RESULTS, help="Where the results of finished runs are kept.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("list", "features", "table"):
        commands.add_parser(name)
    for name in ("collect", "export"):
        commands.add_parser(name).add_argument("target", type=Path, metavar="FOLDER")
    commands.add_parser("run").add_argument("names", nargs="+", metavar="ALL|NAME")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    work, runs = Work(arguments.work, arguments.results), {run.name: run for run in plan()}
    match arguments.command:
        case "list":
            print(progress(work))
        case "features":
            make_stores(work, [run for run in plan() if not work.is_finished(run)])
        case "table":
            print(table(work.results))
        case "collect":
            print("\n".join(collect(arguments.target, work.results)))
        case "export":
            print("\n".join(export(arguments.target, work.results)))
        case _:
            unknown = [name for name in arguments.names if name not in runs and name != "ALL"]
            if unknown:
                parser.error(f"there is no run {unknown[0]!r}; `list` prints their names")
            run_all(list(runs.values()) if "ALL" in arguments.names else [runs[name] for name in arguments.names], work)


if __name__ == "__main__":
    main()
