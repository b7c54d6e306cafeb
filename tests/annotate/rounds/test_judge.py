"""The judging round: no model names, and every judgement goes to the right model."""

from __future__ import annotations

from annotate.annotation_world import join, new_key, submit_judgement
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, write_settings
from captrial.compete.competition import Competition


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
