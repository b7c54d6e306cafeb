"""Which method and which rule find the region of a word, against null models: chosen on half of the images, confirmed
on the other half.

    python -m studies.region_rules CACHE measure [--methods attention,saliency] [--models ort,m2] [--regions people]
    python -m studies.region_rules CACHE heads      every layer and head of cross-attention
    python -m studies.region_rules CACHE tables

Two data sets with boxes of people: the 500 test photographs of Flickr8k with the boxes of Flickr30k Entities (labels:
merged classes of `studies.region_labels`, else head nouns) and 388 images of COCO. Two kinds of captions: the
captioner's own, and the first caption that a person wrote of the image, which the captioner is made to read (teacher
forcing). Writes `results/grounding/rules.json` (GroundingScore(0) of every caption, and of the null models) and
`heads.json`. CACHE is that of `studies.noun_presence`; maps are kept in it, so that rules are cheap to compare.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray

from captrial.attribution.attribution import grid_of, on_image, region_scores, tile, usable_regions
from captrial.attribution.dataset_attribution import DatasetAttributor, WordWeights, without_class_token
from captrial.attribution.methods.cross_attention import attend_heads, recorded_attention
from captrial.attribution.methods.occlusion import GRID, occlude
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.region_rules import REGION_RULES
from captrial.attribution.subject import seen_window
from captrial.captioners.loading import load_captioner
from captrial.data.datasets import read_karpathy
from captrial.data.images import open_image
from captrial.data.sample_sizes import size_of, with_size
from captrial.files import atomic_write, content_hash
from captrial.grounding.baselines import NULLS, LabelPrior, null_labels, skill
from captrial.grounding.regions import ELEMENTS, dataset_regions, element_regions
from captrial.grounding.score import Grounder, Noun
from captrial.grounding.study_data import DataSource
from captrial.grounding.tables import estimate
from captrial.language.tokenizer import tokenize_all
from captrial.progress import track
from captrial.records import Box, ImageRef, Region, Sample
from captrial.vision.boxes import relative_boxes
from captrial.vision.registry import DEFAULT_DETECTOR
from studies.data_paths import COCO, FLICKR8K_CAPTIONS
from studies.noun_presence import RESULTS, captioner_attributor, captions, measured_captioners
from studies.region_detector import read_samples
from studies.region_labels import label_images

Floats = NDArray[np.float64]
PATH, HEADS = RESULTS / "rules.json", RESULTS / "heads.json"
GROUP = "group of people"
PEOPLE = "person"
OF_REGIONS = ("m2-regions",)  # captioners that read the regions of the detector
SUPERVISED = ("show_attend_tell-implicit", "show_attend_tell-strong")  # attention learnt without and with human boxes
OWN, HUMAN = "own", "people's"  # whose captions
BY_PEOPLE, DETECTOR = "people", "detector"  # whose regions; or ELEMENTS, those that the captioner reads
STEPS = 8  # of integrated gradients
OCCLUSION, OCCLUDED = "occlusion", 120  # captions every image 25 times: the first images only, and own captions
DETECTED = 0.3  # least score of a detector's region: as many as people draw


# Images, captions and regions -----------------------------------------------------------------------------------------


@cache
def load(name: str) -> list[Sample]:
    """Images with human boxes, their labels and the captions of people."""
    if name == "coco":
        found = DataSource(COCO / "captions_val2017.json", COCO / "images", COCO / "boxes_val2017.json").read()
        there = [with_size(sample) for sample in found.samples if sample.regions]
        return [replace(one, image=replace(one.image, id=str(one.image.path and one.image.path.name))) for one in there]
    written = {sample.id: sample.captions for sample in read_karpathy(FLICKR8K_CAPTIONS, split="test")}
    samples, paths = read_samples()
    found_samples = []
    for image in label_images(samples["test"]):
        width, height = image.size
        regions = []
        for box in image.boxes:
            classes = sorted(box.classes - {GROUP}) or ([PEOPLE] if GROUP in box.classes else [])
            names = classes or [noun for noun, _ in box.nouns.most_common(1)]
            if names:
                x1, y1, x2, y2 = box.box
                regions.append(Region(Box(x1 * width, y1 * height, x2 * width, y2 * height), names[0]))
        path = paths[image.id]
        reference = ImageRef(path.name, path, width, height)
        found_samples.append(Sample(reference, written[path.name], regions=tuple(regions)))
    return [sample for sample in found_samples if sample.regions]


def split_of(data: str) -> str:
    """The name of a data set's images in the cache."""
    return "test" if data == "entities" else "coco"


