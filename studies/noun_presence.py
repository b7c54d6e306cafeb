"""Which nouns are in an image: trained on training photographs, weighed on validation ones, measured on test ones.

    python -m studies.noun_presence CACHE train        the linear layer, the weights of evidence, the threshold
    python -m studies.noun_presence CACHE design       which evidence, chosen on validation photographs
    python -m studies.noun_presence CACHE measure      error rates of verdicts on test photographs; also into the table
    python -m studies.noun_presence CACHE ship         what was measured, and checked by eye, into the table again
    python -m studies.noun_presence CACHE tables       what docs/ground_measured.md shows

CACHE keeps what the networks say of the photographs (minutes of a core) and the captions of the shipped captioners.
Truth: a noun is there if a reference of the image mentions it, a synonym or a kind of it (table of words), any word for
people if it is one, or for scenery and clothes a word of the same merged class (a *field* is *grass*). A thing that no
reference mentions may be there all the same: 200 verdicts were checked by eye (`results/grounding/eye.json`). Beside
it, by the phrases of Flickr30k Entities alone: the nouns of phrases that name a thing or a scene.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest
from torch import nn
from torch.nn import functional

from captrial.attribution.dataset_attribution import DatasetAttributor, RecordedCaptions
from captrial.attribution.methods.registry import AttributionSettings
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import shipped_captioners
from captrial.data.datasets import read_karpathy
from captrial.data.images import open_image
from captrial.files import atomic_write, content_hash
from captrial.grounding.error_rates import BACKGROUND, THINGS
from captrial.grounding.presence import BODY_PARTS, learnt_names
from captrial.grounding.regions import dataset_regions
from captrial.grounding.score import PERSON, Grounder, Verdict
from captrial.grounding.study import ground_dataset
from captrial.language.class_words import default_table, scene_words
from captrial.language.nouns import analyse
from captrial.metrics.significance.bootstrap import REPLICATES, resamples
from captrial.progress import track
from captrial.records import Sample
from captrial.training.feature_extraction import features_of
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.detectors.noun_presence import NounPresence, PresenceTable, pooled
from captrial.vision.detectors.region_detector import SHIPPED, RegionDetector, log_odds
from captrial.vision.registry import DEFAULT_DETECTOR, load_backbone, load_detector
from studies.data_paths import FLICKR8K_CAPTIONS
from studies.region_detector import read_samples
from studies.region_labels import MERGED, NO_THING, SLOT_OF_TYPE

Floats = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results" / "grounding"
MEASUREMENTS = RESULTS / "presence.json"
LEAST_IMAGES = 25  # training photographs that mention a noun
ACTIONS = frozenset({
    "trick", "game", "swimming", "time", "action", "night", "jump", "run", "walk", "soccer", "hockey", "tennis", "fun",
    "show", "event", "pose", "turn", "stunt", "tour", "celebration",
})  # fmt: skip  # nouns without a look of their own, besides `NO_THING`
ONE_LOOK = frozenset({
    "water", "grass", "snow", "sand", "mountain", "street", "building", "tree", "rock", "shirt", "coat", "hat",
    "pants", "outfit", "dress", "shoe",
})  # fmt: skip  # merged classes whose words describe one thing: field and grass, coat and jacket
FITTED = ("m2", "ort", "show_attend_tell", "transformer")  # whose captions set the threshold, on validation photographs
MEASURED = (*FITTED, "m2-regions")  # shipped later
RECALL = 0.6  # of absent nouns, at the threshold that is chosen on validation photographs


# Truth ----------------------------------------------------------------------------------------------------------------


@cache
def _groups() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for name, (_, words) in MERGED.items():
        for word in (name, *(word.strip() for word in words.split(","))):
            if name in ONE_LOOK and word:
                found.setdefault(word, set()).add(name)
    return {word: frozenset(names) for word, names in found.items()}


@cache
def names_one_thing(first: str, second: str) -> bool:
    """Whether two nouns may name one thing in an image."""
    table = default_table()
    if first == second or table.means(first, second) or table.means(second, first):
        return True
    none: frozenset[str] = frozenset()
    return (names_people(first) and names_people(second)) or bool(
        _groups().get(first, none) & _groups().get(second, none)
    )


def names_people(noun: str) -> bool:
    """Whether a noun is a word for people."""
    return default_table().means(noun, PERSON) or noun in ("people", "group")


def is_there(noun: str, words: Sequence[str]) -> bool:
    """Whether words mention a noun, or for a part of a body somebody who has it: a *man* has a *mouth*."""
    owners = [owner for owner, parts in BODY_PARTS.items() if noun in parts]
    return any(names_one_thing(noun, word) or any(names_one_thing(word, owner) for owner in owners) for word in words)


def reference_nouns(samples: Sequence[Sample]) -> dict[str, list[str]]:
    """All nouns of the references of every image."""
    table = default_table()
    analyses = iter(analyse([text for sample in samples for text in sample.captions], phrases=False))
    found = {}
    for sample in samples:
        names: set[str] = set()
        for _ in sample.captions:
            one = next(analyses)
            names |= {mention.name for mention in table.mentions(one.lemmas, one.nouns)}
            names |= {one.lemmas[place] for place in one.nouns}
        found[sample.id] = sorted(names)
    return found


def phrase_nouns() -> dict[str, list[str]]:
    """The nouns of every test photograph's Entities phrases, those that are *not visual* left out."""
    splits, paths = read_samples()
    texts = {
        paths[sample.id].name: [
            phrase.text for each in sample.phrases for phrase in each if phrase.kinds[0] in SLOT_OF_TYPE
        ]
        for sample in splits["test"]
    }
    table = default_table()
    analyses = iter(analyse([text for each in texts.values() for text in each], phrases=False))
    found = {}
    for image, each in texts.items():
        names: set[str] = set()
        for _ in each:
            one = next(analyses)
            names |= {mention.name for mention in table.mentions(one.lemmas, one.nouns)}
            names |= {one.lemmas[place] for place in one.nouns}
        found[image] = sorted(names)
    return found


