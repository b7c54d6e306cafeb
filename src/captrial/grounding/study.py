"""Ground the captions of a data set: models x features x attribution methods (the form of Cornia 2022's Tables 2-4).

Each image is one line in a file a model and method, so that a study that was stopped continues where it was.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.attribution.attribution import on_image, top_labels, usable_regions
from captrial.attribution.dataset_attribution import CaptionAttributor
from captrial.attribution.methods.registry import title_of
from captrial.attribution.region_rules import DEFAULT_RULE, region_rule
from captrial.attribution.subject import seen_window
from captrial.data.datasets.coco import region_shapes
from captrial.data.sample_sizes import size_of, with_size
from captrial.errors import DatasetError, MismatchError, damage_named
from captrial.files import content_hash
from captrial.grounding.baselines import NULLS, LabelPrior, null_labels, skill
from captrial.grounding.presence import image_presence
from captrial.grounding.score import DELTAS, CaptionGrounding, GroundedNoun, Grounder, Verdict, name_delta
from captrial.grounding.tables import Cell, Estimate, Table, estimate
from captrial.language.tokenizer import tokenize_all
from captrial.progress import track
from captrial.records import Box, Region, Sample

BATCH = 16  # images at once
LINES = 4  # the format and meaning of the lines of a file; others are not continued
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RegionChoice:
    """How the top region of a word is chosen: by which rule, and whether regions are masks where they have one."""

    rule: str = DEFAULT_RULE
    masks: bool = False


@dataclass(frozen=True, slots=True)
class GroundedImage:
    """An image, its caption and the grounding of the caption; its regions, for the null models."""

    image: str
    caption: str
    grounding: CaptionGrounding
    regions: tuple[Region, ...] = ()  # those that the top region of a word is chosen from
    size: tuple[int, int] = (1, 1)
    sequence: str | None = None  # of robot frames: intervals resample whole sequences
    threshold: float = 0.5  # probability of absence from which on a noun was *not in the image*

    def to_dict(self) -> dict[str, Any]:
        """Plain values: one line of the file of a study. `top_regions` are their labels, word by word."""
        grounding = self.grounding
        nouns = [
            [noun.position, noun.name, list(noun.best), str(noun.verdict), noun.absent] for noun in grounding.nouns
        ]
        return {
            "id": self.image,
            "caption": self.caption,
            "words": list(grounding.words),
            "top_regions": list(grounding.labels),
            "nouns": nouns,
            "regions": [[*(round(float(side), 2) for side in region.box), region.label] for region in self.regions],
            "size": list(self.size),
            "sequence": self.sequence,
            "threshold": self.threshold,
        }

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> GroundedImage:
        """The inverse of `to_dict`."""
        nouns = [
            GroundedNoun(int(place), str(name), _similarities(best), Verdict(verdict), _number(absent))
            for place, name, best, verdict, absent in line["nouns"]
        ]
        words, labels = (tuple(str(word) for word in line[name]) for name in ("words", "top_regions"))
        if (labels and len(labels) != len(words)) or any(noun.position not in range(len(words)) for noun in nouns):
            raise ValueError(f"{line['id']}: its labels or nouns do not belong to its words")
        regions = tuple(Region(Box(*map(float, row[:4])), str(row[4])) for row in line["regions"])
        size, sequence = (int(line["size"][0]), int(line["size"][1])), line["sequence"]
        sequence = None if sequence is None else str(sequence)
        grounding = CaptionGrounding(words, labels, tuple(nouns))
        return cls(str(line["id"]), str(line["caption"]), grounding, regions, size, sequence, float(line["threshold"]))


def _similarities(values: Sequence[Any]) -> tuple[float, ...]:
    if not values:
        raise ValueError("a noun without similarities")
    return tuple(float(value) for value in values)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


@dataclass(frozen=True)
class _KnownPresence:
    """What was found about the nouns of an image, for null models: only the top regions differ."""

    probabilities: Mapping[str, float | None]
    threshold: float

    def absent(self, noun: str) -> float | None:
        return self.probabilities[noun]


@dataclass
class GroundingResult:
    """The groundings of one model's captions, by one method."""

    model: str
    features: str  # of the model's input: a heading of Cornia 2022's tables
    method: str
    description: str  # how words were compared, tau_g, labels
    images: list[GroundedImage] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # by image: the error of the worker
    grounder: Grounder | None = None  # for null models
    rule: str = DEFAULT_RULE  # how the top region was chosen
    masks: bool = False  # whether regions are their masks, where they have one
    error_note: str | None = None  # how often verdicts are wrong with the detector that made the regions

    def scores(self, delta: float, *, checkable: bool = False) -> np.ndarray:
        """GroundingScore(delta) of every caption (n,), NaN where it has none."""
        values = [image.grounding.score(delta, checkable=checkable) for image in self.images]
        return np.array([np.nan if value is None else value for value in values])

    @cached_property
    def null_results(self) -> dict[str, GroundingResult]:
        """The same captions grounded by every null model; of random regions every image several times, in a row."""
        assert self.grounder is not None, "null models need the grounder that the result was made with"
        prior = LabelPrior.of([noun.name for one in self.images for noun in one.grounding.nouns], self.grounder)
        found = {name: replace(self, method=name, images=[], failed={}) for name in NULLS}
        for one in self.images:
            nouns = [(noun.position, noun.name) for noun in one.grounding.nouns]
            if not nouns or not one.regions:
                continue
            seed = int(content_hash(one.image), 16) % 2**32
            presence = _KnownPresence({noun.name: noun.absent for noun in one.grounding.nouns}, one.threshold)
            words = one.grounding.words
            for name, rows in null_labels(one.regions, one.size, len(words), prior, seed).items():
                grounded = (self.grounder.ground(words, nouns, labels, presence) for labels in rows)
                found[name].images += [replace(one, grounding=grounding) for grounding in grounded]
        return found

    def null_scores(self, null: str, delta: float = 0, *, checkable: bool = False) -> Floats:
        """GroundingScore of every caption (n,) by a null model, the mean over draws; NaN where it has none."""
        result = self.null_results[null]
        drawn: dict[str, list[float]] = {}
        for one, score in zip(result.images, result.scores(delta, checkable=checkable), strict=True):
            drawn.setdefault(one.image, []).append(float(score))
        return np.array([np.mean(drawn.get(one.image, [np.nan])) for one in self.images])

    def skill(self, null: str, delta: float = 0, *, checkable: bool = False, seed: int = 0) -> Estimate:
        """Skill over one of the null models, with its interval."""
        scores = self.scores(delta, checkable=checkable)
        return skill(scores, self.null_scores(null, delta, checkable=checkable), self.groups, seed=seed)

    @property
    def groups(self) -> list[str]:
        """What intervals resample: the image, or the sequence that a robot's frame is of."""
        return [one.sequence or one.image for one in self.images]

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
    choice: RegionChoice | None = None,
) -> GroundingResult:
    """Caption the images and ground every noun.

    Finished images are written to the file `keep`, and not done again when it exists. `settings` are what else the
    result depends on: a file that was made with others raises `MismatchError`. Regions are those of the samples that
    have a label; an image without any is captioned and counted, not scored. `choice` says how the top one is chosen.
    """
    if not samples:
        raise DatasetError("no images to ground captions on")
    choice = choice or RegionChoice()
    region_rule(choice.rule)
    result = GroundingResult(
        attributor.name,
        features,
        attributor.method,
        grounder.description,
        grounder=grounder,
        rule=choice.rule,
        masks=choice.masks,
    )
    made_with = {"made with": result.description, "rule": choice.rule, "lines": LINES, **(settings or {})}
    if choice.masks:  # files of boxes are older than this entry
        made_with["masks"] = True
    done = {image.image: image for image in _read(keep, made_with)}
    todo = [sample for sample in samples if sample.id not in done]
    for start in track(range(0, len(todo), BATCH), f"{attributor.name}, {attributor.method}"):
        part = [with_size(sample) for sample in todo[start : start + BATCH]]
        found = ground_batch(attributor, part, grounder, choice)
        _append(keep, found, made_with)
        done.update({image.image: image for image in found})
    result.images = [done[sample.id] for sample in samples]
    return result


