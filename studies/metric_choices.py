"""Choices made by measurement: references in `semantic`, words against HAT, the metric for captions of unequal length.

python -m studies.metric_choices [--data FOLDER] [--study NAME]     writes studies/results/semantic/choices.json

- References: a caption that a person wrote for an image against the most similar caption that a person wrote for
  another one of the images (by the encoder; texts that are equal are left out), both scored by the image's other
  references. The share of images where the own caption wins, for recall as the mean or the maximum over references.
- HAT: the average precision of ways to score a word, the best of one half measured on the other; both directions.
- Length: of an image, one caption or three that people wrote for it (right), and as many of the image whose caption is
  most similar (wrong), scored by its two other references. The share of images where a metric prefers the right long
  text to the wrong short one, and the right short one to the wrong long one; a metric that only likes one length gets
  one of them. `compete rank` takes `semantic` where lengths differ much: of the metrics that count both what is said
  and what is left out, it has the highest mean of both shares.
Intervals are bootstrap percentiles over images or captions; differences are paired.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.caption_length import BY_MEANING
from captrial.metrics import Corpus, score
from captrial.metrics.semantic.sentence_encoder import sentence_encoder
from studies.data_paths import DATA
from studies.meaning_and_people import REPLICATES, average_precision, read_hat, word_detectors

Floats = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results" / "semantic" / "choices.json"
IMAGES = 2000  # of the first references of the Karpathy test split
LENGTH_IMAGES = 300
LENGTH_METRICS = ["cider", "meteor", "rouge", "spice", "semantic", "facts", "words"]


def references_study(path: Path) -> dict[str, Any]:
    references = [texts[:5] for texts in list(json.loads(path.read_bytes()).values())[:IMAGES]]
    flat = sentence_encoder().encode([text for texts in references for text in texts])
    vectors = flat.reshape(len(references), 5, -1)  # (n, 5, d)
    own, rest = vectors[:, 0], vectors[:, 1:]
    cosine = own @ own.T
    np.fill_diagonal(cosine, -1)
    cosine[cosine > 0.9999] = -1  # the same text
    other = own[cosine.argmax(axis=1)]
    wins = {}
    for name, pool in (("mean", np.mean), ("max", np.max)):
        scores = [_f(np.einsum("nd,nrd->nr", said, rest).clip(0, 1), pool) for said in (own, other)]
        wins[name] = (scores[0] > scores[1]) + 0.5 * (scores[0] == scores[1])
    return {f"half {half + 1}": _compared(wins, np.arange(half, len(own), 2)) for half in (0, 1)}


def _f(cosines: Floats, pool: Any) -> Floats:
    """F of precision (the nearest reference) and recall (mean or maximum), captions of one sentence."""
    precision, recall = cosines.max(axis=1), pool(cosines, axis=1)
    return np.asarray(2 * precision * recall / np.maximum(precision + recall, 1e-12))


def _compared(wins: dict[str, Floats], rows: NDArray[np.int64]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    samples = rows[rng.integers(0, len(rows), (REPLICATES, len(rows)))]
    difference = wins["mean"] - wins["max"]
    return {
        **{name: round(float(of[rows].mean()), 4) for name, of in wins.items()},
        "mean minus max": _rounded(difference[rows].mean(), difference[samples].mean(axis=1)),
    }


def length_study(path: Path) -> dict[str, Any]:
    references = [texts[:5] for texts in list(json.loads(path.read_bytes()).values())[:LENGTH_IMAGES]]
    first = [texts[0] for texts in references]
    vectors = sentence_encoder().encode(first)
    cosine = vectors @ vectors.T
    cosine[cosine > 0.9999] = -1  # itself, and the same text
    other = [references[index] for index in cosine.argmax(axis=1)]
    known = [texts[3:] for texts in references]
    systems = {
        "right short": first,
        "right long": [_joined(texts[:3]) for texts in references],
        "wrong short": [texts[0] for texts in other],
        "wrong long": [_joined(texts[:3]) for texts in other],
    }
    table = score({name: dict(_numbered(of)) for name, of in systems.items()}, dict(_numbered(known)), LENGTH_METRICS)
    found: dict[str, dict[str, Floats]] = {}
    for column in table.columns:
        values = {name: np.nan_to_num(table.scores[name][column].per_image) for name in systems}
        if column.startswith("unsupported"):
            values = {name: -of for name, of in values.items()}
        found[column] = {
            "right long, wrong short": _wins(values["right long"], values["wrong short"]),
            "right short, wrong long": _wins(values["right short"], values["wrong long"]),
        }
    rng = np.random.default_rng(0)
    samples = rng.integers(0, len(first), (REPLICATES, len(first)))
    for both in found.values():
        both["mean"] = np.mean(list(both.values()), axis=0)
    drawn = {name: of["mean"][samples].mean(axis=1) for name, of in found.items()}
    value = {name: float(of["mean"].mean()) for name, of in found.items()}
    return {
        "images": len(first),
        "metrics": {
            name: {
                **{case: _rounded(of.mean(), of[samples].mean(axis=1)) for case, of in cases.items()},
                f"{BY_MEANING} minus it, mean": _rounded(
                    value[BY_MEANING] - value[name], drawn[BY_MEANING] - drawn[name]
                ),
            }
            for name, cases in found.items()
        },
    }


def _joined(texts: Sequence[str]) -> str:
    return " ".join(text.strip().rstrip(".") + "." for text in texts)


def _numbered(items: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(str(number), item) for number, item in enumerate(items)]


def _wins(right: Floats, wrong: Floats) -> Floats:
    return np.asarray((right > wrong) + 0.5 * (right == wrong))


def hat_study(path: Path) -> dict[str, Any]:
    texts, marked, references = read_hat(path)
    ways = word_detectors(Corpus.prepare(texts, references), texts, references)
    ways["unsupported words and ALOHa's, mean"] = [
        (first + second) / 2 for first, second in zip(*list(ways.values())[:2], strict=True)
    ]
    order = np.random.default_rng(0).permutation(len(texts))
    halves = (np.sort(order[::2]), np.sort(order[1::2]))
    wrong = [np.array([of.any()]) for of in marked]
    worst = {name: [np.array([scores.max()]) for scores in of] for name, of in ways.items()}
    return {
        kind: [_held_out(of, truth, chosen_on, halves[1 - number]) for number, chosen_on in enumerate(halves)]
        for kind, of, truth in (("words", ways, marked), ("captions", worst, wrong))
    }


def _held_out(
    ways: dict[str, list[Floats]], truth: Sequence[Any], first: NDArray[np.int64], second: NDArray[np.int64]
) -> dict[str, Any]:
    """The best way on `first`, and its average precision on `second` beside CHAIR's and ALOHa's."""

    def value(name: str, sample: NDArray[np.int64]) -> float:
        return average_precision(
            np.concatenate([truth[i] for i in sample]), np.concatenate([ways[name][i] for i in sample])
        )

    seen = {name: round(value(name, first), 4) for name in ways}
    best = max(seen, key=lambda name: seen[name])
    rng = np.random.default_rng(0)
    samples = [second[rng.integers(0, len(second), len(second))] for _ in range(REPLICATES)]
    found: dict[str, Any] = {"chosen on": seen, "chosen": best, "held out": {}}
    own = np.array([value(best, sample) for sample in samples])
    for name in ways:
        theirs = np.array([value(name, sample) for sample in samples])
        found["held out"][name] = {
            "value": _rounded(value(name, second), theirs),
            "chosen minus this": _rounded(value(best, second) - value(name, second), own - theirs),
        }
    return found


def _rounded(value: float, samples: Floats) -> list[float]:
    return [round(float(one), 4) for one in (value, *np.percentile(samples, [2.5, 97.5]))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--study", choices=["references", "hat", "length"], help="one of them; by default all")
    arguments = parser.parse_args()
    captions = arguments.data / "captioners" / "karpathy_test" / "references.json"
    studies = {
        "references": lambda: references_study(captions),
        "hat": lambda: hat_study(arguments.data / "hallucination" / "hat.json"),
        "length": lambda: length_study(captions),
    }
    found = json.loads(RESULTS.read_bytes()) if RESULTS.exists() else {}
    found |= {name: run() for name, run in studies.items() if arguments.study in (None, name)}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
