"""The qualification: feedback, a second try, and nobody takes part without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from annotate.annotation_world import CAPTION, join
from captrial.annotate import accounts
from captrial.annotate.rounds.qualification import set_images
from captrial.annotate.service import AnnotationService
from captrial.errors import InputError, StateError


def test_qualification_teaches_and_gates(service: AnnotationService) -> None:
    with service.store.change() as connection:
        set_images(
            service.store, connection, {"q1": [CAPTION], "q2": ["a small red car parked near an old brick house"]}
        )
    person, _ = join(service, "ann", "annotator", ready=False)
    with service.store.change() as connection:
        accounts.consent(service.store, connection, person.id)
    person = replace(person, consented=True)
    with pytest.raises(StateError, match="qualification"):
        service.next("write", person)
    for text, good in (("There is a horse", False), ("a small red car stands near a house made of brick", True)):
        answer = service.submit_practice(person, service.next_practice(person)["item"], text)
        assert answer["good"] is good
    assert answer["progress"]["failed"]  # 1 of 2 is under 0.7; try again
    for text in ("a brown horse is standing in a very green field", "a small red car stands near a house of brick"):
        answer = service.submit_practice(person, service.next_practice(person)["item"], text)
    assert answer["progress"]["qualified"]
    with service.store.read() as connection:
        assert accounts.by_id(connection, person.id) == replace(person, qualified=True)
    with service.store.change() as connection, pytest.raises(InputError, match="in the competition"):
        set_images(service.store, connection, {service.competition.selected_images()[0]: [CAPTION]})