class Words:
    """The captions of some images: words and nouns, and how well labels fit these nouns."""

    def __init__(self, texts: Sequence[str], labels: Sequence[str]) -> None:
        self.grounder = Grounder(sorted(set(labels)))
        self.words = [text.split() for text in tokenize_all(texts)]
        self.nouns: list[list[Noun]] = self.grounder.nouns(texts)
        self.prior = LabelPrior.of([name for nouns in self.nouns for _, name in nouns], self.grounder)
        self.similar = cache(self.grounder.similarity.sim)

    def score(self, number: int, labels: Sequence[str]) -> float:
        """GroundingScore(0) of a caption, given the label of the top region of every word."""
        values = [self.similar(name, labels[place]) for place, name in self.nouns[number]]
        return float(np.mean(values)) if values else np.nan

    def best(self, number: int, labels: Sequence[str]) -> float:
        """The same of the labels that fit best."""
        values = [max(self.similar(name, label) for label in set(labels)) for _, name in self.nouns[number] if labels]
        return float(np.mean(values)) if values else np.nan


@dataclass(frozen=True)
class Setting:
    """One captioner with captions and regions on one data set."""

    data: str
    captions: str  # OWN or HUMAN
    regions: str  # BY_PEOPLE, DETECTOR or ELEMENTS
    model: str

    def texts(self, cache_: Path) -> list[str]:
        """The caption of every image."""
        samples = load(self.data)
        if self.captions == HUMAN:
            return [sample.captions[0] for sample in samples]
        spoken = captions(samples, cache_, split_of(self.data), (self.model,))
        return [spoken[self.model][sample.id] for sample in samples]

    def samples(self, cache_: Path) -> tuple[Sequence[Sample], Sequence[str]]:
        """The images with their regions, and all labels that regions can have."""
        samples = load(self.data)
        if self.regions == ELEMENTS:
            return element_regions(samples, self.attributor(cache_).features)
        if self.regions == BY_PEOPLE:
            return samples, [str(region.label) for sample in samples for region in sample.regions]
        bare = [replace(sample, regions=()) for sample in samples]
        found, labels = dataset_regions(bare, [], DEFAULT_DETECTOR, cache_ / f"regions-{split_of(self.data)}")
        return [
            replace(one, regions=tuple(region for region in one.regions if region.score >= DETECTED)) for one in found
        ], labels

    def attributor(self, cache_: Path) -> DatasetAttributor:
        """The captioner on stored features of the images."""
        folder = Path(measured_captioners(SUPERVISED)[self.model])
        return captioner_attributor(self.model, folder, load(self.data), cache_, split_of(self.data))


# Maps -----------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def all_layers(attributor: DatasetAttributor, image: str, words: Sequence[str]) -> Floats:
    """Cross-attention averaged over all layers and heads, (w, k)."""
    heads = attend_heads(
        attributor.checkpoint.captioner, attributor.features.get([image]), attributor.tokens([[words]])
    )
    return np.mean([layer.weights[0, :, 0].mean(0).double().numpy() for layer in heads], 0)[: len(words)]


def attention_x_gradient(attributor: DatasetAttributor, image: str, words: Sequence[str]) -> Floats:
    """Cross-attention times the gradient of the word's logit with respect to it, positive part, summed over heads.

    Chefer et al. 2021, without their propagation through the encoder: a head counts as much as the word needs it.
    """
    captioner = attributor.checkpoint.captioner
    features = attributor.features.get([image])
    features = replace(features, elements=features.elements.clone().requires_grad_())
    target = attributor.checkpoint.vocabulary.encode(words, bos=False, eos=False)
    steps = torch.arange(len(words))
    with torch.enable_grad(), recorded_attention(captioner) as recorded:
        logits = captioner(features, attributor.tokens([[words]])).logits[0, 0]
        scores = logits[steps, torch.tensor(target)]
        weights = [layer for calls in recorded for layer in calls]  # (1, heads, w, k + slots) each
        slopes = torch.autograd.grad(scores, weights, torch.eye(len(words)), is_grads_batched=True)
    elements = features.mask.shape[1]
    parts = [
        (weight.detach() * slope)[steps, 0, :, steps, :elements].clamp(min=0).sum(1)
        for weight, slope in zip(weights, slopes, strict=True)
    ]
    return torch.stack(parts).sum(0).double().numpy()


