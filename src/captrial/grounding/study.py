"""Ground the captions of a data set: models x features x attribution methods (the form of Cornia 2022's Tables 2-4).

Each image is one line in a file a model and method, so that a study that was stopped continues where it was.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from captrial.attribution.attribution import on_image, top_labels
from captrial.attribution.dataset_attribution import CaptionAttributor, WordWeights
from captrial.attribution.methods.registry import title_of
from captrial.attribution.subject import seen_window
from captrial.data.images import size_of, with_size
from captrial.errors import DatasetError, MismatchError
from captrial.grounding.score import DELTAS, CaptionGrounding, GroundedNoun, Grounder, Verdict, name_delta
from captrial.grounding.tables import Cell, Table, estimate
from captrial.language.tokenizer import tokenize_all
from captrial.progress import track
from captrial.records import Sample
from captrial.vision.preprocess import Preprocess

BATCH = 16  # images at once


@dataclass(frozen=True, slots=True)
class GroundedImage:
    """An image, its caption and the grounding of the caption."""

    image: str
    caption: str
    grounding: CaptionGrounding

    def to_dict(self) -> dict[str, Any]:
        """Plain values: one line of the file of a study. `looked` are the labels of the top regions."""
        nouns = [[noun.position, noun.name, list(noun.best), str(noun.verdict)] for noun in self.grounding.nouns]
        words, labels = list(self.grounding.words), list(self.grounding.labels)
        return {"id": self.image, "caption": self.caption, "words": words, "looked": labels, "nouns": nouns}

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> GroundedImage:
        """The inverse of `to_dict`."""
        nouns = [
            GroundedNoun(place, name, tuple(best), Verdict(verdict)) for place, name, best, verdict in line["nouns"]
        ]
        grounding = CaptionGrounding(tuple(line["words"]), tuple(line["looked"]), tuple(nouns))
        return cls(line["id"], line["caption"], grounding)


@dataclass
class GroundingResult:
    """The groundings of one model's captions, by one method."""

    model: str
    features: str  # of the model's input: a heading of Cornia 2022's tables
    method: str
    description: str  # how words were compared, tau_g, labels
    images: list[GroundedImage] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # by image: the error of the worker

    def scores(self, delta: float, *, checkable: bool = False) -> np.ndarray:
        """GroundingScore(delta) of every caption (n,), NaN where it has none."""
        values = [image.grounding.score(delta, checkable=checkable) for image in self.images]
        return np.array([np.nan if value is None else value for value in values])

    def verdicts(self) -> Counter[Verdict]:
        """How many nouns got each verdict."""
        return Counter(noun.verdict for image in self.images for noun in image.grounding.nouns)

    def problems(self) -> Counter[str]:
        """How many captions have no score, by reason."""
        found = (image.grounding.problem for image in self.images)
        failed = (f"it could not be done ({why})" for why in self.failed.values())
        return Counter([*(problem for problem in found if problem is not None), *failed])


