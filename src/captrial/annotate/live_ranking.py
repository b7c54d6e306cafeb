"""The ranking as labels arrive, whether it is worth going on (the budget planner), and how far people agree.

This is heavy beside what annotators ask for, so it is computed in a process of its own, which the system may let wait
(`python -m captrial.annotate.live DIR METRIC` prints it as JSON); when the labels have changed, by one request at a
time, and not again before three times as long has passed as it took. Meanwhile everybody gets the latest answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from captrial.annotate.export import JUDGEMENTS, REFERENCES
from captrial.errors import CaptrialError, StateError

if TYPE_CHECKING:
    from captrial.annotate.service import Room
    from captrial.compete.competition import Competition
    from captrial.compete.ranking.pair_scores import PairScorer

REPLICATES = 200
REST = 3
PATIENCE = 600.0  # seconds
METRICS = ("cider", "bleu_4", "rouge_l", "nw")  # to rank by; and whose agreement with people's preferences is shown


class LiveRanking:
    """`live_ranking` of a room, remembered until the labels change."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._computing = threading.Lock()
        self._known: dict[str, tuple[object, dict[str, Any]]] = {}
        self._rested = 0.0  # when it may be computed again

    def get(self, metric: str) -> dict[str, Any]:
        """The ranking by the labels there are; while it is being computed, the one before, or none yet.

        Nobody waits for somebody else's computation: the threads that serve people are few.
        """
        self.room.flush()
        if not self.room.competition.labels().references:
            return {"ready": False, "labelled": 0}
        labels = [_version(self.room.directory / name) for name in (REFERENCES, JUDGEMENTS)]
        known = self._known.get(metric)
        if known and (known[0] == labels or time.monotonic() < self._rested):
            return known[1]
        if not self._computing.acquire(blocking=False):
            return known[1] if known else {"ready": False, "labelled": 0}
        try:
            begun = time.monotonic()
            found = _elsewhere(self.room.directory, metric)
            self._known[metric] = labels, found
            self._rested = begun + REST * (time.monotonic() - begun)
        finally:
            self._computing.release()
        return found


def _elsewhere(directory: Path, metric: str) -> dict[str, Any]:
    """`live_ranking` in another process: not in the way of the people who work meanwhile."""
    command = [sys.executable, "-m", __name__, str(directory), metric]
    try:
        run = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise StateError(f"the ranking takes more than {PATIENCE:.0f} s; use `captrial compete rank`") from None
    if run.returncode:
        raise StateError(f"the ranking could not be computed: {run.stderr.decode(errors='replace').strip()[-500:]}")
    found: dict[str, Any] = orjson.loads(run.stdout)
    return found


def live_ranking(competition: Competition, metric: str = "cider") -> dict[str, Any]:
    """Ranks with intervals from the labels so far, and how many more labels until the winner is settled.

    `ready` is False where no selected image has a label yet.
    """
    from captrial.compete.analysis.planner import plan_labels
    from captrial.compete.ranking.result import rank_models

    labels = competition.labels()
    scorer = competition.scorer(labels)
    if not scorer.images:
        return {"ready": False, "labelled": 0}
    pairwise = scorer.score(metric)
    found = rank_models(pairwise, REPLICATES, competition.manifest.seed)
    ahead = plan_labels(pairwise, scorer.unlabelled)
    return {
        "ready": True,
        "metric": metric,
        "labelled": len(scorer.images),
        "ranking": found.rows(),
        "risk": ahead.risk,
        "labels_needed": ahead.labels_needed,
        "notes": list(found.notes),
        "sentences": sentence_agreement(labels.references),
        **_preferences(competition, scorer),
    }


def sentence_agreement(references: Mapping[str, Sequence[str]]) -> dict[str, float | None]:
    """How alike people's sentences are: each against the others of its image, the mean by CIDEr and ROUGE-L."""
    from captrial.metrics import Corpus, cider, rouge_l

    candidates, others = [], []
    for captions in references.values():
        for place, caption in enumerate(captions):
            if len(captions) > 1:
                candidates.append(caption)
                others.append([*captions[:place], *captions[place + 1 :]])
    if not candidates:
        return {"cider": None, "rouge_l": None}
    corpus = Corpus.prepare(candidates, others)
    return {"cider": cider(corpus).corpus, "rouge_l": rouge_l(corpus).corpus}


def _preferences(competition: Competition, scorer: PairScorer) -> dict[str, Any]:
    """Where the judging round has begun: ranks by Bradley-Terry, and Kendall's tau of metrics with people."""
    from captrial.compete.ranking.bradley_terry import metric_agreement, rank_by_judgements
    from captrial.compete.ranking.perron import ranks

    judgements = competition.judgements()
    if not judgements:
        return {"people": {}, "agreement": []}
    places = ranks(rank_by_judgements(competition.models, judgements).strength)
    found = [metric_agreement(scorer.score(name), judgements) for name in METRICS]
    return {
        "people": {name: int(place) for name, place in zip(competition.models, places, strict=True)},
        "agreement": [
            {"metric": one.metric, "tau": one.tau, "low": one.low, "high": one.high, "judgements": one.judgements}
            for one in found
            if one.judgements
        ],
    }


def _version(path: Path) -> tuple[int, int] | None:
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else None


def main() -> None:
    """Print the ranking of a competition's directory."""
    from captrial.compete.competition import Competition

    os.nice(10)
    directory, metric = sys.argv[1:]
    try:
        found = live_ranking(Competition.open(directory), metric)
    except CaptrialError as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(orjson.dumps(found))


if __name__ == "__main__":
    main()
