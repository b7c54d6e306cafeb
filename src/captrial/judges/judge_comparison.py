"""Which judge, which metric? Every judge and every metric against the votes of people on the same items.

An item is an image and a pair of models. A judge's opinion on it is the mean of its verdicts over both orders, a
metric's the caption with the better score. Beside them stands a null: "the longer caption". Items of one image are not
independent: intervals of agreement are Wilson's (1927) with the number of items divided by the design effect of
images, intervals of biases use sums by image.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from captrial.compete import Judgement
from captrial.compete.storage.caption_pool import gather
from captrial.errors import StateError
from captrial.judges.correction import JudgedItems, corrected_mean, judged_items
from captrial.judges.machine_verdicts import MachineVerdict
from captrial.metrics import score

if TYPE_CHECKING:
    from captrial.compete import Competition

Floats = NDArray[np.float64]
Captions = Mapping[str, Mapping[str, str]]  # by model, then by image

ENOUGH_VOTES = 50  # that name a winner; below it no judge can be told from another
NULL = "longer caption"
TOO_FEW = "too few to tell"
FAMILIES = {  # words in names of models, by who trained them
    "OpenAI": ("gpt", "openai"),
    "Anthropic": ("claude",),
    "Google": ("gemini", "gemma", "paligemma"),
    "Alibaba": ("qwen",),
    "Meta": ("llama",),
    "LLaVA": ("llava",),
    "OpenGVLab": ("internvl",),
    "Mistral": ("mistral", "pixtral"),
    "Microsoft": ("phi-3", "phi-4", "phi3", "phi4"),
    "DeepSeek": ("deepseek",),
    "Hugging Face": ("smolvlm", "idefics"),
    "Salesforce": ("blip",),
}


@dataclass(frozen=True, slots=True)
class ShareEstimate:
    """A value with its 95% interval; NaN bounds where there is too little for one."""

    value: float
    low: float
    high: float
    items: int

    def to_json(self) -> dict[str, float | int | None]:
        """None instead of NaN."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class JudgeRecord:
    """One judge or metric beside people."""

    name: str
    kind: str  # judge, metric or null
    agreement: ShareEstimate  # share of the items with a winner on which it names the same; its ties count half
    position_bias: ShareEstimate | None  # share of verdicts for what was shown first, less a half
    length_bias: ShareEstimate | None  # how much more often than people it prefers the longer caption
    self_preference: ShareEstimate | None  # how much more than people it gives models of its own family
    contradictions: float | None  # share of the items with two orders on which the order changed the winner
    cost: float | None  # of 1 000 items
    items: int  # that it has an opinion on
    votes: int  # items among them that people voted on
    effective_votes: float | None  # votes that people alone would need for what votes and judge say together
    behind: ShareEstimate | None = None  # agreement less that of the best, on the same items

    @property
    def votes_saved(self) -> float | None:
        """By using it beside the votes there are."""
        return None if self.effective_votes is None else max(self.effective_votes - self.votes, 0.0)

    @property
    def enough(self) -> bool:
        """Whether there are enough votes to say anything."""
        return self.agreement.items >= ENOUGH_VOTES

    def to_json(self) -> dict[str, Any]:
        """Plain values; None where unknown."""
        parts = ("agreement", "position_bias", "length_bias", "self_preference", "behind")
        found: dict[str, Any] = {name: getattr(self, name) for name in ("name", "kind")}
        found |= {name: None if (one := getattr(self, name)) is None else one.to_json() for name in parts}
        plain = ("contradictions", "cost", "items", "votes", "effective_votes", "votes_saved", "enough")
        return found | {name: getattr(self, name) for name in plain}


def family_of(model: str) -> str | None:
    """Who trained a model, by its name; None where unknown.

    >>> family_of("Qwen/Qwen2-VL-7B"), family_of("ours")
    ('Alibaba', None)
    """
    name = model.lower()
    return next((family for family, words in FAMILIES.items() if any(word in name for word in words)), None)


def compare_judges(
    people: Sequence[Judgement],
    judges: Mapping[str, tuple[str, Sequence[MachineVerdict]]],
    metrics: Mapping[str, Mapping[str, Mapping[str, float]]],
    captions: Captions,
) -> list[JudgeRecord]:
    """Judges (model and verdicts by name) and metrics (by name, model, image; more is better), the best first."""
    if all(one.first == one.second for one in people):
        raise StateError(
            "people have voted on nothing; have about 50 items judged: captrial annotate, or --preferences"
        )
    records, opinions = [], {}
    for name, (model, verdicts) in judges.items():
        items = judged_items(people, [verdict.judgement() for verdict in verdicts])
        records.append(_record(name, "judge", items, captions, verdicts, model))
        opinions[name] = _by_item(items)
    wanted = sorted(set(_all_items(people, judges)))
    for name, scores in metrics.items():
        judged = _metric_judgements(scores, wanted)
        if judged:
            items = judged_items(people, judged)
            records.append(_record(name, "metric", items, captions))
            opinions[name] = _by_item(items)
    lengths = {model: {image: float(len(text.split())) for image, text in of.items()} for model, of in captions.items()}
    longer = _metric_judgements(lengths, wanted)
    if longer:
        records.append(_record(NULL, "null", judged_items(people, longer), captions))
        opinions[NULL] = _by_item(judged_items(people, longer))
    return _with_best(records, opinions)


