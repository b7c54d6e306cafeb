"""Implicit, strongly and weakly supervised attention on photographs with boxes drawn by people (Liu 2017).

    python -m studies.attend_entities train --out FOLDER            # all nine runs; a stopped one continues
    python -m studies.attend_entities train --out FOLDER --only implicit-0,strong-0
    python -m studies.attend_entities weights --out FOLDER          # lambda of Eq. 9, on validation photographs
    python -m studies.attend_entities measure --out FOLDER          # finished runs on the 500 test photographs
    python -m studies.attend_entities control --out FOLDER          # shipped captioners shown another photograph
    python -m studies.attend_entities figure --out FOLDER           # Fig. 6 without the photographs, for docs/images
    python -m studies.attend_tables                                 # the tables of docs/attend.md from studies/results

Show-Attend-Tell, three seeds of each kind, on the 6 000 training photographs of Flickr8k with the phrases and boxes of
Flickr30k Entities; 14 x 14 cells. Kinds differ in the attention term of the loss alone.

`measure` writes what the tables need to studies/results/attend: `phrases.json` has the phrases of the references
(image, number of the caption, first word, area, kind), RUN.json the measures of one captioner in the same order, those
of its own captions, and the captions.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import torch
from PIL import Image
from torch import Tensor

from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import shipped_captioners
from captrial.data.datasets import read_entities
from captrial.files import atomic_write
from captrial.grounding.attention_correctness import FORCED, GENERATED, AttentionResult, PhraseScore, measure_attention
from captrial.grounding.attention_tables import spearman_table
from captrial.grounding.figures import AttentionStudy, draw_side_by_side
from captrial.grounding.tables import estimate
from captrial.records import Sample
from captrial.training.attention_supervision import make_targets
from captrial.training.data import Batch
from captrial.training.feature_extraction import features_of
from captrial.training.run import TrainingData, train
from captrial.vision.features.feature_store import FeatureStore
from captrial.vision.features.visual_features import Features
from captrial.vision.registry import load_backbone
from studies.data_paths import ENTITIES, FLICKR8K, ROOT

BACKBONE = "efficientnet-lite2?stride=16&head=no"
RESULTS = ROOT / "studies" / "results" / "attend"
PRESET = "show_attend_tell-small"
KINDS = ("implicit", "strong", "weak")
SEEDS = (0, 1, 2)
VALIDATION = 300  # photographs whose CIDEr chooses the epoch; all 1 000 would take a tenth of the time of a run
WEIGHT = 1.0  # lambda of Eq. 9, chosen by `weights`
WEIGHTS = (0.3, 1.0, 3.0)
FEW = 100  # validation photographs, others than those above, on which the weights are compared
SHOWN, EXAMPLES = 150, 4  # test photographs among which the figure's are sought, and how many it has
MEASURED = ("area", "correctness", "pointing", "auc")
RECIPE = {
    "epochs": "8",
    "batch": "24",
    "captions": "3",  # of the five, drawn again in every epoch
    "max_words": "18",
    "rate": "1e-3",
    "warmup": "200",
    "smoothing": "0.0",
    "dropout": "0.3",
    "width": "256",
    "embedding": "160",
    "attention": "64",
    "patience": "100",
    "save_every": "120",
}
Targets = Callable[[Batch], Tensor]


class ShiftedFeatures:
    """Features of the next image of a list, for each of its images."""

    def __init__(self, store: FeatureStore, images: Sequence[str]) -> None:
        self.store, self.next = store, dict(zip(images, [*images[1:], images[0]], strict=True))

    def get(self, image_ids: Sequence[str]) -> Features:
        """The features of the images that follow."""
        return self.store.get([self.next[image] for image in image_ids])


class Experiment:
    """The data, the features and the runs of the experiment in one folder."""

    def __init__(self, out: Path, features: Path | None = None) -> None:
        self.out = out
        samples = read_entities(ENTITIES, images=FLICKR8K / "images")
        self.splits = {name: [one for one in samples if one.split == name] for name in ("train", "val", "test")}
        backbone = load_backbone(BACKBONE)
        self.store: FeatureStore = features_of(samples, backbone, features or out / "features")
        self._targets: dict[str, Targets | None] = {}

    def run_folder(self, name: str) -> Path:
        """The folder of a run."""
        return self.out / "runs" / name

    def train(self, kind: str, seed: int) -> None:
        """Train one of the nine captioners, or continue it."""
        options = {**RECIPE, "supervision": kind, "seed": str(seed), "attention_weight": str(WEIGHT)}
        self._train(f"{kind}-{seed}", self.splits["train"], options)

    def compare_weights(self) -> None:
        """An epoch more of the first implicit run, on every third photograph, with several weights."""
        few = self.splits["train"][::3]
        sizes = ("width", "embedding", "attention", "dropout")
        recipe = {name: value for name, value in RECIPE.items() if name not in sizes}
        for weight in WEIGHTS:
            options = {**recipe, "supervision": "strong", "attention_weight": str(weight), "epochs": "1"}
            self._train(f"weight-{weight:g}", few, options, start=self.run_folder("implicit-0"))

    def measure(self, name: str) -> None:
        """Attention correctness of a finished run on the test photographs, as compact data."""
        result = self.attention(name, self.splits["test"])
        forced = [score for score in result.scores if score.setting == FORCED]
        places = [[score.image, score.caption, score.start, round(score.area, 4), score.kind] for score in forced]
        _write(RESULTS / "phrases.json", places)
        own = [score for score in result.scores if score.setting == GENERATED]
        settings = orjson.loads((self.run_folder(name) / "run.json").read_bytes())
        epochs = self._epochs(name)
        document = {
            "recipe": settings["recipe"],
            "sizes": settings["sizes"],
            "validation_cider": [float(row["cider"]) for row in epochs],
            "training_seconds": float(epochs[-1]["seconds"]),
            "dropped": result.to_dict()["dropped"],
            "spearman": {setting: _correlations(result, setting) for setting in (FORCED, GENERATED)},
            "forced": _columns(forced),
            "generated": {
                "places": [[score.image, score.start, round(score.area, 4), score.kind] for score in own],
                "texts": [score.text for score in own],
                **_columns(own),
            },
            "captions": result.captions,
        }
        _write(RESULTS / f"{name}.json", document)

    def attention(self, name: str, samples: Sequence[Sample], beam: int = 5) -> AttentionResult:
        """The measured attention of a run."""
        best = Checkpoint.from_pretrained(self.run_folder(name) / "best")
        return measure_attention(DatasetAttributor(name, best, self.store, beam=beam), samples, (FORCED, GENERATED))

    def measure_weights(self) -> None:
        """Validation CIDEr and correctness of the short runs, and of the run that they continue."""
        samples = self.splits["val"][VALIDATION : VALIDATION + FEW]
        rows = {}
        for name in ("implicit-0", *(f"weight-{weight:g}" for weight in WEIGHTS)):
            result = self.attention(name, samples)
            means = {
                setting: [round(float(np.mean([getattr(score, what) for score in own])), 4) for what in MEASURED]
                for setting in (FORCED, GENERATED)
                for own in [[score for score in result.scores if score.setting == setting]]
            }
            rows[name] = {"cider": max(float(row["cider"]) for row in self._epochs(name)), **means}
        _write(RESULTS / "weights.json", {"photographs": len(samples), "columns": MEASURED, "rows": rows})

    def figure(self) -> None:
        """Liu 2017 Fig. 6 by the two shipped captioners, on grey in place of photographs (not ours to show)."""
        samples = [self._grey(sample) for sample in self.splits["test"][:SHOWN]]
        attributors = [
            DatasetAttributor(
                name.rpartition("-")[2], Checkpoint.from_pretrained(shipped_captioners()[name]), self.store
            )
            for name in ("show_attend_tell-implicit", "show_attend_tell-strong")
        ]
        results = [measure_attention(attributor, samples, [GENERATED]) for attributor in attributors]
        study = AttentionStudy(attributors, results, samples)
        draw_side_by_side(study, GENERATED, ROOT / "docs" / "images" / "attend-generated.png", EXAMPLES)

    def control(self) -> None:
        """Forced correctness of the shipped captioners on each photograph, and with the features of the next one.

        What is left then is not about the photograph: attention to the centre, or to where such a word usually is.
        """
        samples = self.splits["test"]
        found = {}
        for kind in ("implicit", "strong"):
            best = Checkpoint.from_pretrained(shipped_captioners()[f"show_attend_tell-{kind}"])
            shifted = ShiftedFeatures(self.store, [sample.id for sample in samples])
            own, other = (
                measure_attention(DatasetAttributor(kind, best, source), samples, [FORCED])
                for source in (self.store, shifted)
            )
            images = [score.image for score in own.scores]
            both = np.array(
                [[a.area, a.correctness, b.correctness] for a, b in zip(own.scores, other.scores, strict=True)]
            )
            columns = np.concatenate([both, both[:, 1:2] - both[:, 2:]], 1)
            names = ("uniform", "own photograph", "another photograph", "difference")
            estimates = zip(names, estimate(images, columns), strict=True)
            found[kind] = {name: value.to_dict() for name, value in estimates}
        _write(RESULTS / "control.json", found)

    def _grey(self, sample: Sample) -> Sample:
        path = self.out / "grey" / f"{sample.id}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (sample.image.width or 1, sample.image.height or 1), (150, 150, 150)).save(path)
        return replace(sample, image=replace(sample.image, path=path))

    def _epochs(self, name: str) -> list[dict[str, str]]:
        with (self.run_folder(name) / "metrics.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def _train(self, name: str, images: Sequence[Sample], options: dict[str, str], start: Path | None = None) -> None:
        data = TrainingData(
            images, self.splits["val"][:VALIDATION], self.store, self.store.vision, {"data": "Flickr8k and Entities"}
        )
        targets = self._targets_of(options["supervision"], images)
        train(PRESET, data, self.run_folder(name), options, start=start, attention_targets=targets)

    def _targets_of(self, kind: str, images: Sequence[Sample]) -> Targets | None:
        """Target maps, made once for all seeds."""
        key = f"{kind} {len(images)}"
        if key not in self._targets:
            self._targets[key] = make_targets(kind, images, self.store.vision)
        return self._targets[key]


def _columns(scores: Sequence[PhraseScore]) -> dict[str, list[float]]:
    """Measures of phrases by name, four digits each."""
    names = ("correctness", "pointing", "auc")
    return {name: [round(getattr(score, name), 4) for score in scores] for name in names}


def _correlations(result: AttentionResult, setting: str) -> dict[str, list[float]]:
    """Spearman's correlation of any two measures."""
    return {
        str(row[3]): [1.0 if value is None else round(float(value), 4) for value in row[4:]]  # type: ignore[arg-type]
        for row in spearman_table([result], setting).rows
    }


def _write(path: Path, document: object) -> None:
    atomic_write(path, orjson.dumps(document))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("train", "weights", "measure", "control", "figure"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--features", type=Path, help="a feature store that is there already")
    parser.add_argument("--only", default="", help="these runs alone, such as implicit-0,weak-2")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    experiment = Experiment(chosen.out, chosen.features)
    if chosen.task in ("figure", "control"):
        getattr(experiment, chosen.task)()
        return
    if chosen.task == "weights":
        experiment.compare_weights()
        experiment.measure_weights()
        return
    only = set(filter(None, chosen.only.split(",")))
    for seed in SEEDS:  # a seed of every kind first: comparisons within a seed are complete early
        for kind in KINDS:
            name = f"{kind}-{seed}"
            if only and name not in only:
                continue
            if chosen.task == "train":
                experiment.train(kind, seed)
            elif (experiment.run_folder(name) / "metrics.png").exists() and not (RESULTS / f"{name}.json").exists():
                experiment.measure(name)  # it has ended, and is not measured yet


if __name__ == "__main__":
    main()
