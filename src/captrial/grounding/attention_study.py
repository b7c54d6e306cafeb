"""Measure attention correctness of captioners on a data set (Liu 2017).

Two settings: *forced*, the captioner is made to say the references; *generated*, it says its own caption, whose noun
phrases are matched to the references'. The result is one record a phrase; `captrial.grounding.attention_tables` makes
the tables of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from captrial.attribution.dataset_attribution import CaptionAttributor, WordWeights
from captrial.attribution.maps import square_maps
from captrial.data.images import with_size
from captrial.errors import DatasetError
from captrial.grounding.attention_correctness import Reduction, measure_phrase
from captrial.grounding.phrases import (
    Mentioned,
    Placer,
    forced_mentions,
    generated_mentions,
)
from captrial.language.similarity import Similarity
from captrial.language.tokenizer import tokenize_all
from captrial.progress import track
from captrial.records import Sample

FORCED, GENERATED = "forced", "generated"
BATCH = 16  # images at once
MOST_WORDS = 40  # of a reference: longer ones are cut
CUT = f"words beyond the {MOST_WORDS}th"


@dataclass(frozen=True, slots=True)
class PhraseScore:
    """How correct the attention of one phrase is."""

    model: str
    setting: str
    image: str
    caption: int  # which reference; 0 for the generated caption
    text: str
    start: int
    area: float  # of the ground truth: what uniform attention scores
    correctness: float
    pointing: float
    auc: float
    l1: float
    l2: float
    kl: float


@dataclass
class Attended:
    """What one captioner scored in the settings asked for."""

    model: str
    method: str
    scores: list[PhraseScore] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)  # generated
    dropped: dict[str, Counter[str]] = field(default_factory=dict)  # by setting: phrases without a usable place

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON; `from_dict` reads them back."""
        return {
            "model": self.model,
            "method": self.method,
            "captions": self.captions,
            "dropped": {setting: dict(counts) for setting, counts in self.dropped.items()},
            "scores": [asdict(score) for score in self.scores],
        }

    @classmethod
    def from_dict(cls, document: dict[str, object]) -> Attended:
        """What `to_dict` gave."""
        plain: dict[str, object] = dict(document)
        plain["scores"] = [PhraseScore(**score) for score in document["scores"]]  # type: ignore[attr-defined]
        plain["dropped"] = {name: Counter(counts) for name, counts in document["dropped"].items()}  # type: ignore[attr-defined]
        return cls(**plain)  # type: ignore[arg-type]


def attend(
    attributor: CaptionAttributor,
    samples: Sequence[Sample],
    settings: Sequence[str] = (FORCED, GENERATED),
    *,
    similarity: Similarity | None = None,
    reduction: Reduction = "max",
    masks: bool = False,
) -> Attended:
    """Measure one captioner. Samples need captions, and phrases with regions or regions with labels."""
    check_samples(samples)
    similarity = similarity or Similarity.default()
    samples = [with_size(sample) for sample in samples]
    found = Attended(attributor.name, attributor.method)
    for setting in settings:
        placer = Placer(attributor.preprocess, masks)
        jobs = _forced(samples, similarity) if setting == FORCED else _generated(attributor, samples, similarity, found)
        for start in track(range(0, len(jobs), BATCH), f"{attributor.name}, {setting}"):
            found.scores += _measure(attributor, setting, jobs[start : start + BATCH], placer, reduction)
        found.dropped[setting] = placer.dropped
    return found


@dataclass(frozen=True, slots=True)
class _Job:
    """An image, sentences to say, and what their words mean."""

    sample: Sample
    sentences: list[list[str]]
    mentions: list[list[Mentioned]]


def check_samples(samples: Sequence[Sample]) -> None:
    """Refuse a data set that has nothing to measure attention against."""
    if not samples:
        raise DatasetError("no images to measure attention on")
    without = next((sample.id for sample in samples if not sample.captions), None)
    if without is not None:
        raise DatasetError(f"image {without} has no reference caption; attention correctness needs at least one")
    phrases = any(phrase.regions for sample in samples for said in sample.phrases for phrase in said)
    if not phrases and not any(region.label for sample in samples for region in sample.regions):
        raise DatasetError(
            "these images have neither phrases with regions nor boxes with classes; give boxes with --boxes "
            "({id: [[x1, y1, x2, y2, class], ...]}), or a data set that has them"
        )


def _forced(samples: Sequence[Sample], similarity: Similarity) -> list[_Job]:
    words = iter(tokenize_all([caption for sample in samples for caption in sample.captions]))
    mentions = forced_mentions(samples, similarity)
    return [
        _Job(sample, [next(words).split()[:MOST_WORDS] for _ in sample.captions], said)
        for sample, said in zip(samples, mentions, strict=True)
    ]


def _generated(
    attributor: CaptionAttributor, samples: Sequence[Sample], similarity: Similarity, found: Attended
) -> list[_Job]:
    ids = [sample.id for sample in samples]
    for start in track(range(0, len(ids), BATCH), f"{attributor.name}, captioning"):
        part = ids[start : start + BATCH]
        found.captions.update(zip(part, attributor.caption(part), strict=True))
    mentions = generated_mentions(samples, found.captions, similarity)
    words = tokenize_all([found.captions[image] for image in ids])
    return [_Job(sample, [said.split()], [meant]) for sample, said, meant in zip(samples, words, mentions, strict=True)]


def _measure(
    attributor: CaptionAttributor, setting: str, jobs: Sequence[_Job], placer: Placer, reduction: Reduction
) -> Iterator[PhraseScore]:
    weights = attributor.attribute([job.sample.id for job in jobs], [job.sentences for job in jobs])
    for job, captions in zip(jobs, weights, strict=True):
        for number, (found, mentions) in enumerate(zip(captions, job.mentions, strict=True)):
            yield from _phrases(attributor.name, setting, job.sample, number, found, mentions, placer, reduction)


def _phrases(
    model: str,
    setting: str,
    sample: Sample,
    caption: int,
    found: WordWeights,
    mentions: Sequence[Mentioned],
    placer: Placer,
    reduction: Reduction,
) -> Iterator[PhraseScore]:
    for mention in mentions:
        if mention.end > len(found.weights):
            placer.dropped[CUT] += 1
            continue
        placed = placer.place(sample, mention.text, mention.start, mention.end, mention.regions)
        if placed is None:
            continue
        maps = square_maps(found.weights[mention.start : mention.end], found.boxes, found.grid)
        measures = measure_phrase(maps, placed.mask, reduction)
        yield PhraseScore(
            model, setting, sample.id, caption, mention.text, mention.start, placed.area, **measures.to_dict()
        )
