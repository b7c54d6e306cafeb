"""The page of the demonstration: the questions, how they were answered, and the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from captrial.attribution.page import source
from captrial.compete import Competition, RankingResult
from captrial.data.images import image_data_url, open_image
from captrial.demo.demo_plan import DemoPlan
from captrial.files import atomic_write
from captrial.grounding.baselines import NULLS
from captrial.html import Templates
from captrial.report import charts
from captrial.report.charts import Chart
from captrial.report.sections import interval_rows
from captrial.version import __version__

SHEET_SIDE, CARD_SIDE = 1400, 360
CARDS = 6
_TEMPLATES = Templates("captrial.demo", "captrial.report", trim=True)


@dataclass(frozen=True)
class DemoResults:
    """What the steps of the demonstration produced."""

    plan: DemoPlan
    competition: Competition
    ranking: RankingResult
    labels: Mapping[str, Any]  # summary of the simulated annotation
    analysis: Path  # folder of grounding, attention and explanations
    quality: Sequence[Mapping[str, Any]]  # every captioner's `CaptionQuality` over all wild images
    photographs: Mapping[str, Any]  # see `photograph_trial`
    seconds: Mapping[str, float]  # by step


def write_demo_page(results: DemoResults, sheet: Path, path: Path) -> Path:
    """Write the page; `sheet` is an image of some toy world images."""
    folder = results.analysis
    grounding = orjson.loads((folder / "grounding" / "tables.json").read_bytes())
    attention = orjson.loads((folder / "attention" / "tables.json").read_bytes())
    examples = folder / "attention" / "examples.png"
    page = _TEMPLATES.render(
        "demo.html",
        plan=results.plan,
        ranking=results.ranking.rows(),
        conclusion=results.ranking.conclusion(),
        quality=sorted(results.quality, key=lambda row: -row["cider"]),
        photograph_trial=results.photographs,
        photograph_cards=_photograph_cards(results.photographs, folder.parent / "photographs" / "images"),
        labels=results.labels,
        charts={
            "ranking": _ranking_chart(results.ranking),
            "photographs": charts.intervals(
                "photographs", "Ranking on photographs", interval_rows(results.photographs["rows"]), "mean CIDEr"
            ),
            "grounding": _grounding_chart(grounding["grounding-checkable"]["rows"]),
            "attention": _attention_chart(attention["correctness"]["rows"]),
        },
        sheet=image_data_url(open_image(sheet), side=SHEET_SIDE),
        cards=_cards(results.competition, results.ranking),
        examples=image_data_url(open_image(examples), side=SHEET_SIDE) if examples.exists() else None,
        grounding=[_grounding_row(row) for row in grounding["grounding-checkable"]["rows"]],
        skills=[_skill_row(row) for row in grounding["skill-checkable"]["rows"]],
        verdicts=grounding["verdicts"]["rows"],
        notes=grounding["verdicts"]["notes"][:2],  # how words were compared
        correctness=attention["correctness"]["rows"],
        toyworld=(folder / "toyworld.json").read_text(),
        photographs=(folder / "photographs.json").read_text(),
        seconds=results.seconds,
        panel_css=source("panel.css"),
        panel_js=source("panel.js"),
        version=__version__,
    )
    atomic_write(path, page)
    return path


def _photograph_cards(trial: Mapping[str, Any], images: Path) -> list[dict[str, Any]]:
    """Every photograph with its captions, the best captioner's first."""
    return [
        {**entry, "image": image_data_url(open_image(images / entry["file"]), side=CARD_SIDE)}
        for entry in trial["photographs"]
    ]


def _skill_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Skill over every null model, with its interval."""
    return {"captioner": row["model"], "method": row["method"], **{name: row[f"{name} skill"] for name in NULLS}}


def _ranking_chart(ranking: RankingResult) -> Chart:
    rows = interval_rows(ranking.rows())
    return charts.intervals("ranking", "Ranking of the captioners", rows, "ranking score")


def _grounding_chart(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """GroundingScore by attention, any earlier word allowed."""
    found = [(row["Method"], row["Attention δ=∞"]) for row in rows]
    shown = [
        (name, 100 * value["value"], 100 * value["low"], 100 * value["high"])
        for name, value in found
        if value and value["value"] is not None
    ]
    return charts.intervals("grounding", "Grounding of the captions", shown, "GroundingScore")


def _grounding_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One captioner's scores, in the order of the columns of the page."""
    cells = [row.get(f"{method} δ={delta}") for method in ("Attention", "Saliency") for delta in ("0", "∞")]
    values = ["–" if not cell or cell["value"] is None else f"{100 * cell['value']:.1f}" for cell in cells]
    return {"model": row["Method"], "values": values}


def _attention_chart(rows: Sequence[Mapping[str, Any]]) -> Chart:
    forced = [row for row in rows if row["captions"] == "forced"]
    uniform = forced[0]["baseline"]
    shown = [("uniform attention", uniform["value"], uniform["low"], uniform["high"])]
    shown += [(row["model"], *(row["correctness"][part] for part in ("value", "low", "high"))) for row in forced]
    return charts.intervals("attention", "Attention correctness", shown, "attention correctness")


def _cards(competition: Competition, ranking: RankingResult) -> list[dict[str, Any]]:
    """The first image of some pairs, with all captions and two references."""
    labels, captions, cards, shown = competition.labels(), competition.selected_captions(), [], set()
    root = competition.image_root
    assert root is not None
    for pair, active in competition.selections().items():
        image = next((p for p in active.images if p not in shown and labels.references.get(p)), None)
        if image is None:
            continue
        shown.add(image)
        cards.append(
            {
                "image": image_data_url(open_image(root / image), side=CARD_SIDE),
                "captions": [(competition.models[i], captions[image][i], i in pair) for i in ranking.order],
                "references": labels.references[image][:2],
            }
        )
        if len(cards) == CARDS:
            break
    return cards
