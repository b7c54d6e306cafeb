"""The inspection round: discarding, reopening, and the references that come of it."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from annotate.annotation_world import inspect_everything, join, write_everything
from captrial.annotate import accounts
from captrial.annotate.database.schema import captions
from captrial.annotate.service import AnnotationService
from captrial.compete.competition import Competition
from captrial.errors import StateError


def test_two_wrong_votes_discard_and_too_few_left_reopen(service: AnnotationService) -> None:
    write_everything(service)
    inspect_everything(service, right=False)
    with service.store.read() as connection:
        states = set(connection.execute(select(captions.c.state)).scalars())
        assert states == {"discarded"}
    newcomer = join(service, "late", "annotator")[0]
    assert service.next("write", newcomer)["item"] is not None


def test_accepted_captions_rank_the_models(service: AnnotationService) -> None:
    write_everything(service)
    service.write_files()
    assert not Competition.open(service.directory).labels().references  # nothing stands before it is inspected
    inspect_everything(service)
    service.write_files()
    competition = Competition.open(service.directory)
    assert set(competition.labels().references) == set(competition.selected_images())
    assert len(competition.rank("cider").rows()) == 3


def test_an_inspected_caption_cannot_be_undone(service: AnnotationService) -> None:
    writers = write_everything(service)
    inspect_everything(service)
    with pytest.raises(StateError, match="inspected"):
        service.undo(writers[0], "write", "undo-00000008")


def test_a_discarded_caption_returns_when_the_votes_that_discarded_it_are_removed(service: AnnotationService) -> None:
    write_everything(service)
    inspect_everything(service, right=False)
    with service.store.read() as connection:
        inspectors = [person.id for person in accounts.all_people(connection) if person.role == "inspector"]

    def states() -> set[str]:
        with service.store.read() as connection:
            return set(connection.execute(select(captions.c.state)).scalars())

    assert states() == {"discarded"}
    service.remove_person(inspectors[0])  # two wrong votes are needed, and two were cast on each
    assert states() == {"live"}
    service.change_settings({"discards": 1})
    assert states() == {"discarded"}
    service.change_settings({"discards": 2})
    assert states() == {"live"}
