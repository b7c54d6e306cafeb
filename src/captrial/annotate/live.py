"""The ranking as labels arrive, and whether it is worth going on (the budget planner)."""

from __future__ import annotations

from typing import Any

from captrial.annotate.room import Room
from captrial.compete.planner import plan
from captrial.compete.verdict import verdict

REPLICATES = 200


def live_ranking(room: Room, metric: str = "cider") -> dict[str, Any]:
    """Ranks with intervals from the labels so far, and how many more labels until the winner is settled.

    `ready` is False where no selected picture has a label yet.
    """
    room.flush()
    jury = room.competition.jury()
    if not jury.images:
        return {"ready": False, "labelled": 0}
    evidence = jury.evidence(metric)
    found = verdict(evidence, REPLICATES)
    known = set(jury.images)
    waiting = [[picture for picture in contest.images if picture not in known] for contest in jury.contests]
    ahead = plan(evidence, waiting)
    return {
        "ready": True,
        "metric": metric,
        "labelled": len(jury.images),
        "ranking": found.rows(),
        "risk": ahead.risk,
        "labels_needed": ahead.labels_needed,
        "notes": list(found.notes),
    }