def ground_dataset(
    attributor: CaptionAttributor,
    samples: Sequence[Sample],
    grounder: Grounder,
    features: str = "",
    keep: Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> GroundingResult:
    """Caption the images and ground every noun.

    Finished images are written to the file `keep`, and not done again when it exists. `settings` are what else the
    result depends on: a file that was made with others raises `MismatchError`. Regions are those of the samples that
    have a label; an image without any is captioned and counted, not scored.
    """
    if not samples:
        raise DatasetError("no images to ground captions on")
    result = GroundingResult(attributor.name, features, attributor.method, grounder.description)
    made_with = {"made with": result.description, **(settings or {})}
    done = {image.image: image for image in _read(keep, made_with)}
    todo = [sample for sample in samples if sample.id not in done]
    for start in track(range(0, len(todo), BATCH), f"{attributor.name}, {attributor.method}"):
        part = [with_size(sample) for sample in todo[start : start + BATCH]]
        found = ground_batch(attributor, part, grounder)
        _append(keep, found, made_with)
        done.update({image.image: image for image in found})
    result.images = [done[sample.id] for sample in samples]
    return result


def ground_batch(attributor: CaptionAttributor, samples: Sequence[Sample], grounder: Grounder) -> list[GroundedImage]:
    """Caption and ground some images."""
    ids = [sample.id for sample in samples]
    captions = attributor.caption(ids)
    words = [text.split() for text in tokenize_all(captions)]
    weights = attributor.attribute(ids, [[text] for text in words])
    nouns = grounder.nouns(captions)
    found = []
    for sample, caption, text, (own,), named in zip(samples, captions, words, weights, nouns, strict=True):
        labels = top_region_labels(own, sample, attributor.preprocess)
        found.append(GroundedImage(sample.id, caption, grounder.ground(text, named, labels)))
    return found


def top_region_labels(found: WordWeights, sample: Sample, preprocess: Preprocess) -> list[str]:
    """The label of the top region of every word (words,); empty if the model saw no region with a label."""
    width, height = size_of(sample)
    elements = on_image(found.boxes, seen_window(preprocess, width, height))
    return top_labels(found.weights, elements, sample.regions, width, height)


def grounding_table(results: Sequence[GroundingResult], *, checkable: bool = False, seed: int = 0) -> Table:
    """Cornia 2022's Tables 2-4: rows are models by features, columns methods x delta; means x100 with intervals."""
    methods = list(dict.fromkeys(result.method for result in results))
    seen = list(dict.fromkeys(result.features for result in results))
    models = [
        pair for kind in seen for pair in dict.fromkeys((r.features, r.model) for r in results if r.features == kind)
    ]
    found = {(result.features, result.model, result.method): result for result in results}
    rows: list[tuple[Cell, ...]] = []
    sections: dict[int, str] = {}
    for number, (features, model) in enumerate(models):
        if number == 0 or models[number - 1][0] != features:
            sections[number] = features or "captioners"
        cells: list[Cell] = []
        for method in methods:
            result = found.get((features, model, method))
            cells += _means(result, checkable, seed) if result else [None] * len(DELTAS)
        rows.append((model, *cells))
    groups = (("", 1), *((title_of(method), len(DELTAS)) for method in methods))
    columns = ("Method", *(f"δ={name_delta(delta)}" for _ in methods for delta in DELTAS))
    which = "checkable nouns" if checkable else "all nouns"
    title = f"GroundingScore, {which} (the shape of Cornia 2022's Tables 2-4)"
    name = "grounding-checkable" if checkable else "grounding"
    return Table(name, title, columns, tuple(rows), _notes(results), groups, sections, 100, 2)


def verdict_table(results: Sequence[GroundingResult]) -> Table:
    """How many nouns are grounded, grounded early, not checkable and hallucinated."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        counts = result.verdicts()
        total = counts.total()
        shares = [f"{100 * counts[verdict] / total:.1f}% ({counts[verdict]})" if total else None for verdict in Verdict]
        rows.append((result.model, result.features, result.method, len(result.images), total, *shares))
    columns = ("model", "features", "method", "captions", "nouns", *map(str, Verdict))
    return Table("verdicts", "Verdicts on nouns", columns, tuple(rows), _notes(results))


def grounding_tables(results: Sequence[GroundingResult], seed: int = 0) -> list[Table]:
    """GroundingScore over all nouns and over checkable ones, and the verdicts."""
    scores = [grounding_table(results, checkable=checkable, seed=seed) for checkable in (False, True)]
    return [*scores, verdict_table(results)]


def _means(result: GroundingResult, checkable: bool, seed: int) -> list[Cell]:
    values = np.stack([result.scores(delta, checkable=checkable) for delta in DELTAS], 1)
    return [*estimate([image.image for image in result.images], values, seed=seed)]


def _notes(results: Sequence[GroundingResult]) -> tuple[str, ...]:
    notes = ["x100; ± half of the 95% interval, images resampled 1000 times"]
    notes += dict.fromkeys(f"words compared by {result.description}" for result in results)
    for result in results:
        for problem, count in result.problems().items():
            total = len(result.images) + len(result.failed)
            notes.append(f"{result.model}, {result.method}: {count} of {total} captions have no score: {problem}")
    return tuple(notes)


def _read(path: Path | None, made_with: Mapping[str, Any]) -> Iterable[GroundedImage]:
    """The finished images of a file, without a last line that was cut short; an error if it has other settings."""
    if path is None or not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    lines = content[:whole].splitlines()
    if whole < len(content):
        os.truncate(path, whole)  # not written anew: a kill in between would lose all
    if lines and orjson.loads(lines[0]) != made_with:
        raise MismatchError(f"{path} was made with other settings; choose another --out")
    yield from (GroundedImage.from_dict(orjson.loads(line)) for line in lines[1:])


def _append(path: Path | None, found: Sequence[GroundedImage], made_with: Mapping[str, Any]) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists() or not path.stat().st_size
    with path.open("ab") as file:
        if new:
            file.write(orjson.dumps(made_with) + b"\n")
        file.write(b"".join(orjson.dumps(image.to_dict()) + b"\n" for image in found))
        file.flush()
        os.fsync(file.fileno())