def occlusion(setting: Setting, words: Sequence[Sequence[str]], title: str) -> list[WordWeights]:
    """The maps of `occlude` on 5 x 5 cells for the first images; the others have none."""
    captioner = load_captioner(measured_captioners(SUPERVISED)[setting.model])
    found, boxes = [], np.asarray(tile(*GRID), np.float64)
    pairs = list(zip(load(setting.data), words, strict=True))
    for sample, text in track(pairs[:OCCLUDED], title):
        assert sample.image.path is not None
        one = occlude(captioner, open_image(sample.image.path), caption=" ".join(text))
        assert list(one.words) == list(text), f"{sample.id}: {one.words} for {text}"
        found.append(WordWeights(np.asarray(one.scores, np.float64), boxes, GRID))
    return found + [WordWeights(np.zeros((0, len(boxes))), boxes, GRID)] * len(pairs[OCCLUDED:])


OWN_METHODS: Mapping[str, Callable[[DatasetAttributor, str, Sequence[str]], Floats]] = {
    "all layers": all_layers,
    "attention x gradient": attention_x_gradient,
}  # besides those of the registry; of Transformers only


def attributed(attributor: DatasetAttributor, image: str, words: Sequence[str], method: str) -> WordWeights:
    """The map of one caption's words."""
    if method in OWN_METHODS:
        features = attributor.features.get([image])
        assert features.boxes is not None
        return without_class_token(OWN_METHODS[method](attributor, image, words), features.boxes[0].numpy())
    attributor.method = method
    return attributor.attribute([image], [[words]])[0][0]


def maps_of(setting: Setting, method: str, words: Sequence[Sequence[str]], cache_: Path) -> list[WordWeights]:
    """The map of every caption's words; kept in a file."""
    path = cache_ / "maps" / f"{setting.data}-{setting.captions[:3]}-{setting.model}-{method.replace(' ', '_')}.npz"
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        if method == OCCLUSION:
            found = occlusion(setting, words, path.stem)
        else:
            attributor = setting.attributor(cache_)
            attributor.settings = AttributionSettings(steps=STEPS if method == "integrated_gradients" else None)
            pairs = list(zip([sample.id for sample in load(setting.data)], words, strict=True))
            found = [attributed(attributor, image, text, method) for image, text in track(pairs, path.stem)]
        weights = np.concatenate([one.weights.ravel() for one in found]).astype(np.float32)
        shapes = [one.weights.shape for one in found]
        np.savez(path, weights=weights, shapes=shapes, boxes=np.concatenate([one.boxes for one in found]))
    stored = np.load(path)
    sizes = [(int(w), int(k)) for w, k in stored["shapes"]]
    rows = np.split(stored["weights"].astype(np.float64), np.cumsum([w * k for w, k in sizes])[:-1])
    boxes = np.split(stored["boxes"].astype(np.float64), np.cumsum([k for _, k in sizes])[:-1])
    return [
        WordWeights(row.reshape(shape), box, grid_of(box)) for row, shape, box in zip(rows, sizes, boxes, strict=True)
    ]


# Measuring ------------------------------------------------------------------------------------------------------------


@dataclass
class Images:
    """The regions of every image that its captioner saw, and the elements that it sees; None without any region."""

    samples: Sequence[Sample]
    maps: Sequence[WordWeights]
    attributor: DatasetAttributor

    def __iter__(self) -> Iterator[tuple[list[Region], Floats, tuple[int, int]]]:
        for sample, found in zip(self.samples, self.maps, strict=True):
            size = size_of(sample)
            elements = np.asarray(on_image(found.boxes, seen_window(self.attributor.preprocess, *size)), np.float64)
            yield usable_regions(elements, sample.regions, size), elements, size


def rule_scores(words: Words, images: Images) -> dict[str, Floats]:
    """GroundingScore(0) of every caption by rule; NaN without noun or region."""
    found: dict[str, list[float]] = {rule: [] for rule in REGION_RULES}
    for number, (regions, elements, size) in enumerate(images):
        for rule, values in found.items():
            weights = images.maps[number].weights
            if not regions or not words.nouns[number] or not len(weights):
                values.append(np.nan)
                continue
            certainty = np.array([region.score for region in regions])
            boxes = relative_boxes(regions, size)
            best = region_scores(weights, elements, boxes, rule, certainty=certainty).argmax(1)
            values.append(words.score(number, [str(regions[place].label) for place in best]))
    return {rule: np.array(values) for rule, values in found.items()}


