"""The live ranking."""

from __future__ import annotations

from pathlib import Path

import pytest

from annotate.annotation_world import CAPTION, join, new_key, submit_judgement
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


def test_judgements_alone_are_ranked(service: AnnotationService) -> None:
    service.change_settings({"writers": 0, "judges": 1})
    assert not live_ranking.live_ranking(service.competition)["ready"]
    person = join(service, "ann", "annotator")[0]
    following = service.next("judge", person)
    while following["item"] is not None:
        following = submit_judgement(service, person, following["item"], "tie", new_key())["next"]
    service.write_files()
    for metric in ("cider", "preferences"):
        found = live_ranking.live_ranking(service.competition, metric)
        assert (found["ready"], found["metric"]) == (True, "preferences")
        assert [entry["rank"] for entry in found["ranking"]] == [1, 1, 1]
        assert "may still be the best" in found["summary"]