def competition_captions(competition: Competition, images: Sequence[str]) -> dict[str, dict[str, str]]:
    """Captions by model and image, of the images that the pool has."""
    captions = gather(competition.pool, images)
    return {
        model: {image: str(texts[place]) for image, texts in captions.items()}
        for place, model in enumerate(competition.models)
    }


def metric_scores(
    captions: Captions, references: Mapping[str, Sequence[str]], metrics: Sequence[str] | None = None
) -> dict[str, dict[str, dict[str, float]]]:
    """Scores of captions by metric column, model and image, turned so that more is better; the columns that judge."""
    images = [image for image in next(iter(captions.values()), {}) if references.get(image)]
    if not images:
        return {}
    table = score(
        {model: {image: of[image] for image in images} for model, of in captions.items()},
        {image: list(references[image]) for image in images},
        metrics,
    )
    found: dict[str, dict[str, dict[str, float]]] = {}
    for column in table.columns:
        sign = {"higher": 1.0, "lower": -1.0}.get(table.better(column) or "")
        if sign is not None:
            found[column] = {
                model: dict(zip(table.ids, (sign * of[column].per_image).tolist(), strict=True))
                for model, of in table.scores.items()
            }
    return found


def _all_items(
    people: Sequence[Judgement], judges: Mapping[str, tuple[str, Sequence[MachineVerdict]]]
) -> list[tuple[str, str, str]]:
    found = [(one.image, *sorted((one.first, one.second))) for one in people if one.first != one.second]
    found += [(one.image, one.model_a, one.model_b) for _, verdicts in judges.values() for one in verdicts]
    return found  # type: ignore[return-value]


def _metric_judgements(
    scores: Mapping[str, Mapping[str, float]], wanted: Sequence[tuple[str, str, str]]
) -> list[Judgement]:
    found = []
    for image, first, second in wanted:
        values = [scores.get(model, {}).get(image, math.nan) for model in (first, second)]
        if not any(map(math.isnan, values)):
            found.append(Judgement(image, first, second, 0.5 + 0.5 * float(np.sign(values[0] - values[1]))))
    return found


# One judge ----------------------------------------------------------------------------------------------------------


def _record(
    name: str,
    kind: str,
    items: JudgedItems,
    captions: Captions,
    verdicts: Sequence[MachineVerdict] = (),
    model: str = "",
) -> JudgeRecord:
    voted = items.voted
    decided = voted & (items.human != 0.5)
    right = _agreement(items.human[decided], items.judge[decided])
    position, contradictions = _position(verdicts)
    votes = int(voted.sum())
    return JudgeRecord(
        name,
        kind,
        agreement_estimate(right, items.image[decided]),
        position,
        _length_bias(items, captions) if kind != "null" else None,
        _self_preference(items, family_of(model)) if model else None,
        contradictions,
        _cost(verdicts, len(items.judge)),
        len(items.judge),
        votes,
        _effective_votes(items),
    )


def _cost(verdicts: Sequence[MachineVerdict], items: int) -> float | None:
    """Of 1 000 items; None without prices. Verdicts that another run had paid have no cost here, and would cost it."""
    paid = [one.cost for one in verdicts if one.cost > 0]
    return 1000 * float(np.mean(paid)) * len(verdicts) / items if paid else None


def _effective_votes(items: JudgedItems) -> float | None:
    """By the differences within pairs of models: to know which model is better in general saves no votes on a pair."""
    kept = np.zeros(len(items.judge), bool)
    for pair in items.pairs():
        rows = items.of_pair(pair)
        kept |= rows & ((rows & items.voted).sum() >= 2)
    if not kept.any():
        return None
    pairs = items.first[kept] * len(items.models) + items.second[kept]
    found = corrected_mean(items.human[kept], items.judge[kept], pairs)
    return found.effective_votes + int(items.voted.sum()) - found.votes


def _agreement(human: Floats, judge: Floats) -> Floats:
    """(n,) 1 where both name the same winner, 0.5 where the judge names none."""
    return np.asarray(np.where(judge == 0.5, 0.5, (judge > 0.5) == (human > 0.5)).astype(np.float64))


