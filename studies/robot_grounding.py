"""Table 4 of Cornia 2022 on the robot sequences of the toy world: by sequence, light and camera height.

    python -m studies.toyworld_captioners --out FOLDER      the images, features and captioners
    python -m studies.robot_grounding measure FOLDER        GroundingScore of every frame and test image
    python -m studies.robot_grounding                       Table 4 and its claims, from the kept results
    python -m studies.paper_claims write                    puts them into docs/results.md

`measure` keeps `studies/results/robot/RUN.csv.gz`: a row a caption and attribution method, with the sequence of a frame
(`room000-day-low`; empty for test images), GroundingScore at every delta and that of null models. Regions are the toy
world's own. The six sequences of a room show the same objects: all means and intervals are over rooms.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count, product, takewhile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from captrial.attribution.dataset_attribution import DatasetAttributor, RecordedCaptions
from captrial.attribution.methods.registry import AttributionSettings, title_of
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import ARCHITECTURES
from captrial.captioners.trained import caption_by_id
from captrial.files import atomic_write, csv_table
from captrial.grounding.baselines import NULLS, skill
from captrial.grounding.score import Grounder
from captrial.grounding.study import ground_dataset
from captrial.papers.cornia2022_claims import ROBOT_MARGIN
from captrial.papers.experiments import load_papers
from captrial.progress import track
from captrial.records import Sample
from captrial.toyworld.scene.robot import HEIGHTS, LIGHTS
from captrial.vision.features.feature_store import FeatureStore
from studies.paper_runs import BEAM, CORNIA, GROUNDING_METHODS, STEPS, grounding_columns
from studies.seed_comparison import Difference, claim_row, compare_runs, compare_sets
from studies.toyworld_captioners import FEATURES, read_samples, run_name

RESULTS = Path(__file__).parent / "results" / "robot"
TEST = ""  # the sequence of an image that is no frame
PAPER = "Cornia 2022 Table 4"
Run = tuple[str, str]  # a captioner and its features
RUNS = [(name, features) for features in FEATURES for name in CORNIA]
NAMES = {"regions": "regions", "grid": "ViT"}  # ours: the paper's
METRIC = ("GroundingScore", 100.0, 1)
Array = NDArray[np.float64]
Scores = Mapping[str, Mapping[str, Array]]  # column -> sequence -> captions (n,)
CONDITIONS = tuple(f"{light}-{height}" for light, height in product(LIGHTS, HEIGHTS))  # how names of sequences end


def measure(folder: Path, results: Path = RESULTS) -> None:
    """Ground the captions of every trained run that has no results yet."""
    samples = [sample for sample in read_samples(folder) if sample.split in ("test", "robot")]
    labels = sorted({region.label for sample in samples for region in sample.regions if region.label})
    runs = sorted(path for path in (folder / "runs").iterdir() if (path / "best").is_dir())
    for run in track([run for run in runs if not (results / f"{run.name}.csv.gz").exists()], "measuring captioners"):
        atomic_write(results / f"{run.name}.csv.gz", _measured(run, folder, samples, Grounder(labels)))


def _measured(run: Path, folder: Path, samples: Sequence[Sample], grounder: Grounder) -> bytes:
    """The rows of a run: its captions, grounded by every method."""
    features = next(name for name in FEATURES if f"-{name}-" in run.name)
    best, store = Checkpoint.load(run / "best"), FeatureStore(folder / features)
    ids = [sample.id for sample in samples]
    captions = dict(zip(ids, caption_by_id(best.captioner, best.vocabulary, store, ids, BEAM), strict=True))
    rows: list[list[object]] = []
    columns: Mapping[str, Array] = {}
    for method in GROUNDING_METHODS:
        settings = AttributionSettings(steps=STEPS)
        attributor = DatasetAttributor(run.name, best, store, method, BEAM, settings=settings)
        result = ground_dataset(RecordedCaptions(attributor, captions), samples, grounder, features)
        columns = grounding_columns(result)
        for number, one in enumerate(result.images):
            scores = (float(f"{values[number]:.6g}") for values in columns.values())
            rows.append([method, one.sequence or TEST, one.image, *scores])
    return gzip.compress(csv_table(["method", "sequence", "image_id", *columns], rows), mtime=0)


@cache
def read_scores(path: Path, method: str) -> Scores:
    """The kept scores of a run by a method: of every column, by sequence."""
    found: dict[str, dict[str, list[float]]] = {}
    with gzip.open(path) as stream:
        for row in csv.DictReader(io.TextIOWrapper(stream, "utf-8")):
            if row.pop("method") == method:
                sequence, _ = row.pop("sequence"), row.pop("image_id")
                for column, cell in row.items():
                    found.setdefault(column, {}).setdefault(sequence, []).append(float(cell))
    return {name: {place: np.array(values) for place, values in kept.items()} for name, kept in found.items()}


def by_seed(run: Run, method: str, column: str = "score_0", results: Path = RESULTS) -> dict[str, Array] | None:
    """A column over all seeds of a captioner and features: "robot" (seeds, rooms) and "test" (seeds, images).

    A room counts by the mean of its six sequences, a sequence by the mean of its frames. None if nothing is kept.
    """
    robot, test = [], []
    for path in _paths(run, results):
        found = read_scores(path, method)[column]
        robot.append(by_condition(found).mean(1))
        test.append(found[TEST])
    return {"robot": np.stack(robot), "test": np.stack(test)} if robot else None


def _paths(run: Run, results: Path) -> list[Path]:
    """The kept results of a captioner and features, by seed."""
    places = (results / f"{run_name(*run, seed)}.csv.gz" for seed in count())
    return list(takewhile(Path.exists, places))


def by_condition(found: Mapping[str, Array]) -> Array:
    """The means of sequences (rooms, conditions); a sequence without any score counts as its room's mean."""
    rooms = sorted({sequence.partition("-")[0] for sequence in found if sequence != TEST})
    means = np.array([[_mean(found[f"{room}-{condition}"]) for condition in CONDITIONS] for room in rooms])
    return np.where(np.isnan(means), np.array([_mean(row) for row in means])[:, None], means)


