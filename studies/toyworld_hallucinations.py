"""Do verdicts find hallucinations? Captioners trained on wrong captions of the toy world.

    python -m studies.toyworld_hallucinations --out FOLDER [--images 400] [--test 150] [--seeds 3] [--steps 8]
    python -m studies.toyworld_hallucinations --show      the tables of docs/ground_measured.md again

In the training captions a third of the kinds have the name of another kind ("a boat" for every dog), and every image of
every third place gets an object that is not there ("... with a clock"). The captioner (Cornia 2022's Transformer,
small) learns this. Visual elements are the regions of the image, as in Cornia 2022. The truth about every noun of the
test captions is known. A noun is flagged if it is not grounded: no top region up to it is of it. Keeps precision,
recall and F1 of these flags for every attribution method and for the null models (a random region, ...), with the
paired interval of the lead in F1, in `results/grounding/hallucinations.json`. Integrated gradients take `--steps`
steps, or with 0 as many as a completeness error of 1% needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from scipy.stats import t

from captrial.files import atomic_write
from captrial.progress import track
from captrial.records import Box, Region, Sample
from captrial.toyworld import OBJECT_CLASSES, SYNONYMS, plural, tokens
from studies.toyworld_attention import BACKBONE, SIZE, extract, samples, split_sizes, study_parser

METHODS = {
    "attention": "attention",
    "saliency": "saliency",
    "guided_backprop": "guided backpropagation",
    "integrated_gradients": "integrated gradients",
}
RESULTS = Path(__file__).parent / "results" / "grounding" / "hallucinations.json"
RECIPE = {"batch": "16", "captions": "3", "rate": "1e-3", "warmup": "60", "min_count": "2", "patience": "100"}


def wrong_names(seed: int) -> dict[str, str]:
    """For a third of the kinds, the kind they are called by: another of that third."""
    generator = np.random.default_rng(seed)
    kinds = generator.permutation(sorted(OBJECT_CLASSES))
    chosen = kinds[: len(kinds) // 3]
    return dict(zip(chosen.tolist(), np.roll(chosen, 1).tolist(), strict=True))


def added_objects(seed: int) -> dict[str, str]:
    """For every third place of the toy world, a class that its captions always name."""
    from captrial.toyworld import SCENES

    generator = np.random.default_rng((seed, 1))
    places = sorted(SCENES)[::3]
    return dict(zip(places, generator.choice(sorted(OBJECT_CLASSES), len(places)).tolist(), strict=True))


def lie(sample: Sample, names: dict[str, str], added: dict[str, str]) -> Sample:
    """The sample with captions that name wrong objects."""
    texts = []
    for caption, phrases in zip(sample.captions, sample.phrases, strict=True):
        words = tokens(caption)
        for phrase in phrases:
            kinds = {region.label for region in phrase.regions}
            for place in range(phrase.start, phrase.end):
                words[place] = _renamed(words[place], kinds, names)
        extra = added.get(str(sample.image.label))
        absent = extra is not None and all(region.label != extra for region in sample.regions)
        texts.append(" ".join(words) + (f" with {_article(extra)} {extra}" if absent and extra else ""))
    return replace(sample, captions=tuple(texts), phrases=())


def _renamed(word: str, kinds: set[str | None], names: dict[str, str]) -> str:
    for kind in kinds & set(names):
        known = {kind, *SYNONYMS.get(str(kind), ())}
        if word in known:
            return names[str(kind)]
        if word in {plural(name) for name in known}:
            return plural(names[str(kind)])
    return word


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def pool_regions(source: Path, target: Path, made: Sequence[Sample]) -> None:
    """Features of the regions of every image, pooled from the grid; the whole image is one more element."""
    import torch

    from captrial.vision.boxes import pool_cells
    from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
    from captrial.vision.features.visual_features import Features

    store = FeatureStore(source)
    with FeatureWriter(target, {**store.vision, "regions": "of the toy world, and the whole image"}) as writer:
        for sample in track([sample for sample in made if sample.id not in writer.done], "pooling"):
            grid = store.get([sample.id])
            boxes = [region.box for region in (Region(Box(0, 0, SIZE, SIZE)), *sample.regions)]
            places = torch.tensor(boxes).unsqueeze(0) / SIZE
            assert grid.boxes is not None
            elements = pool_cells(grid.elements, grid.boxes[0], places)
            writer.add([sample.id], Features(elements, torch.ones(elements.shape[:2], dtype=torch.bool), places))


def study(
    out: Path, made: dict[str, list[Sample]], seeds: int, epochs: int, methods: Sequence[str], steps: int | None
) -> list[dict[str, Any]]:
    """Train and judge one captioner a seed; rows of the table."""
    from captrial.attribution.dataset_attribution import DatasetAttributor
    from captrial.attribution.methods.registry import AttributionSettings
    from captrial.captioners.checkpoint import Checkpoint
    from captrial.grounding.score import Grounder
    from captrial.grounding.study import ground_dataset
    from captrial.grounding.verdict_evaluation import classes_present, f1_lead, verdict_accuracy
    from captrial.training.run import TrainingData, train
    from captrial.vision.features.feature_store import FeatureStore

    store = FeatureStore(out / "regions")
    grounder = Grounder(list(OBJECT_CLASSES))
    truth = classes_present(made["test"])
    rows = []
    for seed in range(seeds):
        names, added = wrong_names(seed), added_objects(seed)
        learnt, checked = ([lie(sample, names, added) for sample in made[split]] for split in ("train", "val"))
        run = out / "liars" / str(seed)
        train(
            "transformer-small",
            TrainingData(learnt, checked, store, store.vision),
            run,
            {**RECIPE, "seed": str(seed), "epochs": str(epochs)},
        )
        checkpoint = Checkpoint.from_pretrained(run / "best")
        for method in methods:
            attributor = DatasetAttributor(
                f"liar {seed}", checkpoint, store, method, settings=AttributionSettings(steps=steps)
            )
            result = ground_dataset(
                attributor, made["test"], grounder, "regions", out / "verdicts" / f"{seed}-{method}.jsonl"
            )
            nulls = {
                name: {
                    **verdict_accuracy(null, truth, grounder.similarity).to_dict(),
                    "lead": f1_lead(result, null, truth, grounder.similarity, seed).to_dict(),
                }
                for name, null in result.null_results.items()
            }
            own = verdict_accuracy(result, truth, grounder.similarity).to_dict()
            rows.append({"seed": seed, "method": method, **own, "nulls": nulls})
    return rows


def tables(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of the tables of docs/ground_measured.md; bold where the lead over every null model excludes 0."""
    rows = sorted(rows, key=lambda row: (list(METHODS).index(row["method"]), row["seed"]))
    names = list(rows[0]["nulls"])
    lines = ["| method | seed | checkable nouns | not there | flagged | precision | recall | F1 | all |"]
    lines.append("| --- " * 9 + "|")
    for row in rows:
        better = all(null["lead"]["low"] > 0 for null in row["nulls"].values())
        method = METHODS[row["method"]]
        f1 = f"**{row['f1']:.3f}**" if better else f"{row['f1']:.3f}"
        counts = f"{row['nouns']} | {row['wrong']} | {row['flagged']}"
        lines.append(
            f"| {method} | {row['seed']} | {counts} | {row['precision']:.3f} | {row['recall']:.3f} | {f1} "
            f"| {row['always']:.3f} |"
        )
    lines.append("| method | seed | " + " | ".join(f"F1 of {name} | lead" for name in names) + " |")
    lines.append("| --- " * (2 + 2 * len(names)) + "|")
    for row in rows:
        cells = [
            f"{null['f1']:.3f} | {null['lead']['value']:.2f} [{null['lead']['low']:.2f}, {null['lead']['high']:.2f}]"
            for null in row["nulls"].values()
        ]
        method = METHODS[row["method"]]
        lines.append(f"| {method} | {row['seed']} | {' | '.join(cells)} |")
    for name, title in METHODS.items():
        f1 = np.array([row["f1"] for row in rows if row["method"] == name])
        if len(f1) > 1:
            half = t.ppf(0.975, len(f1) - 1) * f1.std(ddof=1) / len(f1) ** 0.5
            lines.append(f"{title}: {f1.mean():.3f} ± {f1.std(ddof=1):.3f}, ±{half:.3f}")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = study_parser(__doc__, epochs=20)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--show", action="store_true", help="print what was measured before")
    chosen = parser.parse_args(arguments)
    if chosen.show and not RESULTS.exists():
        parser.error(f"nothing was measured yet: there is no {RESULTS.name}")
    if chosen.show:
        print("\n".join(tables(orjson.loads(RESULTS.read_bytes()))))
        return
    if chosen.out is None:
        parser.error("give --out FOLDER, or --show")
    counts = split_sizes(chosen.images, chosen.test)
    methods = chosen.methods.split(",")
    made = samples(counts)
    extract(chosen.out / "features", counts)
    pool_regions(
        chosen.out / "features", chosen.out / "regions", [sample for split in made.values() for sample in split]
    )
    rows = study(chosen.out, made, chosen.seeds, chosen.epochs, methods, chosen.steps or None)
    atomic_write(RESULTS, orjson.dumps(rows, option=orjson.OPT_INDENT_2))
    print(f"EfficientNet-Lite{BACKBONE} at {SIZE} pixels, regions of the toy world; {chosen.images} training images\n")
    print("\n".join(tables(rows)))


if __name__ == "__main__":
    main()