def agreement_estimate(right: Floats, image: NDArray[np.int64]) -> ShareEstimate:
    """The mean of values (n,) in [0, 1] with Wilson's interval; `image` (n,) says which belong together."""
    n = len(right)
    if not n:
        return ShareEstimate(math.nan, math.nan, math.nan, 0)
    mean = float(right.mean())
    sums = np.bincount(np.unique(image, return_inverse=True)[1], right - mean)
    alone = float(((right - mean) ** 2).sum())
    effect = max(float((sums**2).sum()) / alone, 1.0) if alone > 0 else n / len(sums)
    z, count = float(-ndtri(0.025)), n / effect
    middle = (mean + z**2 / (2 * count)) / (1 + z**2 / count)
    reach = z / (1 + z**2 / count) * math.sqrt(mean * (1 - mean) / count + z**2 / (4 * count**2))
    return ShareEstimate(mean, middle - reach, middle + reach, n)


def _mean_by_image(values: Floats, images: Sequence[object]) -> ShareEstimate:
    """The mean of values (n,) with a normal interval from sums by image."""
    n = len(values)
    if not n:
        return ShareEstimate(math.nan, math.nan, math.nan, 0)
    mean = float(values.mean())
    places = np.unique(np.asarray(images), return_inverse=True)[1]
    sums = np.bincount(places, values - mean)
    groups = len(sums)
    if groups < 10:
        return ShareEstimate(mean, math.nan, math.nan, n)
    reach = float(-ndtri(0.025)) * math.sqrt(groups / (groups - 1) * float((sums**2).sum())) / n
    return ShareEstimate(mean, mean - reach, mean + reach, n)


def _position(verdicts: Sequence[MachineVerdict]) -> tuple[ShareEstimate | None, float | None]:
    """Only pairs that were asked in both orders count: in one order the better caption may be first by chance."""
    orders: dict[tuple[str, str, str], list[MachineVerdict]] = {}
    for one in verdicts:
        orders.setdefault((one.image, one.model_a, one.model_b), []).append(one)
    both = [two for two in orders.values() if len(two) == 2]
    if not both:
        return None, None
    first = [np.mean([_for_first(one) for one in two]) - 0.5 for two in both]
    other = float(np.mean([two[0].preferred != two[1].preferred for two in both]))
    return _mean_by_image(np.array(first), [two[0].image for two in both]), other


def _for_first(one: MachineVerdict) -> float:
    return 0.5 if one.preferred is None else float(one.preferred == one.shown_first)


def _length_bias(items: JudgedItems, captions: Captions) -> ShareEstimate | None:
    rows, sides = [], []
    for row in np.flatnonzero(items.voted):
        image, models = (
            items.images[items.image[row]],
            (items.models[items.first[row]], items.models[items.second[row]]),
        )
        texts = [captions.get(model, {}).get(image) for model in models]
        if texts[0] is not None and texts[1] is not None:
            side = np.sign(len(texts[0].split()) - len(texts[1].split()))
            if side:
                rows.append(row)
                sides.append(float(side))
    if not rows:
        return None
    return _mean_by_image(np.array(sides) * (items.judge[rows] - items.human[rows]), items.image[rows].tolist())


def _self_preference(items: JudgedItems, family: str | None) -> ShareEstimate | None:
    if family is None:
        return None
    own = np.array([family_of(model) == family for model in items.models])
    rows = items.voted & (own[items.first] != own[items.second])
    if not rows.any():
        return None
    sign = np.where(own[items.first[rows]], 1.0, -1.0)
    return _mean_by_image(sign * (items.judge[rows] - items.human[rows]), items.image[rows].tolist())


# Against the best ---------------------------------------------------------------------------------------------------


def _by_item(items: JudgedItems) -> dict[tuple[str, str, str], float]:
    rows = np.flatnonzero(items.voted & (items.human != 0.5))
    right = _agreement(items.human[rows], items.judge[rows])
    names, models = items.images, items.models
    return {
        (names[items.image[row]], models[items.first[row]], models[items.second[row]]): float(value)
        for row, value in zip(rows, right, strict=True)
    }


def _with_best(records: list[JudgeRecord], opinions: Mapping[str, Mapping[Any, float]]) -> list[JudgeRecord]:
    """Sorted by agreement, each with its paired difference from the best."""
    ordered = sorted(records, key=lambda one: -one.agreement.value if one.agreement.items else math.inf)
    best = opinions[ordered[0].name]
    found = [ordered[0]]
    for record in ordered[1:]:
        own = opinions[record.name]
        shared = [key for key in own if key in best]
        difference = np.array([own[key] - best[key] for key in shared])
        found.append(replace(record, behind=_mean_by_image(difference, [key[0] for key in shared])))
    return found
