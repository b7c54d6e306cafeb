"""The ranking during an annotation, how many more labels it needs (the budget planner), and how well people agree.

It is computed in a process of its own with low priority (`python -m captrial.annotate.live_ranking DIRECTORY METRIC`
prints it as JSON), because it takes much longer than the requests of annotators. It is computed again when the labels
have changed, for one request at a time, and not before three times as long has passed as it took. Meanwhile every
request gets the latest result. `web/static/lead.js` shows it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import orjson

from captrial.compete.storage.labels import LABEL_FILES
from captrial.errors import CaptrialError, StateError

if TYPE_CHECKING:
    from captrial.annotate.service import AnnotationService
    from captrial.compete.competition import Competition
    from captrial.compete.ranking.pair_scores import PairScorer
    from captrial.compete.storage.labels import Labels

REST = 3  # times as long as the computation took
TIMEOUT = 600.0  # seconds
LiveMetric = Literal["cider", "bleu_4", "rouge_l", "nw"]  # to rank by, and to compare with people's preferences
METRICS: tuple[str, ...] = get_args(LiveMetric)


class LiveRanking:
    """`live_ranking` of an annotation, cached until the labels change."""

    def __init__(self, service: AnnotationService) -> None:
        self.service = service
        self._computing = threading.Lock()
        self._cache: dict[str, tuple[object, dict[str, Any]]] = {}
        self._next_time = 0.0  # when it may be computed again

    def get(self, metric: str) -> dict[str, Any]:
        """The ranking by the labels so far; while it is being computed, the previous one, or none yet.

        A request never waits for the computation of another one: there are only few threads for requests.
        """
        self.service.write_files()
        competition = self.service.competition
        if not competition.labels().references and not competition.judgements():
            return {"ready": False, "labelled": 0}
        labels = [_version(self.service.directory / name) for name in LABEL_FILES]
        cached = self._cache.get(metric)
        if cached and (cached[0] == labels or time.monotonic() < self._next_time):
            return cached[1]
        if not self._computing.acquire(blocking=False):
            return cached[1] if cached else {"ready": False, "labelled": 0}
        try:
            begun = time.monotonic()
            found = _in_subprocess(self.service.directory, metric)
            self._cache[metric] = labels, found
            self._next_time = begun + REST * (time.monotonic() - begun)
        finally:
            self._computing.release()
        return found


def _in_subprocess(directory: Path, metric: str) -> dict[str, Any]:
    """`live_ranking` in another process, so that people who work meanwhile do not wait for it."""
    command = [sys.executable, "-m", __name__, str(directory), metric]
    try:
        run = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise StateError(f"the ranking takes more than {TIMEOUT:.0f} s; use `captrial compete rank`") from None
    if run.returncode:
        raise StateError(f"the ranking could not be computed: {run.stderr.decode(errors='replace').strip()[-500:]}")
    found: dict[str, Any] = orjson.loads(run.stdout)
    return found


def live_ranking(competition: Competition, metric: str = "cider") -> dict[str, Any]:
    """Ranks with intervals from the labels so far, and how many more labels are needed until the winner is certain.

    By people's judgements where the metric is "preferences" or no selected image has a reference; `ready` is False
    where there are neither.
    """
    from captrial.compete.ranking.preferences import PREFERENCES

    labels = competition.labels()
    scorer = competition.scorer(labels)
    if metric == PREFERENCES or not scorer.images:
        return _live_preferences(competition)
    found = competition.rank(metric, labels)
    ahead = _plan(competition, metric, labels)
    return {
        "ready": True,
        "metric": metric,
        "labelled": len(scorer.images),
        "ranking": found.rows(),
        "plan": ahead,
        "notes": list(found.notes),
        "captions": caption_agreement(labels.references),
        **_preferences(competition, scorer),
    }


def _plan(competition: Competition, metric: str, labels: Labels) -> dict[str, Any] | None:
    """Whether the winner on the whole pool is settled; None where the design has no sample of the pool."""
    try:
        found = competition.plan(metric, labels)
    except StateError:  # no sample, or no label of it yet
        return None
    return {"winner": found.winner, "settled": found.settled, "labels_needed": found.labels_needed, "risk": found.risk}


def caption_agreement(references: Mapping[str, Sequence[str]]) -> dict[str, float | None]:
    """Score each reference against the others of its image; returns the means of CIDEr and ROUGE-L."""
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


def _live_preferences(competition: Competition) -> dict[str, Any]:
    """The ranking by judgements alone, and whether the best model is settled."""
    from captrial.compete.analysis.preference_analysis import plan_judgements
    from captrial.compete.ranking.preferences import PREFERENCES

    judgements = competition.judgements()
    try:
        found = competition.rank_preferences(judgements)
    except StateError:  # too few to connect the models
        return {"ready": False, "labelled": 0}
    plan = plan_judgements(judgements, found.models) if any(one.complete for one in judgements) else None
    return {
        "ready": True,
        "metric": PREFERENCES,
        "labelled": len(found.images),
        "ranking": found.rows(),
        "summary": plan.summary() if plan else "No image has all its judgements yet.",
        "notes": found.notes,
        "captions": {"cider": None, "rouge_l": None},
        "people": {},
        "agreement": [],
    }


def _preferences(competition: Competition, scorer: PairScorer) -> dict[str, Any]:
    """Where there are judgements: ranks by Bradley-Terry, and Kendall's tau between metrics and people."""
    from captrial.compete.ranking.agreement_with_people import metric_agreement

    judgements = competition.judgements()
    if not judgements:
        return {"people": {}, "agreement": []}
    found = [metric_agreement(scorer.score(name, frequencies=scorer.frequencies), judgements) for name in METRICS]
    try:
        people = {row["model"]: row["rank"] for row in competition.rank_preferences(judgements).rows()}
    except StateError:  # too few to connect the models
        people = {}
    return {
        "people": people,
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