def ground_batch(
    attributor: CaptionAttributor, samples: Sequence[Sample], grounder: Grounder, choice: RegionChoice
) -> list[GroundedImage]:
    """Caption and ground some images."""
    ids = [sample.id for sample in samples]
    captions = attributor.caption(ids)
    words = [text.split() for text in tokenize_all(captions)]
    weights = attributor.attribute(ids, [[text] for text in words])
    nouns = grounder.nouns(captions)
    found = []
    for sample, caption, text, (own,), named in zip(samples, captions, words, weights, nouns, strict=True):
        size = size_of(sample)
        elements = on_image(own.boxes, seen_window(attributor.preprocess, *size))
        shapes = region_shapes(sample, sample.regions, masks=choice.masks)
        usable = usable_regions(elements, shapes, size)
        labels = top_labels(own.weights, elements, usable, size, choice.rule)
        presence = image_presence(grounder, sample)
        grounding = grounder.ground(text, named, labels, presence)
        sequence = sample.extra.get("sequence")
        place = None if sequence is None else str(sequence)
        boxes = tuple(replace(region, mask=None) for region in usable)  # all that null models need
        found.append(GroundedImage(sample.id, caption, grounding, boxes, size, place, presence.threshold))
    return found


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
    """How many nouns got which verdict."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        counts = result.verdicts()
        total = counts.total()
        shares = [f"{100 * counts[verdict] / total:.1f}% ({counts[verdict]})" if total else None for verdict in Verdict]
        rows.append((result.model, result.features, result.method, len(result.images), total, *shares))
    columns = ("model", "features", "method", "captions", "nouns", *map(str, Verdict))
    rates = dict.fromkeys(f"{result.method}: {result.error_note}" for result in results if result.error_note)
    return Table("verdicts", "Verdicts on nouns", columns, tuple(rows), (*_notes(results), *rates))


def skill_table(results: Sequence[GroundingResult], *, checkable: bool = False, seed: int = 0) -> Table:
    """GroundingScore(0) beside that of every null model, and skill over each with its interval."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        scores = result.scores(0, checkable=checkable)
        cells: list[Cell] = [estimate(result.groups, 100 * scores[:, None], seed=seed)[0]]
        for name in NULLS:
            null = result.null_scores(name, checkable=checkable)
            cells += [_mean(100 * null), _interval(result.skill(name, checkable=checkable, seed=seed))]
        rows.append((result.model, result.features, result.method, result.rule, *cells))
    which = "checkable nouns" if checkable else "all nouns"
    notes = ["null: GroundingScore(0) x100 with " + "; ".join(f"{name}: {text}" for name, text in NULLS.items())]
    notes.append("skill: (score - null) / (100 - null), with the paired 95% interval; 0 is no better than the null")
    columns = (
        "model",
        "features",
        "method",
        "rule",
        "δ=0",
        *(f"{name}{part}" for name in NULLS for part in ("", " skill")),
    )
    name = "skill-checkable" if checkable else "skill"
    return Table(name, f"GroundingScore against null models, {which}", columns, tuple(rows), tuple(notes), decimals=1)


