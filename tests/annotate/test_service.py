"""The experiment: replacing, discarding, reopening, and what `compete` gets to read."""

from __future__ import annotations

import time
from pathlib import Path

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
from captrial.annotate.database.transactions import SteadyClock, Store
from captrial.annotate.rounds.write import accepted_captions
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, read_settings, write_settings
from captrial.errors import NotAllowedError, StateError


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


def test_a_key_used_for_something_else_is_refused_and_not_acknowledged(service: AnnotationService) -> None:
    """It was answered "taken", and nothing was stored."""
    person, _ = join(service, "ann", "annotator")
    first = service.next("write", person)["item"]
    following = submit_caption(service, person, first, CAPTION, "the-same-key")["next"]["item"]
    for item, text in ((following, CAPTION), (first, "another caption of the same image")):
        with pytest.raises(StateError, match="new key"):
            submit_caption(service, person, item, text, "the-same-key")
    with pytest.raises(StateError, match="new key"):
        service.undo(person, "write", "the-same-key")
    assert submit_caption(service, person, first, CAPTION, "the-same-key")["taken"]  # sent again by a browser
    with service.store.read() as connection:
        assert connection.execute(select(captions.c.text)).scalars().all() == [CAPTION]


def test_a_clock_that_is_set_back_changes_no_order(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo deleted an older caption, and people who had signed in before were refused."""
    wall, elapsed = [1_000_000.0], [0.0]
    clock = SteadyClock(lambda: wall[0], lambda: elapsed[0])
    service = AnnotationService(directory, Store(f"sqlite:///{directory / 'annotations.sqlite'}", clock))
    person, _ = join(service, "ann", "annotator")
    first = service.next("write", person)["item"]
    following = submit_caption(service, person, first, f"{CAPTION} first", "key-first")["next"]["item"]
    with service.store.change() as connection:
        token = accounts.start_session(service.store, connection, person.id)
    wall[0] -= 60
    elapsed[0] += 1
    submit_caption(service, person, following, f"{CAPTION} second", "key-second")
    assert service.undo(person, "write", "undo-second")["draft"] == f"{CAPTION} second"
    with service.store.read() as connection:
        assert connection.execute(select(captions.c.text)).scalars().all() == [f"{CAPTION} first"]
        assert accounts.by_session(service.store, connection, token) is not None
    before = service.store.clock()
    service.close()
    monkeypatch.setattr(time, "time", lambda: wall[0])  # and after a restart
    again = AnnotationService(directory)
    assert again.store.clock() >= before - 1
    again.close()


def test_four_annotators_write_and_inspect_for_each_other_to_the_end(service: AnnotationService) -> None:
    """No separate inspectors are needed, and nobody is shown a caption of their own, nor one of an image still open."""
    people = write_everything(service, 4)
    assert service.missing_people() == []
    for person in people:
        following = service.next("inspect", person)
        while following["item"] is not None:
            assert not following["caption"].endswith(f"by {person.id}")
            following = submit_vote(service, person, following["item"], True, "", new_key())["next"]
    progress = {part.round: part for part in service.report()["progress"]}
    assert progress["inspect"].done == progress["inspect"].wanted > 0
    service.change_settings({"annotators_inspect": 0})
    with pytest.raises(NotAllowedError, match="not for the role annotator"):
        service.next("inspect", people[0])
    assert "needs 3 inspectors, you have 0" in service.missing_people()[0]
