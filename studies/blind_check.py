"""Verdicts checked by eye without knowing them: sheets with a noun below each photograph, most of them flagged.

    python -m studies.blind_check sheets FOLDER                     nouns of test photographs
    python -m studies.blind_check sheets FOLDER --split val --cache CACHE    of every fourth validation photograph
    python -m studies.blind_check answers FOLDER FILE               keep the answers: lines of a number and t, a or u
    python -m studies.blind_check score                             the tables of docs/ground_measured.md

`sheets` writes sheet-1.png ... and key.json (do not look into it). An answer is `there`, `absent` or `unclear`. The
sheets show photographs of Flickr8k: make them for yourself only. CACHE is that of `studies.noun_presence`. Answers are
kept in results/grounding: `eye.json` (200, the verdict known), `blind.json` (the first 100), `blind_test.json` and
`blind_val.json` (100 flagged nouns and 20 others each; 40 flagged ones of the first check are asked again in the
test's). How verdicts are told apart (things against scenery and clothes, or by the stated probability) is chosen on
validation photographs and confirmed on test photographs, whose rates are shipped (`studies.noun_presence ship`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from captrial.data.datasets import read_karpathy
from captrial.data.images import open_image
from captrial.files import atomic_write
from captrial.grounding.error_rates import BACKGROUND, THINGS
from captrial.grounding.presence import image_presence
from captrial.grounding.regions import dataset_regions
from captrial.grounding.score import Grounder
from captrial.vision.registry import DEFAULT_DETECTOR
from studies.data_paths import FLICKR8K, FLICKR8K_CAPTIONS
from studies.noun_presence import (
    RESULTS,
    answered,
    captions,
    is_there,
    reference_nouns,
    said_nouns,
    scenery_or_clothes,
    test_nouns,
    wrong_rate,
)

FIRST = RESULTS / "blind.json"
FLAGGED, OTHERS, AGAIN = 100, 20, 40  # verdicts of both kinds, and of the first check, on new sheets
ROWS, COLUMNS = 4, 5  # photographs of a sheet
EVERY = 4  # validation photographs
ANSWERS = {"t": "there", "a": "absent", "u": "unclear"}

Row = dict[str, Any]


# Sheets ---------------------------------------------------------------------------------------------------------------


def validation_nouns(cache: Path) -> list[Row]:
    """The same of validation photographs, from the image and captions alone."""
    samples = read_karpathy(FLICKR8K_CAPTIONS, split="val")[::EVERY]
    spoken, references = captions(samples, cache, "val"), reference_nouns(samples)
    detected, labels = dataset_regions(samples, [], DEFAULT_DETECTOR, cache / "val")
    grounder = Grounder(labels)
    presences = {sample.id: image_presence(grounder, sample) for sample in detected}
    found: dict[tuple[str, str], Row] = {}
    for _, image, noun in said_nouns(spoken):
        stated = presences[image].absent(noun)
        if stated is not None:
            there = is_there(noun, references[image])
            flagged = stated >= presences[image].threshold
            row = {"image": image, "noun": noun, "stated": stated, "flagged": flagged, "mentioned": there}
            found[image, noun] = row
    return list(found.values())


def sample(rows: Sequence[Row], again: Sequence[Row], seed: int = 11) -> list[Row]:
    """Nouns for new sheets, in random order; `again` are answered before, and 40 of them are asked again."""
    rng = np.random.default_rng(seed)
    known = {(row["image"], row["noun"]) for row in again}
    new = [row for row in rows if (row["image"], row["noun"]) not in known]
    chosen: list[Row] = []
    for flagged, number in ((True, FLAGGED), (False, OTHERS)):
        own = [row for row in new if row["flagged"] is flagged]
        chosen += [own[place] for place in rng.permutation(len(own))[:number]]
    first = [row for row in again if row.get("answer") and row["flagged"]]  # of the blind check
    chosen += [{**first[place], "again": True} for place in rng.permutation(len(first))[:AGAIN]]
    return [chosen[place] for place in rng.permutation(len(chosen))]


def sheets(folder: Path, rows: Sequence[Row]) -> None:
    """Draw the photographs with their nouns, and write the key."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(rows), ROWS * COLUMNS):
        figure, axes = plt.subplots(ROWS, COLUMNS, figsize=(3 * COLUMNS, 3.1 * ROWS), layout="constrained")
        for axis, (number, row) in zip(axes.flat, list(enumerate(rows, 1))[start:], strict=False):
            axis.imshow(open_image(FLICKR8K / "images" / row["image"]))
            axis.set_title(f"{number}: {row['noun']}?", fontsize=15)
            axis.set_axis_off()
        figure.savefig(folder / f"sheet-{start // (ROWS * COLUMNS) + 1}.png", dpi=100)
        plt.close(figure)
    (folder / "key.json").write_bytes(orjson.dumps(list(rows)))