def _interval(found: Estimate) -> str | None:
    """`0.12 [0.08, 0.16]`."""
    if found.value is None:
        return None
    limits = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.value:.2f}{limits}"


def grounding_tables(results: Sequence[GroundingResult], seed: int = 0) -> list[Table]:
    """GroundingScore over all nouns and over checkable ones, beside null models, and the verdicts."""
    scores = [grounding_table(results, checkable=checkable, seed=seed) for checkable in (False, True)]
    skills = [skill_table(results, checkable=checkable, seed=seed) for checkable in (False, True)]
    return [*scores, *skills, verdict_table(results)]


def grounding_summary(results: Sequence[GroundingResult], seed: int = 0) -> list[dict[str, Any]]:
    """Of every model and method: scores at each delta, nulls, skill with interval, verdict counts; for `--json`."""
    found = []
    for result in results:
        scores = {}
        for which, checkable in (("all", False), ("checkable", True)):
            scores[which] = [
                {
                    "delta": name_delta(delta),
                    "score": estimate(
                        result.groups, 100 * result.scores(delta, checkable=checkable)[:, None], seed=seed
                    )[0].to_dict(),
                    "nulls": {
                        name: {
                            "score": _mean(100 * result.null_scores(name, delta, checkable=checkable)),
                            "skill": result.skill(name, delta, checkable=checkable, seed=seed).to_dict(),
                        }
                        for name in NULLS
                    },
                }
                for delta in DELTAS
            ]
        counts = result.verdicts()
        found.append(
            {
                "model": result.model,
                "features": result.features,
                "method": result.method,
                "rule": result.rule,
                "masks": result.masks,
                "images": len(result.images),
                "scores": scores,
                "verdicts": {str(verdict): counts[verdict] for verdict in Verdict},
            }
        )
    return found


def _mean(values: Floats) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else None


def _means(result: GroundingResult, checkable: bool, seed: int) -> list[Cell]:
    values = np.stack([result.scores(delta, checkable=checkable) for delta in DELTAS], 1)
    return [*estimate(result.groups, values, seed=seed)]


def _notes(results: Sequence[GroundingResult]) -> tuple[str, ...]:
    rules = ", ".join(dict.fromkeys(region_rule(result.rule).description for result in results))
    notes = ["x100; ± half of the 95% interval, images resampled 1000 times", f"score of a region: {rules}"]
    if any(result.masks for result in results):
        notes.append("regions are their masks, where they have one; null models take their boxes")
    notes += dict.fromkeys(f"words compared by {result.description}" for result in results)
    for result in results:
        for problem, count in result.problems().items():
            total = len(result.images) + len(result.failed)
            notes.append(f"{result.model}, {result.method}: {count} of {total} captions have no score: {problem}")
    return tuple(notes)


def _read(path: Path | None, made_with: Mapping[str, Any]) -> list[GroundedImage]:
    """The finished images of a file, without a last line that was cut short; an error if it has other settings."""
    if path is None or not path.exists():
        return []
    with damage_named(path, "the same command after removing it", "is not a list of grounded captions"):
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].splitlines()
        if lines and orjson.loads(lines[0]) != made_with:
            raise MismatchError(f"{path} was made with other settings; choose another --out")
        found = [GroundedImage.from_dict(orjson.loads(line)) for line in lines[1:]]
    if whole < len(content):
        os.truncate(path, whole)  # not written again: a kill in between would lose all
    return found


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
