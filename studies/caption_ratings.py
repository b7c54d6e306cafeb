"""Metrics against ratings of captions by people: Flickr8k-Expert, Flickr8k-CF (CrowdFlower) and Nebula's test set.

python -m studies.caption_ratings --flickr8k FOLDER --nebula FILE --work FOLDER [--sets NAME ...] [--metrics NAME ...]

writes studies/results/semantic/ratings.json. Scores are kept in the folder of `--work`, so that a run that was stopped
continues and metrics can be computed one by one. The data are no part of captrial nor of its shared data:

- Flickr8k (Hodosh et al. 2013): the folder of `Flickr8k.token.txt`, `ExpertAnnotations.txt` and
  `CrowdFlowerAnnotations.txt`. As in CLIPScore (Hessel et al. 2021, appendix A): of the experts the three judgements of
  a caption are three rows, captions that are a reference of their image are left out, Kendall's tau-c; of CrowdFlower
  the share of yes, where a judged caption is a reference of its image it is no reference of any caption, tau-b.
- Nebula (Matsuda et al. 2024): `nebula_test.json` (imgid, mt: the caption, refs, score in [0, 1]), tau-c.

Intervals are bootstrap percentiles over images, for all judgements of an image stay together; differences are paired.
Ways to join the cosines to several references are compared on Nebula: chosen on one half, measured on the other.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from captrial.files import atomic_write
from captrial.metrics import Corpus, Scores, bleu, cider, facts, meteor, rouge_l, semantic, spice, unsupported
from captrial.metrics.semantic.sentence_encoder import sentence_encoder

Floats = NDArray[np.float64]
Variant = Literal["b", "c"]
RESULTS = Path(__file__).parent / "results" / "semantic" / "ratings.json"
REPLICATES = 300
MAIN = "semantic"


@dataclass(frozen=True)
class Rated:
    """Captions that people rated: texts, references, the images they are of, and ratings (captions, judgements)."""

    texts: list[str]
    references: list[list[str]]
    images: list[str]
    ratings: Floats
    variant: Variant  # of Kendall's tau

    def take(self, rows: NDArray[np.int64]) -> Rated:
        """Some of the captions."""
        return Rated(
            [self.texts[row] for row in rows],
            [self.references[row] for row in rows],
            [self.images[row] for row in rows],
            self.ratings[rows],
            self.variant,
        )


def read_flickr8k(folder: Path) -> dict[str, Rated]:
    """Experts and crowd on captions of Flickr8k."""
    texts = dict(_table(folder / "Flickr8k.token.txt"))
    references: dict[str, list[str]] = {}
    for caption, text in texts.items():
        references.setdefault(caption.partition("#")[0], []).append(text)
    expert = [row for row in _table(folder / "ExpertAnnotations.txt") if texts[row[1]] not in references[row[0]]]
    crowd = _table(folder / "CrowdFlowerAnnotations.txt")
    judged: dict[str, set[str]] = {}
    for image, caption, *_ in crowd:
        judged.setdefault(image, set()).add(texts[caption])
    others = {image: [text for text in references[image] if text not in said] for image, said in judged.items()}
    return {
        "Flickr8k-Expert": _rated(expert, texts, references, [list(map(float, row[2:])) for row in expert], "c"),
        "Flickr8k-CF": _rated(crowd, texts, others, [[float(row[2])] for row in crowd], "b"),
    }


def read_nebula(path: Path) -> dict[str, Rated]:
    """Nebula's test set."""
    rows = json.loads(path.read_bytes())
    references = [[text.strip() for text in row["refs"]] for row in rows]
    ratings = np.array([[row["score"]] for row in rows], np.float64)
    images = [row["imgid"] for row in rows]
    return {"Nebula": Rated([row["mt"] for row in rows], references, images, ratings, "c")}