def keep_answers(folder: Path, path: Path) -> None:
    """Join answers with their key, into results/grounding."""
    rows = orjson.loads((folder / "key.json").read_bytes())
    given = dict(line.split() for line in path.read_text().splitlines() if line.strip())
    for number, row in enumerate(rows, 1):
        row["answer"] = ANSWERS[given[str(number)]]
        row["stated"] = round(row["stated"], 3) if "stated" in row else None
    name = "blind_test.json" if any(row.get("again") for row in rows) else "blind_val.json"
    atomic_write(RESULTS / name, orjson.dumps(rows, option=orjson.OPT_INDENT_2))


# Rates ----------------------------------------------------------------------------------------------------------------


def score() -> None:
    """Print how often flagged nouns are absent by eye: by kind of noun and by the least stated probability."""
    by_split = {split: answered(split) for split in ("val", "test")}
    print("| not in the image | right by eye, validation | right by eye, test |\n| --- | --- | --- |")
    for title, chosen in CHOICES.items():
        cells = [_right([row for row in rows if chosen(row)]) for rows in by_split.values()]
        print(f"| {title} | {' | '.join(cells)} |")
    for split, rows in by_split.items():
        others = [row for row in rows if not row["flagged"] and row["answer"] != "unclear"]
        there = sum(row["answer"] == "there" for row in others)
        unclear = sum(row["flagged"] and row["answer"] == "unclear" for row in rows)
        print(f"{split}: {unclear} flagged nouns cannot be told; of {len(others)} other verdicts {there} are there")
    first = {(row["image"], row["noun"]): row["answer"] for row in orjson.loads(FIRST.read_bytes())}
    twice = [row for row in orjson.loads((RESULTS / "blind_test.json").read_bytes()) if row.get("again")]
    same = sum(first[row["image"], row["noun"]] == row["answer"] for row in twice)
    print(f"asked twice: {len(twice)}, the same answer {same}")


CHOICES: dict[str, Callable[[Row], bool]] = {
    "all": lambda row: True,
    THINGS: lambda row: not scenery_or_clothes(row["noun"]),
    BACKGROUND: lambda row: scenery_or_clothes(row["noun"]),
    "stated probability of at least 0.8": lambda row: row["stated"] >= 0.8,
    "stated probability of at least 0.9": lambda row: row["stated"] >= 0.9,
    f"{THINGS}, at least 0.8": lambda row: not scenery_or_clothes(row["noun"]) and row["stated"] >= 0.8,
    f"{BACKGROUND}, at least 0.9": lambda row: scenery_or_clothes(row["noun"]) and row["stated"] >= 0.9,
}


def _right(rows: Sequence[Row]) -> str:
    rate = wrong_rate(rows)
    return f"{1 - rate['error']:.0%} [{1 - rate['high']:.0%}, {1 - rate['low']:.0%}] of {rate['nouns']:.0f}"


def main() -> None:
    """Make sheets, keep answers, or print rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawn = verbs.add_parser("sheets")
    drawn.add_argument("folder", type=Path)
    drawn.add_argument("--split", choices=("val", "test"), default="test")
    drawn.add_argument("--cache", type=Path)
    kept = verbs.add_parser("answers")
    kept.add_argument("folder", type=Path)
    kept.add_argument("file", type=Path)
    verbs.add_parser("score")
    arguments = parser.parse_args()
    if arguments.verb == "score":
        score()
    elif arguments.verb == "answers":
        keep_answers(arguments.folder, arguments.file)
    elif arguments.split == "val":
        if arguments.cache is None:
            parser.error("--split val needs --cache")
        sheets(arguments.folder, sample(validation_nouns(arguments.cache), []))
    else:
        eye, first = (orjson.loads((RESULTS / name).read_bytes()) for name in ("eye.json", "blind.json"))
        sheets(arguments.folder, sample(test_nouns(), [*eye, *first]))


if __name__ == "__main__":
    main()
