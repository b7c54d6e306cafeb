"""The table of docs/flickr8k.md from the results that `studies.flickr8k` wrote.

python -m studies.flickr8k_table
"""

from __future__ import annotations

from typing import Any

import orjson

from captrial.captioners.registry import ARCHITECTURES
from studies.flickr8k import PLAN, RESULTS

KINDS = {
    "no_geometry": " without geometry",
    "regions": ", regions",
    "weak": ", weakly supervised attention",
    "fine": ", 288 pixels",
    "mirrored": ", 288 pixels and mirror images",
}


def rows() -> list[dict[str, Any]]:
    """Results there are, in the order of the plan."""
    files = [RESULTS / f"{name}.json" for name in PLAN]
    return [orjson.loads(path.read_bytes()) for path in files if path.exists()]


def table() -> str:
    """Markdown, scores x100."""
    lines = [
        "| captioner | training | BLEU-4 | METEOR | CIDEr | SPICE | parameters | epochs | s/epoch |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows():
        title, training = describe(row["name"])
        scores = " | ".join(f"{100 * row[key]:.1f}" for key in ("bleu_4", "meteor", "cider", "spice"))
        size = f"{row['parameters'] / 1e6:.1f} M"
        lines.append(f"| {title} | {training} | {scores} | {size} | {row['epochs']} | {row['seconds_an_epoch']:.0f} |")
    return "\n".join(lines)


def describe(name: str) -> tuple[str, str]:
    """How an entry is called in the table, and how it was trained."""
    base, *kinds = name.replace("no-geometry", "no_geometry").split("-")
    title = ARCHITECTURES[base].title + "".join(KINDS.get(kind, "") for kind in kinds)
    if name == "disc":
        return title, "XE (Att2in's) + critic + SCST"
    return title, "XE + SCST" if "scst" in kinds else "XE"


if __name__ == "__main__":
    print(table())