def null_scores(words: Words, images: Images) -> dict[str, Floats]:
    """The same of the null models, of the detector's surest region, and of the best region for every noun."""
    found: dict[str, list[float]] = {name: [] for name in (*NULLS, SUREST, PERFECT)}
    for number, (regions, _, size) in enumerate(images):
        seed = int(content_hash(images.samples[number].id), 16) % 2**32
        drawn = null_labels(regions, size, len(words.words[number]), words.prior, seed) if regions else {}
        for name in NULLS:
            rows = drawn.get(name, [])
            found[name].append(float(np.mean([words.score(number, row) for row in rows])) if rows else np.nan)
        surest = max(regions, key=lambda region: region.score, default=None)
        found[SUREST].append(words.score(number, [str(surest.label)] * len(words.words[number])) if surest else np.nan)
        found[PERFECT].append(words.best(number, [str(region.label) for region in regions]))
    return {name: np.array(values) for name, values in found.items()}


def measure(cache_: Path, chosen: argparse.Namespace) -> None:
    """GroundingScore(0) of every caption by captioner, method and rule."""
    document: list[dict[str, Any]] = orjson.loads(PATH.read_bytes()) if PATH.exists() else []
    done = {(*(row[name] for name in KEYS), row["method"]) for row in document}
    for setting in settings(chosen):
        todo = [method for method in (*chosen.methods, NULL_ROW) if (*_key(setting), method) not in done]
        if "show_attend" in setting.model:
            todo = [method for method in todo if method not in OWN_METHODS]
        if setting.regions == ELEMENTS and setting.model not in OF_REGIONS:
            continue
        if setting.captions == HUMAN:
            todo = [method for method in todo if method != OCCLUSION]  # it covers what the captioner's own words need
        if not todo:
            continue
        samples, labels = setting.samples(cache_)
        words = Words(setting.texts(cache_), labels)
        attributor = setting.attributor(cache_)
        for method in todo:
            maps = maps_of(setting, "attention" if method == NULL_ROW else method, words.words, cache_)
            images = Images(samples, maps, attributor)
            found = null_scores(words, images) if method == NULL_ROW else rule_scores(words, images)
            scores = {name: _plain(values) for name, values in found.items()}
            document.append({**dict(zip(KEYS, _key(setting), strict=True)), "method": method, "scores": scores})
            atomic_write(PATH, orjson.dumps(document))


KEYS = ("data", "captions", "regions", "model")
NULL_ROW = "nulls"  # in the place of a method
SUREST, PERFECT = "surest", "perfect"  # beside the null models: the detector's surest region; the best for every noun


def _key(setting: Setting) -> tuple[str, str, str, str]:
    return setting.data, setting.captions, setting.regions, setting.model


def settings(chosen: argparse.Namespace) -> list[Setting]:
    """What was asked for, in the order of the tables."""
    return [
        Setting(data, texts, regions, model)
        for regions in chosen.regions
        for data in chosen.data
        for texts in (OWN, HUMAN)
        for model in chosen.models
    ]


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 4) for value in values]


def heads(cache_: Path, chosen: argparse.Namespace) -> None:
    """GroundingScore(0) of every layer and head on images with even and odd numbers, with the prior's."""
    document = []
    for setting in settings(chosen):
        if "show_attend" in setting.model:
            continue
        samples, labels = setting.samples(cache_)
        words = Words(setting.texts(cache_), labels)
        attributor = setting.attributor(cache_)
        maps: dict[str, list[WordWeights]] = {}
        for sample, text in zip(samples, words.words, strict=True):
            features = attributor.features.get([sample.id])
            with torch.no_grad():
                layers = attend_heads(attributor.checkpoint.captioner, features, attributor.tokens([[text]]))
            assert features.boxes is not None
            for layer in layers:
                for head, weights in enumerate(layer.weights[0, :, 0], 1):
                    found = without_class_token(weights[: len(text)].double().numpy(), features.boxes[0].numpy())
                    maps.setdefault(f"{layer.layer}, {head}", []).append(found)
        prior = null_scores(words, Images(samples, next(iter(maps.values())), attributor))["prior"]
        rows = [
            [name, rule, *(round(100 * float(np.nanmean(values[half::2])), 2) for half in (0, 1))]
            for name, own in track(maps.items(), f"{setting.data}, {setting.model}, heads")
            for rule, values in rule_scores(words, Images(samples, own, attributor)).items()
        ]
        means = [round(100 * float(np.nanmean(prior[half::2])), 2) for half in (0, 1)]
        document.append({**dict(zip(KEYS, _key(setting), strict=True)), "prior": means, "heads": rows})
        atomic_write(HEADS, orjson.dumps(document))


