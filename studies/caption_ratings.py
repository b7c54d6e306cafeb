"""Metrics against ratings of captions by people: Nebula's test set, captions of one sentence.

python -m studies.caption_ratings --annotations FOLDER [--captions N]     writes studies/results/semantic/ratings.json

FOLDER holds `nebula_test.json` (imgid, mt: the caption, refs, score in [0, 1]), as in the folder `annotations` of the
repository hjkim811/EXPERT; the data are of Matsuda et al. 2024 and are no part of captrial. N captions are drawn by
seed. Kendall's tau-c and tau-b with the ratings; bootstrap intervals over captions, differences paired. Ways to join
the cosines to several references are compared on two halves, chosen on one and measured on the other.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from captrial.metrics import Corpus, bleu, cider, facts, meteor, rouge_l, semantic, spice, unsupported
from captrial.metrics.semantic.sentence_encoder import sentence_encoder

Floats = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results" / "semantic" / "ratings.json"
REPLICATES = 300


def read_ratings(path: Path, captions: int, seed: int = 0) -> tuple[list[str], list[list[str]], Floats]:
    """Captions, references and ratings of N captions drawn at random."""
    rows = json.loads(path.read_bytes())
    chosen = np.sort(np.random.default_rng(seed).permutation(len(rows))[:captions])
    picked = [rows[index] for index in chosen]
    texts, references = [row["mt"] for row in picked], [[text.strip() for text in row["refs"]] for row in picked]
    return texts, references, np.array([row["score"] for row in picked], np.float64)


def cosines(texts: list[str], references: list[list[str]]) -> list[Floats]:
    """Of each caption the cosines to its references."""
    encoder = sentence_encoder()
    own, flat = encoder.encode(texts), encoder.encode([text for of in references for text in of])
    ends = np.cumsum([len(of) for of in references])
    return [
        np.asarray(flat[end - len(of) : end] @ vector, np.float64).clip(0, 1)
        for end, of, vector in zip(ends, references, own, strict=True)
    ]


def joined(found: list[Floats]) -> dict[str, Floats]:
    """Ways to make one score of the cosines to several references."""
    largest = np.array([of.max() for of in found])
    mean = np.array([of.mean() for of in found])
    median = np.array([np.median(of) for of in found])
    return {
        "nearest reference": largest,
        "mean of references": mean,
        "median of references": median,
        "F of nearest and mean (semantic)": 2 * largest * mean / np.maximum(largest + mean, 1e-12),
        "F of nearest and median": 2 * largest * median / np.maximum(largest + median, 1e-12),
    }


def metric_scores(texts: list[str], references: list[list[str]]) -> dict[str, Floats]:
    """Every metric of every caption; higher is better."""
    corpus = Corpus.prepare(texts, references)
    found = {"semantic": semantic(corpus), "semantic, tokens": semantic(corpus, match="tokens"), "facts": facts(corpus)}
    parts = {f"{name} {part}": scores.parts[f"{name}_{part}"] for name, scores in found.items() if " " not in name
             for part in ("precision", "recall")}  # fmt: skip
    plain = {"CIDEr": cider(corpus), "METEOR": meteor(corpus), "SPICE": spice(corpus), "ROUGE-L": rouge_l(corpus),
             "BLEU-4": bleu(corpus).parts["bleu_4"]}  # fmt: skip
    values = {name: scores.per_image for name, scores in (found | parts | plain).items()}
    values["1 - unsupported words"] = 1 - unsupported(corpus).per_image
    values["words of the caption"] = np.array([len(text.split()) for text in texts], np.float64)
    return {name: np.nan_to_num(of) for name, of in values.items()}


def correlations(scores: dict[str, Floats], ratings: Floats, against: str) -> dict[str, Any]:
    """tau-c and tau-b of each metric, and how far `against` is above it, with intervals."""
    rng = np.random.default_rng(0)
    samples = rng.integers(0, len(ratings), (REPLICATES, len(ratings)))
    drawn = {name: np.array([_tau(of[row], ratings[row]) for row in samples]) for name, of in scores.items()}
    found = {}
    for name, of in scores.items():
        found[name] = {
            "tau_c": _rounded(_tau(of, ratings), drawn[name]),
            "tau_b": round(float(kendalltau(of, ratings, variant="b").statistic), 4),
            f"{against} minus it": _rounded(
                _tau(scores[against], ratings) - _tau(of, ratings), drawn[against] - drawn[name]
            ),
        }
    return found


def choice(ways: dict[str, Floats], ratings: Floats) -> list[dict[str, Any]]:
    """The way with the highest tau-c on one half, measured on the other; both directions."""
    order = np.random.default_rng(1).permutation(len(ratings))
    halves = order[::2], order[1::2]
    found = []
    for number, rows in enumerate(halves):
        seen = {name: round(_tau(of[rows], ratings[rows]), 4) for name, of in ways.items()}
        best, rest = max(seen, key=lambda name: seen[name]), halves[1 - number]
        held = correlations({name: of[rest] for name, of in ways.items()}, ratings[rest], best)
        found.append({"chosen on": seen, "chosen": best, "held out": held})
    return found


def _tau(scores: Floats, ratings: Floats) -> float:
    return float(kendalltau(scores, ratings, variant="c").statistic)


def _rounded(value: float, samples: Floats) -> list[float]:
    return [round(float(one), 4) for one in (value, *np.percentile(samples, [2.5, 97.5]))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annotations", type=Path, required=True)
    parser.add_argument("--captions", type=int, default=800)
    arguments = parser.parse_args()
    texts, references, ratings = read_ratings(arguments.annotations / "nebula_test.json", arguments.captions)
    found = {
        "captions": len(texts),
        "encoder": sentence_encoder().description,
        "references": choice(joined(cosines(texts, references)), ratings),
        "metrics": correlations(metric_scores(texts, references), ratings, "semantic"),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
