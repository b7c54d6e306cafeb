"""Calibrate the installed word vectors on captions, objects and a human list; print the table; keep the result.

Two truths. *List*: a noun of the captions is right for a class if CHAIR's human list of synonyms says so (pairs of
nouns and classes, each once). *Image*: a class is right for an image if a human drew a box of it; the image's
score for a class is that of the nearest noun of its captions. The number of principal components is the one with the
best average precision on the list (pairs of a class with its own name left out); the threshold the one with the best
mean of both F1. Calibrated on COCO val2017; the held-out rows are images of the Karpathy test split not in it.

python -m studies.vector_calibration [--write]
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.data.datasets import read_coco
from captrial.language import vectors as vector_module
from captrial.language.class_words import COCO_CLASSES, default_table
from captrial.language.nouns import nouns
from captrial.language.similarity import Similarity
from captrial.language.vectors import (
    CHOICES,
    DEFAULT_NAME,
    MODES,
    Linking,
    WordVectors,
    average_precision,
    choose_components,
    linking_curve,
)
from studies.data_paths import COCO, KARPATHY_TEST, ROOT

TARGET = ROOT / "src" / "captrial" / "language" / "calibration.json"
RARE = 5  # nouns said fewer times are left out: mostly misspellings

Images = dict[str, set[str]]  # image -> nouns of its captions


def images(captions: dict[str, list[str]]) -> Images:
    texts = [(identity, text) for identity, group in captions.items() for text in group]
    found: Images = {}
    for (identity, _), words in zip(texts, nouns([text for _, text in texts]), strict=True):
        found.setdefault(identity, set()).update(words)
    return found


def list_truth(words: list[str]) -> NDArray[np.bool_]:
    lines = (COCO / "class_synonyms.txt").read_text().splitlines()
    human = [{word.strip() for word in line.split(",")} for line in lines]
    by_name = {line.split(",")[0].strip(): group for line, group in zip(lines, human, strict=True)}
    return np.array([[word in by_name[name] for name in COCO_CLASSES] for word in words])


def image_truth(of: Images) -> NDArray[np.bool_]:
    present = orjson.loads((COCO / "objects_present.json").read_bytes())
    return np.array([[name in present[identity] for name in COCO_CLASSES] for identity in of])


def image_scores(of: Images, similarity: Similarity) -> NDArray[np.float32]:
    words = sorted(set().union(*of.values()))
    place = {word: index for index, word in enumerate(words)}
    matrix = similarity.matrix(words, COCO_CLASSES)
    return np.array([matrix[[place[word] for word in group]].max(axis=0, initial=0) for group in of.values()])


def at(curve: list[Linking], threshold: float) -> dict[str, Any]:
    return asdict(min(curve, key=lambda one: abs(one.threshold - threshold)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"replace {TARGET.relative_to(ROOT)}")
    arguments = parser.parse_args()

    samples = read_coco(COCO / "captions_val2017.json")
    ours = images({sample.id: list(sample.captions) for sample in samples})
    references = orjson.loads((KARPATHY_TEST / "references.json").read_bytes())
    held_out = images({identity: texts for identity, texts in references.items() if identity not in ours})

    vectors = WordVectors.open(components=None)
    counts = Counter(word for group in ours.values() for word in group)
    words = sorted(word for word, count in counts.items() if count >= RARE and word in vectors)
    truth = list_truth(words)
    named = np.array([[word == name for name in COCO_CLASSES] for word in words])
    print(f"{len(words)} nouns, {truth.sum()} right pairs; {len(ours)} images, {len(held_out)} held out\n")

    print("| components removed | average precision |\n| --- | --- |")
    for choice in CHOICES:
        scores = vectors.processed(choice).similarities(words, COCO_CLASSES)[~named]
        print(f"| {'raw vectors' if choice is None else choice} | {average_precision(scores, truth[~named]):.4f} |")
    components = choose_components(vectors, words, truth)
    processed = vectors.processed(components)

    print("\n| mode | truth | threshold | precision | recall | F1 |\n| --- | --- | --- | --- | --- | --- |")
    thresholds: dict[str, float] = {}
    measured: dict[str, Any] = {}
    for mode in MODES:
        similarity = Similarity(processed, mode=mode)  # type: ignore[arg-type]
        curves = {
            "list": linking_curve(similarity.matrix(words, COCO_CLASSES), truth),
            "images": linking_curve(image_scores(ours, similarity), image_truth(ours)),
            "images held out": linking_curve(image_scores(held_out, similarity), image_truth(held_out)),
        }
        means = [one.f1 + other.f1 for one, other in zip(curves["list"], curves["images"], strict=True)]
        thresholds[mode] = curves["list"][int(np.argmax(means))].threshold
        measured[mode] = {name: at(curve, thresholds[mode]) for name, curve in curves.items()}
        for name, row in measured[mode].items():
            print("|", " | ".join([mode, name, *(f"{value:.3f}" for value in row.values())]), "|")
    passing = (processed.similarities(words, COCO_CLASSES) > 1 / 3).sum(axis=1).mean()
    raw = (vectors.similarities(words, COCO_CLASSES) > 1 / 3).sum(axis=1).mean()
    print(f"\nclasses above 1/3 for a noun: {raw:.1f} raw, {passing:.1f} processed")
    table = np.array([[default_table().means(word, name) for name in COCO_CLASSES] for word in words])
    weight = np.array([counts[word] for word in words])[:, None]
    agree = [(truth & table).sum() / truth.sum(), (weight * (truth & table)).sum() / (weight * truth).sum()]
    print(f"our table has {agree[0]:.1%} of the list's pairs among these nouns, {agree[1]:.1%} by occurrences")

    if arguments.write:
        method = "best mean F1 on CHAIR's synonym list and on COCO's boxes: python -m studies.vector_calibration"
        chosen = vector_module.Calibration(components, thresholds, method, measured)
        TARGET.write_bytes(orjson.dumps({DEFAULT_NAME: asdict(chosen)}, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    main()
