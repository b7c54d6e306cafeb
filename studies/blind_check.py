"""Verdicts checked by eye without knowing them: sheets with a noun below each photograph, half of them flagged.

    python -m studies.blind_check sheets FOLDER     writes sheet-1.png ... and key.json (do not look into it)
    python -m studies.blind_check score             of the answers in results/grounding/blind.json

An answer is `there`, `absent` or `unclear`. The sheets show photographs of Flickr8k: make them for yourself only.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import orjson

from captrial.data.images import open_image
from captrial.grounding.score import Verdict
from studies.data_paths import FLICKR8K
from studies.noun_presence import RESULTS

PATH = RESULTS / "blind.json"
EACH, ROWS, COLUMNS = 50, 4, 5  # verdicts of both kinds, photographs of a sheet


def sample(seed: int = 7) -> list[dict[str, Any]]:
    """Nouns of different photographs: as many *not in the image* as others, in random order; not those of eye.json."""
    rows = orjson.loads((RESULTS / "presence.json").read_bytes())["rows"]["attention"]
    seen = {(row["image"], row["noun"]) for row in orjson.loads((RESULTS / "eye.json").read_bytes())}
    found = {
        (image, noun): {"image": image, "noun": noun, "flagged": verdict == Verdict.NOT_IN_IMAGE, "mentioned": there[0]}
        for _, image, noun, verdict, absent, *there in rows
        if absent is not None and (image, noun) not in seen
    }
    rng = np.random.default_rng(seed)
    chosen: list[dict[str, Any]] = []
    for flagged in (True, False):
        own = [row for row in found.values() if row["flagged"] is flagged]
        chosen += [own[place] for place in rng.permutation(len(own))[:EACH]]
    return [chosen[place] for place in rng.permutation(len(chosen))]


def sheets(folder: Path) -> None:
    """Draw the photographs with their nouns, and write the key."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = sample()
    for start in range(0, len(rows), ROWS * COLUMNS):
        figure, axes = plt.subplots(ROWS, COLUMNS, figsize=(3 * COLUMNS, 3.1 * ROWS), layout="constrained")
        for axis, (number, row) in zip(axes.flat, list(enumerate(rows, 1))[start:], strict=False):
            axis.imshow(open_image(FLICKR8K / "images" / row["image"]))
            axis.set_title(f"{number}: {row['noun']}?", fontsize=15)
            axis.set_axis_off()
        figure.savefig(folder / f"sheet-{start // (ROWS * COLUMNS) + 1}.png", dpi=72)
        plt.close(figure)
    (folder / "key.json").write_bytes(orjson.dumps(rows))


def score() -> None:
    """How many verdicts are right by eye, and by the references for the same nouns."""
    rows = orjson.loads(PATH.read_bytes())
    for flagged, right in ((True, "absent"), (False, "there")):
        own = [row for row in rows if row["flagged"] is flagged]
        told = [row for row in own if row["answer"] != "unclear"]
        hits = sum(row["answer"] == right for row in told)
        by_references = sum(row["mentioned"] is not flagged for row in own)
        print(
            f"{'not in the image' if flagged else 'other verdicts'}: {len(own)}, of {len(told)} that can be told "
            f"{hits} right ({hits / len(told):.0%}); by the references {by_references / len(own):.0%}"
        )


def main() -> None:
    """Make sheets, or score answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("sheets").add_argument("folder", type=Path)
    verbs.add_parser("score")
    arguments = parser.parse_args()
    if arguments.verb == "sheets":
        sheets(arguments.folder)
    else:
        score()


if __name__ == "__main__":
    main()
