"""Does supervision make attention correct? Liu 2017's question on the toy world, where the truth is known.

python -m studies.toyworld_attention --out FOLDER [--images 400] [--test 150] [--seeds 3] [--epochs 12]

Trains Show-Attend-Tell with implicit, strongly and weakly supervised attention on the same images, `--seeds` times
each, and prints the tables of docs/attend.md: correctness by model, by object size, against caption quality. Every
step is kept in the folder: a run that was killed continues where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from captrial.progress import track
from captrial.records import Sample
from captrial.toyworld import ToyWorld

if TYPE_CHECKING:
    from captrial.attribution.dataset_attribution import CaptionAttributor
    from captrial.grounding.attention_correctness import AttentionResult
    from captrial.grounding.tables import Table

KINDS = ("implicit", "strong", "weak")
SIZE = 448  # pixels: 14 x 14 cells, as Liu 2017 measures
BACKBONE = 0  # EfficientNet-Lite0
AXES = 96  # width of an element after reduction
SPLITS = ("train", "val", "test")
RECIPE = {
    "batch": "16",
    "captions": "1",
    "rate": "2e-3",
    "warmup": "40",
    "min_count": "3",
    "patience": "100",
    "width": "256",
    "embedding": "128",
}


def samples(counts: dict[str, int]) -> dict[str, list[Sample]]:
    """The toy world's truth about some images of each split."""
    world = ToyWorld(seed=0, size=SIZE)
    jobs = [(split, index) for split in SPLITS for index in range(counts[split])]
    made: dict[str, list[Sample]] = {split: [] for split in SPLITS}
    for split, index in track(jobs, "toy world"):
        made[split].append(world.sample(split, index))
    return made


def extract(folder: Path, counts: dict[str, int]) -> None:
    """Features of all images into a store, continued where it was."""
    from captrial.vision.backbones.efficientnet import EfficientNetLite
    from captrial.vision.features.feature_store import FeatureWriter

    world, backbone = ToyWorld(seed=0, size=SIZE), EfficientNetLite(BACKBONE, SIZE)
    with FeatureWriter(folder, backbone.describe()) as writer:
        jobs = [(split, index) for split in SPLITS for index in range(counts[split])]
        todo = [(split, index) for split, index in jobs if f"{split}_{index:06d}" not in writer.done]
        for start in track(range(0, len(todo), 8), "features"):
            part = [world.render(split, index) for split, index in todo[start : start + 8]]
            features = backbone.extract([Image.fromarray(image.pixels) for image in part])
            writer.add([image.sample.id for image in part], features)


def reduce(source: Path, target: Path, images: Sequence[str]) -> None:
    """The same features on the principal axes of the training images' cells, whitened: two cores are few."""
    import numpy as np
    import torch

    from captrial.vision.features.feature_store import FeatureStore, FeatureWriter

    store = FeatureStore(source)
    with FeatureWriter(target, {**store.vision, "width": AXES, "reduced": "principal axes, whitened"}) as writer:
        todo = [name for name in store if name not in writer.done]
        if not todo:
            return
        cells = store.get(images).elements.flatten(0, 1).double().numpy()
        mean = cells.mean(0)
        values, axes = np.linalg.eigh(np.cov(cells - mean, rowvar=False))
        matrix = torch.from_numpy(axes[:, -AXES:] / np.sqrt(values[-AXES:])).float()
        for start in track(range(0, len(todo), 32), "reducing"):
            features = store.get(todo[start : start + 32])
            elements = (features.elements - torch.from_numpy(mean).float()) @ matrix
            writer.add(todo[start : start + 32], features.with_elements(elements))


def train_all(out: Path, made: dict[str, list[Sample]], seeds: int, epochs: int, weight: float, only: set[str]) -> None:
    """One run a kind and seed."""
    from captrial.training.run import TrainingData, train
    from captrial.vision.features.feature_store import FeatureStore

    store = FeatureStore(out / "reduced")
    for seed in range(seeds):
        for kind in KINDS:
            if only and f"{kind}-{seed}" not in only:
                continue
            chosen = {"supervision": kind, "attention_weight": weight, "seed": seed, "epochs": epochs}
            options = {**RECIPE, **{name: str(value) for name, value in chosen.items()}}
            folder = run_folder(out, kind, seed)
            train(
                "show_attend_tell-small", TrainingData(made["train"], made["val"], store, store.vision), folder, options
            )