def mentioned(nouns: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
    """Which nouns the references of each image mention (images, nouns)."""
    words = sorted({word for each in references for word in each})
    places = {word: number for number, word in enumerate(words)}
    same = np.array([[names_one_thing(noun, word) for word in words] for noun in nouns])
    return np.stack([same[:, [places[word] for word in each]].any(1) for each in references])


# What the networks say ------------------------------------------------------------------------------------------------


def seen(samples: Sequence[Sample], path: Path, cells: bool) -> dict[str, Any]:
    """Pooled grid features and, with `cells`, best scores of the detector's nouns and classes; kept in a file."""
    if not path.exists():
        grid, detector = EfficientNetLite(2), RegionDetector.from_pretrained()
        rows: dict[str, list[Any]] = {"pooled": [], "nouns": [], "classes": []}
        labels = detector.network.labels
        for sample in track(samples, path.stem):
            assert sample.image.path is not None
            image = open_image(sample.image.path)
            rows["pooled"].append(pooled(grid.extract([image]).elements)[0].half().numpy())
            if cells:
                one = detector.predict(image)
                best = detector.best_cells(one, labels.nouns)
                rows["nouns"].append(best[:, 0])
                rows["classes"].append(log_odds(one.scores.max(0)))
        np.savez(path, ids=[sample.id for sample in samples], **{name: np.array(each) for name, each in rows.items()})
    return dict(np.load(path))


def captions(
    samples: Sequence[Sample], cache_: Path, split: str, names: Sequence[str] = FITTED
) -> dict[str, dict[str, str]]:
    """Captions of a split by shipped captioners, kept in a file."""
    path = cache_ / f"captions-{split}.json"
    found: dict[str, dict[str, str]] = orjson.loads(path.read_bytes()) if path.exists() else {}
    for name in names:
        if name not in found:
            attributor = captioner_attributor(name, shipped_captioners()[name], samples, cache_, split)
            found[name] = {}
            for start in track(range(0, len(samples), 16), name):
                ids = [sample.id for sample in samples[start : start + 16]]
                found[name].update(zip(ids, attributor.caption(ids), strict=True))
            atomic_write(path, orjson.dumps(found))
    return {name: found[name] for name in names}


def measured_captioners(more: Sequence[str] = ()) -> dict[str, str]:
    """The shipped captioners that the verdicts were measured with, and `more` of them."""
    shipped = shipped_captioners()
    return {name: str(shipped[name]) for name in (*MEASURED, *more)}


def captioner_attributor(
    name: str, folder: Path, samples: Sequence[Sample], cache_: Path, split: str
) -> DatasetAttributor:
    checkpoint = Checkpoint.from_pretrained(folder)
    key = content_hash(repr(sorted(checkpoint.vision.items(), key=str)), 8)
    store = features_of(samples, load_backbone(checkpoint.vision), cache_ / "stores" / f"{split}-{key}")
    return DatasetAttributor(name, checkpoint, store, "attention")


# Training -------------------------------------------------------------------------------------------------------------


def train_head(x: Floats, y: NDArray[np.bool_], x_val: Floats, y_val: NDArray[np.bool_], seed: int = 0) -> nn.Linear:
    """A linear layer on standardised features, the epoch with the least validation loss; standardisation folded in."""
    torch.manual_seed(seed)
    mean, deviation = x.mean(0), x.std(0) + 1e-3
    inputs, targets, val, val_targets = (
        torch.tensor(part, dtype=torch.float32)
        for part in ((x - mean) / deviation, y, (x_val - mean) / deviation, y_val)
    )
    share = np.clip(y.mean(0), 1e-3, 1 - 1e-3)
    layer = nn.Linear(x.shape[1], y.shape[1])
    nn.init.zeros_(layer.weight)
    layer.bias.data = torch.tensor(np.log(share / (1 - share)), dtype=torch.float32)
    optimiser = torch.optim.AdamW(layer.parameters(), 1e-3, weight_decay=0.1)
    best, kept = np.inf, layer.state_dict()
    for _ in range(14):
        for batch in torch.randperm(len(inputs)).split(64):
            optimiser.zero_grad()
            scores = layer(functional.dropout(inputs[batch], 0.3))
            loss = functional.binary_cross_entropy_with_logits(scores, targets[batch], reduction="sum") / len(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        optimiser.param_groups[0]["lr"] *= 0.85
        with torch.no_grad():
            now = float(functional.binary_cross_entropy_with_logits(layer(val), val_targets, reduction="sum"))
        if now < best:
            best, kept = now, {name: value.clone() for name, value in layer.state_dict().items()}
    weight = kept["weight"].double().numpy() / deviation
    folded = nn.Linear(x.shape[1], y.shape[1])
    folded.weight.data = torch.tensor(weight, dtype=torch.float32)
    folded.bias.data = torch.tensor(kept["bias"].double().numpy() - weight @ mean, dtype=torch.float32)
    return folded


def weigh(evidence: Floats, known: NDArray[np.bool_], y: NDArray[np.bool_]) -> Floats:
    """Coefficients (nouns, 4) by logistic regression: shared by nouns with and without a label, one offset each.

    `evidence` (images, nouns, 3): at cells (0 without a label), and of the image as a whole.
    """
    mean, deviation = evidence.mean(0), evidence.std(0) + 1e-6
    inputs, targets = torch.tensor((evidence - mean) / deviation), torch.tensor(y.astype(np.float64))
    share = y.mean(0)
    start = np.log((share + 1e-3) / (1 - share + 1e-3))
    weights = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    offsets = torch.tensor(start, requires_grad=True)
    group = torch.tensor(known.astype(int))
    optimiser = torch.optim.LBFGS([weights, offsets], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        scores = (inputs * weights[group]).sum(-1) + offsets
        loss = functional.binary_cross_entropy_with_logits(scores, targets, reduction="sum")
        loss = loss + 0.3 * (offsets - offsets.mean().detach()).square().sum()  # rare nouns: near the others
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimiser.step(closure)
    scaled = weights.detach().numpy()[known.astype(int)] / deviation
    return np.concatenate([scaled, (offsets.detach().numpy() - (scaled * mean).sum(1))[:, None]], 1)


def said_nouns(spoken: dict[str, dict[str, str]]) -> list[tuple[str, str, str]]:
    """(captioner, image, noun) of every noun of captions."""
    grounder = Grounder([])
    return [
        (model, image, noun)
        for model, texts in spoken.items()
        for image, nouns in zip(texts, grounder.nouns(list(texts.values())), strict=True)
        for _, noun in nouns
    ]


def logistic(x: Floats, y: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and offset of log-odds offset - slope * x of y."""
    both = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    inputs, targets = torch.tensor(x), torch.tensor(y.astype(np.float64))
    optimiser = torch.optim.LBFGS([both], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(both[1] - both[0] * inputs, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimiser.step(closure)
    return float(both[0].detach()), float(both[1].detach())


class Evidence:
    """What the networks say of the nouns of a table in the images of a split."""

    def __init__(self, split: dict[str, Any], labels: Sequence[str | None], head: nn.Linear) -> None:
        known = RegionDetector.from_pretrained()
        names, columns = list(known.network.labels.nouns), list(known.network.labels.scored)
        with torch.no_grad():
            whole = head(torch.tensor(split["pooled"].astype(np.float32))).double().numpy()
        self.images = {str(image): number for number, image in enumerate(split["ids"])}
        self.values = np.zeros((len(self.images), len(labels), 3))
        self.values[..., 2] = whole
        for place, label in enumerate(labels):
            if label in names:
                number = names.index(str(label))
                parent = columns.index(known.network.labels.parents[number])
                self.values[:, place, :2] = np.stack([split["nouns"][:, number], split["classes"][:, parent]], 1)
            elif label is not None:
                self.values[:, place, :2] = split["classes"][:, columns.index(str(label)), None]

    def odds(self, coefficients: Floats) -> Floats:
        """Log-odds (images, nouns)."""
        return np.asarray((self.values * coefficients[:, :3]).sum(-1) + coefficients[:, 3])

    def of(self, odds: Floats, said: Sequence[tuple[str, str, str]], nouns: tuple[str, ...]) -> Floats:
        """The log-odds of nouns that were said: the best of the learnt nouns they may stand for."""
        places = {noun: number for number, noun in enumerate(nouns)}
        return np.array(
            [
                max(odds[self.images[image], places[name]] for name in learnt_names(noun, nouns))
                for _, image, noun in said
            ]
        )


def train(cache_: Path) -> None:
    """Train on training photographs; weights, calibration and threshold on validation photographs."""
    samples = {split: read_karpathy(FLICKR8K_CAPTIONS, split=split) for split in ("train", "val")}
    references = {split: list(reference_nouns(each).values()) for split, each in samples.items()}
    split = {name: seen(each, cache_ / f"{name}.npz", name == "val") for name, each in samples.items()}
    detector = RegionDetector.from_pretrained()
    counts = Counter(noun for each in references["train"] for noun in each)
    frequent = {noun for noun, count in counts.items() if count >= LEAST_IMAGES} | set(detector.labels)
    nouns = tuple(sorted(frequent - NO_THING - ACTIONS))
    truth = {name: mentioned(nouns, each) for name, each in references.items()}
    head = train_head(split["train"]["pooled"].astype(np.float64), truth["train"], split["val"]["pooled"], truth["val"])
    labels = tuple(noun if noun in detector.labels else None for noun in nouns)
    known = np.array([label is not None for label in labels])
    evidence = Evidence(split["val"], labels, head)
    coefficients = weigh(evidence.values, known, truth["val"])
    said = [each for each in said_nouns(captions(samples["val"], cache_, "val")) if learnt_names(each[2], nouns)]
    found = dict(zip((sample.id for sample in samples["val"]), references["val"], strict=True))
    absent = np.array([not any(names_one_thing(noun, word) for word in found[image]) for _, image, noun in said])
    half = np.arange(len(evidence.values)) % 2 == 0  # offsets of nouns are fitted on these photographs: use the others'
    odds = np.where(
        half[:, None],
        evidence.odds(weigh(evidence.values[~half], known, truth["val"][~half])),
        evidence.odds(weigh(evidence.values[half], known, truth["val"][half])),
    )
    values = evidence.of(odds, said, nouns)
    slope, offset = logistic(values, absent)
    least = float(np.quantile(values[absent], RECALL))
    threshold = float(1 / (1 + np.exp(slope * least - offset)))
    table = PresenceTable(nouns, labels, coefficients, round(slope, 4), round(offset, 4), round(threshold, 4))
    NounPresence(table, head).save_pretrained(SHIPPED)
    flagged = values <= least
    print(
        f"{len(nouns)} nouns; validation: precision {absent[flagged].mean():.3f}, recall {flagged[absent].mean():.3f}"
    )


# Measuring ------------------------------------------------------------------------------------------------------------


def design(cache_: Path) -> None:
    """What the verdict rests on: chosen on validation photographs, confirmed on both halves of the test photographs.

    Weights and the threshold for the recall of `RECALL` come from one half of the validation photographs, the first
    column is the other half; the linear layer is the shipped one, whose epoch was chosen on validation photographs.
    """
    shipped = NounPresence.from_pretrained(SHIPPED)
    nouns, labels, head = shipped.table.nouns, shipped.table.labels, shipped.head
    known = np.array([label is not None for label in labels])
    samples = {split: read_karpathy(FLICKR8K_CAPTIONS, split=split) for split in ("val", "test")}
    references = {split: reference_nouns(each) for split, each in samples.items()}
    evidence = {
        split: Evidence(seen(each, cache_ / f"{split}.npz", True), labels, head) for split, each in samples.items()
    }
    truth = mentioned(nouns, list(references["val"].values()))
    half = np.arange(len(truth)) % 2 == 0
    said = {
        split: [each for each in said_nouns(captions(samples[split], cache_, split)) if learnt_names(each[2], nouns)]
        for split in samples
    }
    absent = {
        split: np.array(
            [not any(names_one_thing(noun, word) for word in references[split][image]) for _, image, noun in each]
        )
        for split, each in said.items()
    }
    rows = []
    for name, columns in EVIDENCE.items():
        kept = {split: each.values * np.isin(np.arange(3), columns) for split, each in evidence.items()}
        coefficients = weigh(kept["val"][half], known, truth[half])
        values = {}
        for split, each in evidence.items():
            odds = np.asarray((kept[split] * coefficients[:, :3]).sum(-1) + coefficients[:, 3])
            values[split] = each.of(odds, said[split], nouns)
        fitted = np.array([half[evidence["val"].images[image]] for _, image, _ in said["val"]])
        least = float(np.quantile(values["val"][fitted & absent["val"]], RECALL))
        odd = np.array([evidence["test"].images[image] % 2 == 1 for _, image, _ in said["test"]])
        parts = {
            "validation, other half": (values["val"][~fitted], absent["val"][~fitted]),
            "test, even": (values["test"][~odd], absent["test"][~odd]),
            "test, odd": (values["test"][odd], absent["test"][odd]),
        }
        found = {part: accuracy(value <= least, gone) for part, (value, gone) in parts.items()}
        rows.append({"evidence": name, **{part: found[part] for part in parts}})
        print(name, {part: (round(each["precision"], 3), round(each["recall"], 3)) for part, each in found.items()})
    atomic_write(RESULTS / "presence_design.json", orjson.dumps(rows))


EVIDENCE = {"noun and class at the best cell": (0, 1), "the image as a whole": (2,), "both": (0, 1, 2)}


def measure(cache_: Path) -> None:
    """Verdicts on the nouns of the shipped captioners' captions of test photographs, against references and phrases.

    What was measured before with the detector of today is kept: a new captioner is added to it.
    """
    samples = read_karpathy(FLICKR8K_CAPTIONS, split="test")
    detected, labels = dataset_regions(samples, [], DEFAULT_DETECTOR, cache_ / "test")
    kept: dict[str, list[list[Any]]] = {method: [] for method in METHODS}
    document = orjson.loads(MEASUREMENTS.read_bytes()) if MEASUREMENTS.exists() else {}
    if document.get("of") == measured_of():
        kept = document["rows"]
    known = {row[0] for row in kept[METHODS[0]]}
    new = [name for name in MEASURED if name not in known]
    found = verdict_rows(detected, Grounder(labels), cache_, "test", new)
    rows = {
        method: [row for name in MEASURED for row in (*kept[method], *found[method]) if row[0] == name]
        for method in METHODS
    }
    write_measured(rows, detected, Grounder(labels))


def verdict_rows(
    samples: Sequence[Sample], grounder: Grounder, cache_: Path, split: str, names: Sequence[str] = MEASURED
) -> dict[str, list[list[Any]]]:
    """By method: captioner, image, noun, verdict, probability of absence, whether it is there by both truths."""
    references, phrases = reference_nouns(samples), phrase_nouns()
    spoken = captions(samples, cache_, split, names)
    rows: dict[str, list[list[Any]]] = {}
    for method in METHODS:
        rows[method] = []
        for name in names:
            attributor = captioner_attributor(name, shipped_captioners()[name], samples, cache_, split)
            attributor.method = method
            attributor.settings = AttributionSettings(steps=STEPS if method == "integrated_gradients" else None)
            recorded = RecordedCaptions(attributor, spoken[name])
            keep = cache_ / f"verdicts-{split}-{name}-{method}.jsonl"
            for one in ground_dataset(recorded, samples, grounder, keep=keep).images:
                for noun in one.grounding.nouns:
                    there = [is_there(noun.name, truth[one.image]) for truth in (references, phrases)]
                    rows[method].append([name, one.image, noun.name, str(noun.verdict), noun.absent, *there])
    return rows


def write_measured(rows: dict[str, list[list[Any]]], samples: Sequence[Sample], grounder: Grounder) -> None:
    """Keep the rows with what the tables show of them, and put error rates into the shipped table."""
    labelled = {sample.id: [region.label for region in sample.regions if region.score >= 0.3] for sample in samples}
    first = rows[METHODS[0]]
    by_method = {method: summary(each)["verdicts"] for method, each in rows.items()}
    by_phrases = summary([[*row[:5], row[6]] for row in first])
    whole = [row for row in first if row[2] not in BODY_PARTS["person"]]
    document = {
        "of": measured_of(),
        "rows": rows,
        "summary": {**summary(first), "verdicts": by_method},
        "phrases": by_phrases,
        "without parts": summary(whole)["not in the image"],
        "halves": [summary(_half(first, samples, half))["not in the image"] for half in (0, 1)],
        "nulls": nulls(first, labelled, grounder),
        "nulls by phrases": nulls([[*row[:5], row[6]] for row in first], labelled, grounder),
    }
    atomic_write(MEASUREMENTS, orjson.dumps(document))
    ship_measured(document["summary"])


def measured_of() -> dict[str, Any]:
    """The weights and settings that verdicts depend on."""
    detector = load_detector(DEFAULT_DETECTOR)
    assert isinstance(detector, RegionDetector)
    return {**detector.measured_as(), "presence": NounPresence.from_pretrained(SHIPPED).identity()}


def ship_measured(summary_: dict[str, Any]) -> None:
    """Put error rates into the shipped table: with what was checked by eye, and of which weights they are."""
    presence, of = NounPresence.from_pretrained(SHIPPED), measured_of()
    background = [noun for noun in presence.table.nouns if scenery_or_clothes(noun)]
    measured = {**summary_, "by eye": rates_by_eye(), BACKGROUND: background, "of": of}
    table = replace(presence.table, measured=measured)
    NounPresence(table, presence.head).save_pretrained(SHIPPED)


# By eye (`studies.blind_check`) ---------------------------------------------------------------------------------------


def scenery_or_clothes(noun: str) -> bool:
    """Whether a noun is a place word, or of a merged class of scenery or clothes: things that captions leave out."""
    return noun in scene_words() or noun in _groups()


def test_nouns() -> list[dict[str, Any]]:
    """The nouns that were measured, each image and noun once."""
    rows = orjson.loads(MEASUREMENTS.read_bytes())["rows"][METHODS[0]]
    found = {
        (image, noun): {
            "image": image,
            "noun": noun,
            "stated": stated,
            "flagged": verdict == Verdict.NOT_IN_IMAGE,
            "mentioned": there[0],
        }
        for _, image, noun, verdict, stated, *there in rows
        if stated is not None
    }
    return list(found.values())


def answered(split: str) -> list[dict[str, Any]]:
    """Blind answers about nouns of a split with the verdicts of today; both checks of the test photographs."""
    rows = orjson.loads((RESULTS / f"blind_{split}.json").read_bytes())
    if split == "val":
        return list(rows)
    today = {(row["image"], row["noun"]): row for row in test_nouns()}
    both = [*orjson.loads((RESULTS / "blind.json").read_bytes()), *(row for row in rows if not row.get("again"))]
    return [{**row, **today[row["image"], row["noun"]]} for row in both]


def wrong_rate(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many flagged nouns are there by eye, of those that can be told, with Wilson's 95% interval."""
    told = [row for row in rows if row["flagged"] and row["answer"] != "unclear"]
    wrong = sum(row["answer"] == "there" for row in told)
    found = binomtest(wrong, len(told)).proportion_ci(method="wilson")
    error = {"error": wrong / len(told), "low": float(found.low), "high": float(found.high), "nouns": len(told)}
    return {name: round(value, 3) for name, value in error.items()}


def rates_by_eye() -> dict[str, dict[str, float]]:
    """Error rates of *not in the image* on test photographs, looked at without knowing the verdict; also by kind."""
    rows, name = answered("test"), str(Verdict.NOT_IN_IMAGE)
    background = [row for row in rows if scenery_or_clothes(row["noun"])]
    things = [row for row in rows if not scenery_or_clothes(row["noun"])]
    kinds = {name: rows, f"{name}, {THINGS}": things, f"{name}, {BACKGROUND}": background}
    return {kind: wrong_rate(own) for kind, own in kinds.items()}


def ship(_: Path) -> None:
    """Put what was measured before, and checked by eye since, into the shipped table."""
    ship_measured(orjson.loads(MEASUREMENTS.read_bytes())["summary"])


METHODS = ("attention", "integrated_gradients")  # the verdicts that ground a noun depend on it
STEPS = 8  # of integrated gradients


def _half(rows: Sequence[Sequence[Any]], samples: Sequence[Sample], half: int) -> list[Sequence[Any]]:
    kept = {sample.id for sample in samples[half::2]}
    return [row for row in rows if row[1] in kept]


def accuracy(flagged: NDArray[np.bool_], absent: NDArray[np.bool_]) -> dict[str, float]:
    """Precision, recall and the share that is flagged."""
    right = float((flagged & absent).sum())
    return {
        "precision": right / max(float(flagged.sum()), 1.0),
        "recall": right / max(float(absent.sum()), 1.0),
        "flagged": float(flagged.mean()),
    }


def summary(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Error rates of verdicts, precision and recall of *not in the image*, the reliability curve."""
    checked = [row for row in rows if row[4] is not None]
    absent = np.array([not row[5] for row in checked])
    stated = np.array([row[4] for row in checked])
    verdicts = np.array([row[3] for row in checked])
    captioners = list(dict.fromkeys(row[0] for row in checked))
    found: dict[str, Any] = {}
    for verdict in Verdict:
        own = verdicts == verdict
        if own.any():
            error = float((~absent[own]).mean() if verdict is Verdict.NOT_IN_IMAGE else absent[own].mean())
            found[str(verdict)] = {"error": round(error, 3), "nouns": int(own.sum())}
    curve = []
    for low in np.arange(0, 1, 0.1):
        part = (stated >= low) & (stated < low + 0.1 + (low > 0.85))
        if part.any():
            curve.append([round(float(stated[part].mean()), 3), round(float(absent[part].mean()), 3), int(part.sum())])
    flagged = verdicts == str(Verdict.NOT_IN_IMAGE)
    return {
        "data": f"captions of {', '.join(captioners)}, 500 test photographs of Flickr8k, truth from their references",
        "nouns": len(checked),
        "absent": int(absent.sum()),
        "not in the image": {name: round(value, 3) for name, value in accuracy(flagged, absent).items()},
        "by captioner": {
            name: {key: round(value, 3) for key, value in accuracy(flagged[own], absent[own]).items()}
            for name in captioners
            for own in [np.array([row[0] == name for row in checked])]
        },
        "verdicts": found,
        "reliability": curve,
    }


def nulls(
    rows: Sequence[Sequence[Any]], labelled: dict[str, list[str | None]], grounder: Grounder
) -> dict[str, dict[str, float]]:
    """What flags nouns without looking, as many as the verdict does, or by the labels of regions alone."""
    checked = [row for row in rows if row[4] is not None]
    absent = np.array([not row[5] for row in checked])
    flagged = np.array([row[3] == str(Verdict.NOT_IN_IMAGE) for row in checked])
    training = read_karpathy(FLICKR8K_CAPTIONS, split="train")
    counts = Counter(noun for each in reference_nouns(training).values() for noun in each)
    rarity = np.array([-counts[row[2]] for row in checked])
    rare = np.argsort(-rarity, kind="stable")[: int(flagged.sum())]
    by_rarity = np.zeros(len(checked), bool)
    by_rarity[rare] = True
    shuffled = np.random.default_rng(0).permutation(flagged)
    by_label = np.array([not grounder.named(row[2], [str(label) for label in labelled[row[1]]]) for row in checked])
    return {
        "every noun": accuracy(np.ones(len(checked), bool), absent),
        "as many at random": accuracy(shuffled, absent),
        "the nouns that are rarest in training captions": accuracy(by_rarity, absent),
        "no region with such a label (score of at least 0.3)": accuracy(by_label, absent),
    }


def by_people(rows: Sequence[Sequence[Any]]) -> dict[str, dict[str, float]]:
    """Precision and recall of *not in the image* for words for people and for all other nouns, with their numbers."""
    checked = [row for row in rows if row[4] is not None]
    people = np.array([names_people(row[2]) for row in checked])
    absent = np.array([not row[5] for row in checked])
    flagged = np.array([row[3] == Verdict.NOT_IN_IMAGE for row in checked])
    kinds = {"people": people, "all but people": ~people}
    return {
        f"{name} ({absent[own].sum()} of {own.sum()} nouns absent)": accuracy(flagged[own], absent[own])
        for name, own in kinds.items()
    }


def precision_bounds(rows: Sequence[Sequence[Any]]) -> tuple[float, float]:
    """The 95% interval of the verdict's precision by the references, images resampled."""
    flagged = [row for row in rows if row[3] == Verdict.NOT_IN_IMAGE]
    _, groups = np.unique([row[1] for row in flagged], return_inverse=True)
    counts = np.zeros((int(groups.max()) + 1, 2))
    np.add.at(counts, groups, np.array([[not row[5], 1.0] for row in flagged]))
    sums = np.concatenate([weights @ counts for weights in resamples(len(counts), REPLICATES, 0)])
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    return float(low), float(high)


def tables(cache_: Path) -> None:
    """Print the tables of docs/ground_measured.md."""
    document = orjson.loads(MEASUREMENTS.read_bytes())
    found = document["summary"]
    print("| flagged as not in the image | precision | recall | share of nouns |\n| --- | --- | --- | --- |")
    own = {"**the verdict**": found["not in the image"]}
    own |= {f"the verdict, {name}": entry for name, entry in found["by captioner"].items()}
    own |= {"the verdict, without parts of bodies": document["without parts"]}
    own |= {f"the verdict, {name}": entry for name, entry in by_people(document["rows"][METHODS[0]]).items()}
    own |= {f"the verdict, {('even', 'odd')[half]} images": entry for half, entry in enumerate(document["halves"])}
    own |= {**document["nulls"], "**the verdict, truth by phrases**": document["phrases"]["not in the image"]}
    own |= {f"{name}, truth by phrases": entry for name, entry in document["nulls by phrases"].items()}
    for name, entry in own.items():
        print(f"| {name} | {entry['precision']:.2f} | {entry['recall']:.2f} | {entry['flagged']:.2f} |")
    low, high = precision_bounds(document["rows"][METHODS[0]])
    print(f"\nprecision of the verdict {found['not in the image']['precision']:.3f} [{low:.2f}, {high:.2f}], by image")
    methods = list(found["verdicts"])
    print("\n| verdict | " + " | ".join(f"nouns, {name} | wrong" for name in methods) + " |")
    print("| --- " * (2 * len(methods) + 1) + "|")
    for verdict in found["verdicts"][methods[0]]:
        entries = [found["verdicts"][method][verdict] for method in methods]
        print(f"| {verdict} | " + " | ".join(f"{one['nouns']} | {one['error']:.1%}" for one in entries) + " |")
    for truth, curve in (("references", found["reliability"]), ("phrases", document["phrases"]["reliability"])):
        for title, number in (("stated probability of absence", 0), (f"not in {truth}", 1), ("nouns", 2)):
            print(f"| {title} | " + " | ".join(str(row[number]) for row in curve) + " |")
    print("\n| evidence | validation | test, even | test, odd |\n| --- | --- | --- | --- |")
    for row in orjson.loads((RESULTS / "presence_design.json").read_bytes()):
        cells = [f"{entry['precision']:.2f} at {entry['recall']:.2f}" for entry in list(row.values())[1:]]
        print(f"| {row['evidence']} | " + " | ".join(cells) + " |")


def main() -> None:
    """Train, measure or print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("verb", choices=("train", "design", "measure", "ship", "tables"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.cache.mkdir(parents=True, exist_ok=True)
    verbs = {
        "train": train,
        "design": design,
        "measure": measure,
        "ship": ship,
        "tables": tables,
    }
    verbs[arguments.verb](arguments.cache)


if __name__ == "__main__":
    main()
