"""The demonstration of two versions side by side: its time, and how many of its captions are right.

    git worktree add ../before eba1c92
    python -m studies.demonstration run ../before/src work/before      # continues where it was stopped
    python -m studies.demonstration run src work/after
    python -m studies.demonstration compare work/before work/after   # into docs/demo.md
    python -m studies.demonstration picture work/before work/after --figure docs/images/demo-before-after.png

Both versions caption the same rendered images of the wild split, and captions of both are checked by the code of today.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from PIL import Image

from captrial.data import read_captions
from captrial.demo.caption_quality import caption_quality
from captrial.toyworld import read_toyworld
from studies.data_paths import ROOT
from studies.printing import write_tables

RESULTS = ROOT / "studies" / "results" / "demonstration.json"
PAGE = ROOT / "docs" / "demo.md"
WIDTH, HEIGHT = 900, 2400  # of each page in the picture


def main() -> None:
    """Run one version, compare two, or photograph their pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "compare", "picture"])
    parser.add_argument("first", type=Path, help="the source of a version, or the folder of the earlier one")
    parser.add_argument("second", type=Path, help="the folder of the results, or of the later version")
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments.first, arguments.second)
    elif arguments.what == "picture":
        picture([arguments.first, arguments.second], arguments.figure)
    else:
        found = {"before": measured(arguments.first), "after": measured(arguments.second)}
        RESULTS.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")
        lines = table()
        print("\n".join(lines))
        if PAGE.exists():
            write_tables(PAGE, {"demonstration": lines})


def times_of(out: Path) -> Path:
    """The file with the seconds of all runs of a version, beside its folder."""
    return out.with_name(f"{out.name}.times.json")


def run(source: Path, out: Path) -> None:
    """Run the demonstration of a version; its seconds are added to those of earlier runs that were stopped."""
    out.parent.mkdir(parents=True, exist_ok=True)
    spent = orjson.loads(times_of(out).read_bytes()) if times_of(out).exists() else {"wall": 0.0, "processor": 0.0}
    command = [sys.executable, "-m", "captrial", "demo", "--out", str(out.resolve())]
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(source.resolve())}, cwd=out.parent)
    finally:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent["wall"] += time.monotonic() - started
        spent["processor"] += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times_of(out).write_bytes(orjson.dumps(spent))


def measured(out: Path) -> dict[str, Any]:
    """The captions of a version, checked, and its seconds."""
    samples = {
        sample.image.path.name: sample for sample in read_toyworld(out / "toyworld", split="wild") if sample.image.path
    }
    rows = []
    for file in sorted((out / "captions").glob("*.json")):
        captions = {Path(name).name: text for name, text in read_captions(file).to_dict().items()}
        own = [samples[name] for name in captions]
        texts = {sample.id: captions[name] for name, sample in zip(captions, own, strict=True)}
        rows.append(
            {
                **asdict(caption_quality(file.stem, texts, own)),
                "images": len(own),
                "different": len(set(captions.values())),
            }
        )
    spent = orjson.loads(times_of(out).read_bytes()) if times_of(out).exists() else None
    return {"captioners": rows, "seconds": spent}


def table() -> list[str]:
    """The stored results as a table of docs/demo.md."""
    found: Mapping[str, Any] = orjson.loads(RESULTS.read_bytes())
    lines = [
        "| captioner | | CIDEr | objects that are there | by chance | captions that are right | different captions |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = {when: {row["captioner"]: row for row in part["captioners"]} for when, part in found.items()}
    for name in rows["after"]:
        for when, own in rows.items():
            row = own[name]
            there = f"{row['there']:.0%} ({row['low']:.0%} to {row['high']:.0%})"
            lines.append(
                f"| {name} | {when} | {100 * row['cider']:.1f} | {there} | {row['by_chance']:.0%} | "
                f"{row['right']:.0%} | {row['different']} of {row['images']} |"
            )
    return lines


def picture(folders: Sequence[Path], figure: Path) -> None:
    """The pages of both versions side by side, as Chromium shows their beginning."""
    from tests.chromium import chromium

    figure.parent.mkdir(parents=True, exist_ok=True)
    parts = []
    with chromium() as browser:
        for number, folder in enumerate(folders):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            page.goto((folder / "report" / "index.html").resolve().as_uri())
            parts.append(figure.with_suffix(f".{number}.png"))
            page.screenshot(path=parts[-1], clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT}, full_page=True)
    side_by_side = Image.new("RGB", (2 * WIDTH + 20, HEIGHT), "#888888")
    for number, part in enumerate(parts):
        side_by_side.paste(Image.open(part).convert("RGB"), (number * (WIDTH + 20), 0))
        part.unlink()
    side_by_side.resize((side_by_side.width * 2 // 3, HEIGHT * 2 // 3)).quantize(128).save(figure, optimize=True)


if __name__ == "__main__":
    main()