def measure_all(out: Path, made: dict[str, list[Sample]], seeds: int) -> dict[tuple[str, int], AttentionResult]:
    """Attention correctness of every run on the test images, kept in the folder."""
    from captrial.grounding.attention_correctness import AttentionResult, measure_attention

    found = {}
    for seed in range(seeds):
        for kind in KINDS:
            path = out / "scores" / f"{kind}-{seed}.json"
            if not path.exists():
                measure_attention(attributor(out, kind, seed), made["test"]).write(path)
            found[kind, seed] = AttentionResult.read(path)
    return found


def attributor(out: Path, kind: str, seed: int) -> CaptionAttributor:
    """A trained captioner and its attention."""
    from captrial.attribution.dataset_attribution import DatasetAttributor
    from captrial.captioners.checkpoint import Checkpoint
    from captrial.vision.features.feature_store import FeatureStore

    checkpoint = Checkpoint.from_pretrained(run_folder(out, kind, seed) / "best")
    return DatasetAttributor(kind, checkpoint, FeatureStore(out / "reduced"), beam=3)


def merged(found: dict[tuple[str, int], AttentionResult], kind: str) -> AttentionResult:
    """All seeds of a kind as one result; intervals still resample images, with the captions of all seeds."""
    from collections import Counter
    from dataclasses import replace

    from captrial.grounding.attention_correctness import AttentionResult

    own = {seed: result for (name, seed), result in found.items() if name == kind}
    scores = [
        replace(score, caption=100 * seed + score.caption) for seed, result in own.items() for score in result.scores
    ]
    dropped = {
        setting: sum((result.dropped[setting] for result in own.values()), Counter[str]())
        for setting in ("forced", "generated")
    }
    return AttentionResult(kind, "attention", scores, {}, dropped)


def report(out: Path, made: dict[str, list[Sample]], found: dict[tuple[str, int], AttentionResult], seeds: int) -> None:
    """Print the tables and draw the figures."""
    from captrial.grounding.attention_tables import (
        correctness_table,
        improvements,
        lead_table,
        size_table,
        spearman_table,
    )
    from captrial.grounding.figures import AttentionStudy, draw_histograms, draw_side_by_side, draw_targets
    from captrial.grounding.tables import write_tables

    results = [merged(found, kind) for kind in KINDS]
    tables = [correctness_table(results), spearman_table(results)]
    optional = [size_table(results, "forced"), size_table(results, "generated"), lead_table(results)]
    tables += [table for table in optional if table]
    tables += [per_seed_table(found, seeds), *quality_tables(found, made["test"], seeds)]
    write_tables(tables, out / "tables")
    for table in tables:
        print(f"\n### {table.title}\n\n| {' | '.join(table.headings())} |\n|{' --- |' * len(table.columns)}")
        print("\n".join(f"| {' | '.join(row)} |" for row in table.shown()))
        print("".join(f"\n{note}" for note in table.notes))
    shown = with_files(out, made["test"])
    for setting in ("forced", "generated"):
        values = {result.model: improvements(result, setting) for result in results}
        draw_histograms(values, out / "figures" / f"histogram-{setting}.png", f"{setting} captions, {seeds} seeds")
        first = [found[kind, 0] for kind in KINDS]
        attributors = [attributor(out, kind, 0) for kind in KINDS]
        study = AttentionStudy(attributors, first, shown)
        draw_side_by_side(study, setting, out / "figures" / f"examples-{setting}.png", 5)
    draw_targets(shown[:4], attributors[0].preprocess, out / "figures" / "targets.png")


def per_seed_table(found: dict[tuple[str, int], AttentionResult], seeds: int) -> Table:
    """Correctness of every run."""
    import numpy as np

    from captrial.grounding.tables import Cell, Table

    rows: list[tuple[Cell, ...]] = []
    for setting in ("forced", "generated"):
        for kind in KINDS:
            values = [
                float(np.mean([score.correctness for score in found[kind, seed].scores if score.setting == setting]))
                for seed in range(seeds)
            ]
            rows.append((setting, kind, *values))
    return Table("seeds", "Attention correctness by seed", ("captions", "model", *map(str, range(seeds))), tuple(rows))


