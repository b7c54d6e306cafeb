"""The rounds of an annotation: qualification, writing, inspection and judging, each in a module of its own.

`registry` lists them, `base` defines what a round is, `assignment` gives items to people.
"""

from captrial.annotate.rounds.base import AnnotationRound, AnswerForm
from captrial.annotate.rounds.registry import QUALIFICATION, ROUNDS, get_round, open_rounds, rounds_of

__all__ = ["QUALIFICATION", "ROUNDS", "AnnotationRound", "AnswerForm", "get_round", "open_rounds", "rounds_of"]