# Tables ---------------------------------------------------------------------------------------------------------------


def tables(_: Path, __: argparse.Namespace) -> None:
    """Print the tables of docs/ground_measured.md."""
    values = kept_scores()
    print("\n".join(rule_lines(values)))
    print(f"\nSkill over every null model on odd images, by the rules chosen on even ones: {chosen_rules(values)}\n")
    print("\n".join(skill_lines(values)))
    print("\nA perfect choice of regions, on odd images\n")
    print("\n".join(perfect_lines(values)))
    print("\nThe same captions, paired\n")
    print("\n".join(lead_lines(values)))
    if HEADS.exists():
        _print_heads()


Scores = Mapping[tuple[str, ...], Mapping[str, Floats]]  # by the values of KEYS and the method
DATA = {"entities": "Flickr8k", "coco": "COCO"}
GRID_CAPTIONERS = "captioners of a grid"
ALWAYS, FEW = "attention", ("ort", "m2-regions", "show_attend_tell-strong")  # captioners whose other methods are shown
OF_FEW = ("integrated_gradients", "guided_backprop", OCCLUSION)  # methods that were measured with these only


def kept_scores() -> Scores:
    """What was measured: GroundingScore(0) of every caption by rule or null model, NaN where it has none."""
    rows: list[dict[str, Any]] = orjson.loads(PATH.read_bytes())
    found = {(*(row[name] for name in KEYS), row["method"]): _arrays(row["scores"]) for row in rows}
    return {key: scores for key, scores in found.items() if (*key[:4], NULL_ROW) in found}


def chosen_rules(values: Scores) -> dict[str, str]:
    """The rule with the highest mean of attention on even images, over data sets, kinds of captions and captioners.

    For captioners of a grid by the regions of people, for captioners of regions by each kind of regions.
    """
    found = {}
    for title, regional, wanted in (
        (GRID_CAPTIONERS, False, BY_PEOPLE),
        (BY_PEOPLE, True, BY_PEOPLE),
        (ELEMENTS, True, ELEMENTS),
    ):
        own = [
            scores
            for (_, _, regions, model, method), scores in values.items()
            if (regions, method, model in OF_REGIONS) == (wanted, ALWAYS, regional)
        ]
        rules = [rule for rule in REGION_RULES if all(rule in scores for scores in own)]
        found[title] = max(rules, key=lambda rule: float(np.mean([np.nanmean(each[rule][::2]) for each in own])))
    return found


def _arrays(scores: dict[str, list[float | None]]) -> dict[str, Floats]:
    return {name: np.array([np.nan if one is None else one for one in each]) for name, each in scores.items()}


def rule_lines(values: Scores) -> list[str]:
    """GroundingScore(0) x100 by rule and null model, mean of the captioners that a method was measured with.

    Captioners that read regions, and methods that few captioners were measured with, are left to `skill_lines`.
    """
    names = [*REGION_RULES, *NULLS]
    lines = ["| data | captions | regions, method | half | " + " | ".join(names) + " |"]
    lines.append("| --- " * (len(names) + 4) + "|")
    many = [key for key in values if key[3] not in OF_REGIONS and key[4] not in (NULL_ROW, *OF_FEW)]
    for data, texts, regions, method in dict.fromkeys((*key[:3], key[4]) for key in many):
        own = [key for key in many if (*key[:3], key[4]) == (data, texts, regions, method)]
        if regions == BY_PEOPLE or method == ALWAYS:
            lines += _halves(values, own, f"{regions}, {_plainly(method)} ({len(own)})", names)
    for key in values:
        if key[3] in OF_REGIONS and key[4] == ALWAYS:
            lines += _halves(values, [key], f"{key[2]}, {key[4]}, {key[3]} alone", names)
    return lines


def _plainly(method: str) -> str:
    return method.replace("_", " ")


def _halves(values: Scores, own: Sequence[tuple[str, ...]], title: str, names: Sequence[str]) -> Iterator[str]:
    for half, title_of_half in enumerate(("even", "odd")):
        scores = [{**values[key], **values[(*key[:4], NULL_ROW)]} for key in own]
        known = [name for name in names if all(name in each for each in scores)]
        cells = {name: 100 * np.mean([np.nanmean(each[name][half::2]) for each in scores]) for name in known}
        shown = " | ".join(f"{cells[name]:.1f}" if name in cells else "–" for name in names)
        yield f"| {DATA[own[0][0]]} | {own[0][1]} | {title} | {title_of_half} | {shown} |"