def quality_tables(found: dict[tuple[str, int], AttentionResult], test: Sequence[Sample], seeds: int) -> list[Table]:
    """Caption quality of every kind, and of the captions with high, middle and low correctness; means over seeds."""
    import numpy as np

    from captrial.grounding.attention_tables import quality_table
    from captrial.grounding.tables import Cell, Table
    from captrial.metrics import score

    names = ("bleu_3", "bleu_4", "meteor", "cider")
    references = {sample.id: list(sample.captions) for sample in test}
    rows: list[tuple[Cell, ...]] = []
    for kind in KINDS:
        table = score(
            {str(seed): found[kind, seed].captions for seed in range(seeds)}, references, ["bleu", "meteor", "cider"]
        ).to_dict()
        values = np.array([[100 * float(table[str(seed)][name] or 0) for name in names] for seed in range(seeds)])
        spread = zip(values.mean(0), values.std(0), strict=True)
        rows.append((kind, *(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in spread)))
    tables = [
        Table("captions", "Caption quality, mean ± sd over seeds (Liu 2017 Table 3)", ("model", *names), tuple(rows))
    ]
    for kind in KINDS:
        parts = [part for seed in range(seeds) if (part := quality_table(found[kind, seed], test))]
        if parts:
            columns = [parts[0].columns.index(name) for name in ("mean", *names)]
            cells = np.array([[[float(row[column] or 0) for column in columns] for row in part.rows] for part in parts])  # type: ignore[arg-type]
            shown = [
                (
                    str(parts[0].rows[level][0]),
                    *(
                        f"{mean:.2f} ± {deviation:.2f}"
                        for mean, deviation in zip(cells[:, level].mean(0), cells[:, level].std(0), strict=True)
                    ),
                )
                for level in range(3)
            ]
            title = f"Caption quality by attention correctness, {kind}, mean ± sd over seeds (Liu 2017 Table 4)"
            tables.append(
                Table(f"quality-{kind}", title, ("correctness", "mean", *names), tuple(shown), parts[0].notes)
            )
    return tables


def with_files(out: Path, made: Sequence[Sample]) -> list[Sample]:
    """The samples with their images as files, for figures."""
    from dataclasses import replace

    world, found = ToyWorld(seed=0, size=SIZE), []
    (out / "images").mkdir(exist_ok=True)
    for sample in made:
        path = out / "images" / f"{sample.id}.png"
        if not path.exists():
            split, _, index = sample.id.rpartition("_")
            Image.fromarray(world.render(split, int(index)).pixels).save(path)
        found.append(replace(sample, image=replace(sample.image, path=path)))
    return found


def run_folder(out: Path, kind: str, seed: int) -> Path:
    """Where the run of a kind and seed is."""
    return out / "runs" / f"{kind}-{seed}"


def study_parser(description: str | None, epochs: int) -> argparse.ArgumentParser:
    """The options of studies on the toy world."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--test", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=epochs)
    return parser


def split_sizes(images: int, test: int) -> dict[str, int]:
    """How many images each split has."""
    return {"train": images, "val": max(20, images // 10), "test": test}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = study_parser(__doc__, epochs=12)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weight", type=float, default=1.0)
    parser.add_argument("--only", default="", help="train these runs alone, e.g. implicit-0,weak-2; then stop")
    chosen = parser.parse_args(arguments)
    counts = split_sizes(chosen.images, chosen.test)
    made = samples(counts)
    extract(chosen.out / "features", counts)
    reduce(chosen.out / "features", chosen.out / "reduced", [sample.id for sample in made["train"][:100]])
    train_all(chosen.out, made, chosen.seeds, chosen.epochs, chosen.weight, set(filter(None, chosen.only.split(","))))
    if not chosen.only:
        report(chosen.out, made, measure_all(chosen.out, made, chosen.seeds), chosen.seeds)


if __name__ == "__main__":
    main()
