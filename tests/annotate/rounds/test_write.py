"""The writing round: rules, drafts, refusals, undo."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from annotate.annotation_world import CAPTION, join, new_key, submit_caption, submit_refusal, write_everything
from captrial.annotate.database.schema import captions, drafts
from captrial.annotate.rounds.write import RULES, check
from captrial.annotate.service import AnnotationService
from captrial.compete.competition import Competition
from captrial.errors import StateError


def test_every_image_gets_exactly_three_captions_by_different_people(service: AnnotationService) -> None:
    write_everything(service, 5)
    with service.store.read() as connection:
        rows = connection.execute(select(captions.c.image, captions.c.person)).all()
    pairs = [tuple(row) for row in rows]
    assert len(set(pairs)) == len(pairs) == 3 * len(service.competition.selected_images())


def test_two_refusals_replace_an_image_in_every_pair(service: AnnotationService) -> None:
    first, second = (join(service, name, "annotator")[0] for name in ("ann", "ben"))
    before = service.competition.selections()
    item = service.next("write", first)["item"]
    name = service.image_id(item)
    submit_refusal(service, first, item, "black", new_key())
    service.write_files()
    assert name in Competition.open(service.directory).selected_images()  # one vote is not enough
    with service.store.change() as connection:  # the second person happens to get the same image
        from captrial.annotate.database.schema import leases

        connection.execute(leases.delete())
    following = service.next("write", second)
    while following["item"] != item:
        following = submit_caption(service, second, following["item"], CAPTION, new_key())["next"]
    submit_refusal(service, second, item, "", new_key())
    service.write_files()
    after = Competition.open(service.directory).selections()
    for pair, selection in before.items():
        if name in selection.images:
            assert name not in after[pair].images
            assert after[pair].images[-1] == selection.reserve[0]
            assert len(after[pair].images) == len(selection.images)
        else:
            assert after[pair].images == selection.images


def test_undo_brings_the_caption_back_as_a_draft(service: AnnotationService) -> None:
    person = join(service, "ann", "annotator")[0]
    item = service.next("write", person)["item"]
    submit_caption(service, person, item, CAPTION, new_key())
    back = service.undo(person, "write", "undo-00000001")
    assert back["item"] == item
    assert back["draft"] == CAPTION
    with pytest.raises(StateError, match="nothing to undo"):
        service.undo(person, "write", "undo-00000002")


def test_numbers_of_captions_are_not_used_again(service: AnnotationService) -> None:
    ann, ben = (join(service, name, "annotator")[0] for name in ("ann", "ben"))
    submit_caption(service, ann, service.next("write", ann)["item"], CAPTION, new_key())
    with service.store.read() as connection:
        old = connection.execute(select(captions.c.id)).scalar_one()
    service.undo(ann, "write", "undo-00000007")
    submit_caption(service, ben, service.next("write", ben)["item"], CAPTION, new_key())
    with service.store.read() as connection:  # an inspector may have the old caption on the screen
        assert connection.execute(select(captions.c.id)).scalar_one() > old


def test_drafts_survive(service: AnnotationService) -> None:
    person = join(service, "ann", "annotator")[0]
    item = service.next("write", person)["item"]
    service.save_draft(person, item, "half a sent")
    assert service.next("write", person)["draft"] == "half a sent"
    submit_caption(service, person, item, CAPTION, new_key())
    with service.store.read() as connection:
        assert not connection.execute(select(drafts)).all()


@pytest.mark.parametrize(
    ("caption", "rule"),
    [
        ("a dog", 5),
        ("There is a dog that runs over a very green field", 6),
        ("a man says hello to his friend in the street now", 3),
        ("a man who will ride his horse over the green field", 2),
        ("a view of Paris with many people and cars outside", 4),
        ("maybe a dog or a cat that sleeps on the sofa", 1),
    ],
)
def test_rules_are_noticed(caption: str, rule: int) -> None:
    assert rule in [hint.rule for hint in check(caption)]


def test_a_good_caption_gets_no_hint() -> None:
    assert check("A man in a T-shirt rides a brown horse on the beach.") == []
    assert len(RULES) == 7
