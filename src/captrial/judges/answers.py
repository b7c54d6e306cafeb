"""Answers of a judge: which caption is better, or a grade; what has not the right form is counted and asked again."""

from __future__ import annotations

import json
from dataclasses import dataclass

from captrial.captioners.chat_client import plain_text
from captrial.errors import CaptrialError

CHOICES = {"pairs": ("first", "second", "tie"), "grade": tuple(map(str, range(11)))}
_LONGEST = 2000  # characters of a reason


class BadAnswerError(CaptrialError):
    """An answer that is not a verdict; `kind` is what it is counted as."""

    def __init__(self, kind: str, shown: str) -> None:
        super().__init__(kind, shown)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.args[1]}"


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """An answer of the right form: which caption is better (or the grade of the only one), and why."""

    choice: str  # "first", "second" or "tie"; or a grade, "0" to "10"
    reason: str = ""


def read_answer(text: str, mode: str) -> JudgeAnswer:
    """Read an answer; a `BadAnswerError` where it has not the right form. Text around a JSON object is ignored.

    Of several objects (a model that reasons aloud may write some) the last counts.

    >>> read_answer('```json\\n{"reason": "no dog", "better": "second"}\\n```', "pairs").choice
    'second'
    """
    end = text.rfind("}")
    found = None
    for start in (text.find("{"), text.rfind("{", 0, end)):
        try:
            found = json.loads(text[start : end + 1]) if found is None and 0 <= start < end else found
        except (ValueError, RecursionError):
            found = None
    if not isinstance(found, dict):
        raise BadAnswerError("not JSON", text[:200])
    reason = found.get("reason")
    cleaned = plain_text(reason)[:_LONGEST] if isinstance(reason, str) else ""
    return JudgeAnswer(_choice(found, mode), cleaned)


def _choice(found: dict[str, object], mode: str) -> str:
    if mode == "grade":
        grade = found.get("grade")
        if isinstance(grade, int) and not isinstance(grade, bool) and 0 <= grade <= 10:
            return str(grade)
        raise BadAnswerError("no such grade", repr(grade)[:100])
    better = found.get("better")
    if isinstance(better, str) and better.strip().lower() in CHOICES["pairs"]:
        return better.strip().lower()
    raise BadAnswerError("no such choice", repr(better)[:100])
