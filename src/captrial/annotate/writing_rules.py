"""COCO's writing rules, shown to people and checked where a program can. A hint can be overridden; it is not a wall."""

from __future__ import annotations

import re
from dataclasses import dataclass

MIN_WORDS = 8

RULES = (
    "Describe all the important parts of the image.",
    "Do not describe unimportant details.",
    "Do not describe things that might have happened before or may happen after.",
    "Do not describe what a person in the image might say.",
    "Do not give people or places proper names.",
    f"Write at least {MIN_WORDS} words.",
    'Do not start with "There is".',
)


@dataclass(frozen=True, slots=True)
class Hint:
    """What a rule has to say about a sentence."""

    rule: int  # index in RULES
    text: str


_FUTURE = re.compile(r"\b(will|going to|about to|gonna|used to|had been|just finished|preparing to|getting ready to)\b")
_SPEECH = re.compile(r"[\"“”«»]|\b(says?|saying|said|shouts?|shouting|asks?|asking)\b")
_GUESS = re.compile(r"\b(maybe|perhaps|probably|possibly|might be|could be|i think|i see|looks like)\b")
_START = re.compile(r"\s*there\s*('s|’s|is|are)\b", re.IGNORECASE)


def check(sentence: str) -> list[Hint]:
    """The hints for a sentence, in the order of the rules.

    >>> [hint.rule for hint in check("There is a dog")]
    [5, 6]
    """
    lower = sentence.lower()
    hints = []
    if guess := _GUESS.search(lower):
        hints.append(Hint(1, f"“{guess.group()}” sounds like a guess: say only what can be seen."))
    if future := _FUTURE.search(lower):
        hints.append(Hint(2, f"“{future.group()}” speaks of another moment: describe what can be seen now."))
    if _SPEECH.search(lower):
        hints.append(Hint(3, "Do not quote or guess what somebody says."))
    if names := _proper_names(sentence):
        hints.append(Hint(4, f"“{names[0]}” looks like a proper name: say what kind of thing it is."))
    words = count_words(sentence)
    if words < MIN_WORDS:
        hints.append(Hint(5, f"{words} of at least {MIN_WORDS} words."))
    if _START.match(sentence):
        hints.append(Hint(6, "Start with what is there, not with “There is”."))
    return hints


def count_words(sentence: str) -> int:
    """Words as people count them."""
    return len(re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", sentence))


def _proper_names(sentence: str) -> list[str]:
    """Capitalised words that do not begin a sentence, acronyms and "I" aside."""
    inner = re.sub(r"(^|[.!?]\s+)\W*\w+", " ", sentence)
    return re.findall(r"\b[A-Z][a-z]+\b", inner)