def _table(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def _rated(
    rows: Sequence[Sequence[str]],
    texts: dict[str, str],
    references: dict[str, list[str]],
    ratings: Sequence[Sequence[float]],
    variant: Variant,
) -> Rated:
    images = [row[0] for row in rows]
    said = [texts[row[1]] for row in rows]
    return Rated(said, [references[image] for image in images], images, np.array(ratings, np.float64), variant)


def _parts(found: Scores) -> dict[str, Floats]:
    """A score and its precision and recall."""
    parts = {name.replace("_", " "): part.per_image for name, part in found.parts.items()}
    return {found.name: found.per_image, **parts}


METRICS: dict[str, Callable[[Corpus], dict[str, Floats]]] = {
    "semantic": lambda corpus: _parts(semantic(corpus)),
    "semantic, tokens": lambda corpus: {"semantic, tokens": semantic(corpus, match="tokens").per_image},
    "facts": lambda corpus: _parts(facts(corpus)),
    "words": lambda corpus: {"1 - unsupported words": 1 - unsupported(corpus).per_image},
    "CIDEr": lambda corpus: {"CIDEr": cider(corpus).per_image},
    "METEOR": lambda corpus: {"METEOR": meteor(corpus).per_image},
    "SPICE": lambda corpus: {"SPICE": spice(corpus).per_image},
    "ROUGE-L": lambda corpus: {"ROUGE-L": rouge_l(corpus).per_image},
    "BLEU-4": lambda corpus: {"BLEU-4": bleu(corpus).parts["bleu_4"].per_image},
    "words per caption": lambda corpus: {
        "words per caption": np.array([len(text.split()) for text in corpus.candidates], np.float64)
    },
}
"""Scores of every caption by name, higher is better; computed and kept one by one."""


def scored(name: str, rated: Rated, metrics: Sequence[str], work: Path) -> dict[str, Floats]:
    """The scores of these metrics, from the work folder where they were computed before; 0 where there is none."""
    work.mkdir(parents=True, exist_ok=True)
    found: dict[str, Floats] = {}
    corpus = Corpus.prepare(rated.texts, rated.references)
    for metric in metrics:
        path = work / f"{name}-{metric}.npz"
        if not path.exists():
            columns = METRICS[metric](corpus)
            np.savez(path, **{column: np.nan_to_num(values) for column, values in columns.items()})
        with np.load(path) as stored:
            found |= dict(stored)
    if {"semantic", "facts"} <= found.keys():
        found["mean of semantic and facts"] = (found["semantic"] + found["facts"]) / 2
    return found


def taus(name: str, rated: Rated, scores: Mapping[str, Floats], work: Path) -> dict[str, Floats]:
    """Kendall's tau of every score, (1 + replicates,): of all captions, then of resampled images; kept likewise."""
    samples = [np.arange(len(rated.texts)), *_resampled_images(rated.images)]
    found = {}
    for column, values in scores.items():
        path = work / f"{name}-{column}-tau.npy"
        if not path.exists():
            np.save(path, np.array([_tau(values[rows], rated, rows) for rows in samples]))
            print(f"{path} is there", flush=True)
        found[column] = np.load(path)
    return found


def cosines(rated: Rated) -> list[Floats]:
    """Of each caption the cosines to its references."""
    encoder = sentence_encoder()
    own, flat = encoder.encode(rated.texts), encoder.encode([text for of in rated.references for text in of])
    ends = np.cumsum([len(of) for of in rated.references])
    return [
        np.asarray(flat[end - len(of) : end] @ vector, np.float64).clip(0, 1)
        for end, of, vector in zip(ends, rated.references, own, strict=True)
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


def compared(drawn: Mapping[str, Floats], against: str = MAIN) -> dict[str, Any]:
    """Tau of each metric, and how far `against` is above it, with intervals."""
    return {
        name: {"tau": _rounded(of), f"{against} minus it": _rounded(drawn[against] - of)} for name, of in drawn.items()
    }


def choice(rated: Rated) -> list[dict[str, Any]]:
    """The way to join cosines with the highest tau on one half of the captions, measured on the other; both ways."""
    ways = joined(cosines(rated))
    order = np.random.default_rng(1).permutation(len(rated.texts))
    halves = order[::2], order[1::2]
    found = []
    for rows, rest in (halves, halves[::-1]):
        seen = {name: round(_tau(of[rows], rated, rows), 4) for name, of in ways.items()}
        best = max(seen, key=lambda name: seen[name])
        other = rated.take(rest)
        samples = [np.arange(len(rest)), *_resampled_images(other.images)]
        held = {name: np.array([_tau(of[rest][drawn], other, drawn) for drawn in samples]) for name, of in ways.items()}
        found.append({"chosen on": seen, "chosen": best, "held out": compared(held, best)})
    return found


def _tau(scores: Floats, rated: Rated, rows: NDArray[np.int64]) -> float:
    """Tau of the scores of some captions with every judgement of these."""
    ratings = rated.ratings[rows]
    repeated = np.repeat(scores, ratings.shape[1])
    return float(kendalltau(repeated, ratings.ravel(), variant=rated.variant).statistic)


def _resampled_images(images: Sequence[str]) -> list[NDArray[np.int64]]:
    """Rows of as many images as there are, drawn with replacement, for each replicate."""
    _, number = np.unique(images, return_inverse=True)
    of_image = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(of_image), (REPLICATES, len(of_image)))
    return [np.concatenate([of_image[image] for image in draw]) for draw in draws]


def _rounded(values: Floats) -> list[float]:
    """The first value, that of all captions, and the interval of the others."""
    return [round(float(one), 4) for one in (values[0], *np.percentile(values[1:], [2.5, 97.5]))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flickr8k", type=Path, required=True)
    parser.add_argument("--nebula", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", help="by default all, and only then results are written")
    parser.add_argument("--metrics", nargs="+", choices=METRICS, help="by default all, likewise")
    parser.add_argument("--stored", action="store_true", help="leave out what is not yet in the work folder")
    arguments = parser.parse_args()
    sets = read_flickr8k(arguments.flickr8k) | read_nebula(arguments.nebula)
    drawn = {}
    for name in arguments.sets or sets:
        chosen = arguments.metrics or list(METRICS)
        if arguments.stored:
            chosen = [metric for metric in chosen if (arguments.work / f"{name}-{metric}.npz").exists()]
        drawn[name] = taus(name, sets[name], scored(name, sets[name], chosen, arguments.work), arguments.work)
    if arguments.sets or arguments.metrics:
        return
    found = {
        "encoder": sentence_encoder().description,
        "sets": {
            name: {
                "captions": len(rated.texts),
                "judgements": int(rated.ratings.size),
                "images": len(set(rated.images)),
                "tau": rated.variant,
                "metrics": compared(drawn[name]),
            }
            for name, rated in sets.items()
        },
        "references": choice(sets["Nebula"]),
    }
    atomic_write(RESULTS, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
