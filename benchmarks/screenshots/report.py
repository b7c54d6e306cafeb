"""Screenshots of a competition report: toy world images, four simulated captioners, Chromium.

python -m benchmarks.screenshots.report [--out docs/images]

The captioners are simulated: each takes one of an image's five true captions and gets words wrong at its own rate; the
other four captions are the labels. Nothing about real captioners follows from these images.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from captrial.compete import Competition, SelectionSettings
from captrial.report.competition_page import write_competition_report
from captrial.toyworld import ToyWorldSettings, read_toyworld, write_toyworld
from tests.chromium import chromium

MISTAKES = {"sharp": 0.08, "steady": 0.2, "hasty": 0.4, "repeating": 0.3}
SWAPS = ("dog cat horse bird cow sheep", "red blue green yellow white black", "man woman boy girl",
         "car bus bicycle boat", "bench chair table couch", "tree house flower umbrella ball kite")  # fmt: skip


def simulated(caption: str, rate: float, repeats: bool, generator: np.random.Generator) -> str:
    """A caption with some words exchanged for others of their kind; a repeating captioner repeats one now and then."""
    groups = {word: group.split() for group in SWAPS for word in group.split()}
    words = [
        str(generator.choice(groups[word])) if word in groups and generator.random() < rate else word
        for word in caption.rstrip(".").split()
    ]
    if repeats and generator.random() < 0.06:
        at = int(generator.integers(1, len(words)))
        words[at:] = [words[at]] * 4
    return " ".join(words)


def make_report(folder: Path, images: int = 400) -> Path:
    """Render, caption, select, label, report."""
    write_toyworld(folder / "toy", ToyWorldSettings(images, shares={"wild": 1.0}))
    samples = read_toyworld(folder / "toy", split="wild")
    root = folder / "toy" / "images"
    captions = {str(sample.image.path.relative_to(root)): sample.captions for sample in samples if sample.image.path}
    generator = np.random.default_rng(0)
    files = {}
    for name, rate in MISTAKES.items():
        repeats = name == "repeating"
        captioned = {image: simulated(texts[0], rate, repeats, generator) for image, texts in captions.items()}
        files[name] = folder / f"{name}.json"
        files[name].write_text(json.dumps(captioned))
    references = folder / "references.json"
    references.write_text(json.dumps({image: list(texts[1:]) for image, texts in captions.items()}))
    competition = Competition.create(folder / "toy-competition", files, images=root)
    competition.select(SelectionSettings(40, 40))
    return write_competition_report(
        competition, competition.labels(references), ["cider", "rouge_l"], folder / "report"
    )


def take_screenshots(page: Path, out: Path) -> None:
    """Desktop: the ranking and the gallery; phone: the top and the gallery."""
    out.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for device, width, height in (("desktop", 1200, 860), ("phone", 390, 844)):
            tab = browser.new_page(viewport={"width": width, "height": height})
            tab.goto(page.as_uri())
            for part in ("ranking", "gallery"):
                tab.locator(f"#{part}").scroll_into_view_if_needed()
                tab.evaluate(f"document.getElementById('{part}').scrollIntoView({{behavior: 'instant'}})")
                if part == "ranking":
                    tab.evaluate("window.scrollTo({top: 0, behavior: 'instant'})")
                path = out / f"competition-{part}-{device}.png"
                tab.screenshot(path=path)
                Image.open(path).convert("P", palette=Image.Palette.ADAPTIVE, colors=160).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        take_screenshots(make_report(Path(folder)), arguments.out)


if __name__ == "__main__":
    main()
