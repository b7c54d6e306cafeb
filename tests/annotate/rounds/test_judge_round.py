"""The judging round: no model names, and every judgement goes to the right model."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from annotate.annotation_world import join, make_competition, new_key, submit_judgement
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, write_settings
from captrial.compete.competition import Competition
from captrial.errors import InputError, StateError


def test_judging_is_blind_and_feeds_the_competition(service: AnnotationService) -> None:
    with service.store.change() as connection:
        write_settings(service.store, connection, AnnotationSettings(judges=1))
        service.refresh_images(connection)
    person = join(service, "ann", "annotator")[0]
    following = service.next("judge", person)
    count = 0
    while following["item"] is not None:
        standing = {"done", "left", "minutes", "together"}
        assert set(following) == {"round", "item", "expires", "image", "captions"} | standing  # no model names
        following = submit_judgement(
            service, person, following["item"], ("left", "right", "tie")[count % 3], new_key()
        )["next"]
        count += 1
    service.write_files()
    judgements = Competition.open(service.directory).judgements()
    assert len(judgements) == count == sum(len(part.images) for part in service.competition.selections().values())


def test_the_left_caption_is_credited_to_the_right_model(service: AnnotationService) -> None:
    with service.store.change() as connection:
        write_settings(service.store, connection, AnnotationSettings(judges=2))
        service.refresh_images(connection)
    for name in ("ann", "ben"):
        person = join(service, name, "annotator")[0]
        following = service.next("judge", person)
        while following["item"] is not None:
            prefers_left = following["captions"][0] <= following["captions"][1]
            following = submit_judgement(
                service, person, following["item"], "left" if prefers_left else "right", new_key()
            )["next"]
    service.write_files()
    competition = Competition.open(service.directory)
    for judgement in competition.judgements():
        said = competition.captions_of(judgement.image)
        if said[judgement.first] != said[judgement.second]:
            assert judgement.outcome == float(said[judgement.first] <= said[judgement.second])


def test_models_called_a_and_b_keep_their_judgements(tmp_path: Path) -> None:
    """The page shows positions; what is stored and what `compete` reads are names."""
    directory = make_competition(tmp_path, names=("b", "a", "tie"))
    with closing(AnnotationService(directory)) as service:
        service.change_settings({"writers": 0, "judges": 1})
        person = join(service, "ann", "annotator")[0]
        following = service.next("judge", person)
        while following["item"] is not None:  # prefers the model a, then tie, by their captions
            said = service.competition.captions_of(service.image_id(following["image"]) or "")
            places = [[said[name] for name in ("a", "tie", "b")].index(text) for text in following["captions"]]
            winner: Literal["left", "right"] = "left" if places[0] < places[1] else "right"
            answer = submit_judgement(service, person, following["item"], winner, new_key())
            following = answer["next"]
    competition = Competition.open(directory)
    judgements = competition.judgements()
    assert len(judgements) == 12
    assert all(one.complete and one.annotator for one in judgements)
    assert {one.first for one in judgements} == {"a", "b", "tie"}  # either model was on the left
    ranking = [row["model"] for row in competition.rank_preferences().rows()]
    assert ranking == ["a", "tie", "b"]


def test_writing_can_be_turned_off(service: AnnotationService) -> None:
    service.change_settings({"writers": 0, "judges": 2})
    person = join(service, "ann", "annotator")[0]
    with pytest.raises(StateError, match="not part of this experiment"):
        service.next("write", person)
    inspector = join(service, "ina", "inspector")[0]
    with pytest.raises(StateError, match="not part of this experiment"):
        service.next("inspect", inspector)
    assert service.next("judge", inspector)["item"] is not None
    assert [part.round for part in service.report()["progress"]] == ["judge"]
    with pytest.raises(InputError, match="something to do"):
        service.change_settings({"judges": 0})


def test_an_image_is_complete_when_all_its_pairs_have_their_judges(service: AnnotationService) -> None:
    service.change_settings({"writers": 0, "judges": 2})
    for name, complete in (("ann", False), ("ben", True)):
        person = join(service, name, "annotator")[0]
        following = service.next("judge", person)
        while following["item"] is not None:
            following = submit_judgement(service, person, following["item"], "tie", new_key())["next"]
        service.write_files()
        judgements = Competition.open(service.directory).judgements()
        assert {one.complete for one in judgements} == {complete}