def skill_lines(values: Scores, half: int = 1) -> list[str]:
    """Skill over every null model by `chosen_rules`; a captioner in bold where the interval excludes 0 against all."""
    rules = chosen_rules(values)
    lines = ["| data | captions | regions | captioner | method | score | " + " | ".join(NULLS) + " |"]
    lines.append("| --- " * (len(NULLS) + 6) + "|")
    for key, scores in values.items():
        data, texts, regions, model, method = key
        if method == NULL_ROW or (method != ALWAYS and model not in FEW):
            continue
        own = scores[rules[regions if model in OF_REGIONS else GRID_CAPTIONERS]][half::2]
        nulls = values[(*key[:4], NULL_ROW)]
        found = [skill(own, nulls[name][half::2], list(range(len(own)))) for name in NULLS]
        better = all(one.low is not None and round(one.low, 2) > 0 for one in found)
        cells = " | ".join(f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in found)
        named = f"**{model}**" if better else model
        titles = f"{DATA[data]} | {texts} | {regions} | {named} | {_plainly(method)}"
        lines.append(f"| {titles} | {100 * np.nanmean(own):.1f} | {cells} |")
    return lines


def perfect_lines(values: Scores) -> list[str]:
    """On odd images, what a perfect choice of regions scores, and the detector's surest region with skill over it."""
    rules = chosen_rules(values)
    lines = ["| data | captions | regions | captioner | perfect | prior | surest | skill over the surest |"]
    lines.append("| --- " * 8 + "|")
    for key, scores in values.items():
        if PERFECT in scores:
            perfect, prior = (f"{100 * np.nanmean(scores[name][1::2]):.1f}" for name in (PERFECT, "prior"))
            surest = "– | –"  # people draw all regions with the same certainty
            if key[2] == ELEMENTS:
                own, null = values[(*key[:4], ALWAYS)][rules[ELEMENTS]][1::2], scores[SUREST][1::2]
                found = skill(own, null, list(range(len(own))))
                surest = f"{100 * np.nanmean(null):.1f} | {found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
            lines.append(f"| {DATA[key[0]]} | {' | '.join(key[1:4])} | {perfect} | {prior} | {surest} |")
    return lines


def lead_lines(values: Scores) -> list[str]:
    """The captioner of regions less captioners of a grid: captions and regions by people, odd images, own rules."""
    rules, model = chosen_rules(values), OF_REGIONS[0]
    lines = ["| data | captioner | than | GroundingScore(0) x100, difference |", "| --- " * 4 + "|"]
    for data, title in DATA.items():
        own = values[(data, HUMAN, BY_PEOPLE, model, ALWAYS)][rules[BY_PEOPLE]][1::2]
        for other in ("show_attend_tell-strong", "ort"):
            theirs = values[(data, HUMAN, BY_PEOPLE, other, ALWAYS)][rules[GRID_CAPTIONERS]][1::2]
            both = np.flatnonzero(~(np.isnan(own) | np.isnan(theirs)))
            (found,) = estimate(both.tolist(), 100 * (own - theirs)[both, None])
            lines.append(f"| {title} | {model} | {other} | {found.value:.1f} [{found.low:.1f}, {found.high:.1f}] |")
    return lines


def _print_heads() -> None:
    print("\nThe best of all heads and rules on even images\n")
    print("| data | captions | captioner | layer, head | rule | even | odd | prior, even | prior, odd |")
    print("| --- " * 9 + "|")
    for row in orjson.loads(HEADS.read_bytes()):
        name, rule, even, odd = max(row["heads"], key=lambda one: float(one[2]))
        print(
            f"| {row['data']} | {row['captions']} | {row['model']} | {name} | {rule} | {even:.1f} | {odd:.1f} | "
            + " | ".join(f"{value:.1f}" for value in row["prior"])
            + " |"
        )


def main() -> None:
    """Measure or print."""
    names = partial(str.split, sep=",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("verb", choices=("measure", "heads", "tables"))
    parser.add_argument("--methods", type=names, default=["attention", *OWN_METHODS, "saliency"])
    parser.add_argument("--models", type=names, default=list(measured_captioners(SUPERVISED)))
    parser.add_argument("--data", type=names, default=["entities", "coco"])
    parser.add_argument("--regions", type=names, default=[BY_PEOPLE], help="people, detector, elements")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    {"measure": measure, "heads": heads, "tables": tables}[arguments.verb](arguments.cache, arguments)


if __name__ == "__main__":
    main()
