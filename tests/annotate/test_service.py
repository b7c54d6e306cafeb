"""The experiment: replacing, discarding, reopening, and what `compete` gets to read."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from annotate.annotation_world import (
    CAPTION,
    Clock,
    inspect_everything,
    join,
    new_key,
    submit_caption,
    submit_judgement,
    submit_refusal,
    submit_vote,
    write_everything,
)
from captrial.annotate import accounts
from captrial.annotate.database.schema import captions, images
from captrial.annotate.database.transactions import Store
from captrial.annotate.rounds.write import accepted_captions
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, read_settings, write_settings
from captrial.errors import StateError


def test_a_refusal_a_vote_and_a_choice_can_be_undone(service: AnnotationService, clock: Clock) -> None:
    with service.store.change() as connection:
        write_settings(service.store, connection, AnnotationSettings(writers=1, inspectors=2, min_captions=1, judges=1))
        service.refresh_images(connection)
    ann, ivy = join(service, "ann", "annotator")[0], join(service, "ivy", "inspector")[0]
    first = service.next("write", ann)["item"]
    second = submit_caption(service, ann, first, CAPTION, new_key())["next"]["item"]
    clock.now += 1
    assert submit_refusal(service, ann, second, "", new_key())["next"]["item"] != second
    assert service.undo(ann, "write", "undo-00000003")["item"] == second  # the refusal, not the caption before it
    seen = service.next("inspect", ivy)["item"]
    submit_vote(service, ivy, seen, False, "a slip", new_key())
    assert service.undo(ivy, "inspect", "undo-00000004")["item"] == seen
    with pytest.raises(StateError, match="nothing to undo"):
        service.undo(ivy, "inspect", "undo-00000005")
    compared = service.next("judge", ivy)["item"]
    submit_judgement(service, ivy, compared, "tie", new_key())
    assert service.undo(ivy, "judge", "undo-00000006")["item"] == compared


def test_removing_a_person_erases_their_work(service: AnnotationService) -> None:
    writers = write_everything(service)
    inspect_everything(service)
    service.remove_person(writers[0].id)
    with service.store.read() as connection:
        rows = connection.execute(select(captions).where(captions.c.person == writers[0].id)).all()
        assert all(row.text == "" and row.state == "removed" for row in rows)
        left = accepted_captions(connection, read_settings(service.store, connection))
        assert all(len(captions) == 2 for captions in left.values())
        assert accounts.by_id(connection, writers[0].id) is None


def test_the_store_reopens_where_it_was(service: AnnotationService, clock: Clock) -> None:
    write_everything(service)
    again = AnnotationService(service.directory, Store(service.store.engine.url.render_as_string(hide_password=False)))
    with again.store.read() as connection:
        assert len(connection.execute(select(captions)).all()) == 3 * len(service.competition.selected_images())
        assert connection.execute(select(images)).first()
    again.close()


def test_an_undo_sent_twice_undoes_one(service: AnnotationService) -> None:
    person, _ = join(service, "ann", "annotator")
    for number in range(2):
        submit_caption(
            service, person, service.next("write", person)["item"], f"{CAPTION} {number}", f"two-{number:08d}"
        )
    service.undo(person, "write", "the same key")
    assert service.undo(person, "write", "the same key")["done"] == 1


def test_nothing_is_stored_for_a_person_who_was_removed_meanwhile(service: AnnotationService) -> None:
    person = join(service, "ann", "annotator")[0]
    item = service.next("write", person)["item"]
    service.remove_person(person.id)
    with pytest.raises(StateError, match="closed"):
        submit_caption(service, person, item, CAPTION, "a-key-of-ann")
    with pytest.raises(StateError, match="closed"):
        service.save_draft(person, item, CAPTION)
