"""Grounding and attention of captioners trained on Flickr8k, measured on Flickr8k and COCO.

    python -m studies.grounding_photographs --runs RUNS --flickr8k STORE --coco STORE [NAME...]

RUNS are those of `studies.flickr8k`; captioners that are neither finished nor shipped are left for the next time.
Stores are made by `captrial features`. Writes `studies/results/grounding/`, one file a model, data set and method, and
skips files that exist; unfinished studies, detected regions and phrase scores are kept in `RUNS/grounding`. The tables
of docs/ground.md and docs/attend.md are printed by `studies.grounding_tables`. Flickr8k has no boxes: its regions are
those of YOLO11n. COCO's are drawn by people.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import torch

from captrial.attribution.dataset_attribution import CaptionAttributor, DatasetAttributor, PixelSource, RecordedCaptions
from captrial.attribution.methods.registry import AttributionSettings
from captrial.captioners.checkpoint import Checkpoint
from captrial.files import atomic_write
from captrial.grounding.attention_correctness import AttentionResult, measure_attention
from captrial.grounding.attention_tables import all_tables
from captrial.grounding.regions import dataset_regions
from captrial.grounding.score import DELTAS, Grounder, name_delta
from captrial.grounding.study import BATCH, GroundingResult, ground_dataset
from captrial.grounding.study_data import DataSource
from captrial.grounding.tables import estimate
from captrial.grounding.verdict_evaluation import classes_present, verdict_accuracy
from captrial.progress import track
from captrial.records import Sample
from captrial.vision.features.feature_store import FeatureStore
from captrial.vision.registry import load_backbone
from studies.data_paths import COCO, FLICKR8K_CAPTIONS, find_yolo
from studies.flickr8k import find_best

RESULTS = Path(__file__).parent / "results" / "grounding"
GROUNDED = ("transformer", "smart", "m2")  # Cornia 2022's three
ATTENDED = ("show_attend_tell", "show_attend_tell-weak")  # Liu 2017's question on photographs
METHODS = ("attention", "saliency", "guided_backprop", "integrated_gradients")
STEPS = 8  # of integrated gradients: enough for the top region (docs/ground.md)
PIXEL_IMAGES, PIXEL_STEPS = 50, 4  # four segments of the path suffice for regions (docs/explain.md)


@dataclass(frozen=True)
class Study:
    """One file: a captioner, a data set and a method, over visual elements or pixels."""

    model: str
    data: str
    method: str
    over: str = "elements"

    @property
    def steps(self) -> int:
        """Of integrated gradients."""
        return PIXEL_STEPS if self.over == "pixels" else STEPS

    @property
    def path(self) -> Path:
        """Where the result is."""
        return RESULTS / f"{self.model}-{self.data}-{self.method}{'-pixels' * (self.over == 'pixels')}.json"


def studies(names: Sequence[str]) -> list[Study]:
    """All studies, the cheap ones first."""
    found = [Study(name, data, method) for method in METHODS for data in ("coco", "flickr8k") for name in names]
    return [*found, *(Study(name, "coco", method, "pixels") for method in METHODS[1:] for name in names)]


def load_data(name: str, keep: Path) -> tuple[list[Sample], list[str]]:
    """Images with labelled regions, and all labels these can have."""
    if name == "coco":
        found = DataSource(COCO / "captions_val2017.json", COCO / "images", COCO / "boxes_val2017.json").read()
        return dataset_regions([sample for sample in found.samples if sample.regions], found.labels, "data", keep)
    samples = DataSource(FLICKR8K_CAPTIONS, split="test").read().samples
    return dataset_regions(samples, [], find_yolo(), keep / "flickr8k")


def run(study: Study, best: Path, store: Path, data: tuple[list[Sample], list[str]], keep: Path) -> None:
    """Caption, attribute and ground every image; one result file."""
    checkpoint = Checkpoint.from_pretrained(best)
    samples, labels = data
    samples = samples[:PIXEL_IMAGES] if study.over == "pixels" else samples
    images = {sample.id: sample.image.path for sample in samples if sample.image.path is not None}
    attributor = DatasetAttributor(
        study.model,
        checkpoint,
        FeatureStore(store, checkpoint.vision),
        study.method,
        pixels=PixelSource(load_backbone(checkpoint.vision), images) if study.over == "pixels" else None,
        settings=AttributionSettings(steps=study.steps),
    )
    own = captions(attributor, [sample.id for sample in samples], keep / f"captions-{study.model}-{study.data}.json")
    grounder, start = Grounder(labels), time.process_time()
    lines = keep / study.path.with_suffix(".jsonl").name
    done = len(lines.read_bytes().splitlines()) - 1 if lines.exists() else 0
    result = ground_dataset(RecordedCaptions(attributor, own), samples, grounder, study.data, lines)
    seconds = (time.process_time() - start) / max(1, len(samples) - done)
    atomic_write(
        study.path, orjson.dumps(summary(study, result, samples, grounder, seconds), option=orjson.OPT_INDENT_2)
    )


def captions(attributor: CaptionAttributor, ids: Sequence[str], path: Path) -> dict[str, str]:
    """A captioner's captions of some images: the same for all methods."""
    known: dict[str, str] = orjson.loads(path.read_bytes()) if path.exists() else {}
    todo = [image for image in ids if image not in known]
    for start in track(range(0, len(todo), BATCH), f"{attributor.name}, captioning"):
        part = todo[start : start + BATCH]
        known.update(zip(part, attributor.caption(part), strict=True))
    atomic_write(path, orjson.dumps(known))
    return known


