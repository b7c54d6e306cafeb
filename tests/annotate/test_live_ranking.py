"""The live ranking."""

from __future__ import annotations

from pathlib import Path

import pytest

from annotate.annotation_world import CAPTION
from captrial.annotate import live_ranking
from captrial.annotate.service import AnnotationService
from captrial.compete.competition import Competition
from captrial.errors import StateError


@pytest.mark.slow
def test_the_live_ranking_is_computed_in_another_process_and_cached(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = AnnotationService(directory)
    ranking = live_ranking.LiveRanking(service)
    assert ranking.get("cider") == {"ready": False, "labelled": 0}
    service.import_references({image: [CAPTION, f"{CAPTION} again"] for image in service.competition.selected_images()})
    with monkeypatch.context() as here:  # one other process is enough: it is the one below
        here.setattr(
            live_ranking, "_in_subprocess", lambda of, metric: live_ranking.live_ranking(Competition.open(of), metric)
        )
        found = ranking.get("cider")
    assert found["ready"]
    assert [entry["rank"] for entry in found["ranking"]] == sorted(entry["rank"] for entry in found["ranking"])
    with monkeypatch.context() as nowhere:
        nowhere.setattr(live_ranking, "_in_subprocess", lambda *_: pytest.fail("the labels have not changed"))
        assert ranking.get("cider") is found
    with pytest.raises(StateError, match="computed: there is no metric 'nonsense'"):
        ranking.get("nonsense")
    service.close()
