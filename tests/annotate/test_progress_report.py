"""Progress, statistics and agreement."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from annotate.annotation_world import CAPTION, Clock, join, new_key, submit_caption
from captrial.annotate.database.schema import captions, votes
from captrial.annotate.progress_report import annotator_statistics, krippendorff_alpha
from captrial.annotate.service import AnnotationService


def test_people_who_stand_out_are_marked_with_the_reason(service: AnnotationService, clock: Clock) -> None:
    quick, usual, slow = (join(service, name, "annotator")[0] for name in ("quick", "usual", "slow"))
    for person, seconds in ((quick, 1), (usual, 10), (slow, 100)):
        following = service.next("write", person)
        for _ in range(5):
            clock.now += seconds
            following = submit_caption(service, person, following["item"], CAPTION, new_key())["next"]
    with service.store.change() as connection:
        discarded = captions.update().where(captions.c.person == usual.id).values(state="discarded")
        connection.execute(discarded)
        for row in connection.execute(select(captions.c.id).where(captions.c.person != usual.id)).scalars():
            vote = {"caption": row, "person": usual.id, "right": True, "created": clock.now, "seconds": 10.0}
            connection.execute(votes.insert().values(**vote))  # what else they do makes no caption better
        found = {person["name"]: person["why"] for person in annotator_statistics(connection)}
    assert found == {
        "quick": "much faster than the others",
        "usual": "many captions discarded",
        "slow": "much slower than the others",
    }


def test_krippendorff_alpha() -> None:
    assert krippendorff_alpha([[1, 1], [0, 0]]) == 1.0
    assert krippendorff_alpha([]) is None
    # the textbook example: 4 observers, 12 units, nominal alpha 0.743
    units = ["111", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", "555", "11", "3"]
    assert krippendorff_alpha([[int(vote) for vote in unit] for unit in units]) == pytest.approx(0.743, abs=5e-4)