def summary(
    study: Study, result: GroundingResult, samples: Sequence[Sample], grounder: Grounder, seconds: float
) -> dict[str, Any]:
    """The result file of a study."""
    ids = [image.image for image in result.images]
    scores = {
        which: {
            name_delta(delta): estimate(ids, result.scores(delta, checkable=which == "checkable")[:, None])[0].to_dict()
            for delta in DELTAS
        }
        for which in ("all", "checkable")
    }
    document = {
        **asdict(study),
        "images": len(result.images),
        "words compared by": result.description,
        "steps": study.steps if study.method == "integrated_gradients" else None,
        "processor seconds an image": round(seconds, 2),
        "scores": scores,
        "verdicts": {str(verdict): count for verdict, count in result.verdicts().items()},
        "without a score": dict(result.problems()),
    }
    if study.data == "coco":
        document["caught"] = verdict_accuracy(result, classes_present(samples), grounder.similarity).to_dict()
    return document


def attend_all(best: Mapping[str, Path], store: Path, samples: Sequence[Sample], keep: Path) -> None:
    """Attention correctness of some captioners, and the tables over all that are there."""
    results = []
    for name in (*ATTENDED, *GROUNDED):
        path = keep / f"attend-{name}.json"
        if not path.exists() and name not in best:
            continue
        if not path.exists():
            checkpoint = Checkpoint.from_pretrained(best[name])
            attributor = DatasetAttributor(name, checkpoint, FeatureStore(store, checkpoint.vision))
            measure_attention(attributor, samples).write(path)
        results.append(AttentionResult.read(path))
    if results:
        tables = {table.name: table.to_dict() for table in all_tables(results, samples)}
        atomic_write(RESULTS / "attend.json", orjson.dumps(tables, option=orjson.OPT_INDENT_2))


def main() -> None:
    """Run the studies that can be run and have no result yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--flickr8k", type=Path, required=True, help="store of the features of Flickr8k")
    parser.add_argument("--coco", type=Path, required=True, help="store of the features of the COCO images")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("names", nargs="*")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    wanted = chosen.names or [*GROUNDED, *ATTENDED]
    best = {name: path for name in wanted if (path := find_best(name, chosen.runs)) is not None}
    keep = chosen.runs / "grounding"
    data = {name: load_data(name, keep) for name in ("coco", "flickr8k")}
    attend_all(best, chosen.coco, data["coco"][0], keep)
    for study in studies([name for name in GROUNDED if name in best]):
        if not study.path.exists():
            store = chosen.coco if study.data == "coco" else chosen.flickr8k
            run(study, best[study.model], store, data[study.data], keep)


if __name__ == "__main__":
    main()
