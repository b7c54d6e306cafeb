"""`write_sample`: images, captions and references with which every recipe of the README runs as it is pasted.

Three photographs that may be shared, and rendered images with captions by three made-up captioners. A captioner is
right unless it describes another image instead, which `mine` does less often than `theirs` and more often than
`newcomer`, so that the right ranking is known.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from PIL import Image

from captrial.errors import InputError
from captrial.files import atomic_write, csv_table
from captrial.progress import track
from captrial.toyworld import ToyWorld

PHOTOGRAPHS = Path(__file__).parent / "photographs"
PHOTO = "photo.jpg"
MISTAKES = {"mine": 0.15, "theirs": 0.35, "newcomer": 0.05}
"""Share of the images of which a captioner describes another one."""
Truth = Mapping[str, Sequence[str]]  # file name -> captions


@dataclass(frozen=True)
class ExampleSettings:
    """How large the sample is."""

    images: int = 120
    size: int = 160  # pixels of a rendered image
    judged: int = 40  # images in battles.csv
    seed: int = 0


def write_sample(out: Path | str, settings: ExampleSettings | None = None) -> list[Path]:
    """Write the sample into a folder that is new or has none of its files; returns what was written."""
    settings, out = settings or ExampleSettings(), Path(out)
    names = [PHOTO, "photographs", "images", "references.json", *(f"{name}.json" for name in MISTAKES), "battles.csv"]
    taken = [name for name in names if (out / name).exists()]
    if taken:
        raise InputError(f"{out / taken[0]} exists; choose a new folder: captrial sample OUT")
    truth = _render(out / "images", settings)
    captions = {name: _captions(truth, share, settings.seed) for name, share in MISTAKES.items()}
    references = {name: texts[1:] for name, texts in truth.items()}  # captioners say the first
    shutil.copytree(PHOTOGRAPHS, out / "photographs")
    shutil.copy(PHOTOGRAPHS / "astronaut.jpg", out / PHOTO)
    atomic_write(out / "references.json", orjson.dumps(references, option=orjson.OPT_INDENT_2))
    for name, own in captions.items():
        atomic_write(out / f"{name}.json", orjson.dumps(own, option=orjson.OPT_INDENT_2))
    battles = _battles(captions, truth, settings)
    atomic_write(out / "battles.csv", csv_table(["image", "model_a", "model_b", "winner"], battles))
    return [out / name for name in names]


def _render(folder: Path, settings: ExampleSettings) -> dict[str, list[str]]:
    """Save the images; their captions by file name."""
    folder.mkdir(parents=True)
    world = ToyWorld(size=settings.size)
    references = {}
    for number in track(range(settings.images), "rendering images"):
        image = world.render("wild", number)
        Image.fromarray(image.pixels).save(folder / f"{number:03}.png")
        references[f"{number:03}.png"] = list(image.sample.captions)
    return references


def _captions(truth: Truth, mistakes: float, seed: int) -> dict[str, str]:
    """One caption an image: of the image itself, or of another one in a share of the images."""
    chance = random.Random(f"{seed} {mistakes}")
    names = list(truth)
    return {name: truth[chance.choice(names) if chance.random() < mistakes else name][0] for name in names}


def _battles(captions: Mapping[str, Mapping[str, str]], truth: Truth, settings: ExampleSettings) -> list[list[str]]:
    """Judgements between `mine` and `theirs`, in changing order, by somebody who sees which caption is of the image."""
    chance, rows = random.Random(settings.seed), []
    for name in list(truth)[: settings.judged]:
        first, second = chance.sample(["mine", "theirs"], 2)
        right = [captions[model][name] in truth[name] for model in (first, second)]
        winner = "tie" if right[0] == right[1] else "model_a" if right[0] else "model_b"
        rows.append([name, first, second, winner])
    return rows
