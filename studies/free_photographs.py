"""Five photographs that may be shown, with captions and boxes of our own, as a folder of Flickr30k Entities.

    python -m studies.free_photographs FOLDER
    captrial attend --data FOLDER --models show_attend_tell-implicit,show_attend_tell-strong --examples 5 --out attend
    python -m studies.free_photographs FOLDER --figures attend        # its figures, smaller, to docs/images

The photographs come with scikit-image: astronaut (NASA) and rocket (SpaceX) are in the public domain, camera, chelsea
and coffee are CC0. Nobody else checked the boxes, and five photographs are no measurement: they are for the figures of
docs/attend.md alone.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

from studies.data_paths import ROOT

FIGURES = {"targets": "attend-targets", "examples-forced": "attend-forced", "examples-generated": "attend-photograph"}
Corners = tuple[int, int, int, int]  # x1, y1, x2, y2 in pixels, the last not included


@dataclass(frozen=True)
class Photograph:
    """A photograph of scikit-image, its captions in the form of Entities, and the boxes of every entity."""

    file: str
    captions: Sequence[str]
    boxes: Mapping[int, Sequence[Corners]]


PHOTOGRAPHS = (
    Photograph(
        "astronaut.png",
        (
            "[/EN#1/people A smiling woman] in [/EN#2/clothing an orange suit] holds [/EN#3/other a black helmet] .",
            "[/EN#1/people A woman] with [/EN#6/bodyparts short hair] in front of [/EN#4/other a flag] and "
            "[/EN#5/vehicles a model of a rocket] .",
        ),
        {
            1: [(15, 12, 365, 512)],
            2: [(15, 150, 365, 512)],
            3: [(275, 340, 512, 512)],
            4: [(0, 0, 105, 410)],
            5: [(345, 0, 462, 285)],
            6: [(150, 12, 305, 130)],
        },
    ),
    Photograph(
        "camera.png",
        (
            "[/EN#11/people A man] in [/EN#12/clothing a black coat] stands in [/EN#15/scene a field] with "
            "[/EN#13/other a camera] .",
            "[/EN#11/people A man] looks through [/EN#13/other a camera] on [/EN#14/other a tripod] .",
        ),
        {
            11: [(0, 62, 335, 512)],
            12: [(0, 105, 330, 360)],
            13: [(258, 137, 325, 200)],
            14: [(230, 180, 405, 512)],
            15: [(0, 232, 512, 512)],
        },
    ),
    Photograph(
        "chelsea.png",
        ("[/EN#21/animals A brown cat] with [/EN#22/bodyparts green eyes] looks to the side .",),
        {21: [(0, 0, 385, 300)], 22: [(135, 85, 210, 148), (295, 105, 348, 163)]},
    ),
    Photograph(
        "coffee.png",
        (
            "[/EN#31/other A white cup] and [/EN#32/other a spoon] on [/EN#33/other a red plate] .",
            "[/EN#34/other Coffee] in [/EN#31/other a cup] on [/EN#35/other a wooden table] .",
        ),
        {
            31: [(172, 15, 405, 310)],
            32: [(325, 70, 425, 325)],
            33: [(78, 62, 478, 385)],
            34: [(195, 95, 375, 200)],
            35: [(0, 0, 600, 400)],
        },
    ),
    Photograph(
        "rocket.jpg",
        ("[/EN#41/vehicles A white rocket] stands between [/EN#42/other tall towers] at night .",),
        {
            41: [(308, 128, 338, 408)],
            42: [(0, 0, 90, 427), (168, 120, 205, 400), (435, 125, 470, 400), (558, 0, 640, 427)],
        },
    ),
)


def write_photographs(folder: Path) -> None:
    """Write `images`, `Sentences` and `Annotations`."""
    spec = find_spec("skimage")
    if spec is None or spec.origin is None:
        raise SystemExit("no photographs; pip install scikit-image")
    for name in ("images", "Sentences", "Annotations"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(PHOTOGRAPHS, 1):
        source = Path(spec.origin).parent / "data" / one.file
        shutil.copy(source, folder / "images" / f"{number}_{one.file}")
        (folder / "Sentences" / f"{number}.txt").write_text("".join(f"{caption}\n" for caption in one.captions))
        with Image.open(source) as image:
            annotations = _annotations(one, *image.size)
        ElementTree.ElementTree(annotations).write(folder / "Annotations" / f"{number}.xml")


def _annotations(one: Photograph, width: int, height: int) -> ElementTree.Element:
    """The boxes as Entities writes them: pixels are counted from 1, and the last one is included."""
    root = ElementTree.Element("annotation")
    ElementTree.SubElement(root, "filename").text = one.file
    size = ElementTree.SubElement(root, "size")
    for name, value in (("width", width), ("height", height), ("depth", 3)):
        ElementTree.SubElement(size, name).text = str(value)
    for entity, boxes in one.boxes.items():
        for x1, y1, x2, y2 in boxes:
            thing = ElementTree.SubElement(root, "object")
            ElementTree.SubElement(thing, "name").text = str(entity)
            box = ElementTree.SubElement(thing, "bndbox")
            for name, value in (("xmin", x1 + 1), ("ymin", y1 + 1), ("xmax", x2), ("ymax", y2)):
                ElementTree.SubElement(box, name).text = str(value)
    return root


def copy_figures(attend: Path) -> None:
    """The figures that `captrial attend` drew, as JPEG of two thirds of the size, to docs/images."""
    for name, figure in FIGURES.items():
        with Image.open(attend / f"{name}.png") as drawn:
            small = drawn.convert("RGB").resize((drawn.width * 2 // 3, drawn.height * 2 // 3), Image.Resampling.LANCZOS)
        small.save(ROOT / "docs" / "images" / f"{figure}.jpg", quality=85)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--figures", type=Path, help="what `captrial attend` wrote")
    chosen = parser.parse_args()
    write_photographs(chosen.folder)
    if chosen.figures is not None:
        copy_figures(chosen.figures)
