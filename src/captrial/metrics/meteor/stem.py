"""The Snowball English stemmer (Porter2) as it was when METEOR 1.5 was released.

Later versions of Snowball changed rules (new exceptions, "-ogist", ...), so current packages do not give the same
stems. The algorithm is described at https://snowballstem.org/algorithms/english/stemmer.html; step numbers are theirs.
"""

from __future__ import annotations

import re

_IRREGULAR = {
    "skis": "ski",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
} | {word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")}
_FINISHED = {"inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"}

_CONSONANT_Y = re.compile(r"(^|[aeiouy])y")
_REGION = re.compile(r"[aeiouy][^aeiouy]")  # a region starts after the first non-vowel that follows a vowel
_REGION_1 = re.compile(r"gener|commun|arsen")
_HAS_VOWEL = re.compile(r"[aeiouy]").search
_SHORT_SYLLABLE = re.compile(r"(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy])$").search
_DOUBLED = {letter * 2 for letter in "bdfgmnprt"}


def _longest_first(*rules: dict[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Endings and their replacements, filed under the last two letters, the longest first."""
    filed: dict[str, list[tuple[str, str]]] = {}
    for ending, new in sorted((item for rule in rules for item in rule.items()), key=lambda item: -len(item[0])):
        filed.setdefault(ending[-2:], []).append((ending, new))
    return filed


_STEP_2 = _longest_first(
    {"tional": "tion", "enci": "ence", "anci": "ance", "abli": "able", "entli": "ent", "izer": "ize"},
    {"ization": "ize", "ational": "ate", "ation": "ate", "ator": "ate", "alism": "al", "aliti": "al", "alli": "al"},
    {"fulness": "ful", "ousli": "ous", "ousness": "ous", "iveness": "ive", "iviti": "ive", "biliti": "ble"},
    {"bli": "ble", "ogi": "og", "fulli": "ful", "lessli": "less", "li": ""},
)
_STEP_3 = _longest_first(
    {"tional": "tion", "ational": "ate", "alize": "al", "icate": "ic", "iciti": "ic", "ical": "ic"},
    {"ful": "", "ness": "", "ative": ""},
)
_STEP_4 = _longest_first(
    dict.fromkeys(("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"), ""),
    dict.fromkeys(("ism", "ate", "iti", "ous", "ive", "ize", "ion"), ""),
)


def stem(word: str) -> str:
    """The stem of a lower-cased word.

    >>> [stem(word) for word in ("running", "skies", "happily", "generously")]
    ['run', 'sky', 'happili', 'generous']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = word.removeprefix("'")
    if "y" in word:
        word = _CONSONANT_Y.sub(r"\1Y", word)  # a y that is no vowel
    first, second = _regions(word)
    word = _step_1a(_step_0(word))
    if word not in _FINISHED:
        word = _step_1c(_step_1b(word, first))
        word = _step_2(word, first)
        word = _step_3(word, first, second)
        word = _step_5(_step_4(word, second), first, second)
    return word.replace("Y", "y")


def _regions(word: str) -> tuple[int, int]:
    """Where R1 and R2 begin."""
    match = _REGION_1.match(word) or _REGION.search(word)
    if not match:
        return len(word), len(word)
    second = _REGION.search(word, match.end())
    return match.end(), second.end() if second else len(word)


def _step_0(word: str) -> str:
    if "'" not in word:
        return word
    for ending in ("'s'", "'s", "'"):
        if word.endswith(ending):
            return word[: -len(ending)]
    return word


def _step_1a(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _HAS_VOWEL(word, 0, len(word) - 2):
        return word[:-1]
    return word


def _step_1b(word: str, first: int) -> str:
    if word[-2:] not in {"ly", "ed", "ng"}:
        return word
    for ending in ("eedly", "ingly", "edly", "eed", "ing", "ed"):
        if word.endswith(ending):
            break
    else:
        return word
    base = word[: -len(ending)]
    if ending.startswith("eed"):
        return base + "ee" if len(base) >= first else word
    if not _HAS_VOWEL(base):
        return word
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if base[-2:] in _DOUBLED:
        return base[:-1]
    return base + "e" if len(base) <= first and _SHORT_SYLLABLE(base) else base


def _step_1c(word: str) -> str:
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in "aeiouy":
        return word[:-1] + "i"
    return word


def _step_2(word: str, first: int) -> str:
    for ending, new in _STEP_2.get(word[-2:], ()):
        if word.endswith(ending):
            base = word[: -len(ending)]
            before = {"li": "cdeghkmnrt", "ogi": "l"}.get(ending)  # letters that must come before these two
            allowed = len(base) >= first and (before is None or (base != "" and base[-1] in before))
            return base + new if allowed else word
    return word


def _step_3(word: str, first: int, second: int) -> str:
    for ending, new in _STEP_3.get(word[-2:], ()):
        if word.endswith(ending):
            start = len(word) - len(ending)
            return word[:start] + new if start >= (second if ending == "ative" else first) else word
    return word


def _step_4(word: str, second: int) -> str:
    for ending, _ in _STEP_4.get(word[-2:], ()):
        if word.endswith(ending):
            base = word[: -len(ending)]
            allowed = len(base) >= second and (ending != "ion" or base.endswith(("s", "t")))
            return base if allowed else word
    return word


def _step_5(word: str, first: int, second: int) -> str:
    base = word[:-1]
    if word.endswith("e"):
        drop = len(base) >= second or (len(base) >= first and not _SHORT_SYLLABLE(base))
    else:
        drop = word.endswith("ll") and len(base) >= second
    return base if drop else word
