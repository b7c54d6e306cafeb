"""The page that tells the whole trial: what was asked, what was done, what came out; images first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from captrial.attribution.page import source
from captrial.compete import Competition, RankingResult
from captrial.data.images import image_data_url, open_image
from captrial.demo.plan import Plan
from captrial.files import atomic_write
from captrial.html import Templates
from captrial.report import charts
from captrial.report.charts import Chart
from captrial.version import __version__

SHEET_SIDE, CARD_SIDE = 1400, 360
CARDS = 6
_TEMPLATES = Templates("captrial.demo", "captrial.report", trim=True)


def write_page(
    out: Path,
    report: Path,
    plan: Plan,
    competition: Competition,
    ranking: RankingResult,
    labels: Mapping[str, Any],
    seconds: Mapping[str, float],
) -> Path:
    """Write `report/index.html` from what the demonstration left in `out`."""
    looking = out / "looking"
    grounding = orjson.loads((looking / "grounding" / "tables.json").read_bytes())
    attention = orjson.loads((looking / "attention" / "tables.json").read_bytes())
    examples = looking / "attention" / "examples.png"
    page = _TEMPLATES.render(
        "demo.html",
        plan=plan,
        ranking=ranking.rows(),
        labels=labels,
        charts={
            "ranking": _ranking_chart(ranking),
            "grounding": _grounding_chart(grounding["grounding-checkable"]["rows"]),
            "attention": _attention_chart(attention["correctness"]["rows"]),
        },
        sheet=image_data_url(open_image(out / "toyworld.png"), side=SHEET_SIDE),
        cards=_cards(competition, ranking),
        examples=image_data_url(open_image(examples), side=SHEET_SIDE) if examples.exists() else None,
        grounding=[_grounding_row(row) for row in grounding["grounding-checkable"]["rows"]],
        verdicts=grounding["verdicts"]["rows"],
        notes=grounding["verdicts"]["notes"][:2],  # how words were compared
        correctness=attention["correctness"]["rows"],
        toys=(looking / "toys.json").read_text(),
        photographs=(looking / "photographs.json").read_text(),
        seconds=seconds,
        panel_css=source("panel.css"),
        panel_js=source("panel.js"),
        version=__version__,
    )
    path = report / "index.html"
    atomic_write(path, page)
    return path


def _ranking_chart(ranking: RankingResult) -> Chart:
    rows = [(row["model"], row["score"], row["low"], row["high"]) for row in ranking.rows()]
    return charts.intervals("ranking", "Who captions best?", rows, "ranking score")


def _grounding_chart(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """GroundingScore by attention, any earlier word allowed."""
    found = [(row["Method"], row["Attention δ=∞"]) for row in rows]
    shown = [
        (name, 100 * value["value"], 100 * value["low"], 100 * value["high"])
        for name, value in found
        if value and value["value"] is not None
    ]
    return charts.intervals("grounding", "Do they look at what they say?", shown, "GroundingScore")


def _grounding_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One captioner's scores, in the order of the columns of the page."""
    cells = [row.get(f"{method} δ={delta}") for method in ("Attention", "Saliency") for delta in ("0", "∞")]
    values = ["–" if not cell or cell["value"] is None else f"{100 * cell['value']:.1f}" for cell in cells]
    return {"model": row["Method"], "values": values}


def _attention_chart(rows: Sequence[Mapping[str, Any]]) -> Chart:
    forced = [row for row in rows if row["captions"] == "forced"]
    uniform = forced[0]["baseline"]
    shown = [("looking everywhere alike", uniform["value"], uniform["low"], uniform["high"])]
    shown += [(row["model"], *(row["correctness"][part] for part in ("value", "low", "high"))) for row in forced]
    return charts.intervals("attention", "Do they look where a person would?", shown, "attention correctness")


def _cards(competition: Competition, ranking: RankingResult) -> list[dict[str, Any]]:
    """The first image of some pairs: what all captioners say of it, and what people say."""
    labels, captions, cards, shown = competition.labels(), competition.selected_captions(), [], set()
    root = competition.image_root
    assert root is not None
    for pair, active in competition.selections().items():
        image = next((p for p in active.images if p not in shown and labels.references.get(p)), None)
        if image is None:
            continue
        shown.add(image)
        said = [(competition.models[index], captions[image][index], index in pair) for index in ranking.order]
        people = labels.references[image]
        cards.append(
            {"image": image_data_url(open_image(root / image), side=CARD_SIDE), "said": said, "people": people[:2]}
        )
        if len(cards) == CARDS:
            break
    return cards
