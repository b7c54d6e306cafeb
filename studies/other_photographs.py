"""Captions of the shipped captioners for photographs of other data sets, good and bad alike.

    python -m studies.other_photographs > docs/photographs.md

The photographs of scikit-image, and COCO images drawn at random, with the COCO objects that a caption
names rightly and wrongly.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import orjson

from captrial.captioners.loading import load_captioner
from captrial.captioners.registry import shipped_captioners
from captrial.data.images import open_image
from captrial.language.class_words import mentioned
from studies.data_paths import COCO

SKIMAGE = ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg")
DRAWN, SEED = 20, 0
HEAD = """# Photographs from other data sets
```sh
python -m studies.other_photographs > docs/photographs.md
```
Captions of the shipped captioners (beam 5) for images unlike their training data: they were trained on 6 000
photographs of Flickr8k, most of them of people and dogs outdoors. No image was chosen for its captions: {drawn} COCO
images were drawn at random (seed {seed}); scikit-image's are all its colour photographs but `motorcycle_right`, which
is `motorcycle_left` through the other lens of a stereo camera, and three that were taken through instruments:
`hubble_deep_field`, `retina` and `ihc` (tissue).
"""


def captions(images: Sequence[Path]) -> dict[str, list[str]]:
    """The captions of every shipped captioner."""
    opened = [open_image(path) for path in images]
    return {name: load_captioner(name, 5).caption(opened) for name in shipped_captioners()}


def judge(caption: str, present: set[str]) -> str:
    """The COCO objects of a caption: right ones, and wrong ones struck out."""
    named = dict.fromkeys(mentioned([caption])[0])
    marks = [name if name in present else f"~~{name}~~" for name in named]
    return ", ".join(marks) or "–"


def skimage_table() -> str:
    """A table of scikit-image's photographs."""
    spec = find_spec("skimage")
    assert spec is not None
    assert spec.origin is not None
    images = [Path(spec.origin).parent / "data" / name for name in SKIMAGE]
    found = captions(images)
    rows = [f"| {path.stem} | {' | '.join(found[name][row] for name in found)} |" for row, path in enumerate(images)]
    return "\n".join([f"| image | {' | '.join(found)} |", "| --- |" + " --- |" * len(found), *rows])


def coco_table() -> str:
    """A table of COCO images drawn at random, with the objects that captions name rightly and wrongly."""
    present = orjson.loads((COCO / "objects_present.json").read_bytes())
    known = [path for path in sorted((COCO / "images").glob("*.jpg")) if str(int(path.stem)) in present]
    images = random.Random(SEED).sample(known, DRAWN)
    found = captions(images)
    lines = ["| COCO id | captioner | caption | objects named |", "| --- | --- | --- | --- |"]
    for row, path in enumerate(images):
        there = set(present[str(int(path.stem))])
        for name in found:
            text = found[name][row]
            lines.append(f"| {int(path.stem)} | {name} | {text} | {judge(text, there)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the page."""
    print(HEAD.format(drawn=DRAWN, seed=SEED))
    print(f"## scikit-image\n{skimage_table()}\n")
    print("## COCO\nObjects are those of COCO's 80 classes that the caption names; one that people did not find in the")
    print(f"image is struck out.\n\n{coco_table()}")


if __name__ == "__main__":
    main()
