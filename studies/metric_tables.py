"""The tables of docs/metrics.md that show results of studies: `python -m studies.metric_tables` prints them.

They are made from studies/results/semantic alone; a test compares them with the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from studies.caption_ratings import RESULTS as RATINGS
from studies.competition_tables import table
from studies.meaning_and_people import RESULTS as PEOPLE
from studies.metric_choices import RESULTS as CHOICES
from studies.vlm_captions import vlm_table

LENGTHS = {
    "semantic": "`semantic`",
    "semantic_precision": "its precision",
    "semantic_recall": "its recall",
    "unsupported": "unsupported words",
    "facts": "`facts`",
    "spice": "SPICE",
    "meteor": "METEOR",
    "rouge_l": "ROUGE-L",
    "cider": "CIDEr",
}
HAT = ["unsupported words", "ALOHa's matching", "CHAIR", "all alike", "1 - facts precision", "1 - semantic precision"]
MAIN = "unsupported words"


def page_tables() -> dict[str, str]:
    """The tables by name, in Markdown."""
    people, choices = json.loads(PEOPLE.read_bytes()), json.loads(CHOICES.read_bytes())
    return {
        "ratings of short captions": rating_table(json.loads(RATINGS.read_bytes())["sets"]),
        "VLMs": vlm_table(),
        "captions of different lengths": length_table(choices["length"]["metrics"]),
        "hallucinated words": hat_table(people["hat"]),
        "votes on long descriptions": vote_table(people["votes"]),
    }


def page_numbers() -> list[str]:
    """The numbers of these studies in running text, as the page has them."""
    people, choices = json.loads(PEOPLE.read_bytes()), json.loads(CHOICES.read_bytes())
    found = [
        f"{threshold['threshold']}: {threshold['right']} of {threshold['listed']}"
        for threshold in people["hat"]["mistakes"]
    ]
    for half in choices["references"].values():
        found += [
            f"{100 * half['mean']:.1f} against {100 * half['max']:.1f}%",
            _difference([100 * value for value in half["mean minus max"]], 1),
        ]
    for kind, others in (("words", ("CHAIR", "ALOHa's matching")), ("captions", ("CHAIR",))):
        held = [half["held out"] for half in choices["hat"][kind]]
        found += [_difference(of[other]["chosen minus this"], 3) for other in others for of in held]
    return found


def length_table(found: Mapping[str, Any]) -> str:
    rows = []
    for name, title in LENGTHS.items():
        long, short = (100 * found[name][f"right {one}, wrong {other}"][0] for one, other in _CASES)
        mean = "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * value for value in found[name]["mean"]))
        minus = _difference([100 * value for value in found[name]["semantic minus it, mean"]], 1)
        rows.append([title, f"{long:.1f}%", f"{short:.1f}%", mean, "–" if name == "semantic" else minus])
    return table(["", "right long, wrong short", "right short, wrong long", "mean", "`semantic` minus it"], rows)


def hat_table(found: Mapping[str, Any]) -> str:
    minus = f"{MAIN} minus it"
    rows = []
    for name in HAT:
        cells = []
        for kind in ("words", "captions"):
            one = found[kind].get(name)
            value = "{:.3f} [{:.3f}, {:.3f}]".format(one["value"], *one["interval"]) if one else "–"
            other = name != MAIN and one
            cells += [value, _difference(one[f"{MAIN} minus this"], 3) if other else "–"]
        rows.append([name, *cells])
    return table(["", "AP of words", minus, "AP of captions", minus], rows)


def rating_table(found: Mapping[str, Any]) -> str:
    """Kendall's tau x100 with the ratings of each set, by the tau on the first; differences are paired."""
    columns = [
        "Kendall's τ x100",
        *(cell for name, of in found.items() for cell in (f"{name}, τ-{of['tau']}", "`semantic` minus it")),
    ]
    first, *_ = found.values()
    names = sorted(first["metrics"], key=lambda name: -first["metrics"][name]["tau"][0])
    rows = []
    for name in names:
        cells = []
        for one in (of["metrics"].get(name) for of in found.values()):
            if one is None:  # not computed on this set
                cells += ["–", "–"]
                continue
            value, low, high = (f"{100 * number:.1f}" for number in one["tau"])
            less = _difference([100 * number for number in one["semantic minus it"]], 1)
            cells += [f"{value} [{low}, {high}]", "–" if name == "semantic" else less]
        rows.append([name, *cells])
    return table(columns, rows)


def vote_table(found: Mapping[str, Any]) -> str:
    columns = [(side, question) for side in found for question in ("Hallucination", "Comprehensiveness")]
    names = list(found[columns[0][0]][columns[0][1]])
    rows = [[name, *(_tau(found[side][question][name]) for side, question in columns)] for name in names]
    return table(["Kendall τ-b", *(f"{side}, {question.lower()}" for side, question in columns)], rows)


_CASES = (("long", "short"), ("short", "long"))


def _difference(values: Sequence[float], digits: int) -> str:
    value, low, high = (f"{number:+.{digits}f}" for number in values)
    return f"{value} [{low}, {high}]"


def _tau(one: Mapping[str, Any]) -> str:
    value, low, high = (f"{number:.3f}".replace("0.", ".", 1) for number in (one["value"], *one["interval"]))
    return f"{value} [{low}, {high}]"


if __name__ == "__main__":
    for name, lines in page_tables().items():
        print(f"{name}\n\n{lines}\n")