def _mean(values: Array) -> float:
    """The mean of the captions that have a score."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")


def _over_seeds(values: Array) -> Array:
    """(seeds, n) -> (n,), NaN where no seed has a score."""
    return np.array([_mean(column) for column in values.T])


def robot_table(results: Path = RESULTS) -> str:
    """Table 4: GroundingScore on the robot's frames beside null models and the test images; Markdown."""
    columns = ["features", "model", "method", "seeds", "δ=0", "δ=∞", "checkable, δ=0", *NULLS]
    columns += ["skill over the best null", "test images, δ=0", "δ=0 in the paper"]
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for run, method in product(RUNS, GROUNDING_METHODS):
        found = {}
        for column in ("score_0", "score_∞", "checkable_0", *(f"null_{null}" for null in NULLS)):
            if (scores := by_seed(run, method, column, results)) is not None:
                found[column] = scores
        if not found:
            continue
        rooms = {column: _over_seeds(scores["robot"]) for column, scores in found.items()}
        best = max(NULLS, key=lambda null: float(np.nanmean(rooms[f"null_{null}"])))
        gain = skill(rooms["score_0"], rooms[f"null_{best}"], list(range(len(rooms["score_0"]))))
        cells = [f"{100 * np.nanmean(values):.1f}" for values in rooms.values()]
        over = f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] ({best})"
        row = [*_titles(run), title_of(method), str(len(found["score_0"]["robot"])), *cells, over]
        test = _over_seeds(found["score_0"]["test"])
        row += [f"{100 * np.nanmean(test):.1f}", f"{_printed('table-4', run, method):.2f}"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def camera_table(results: Path = RESULTS) -> str:
    """GroundingScore at delta 0 by light and camera height: mean over seeds and rooms ± its standard error by room."""
    columns = ["features", "model", "method", *(condition.replace("-", ", ") for condition in CONDITIONS)]
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for run, method in product(RUNS, GROUNDING_METHODS):
        seeds = [by_condition(read_scores(path, method)["score_0"]) for path in _paths(run, results)]
        if not seeds:
            continue
        rooms = np.mean(seeds, 0)  # (rooms, conditions)
        errors = rooms.std(0, ddof=1) / np.sqrt(len(rooms))
        cells = [f"{100 * mean:.1f} ± {100 * error:.1f}" for mean, error in zip(rooms.mean(0), errors, strict=True)]
        lines.append(f"| {' | '.join([*_titles(run), title_of(method), *cells])} |")
    return "\n".join(lines)


def robot_claims(results: Path = RESULTS) -> list[str]:
    """The claims about Table 4, as lines of the table of claims."""
    found = []
    for method, features in product(GROUNDING_METHODS, FEATURES):
        where, plain = f"{features}, by {title_of(method)}", ("transformer", features)
        for run in (("smart", features), ("m2", features)):
            text = f"{ARCHITECTURES[run[0]].title} is better grounded than Transformer on the robot's frames, {where}"
            numbers = f"{_printed('table-4', run, method):.2f}, {_printed('table-4', plain, method):.2f}"
            sides = [by_seed(one, method, results=results) for one in (run, plain)]
            difference = None if None in sides else compare_runs(*(side["robot"] for side in sides if side))
            found.append(claim_row(PAPER, text, difference, METRIC, numbers))
        text = f"The three are grounded no worse (by {100 * ROBOT_MARGIN:.0f} points) on the robot's frames"
        numbers = ", ".join(
            f"{np.mean([_printed(table, (name, features), method) for name in CORNIA]):.2f}"
            for table in ("table-4", "table-3")
        )
        difference = _drop(features, method, results)
        found.append(claim_row(PAPER, f"{text} than on test images, {where}", difference, METRIC, numbers))
    return found


def _drop(features: str, method: str, results: Path) -> Difference | None:
    """The three captioners' mean on the robot's frames against that on test images, by seed."""
    found = [by_seed((name, features), method, results=results) for name in CORNIA]
    kept = [scores for scores in found if scores is not None]
    if len(kept) < len(CORNIA):
        return None
    seeds = min(len(scores["robot"]) for scores in kept)
    robot, test = (_mean_of(np.stack([scores[place][:seeds] for scores in kept])) for place in ("robot", "test"))
    return compare_sets(robot, test, ROBOT_MARGIN)


def _mean_of(values: Array) -> Array:
    """(captioners, seeds, images) -> (seeds, images), the mean over captioners that have a score."""
    counts = (~np.isnan(values)).sum(0)
    return np.where(counts > 0, np.nansum(values, 0) / np.maximum(counts, 1), np.nan)


def _titles(run: Run) -> tuple[str, str]:
    return run[1], ARCHITECTURES[run[0]].title


def _printed(table: str, run: Run, method: str) -> float:
    """GroundingScore at delta 0 that the paper prints, x100."""
    printed = load_papers()["cornia"].experiment(table).printed
    assert printed is not None
    place = NAMES[run[1]], ARCHITECTURES[run[0]].title, title_of(method)
    return next(float(row[printed.columns.index("δ=0")].rstrip("†")) for row in printed.rows if tuple(row[:3]) == place)


def main() -> None:
    """Measure, or print the tables and claims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("show", "measure"), default="show")
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    if chosen.command == "show":
        print("\n\n".join([robot_table(), camera_table(), "\n".join(robot_claims())]))
    elif chosen.folder is None:
        parser.error("measure needs the FOLDER of studies.toyworld_captioners")
    else:
        torch.set_num_threads(1)
        measure(chosen.folder)


if __name__ == "__main__":
    main()
