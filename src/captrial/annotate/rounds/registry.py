"""The annotation rounds. A new round is one more class in `ROUNDS` (see `base.py` for what it must define)."""

from __future__ import annotations

from captrial.annotate.accounts import Person
from captrial.annotate.rounds.base import AnnotationRound
from captrial.annotate.rounds.inspect import InspectRound
from captrial.annotate.rounds.judge_round import JudgeRound
from captrial.annotate.rounds.qualification import Qualification
from captrial.annotate.rounds.write import WriteRound
from captrial.annotate.settings import AnnotationSettings
from captrial.errors import InputError

QUALIFICATION = Qualification()  # comes before all others, where the lead has given images for it
ROUNDS: dict[str, AnnotationRound] = {
    round_.name: round_
    for round_ in (
        WriteRound(),
        InspectRound(),
        JudgeRound(),
    )
}


def get_round(name: str) -> AnnotationRound:
    """The round of that name; raises `InputError` where there is none."""
    if name not in ROUNDS:
        raise InputError(f"there is no round {name!r}; the rounds are: {', '.join(ROUNDS)}")
    return ROUNDS[name]


def open_rounds(settings: AnnotationSettings) -> list[AnnotationRound]:
    """The rounds that are part of the experiment."""
    return [round_ for round_ in ROUNDS.values() if round_.people_wanted(settings)]


def rounds_of(person: Person, settings: AnnotationSettings) -> list[AnnotationRound]:
    """The rounds a person takes part in."""
    return [round_ for round_ in open_rounds(settings) if person.role in round_.roles_with(settings)]
