"""METEOR's `-norm`: Moses-like normalisation that keeps punctuation, then lower-casing and splitting at blanks.

The rules are applied in the order of the original, each as one substitution over the whole line. A substitution
consumes the characters it matched, so overlapping contexts ("a-b-c") are only rewritten at every other place, exactly
as the original does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

NUMERIC_ONLY = "#NUMERIC_ONLY#"

_ALPHA = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e\u0400-\u0527\u1d00-\u1d7f\ua640-\ua66e\ua67e-\ua697"
_ALNUM = _ALPHA + "0-9"
_SPACE = " \t\n\x0b\f\r"  # what the original calls white space
_CONTROL = "".join(map(chr, range(33)))  # the original trims these from both ends
_DOT = "\ud800"  # stands for a dot of a run such as "..."; a lone surrogate cannot occur in the input

_PLAIN = re.compile(r"[a-z0-9 ]*").fullmatch
_RULES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(f"([^{_ALNUM}{_SPACE}.'`,\\-‘’])"), r" \1 "),
    (re.compile(r"\.{2,}"), lambda run: f" {_DOT * len(run[0])} "),
    (re.compile(r"([^0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([^0-9]),([0-9])"), r"\1 , \2"),
    (re.compile("[`‘’]"), "'"),
    (re.compile("[“”]|''"), ' " '),
    (re.compile("–|--"), "-"),
    (re.compile(f"([{_ALNUM}.])-([{_ALNUM}])"), r"\1 \2"),
    (re.compile(f"([^{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(f"([^{_ALNUM}])'([{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(f"([{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(f"([{_ALPHA}])'([{_ALPHA}])"), r"\1 '\2"),
    (re.compile(r"([0-9])'(s)"), r"\1 '\2"),
]
_BLANKS = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")  # words of their own until the very end
_SPLIT = re.compile("[ \t\n\r\f]+").split
_HAS_LETTER = re.compile(f"[{_ALPHA}]").search


def normalize(line: str, prefixes: Mapping[str, bool]) -> list[str]:
    """The words METEOR compares: normalised, lower-cased, split at blanks.

    `prefixes` are words after which a dot does not end a sentence; its value tells whether that holds only before a
    number.

    >>> normalize("a man in a t-shirt doesn't eat 3/4 of it", {})
    ['a', 'man', 'in', 'a', 't', 'shirt', 'doesn', "'t", 'eat', '3', '/', '4', 'of', 'it']
    """
    if _PLAIN(line):
        return line.split()  # most tokenised captions: no rule applies
    line = f" {line.encode('utf-16', 'replace').decode('utf-16') if _DOT in line else line} "
    for pattern, replacement in _RULES:
        line = pattern.sub(replacement, line)
    words = _words(line)
    tokens = [_dotted(word, words[k + 1] if k + 1 < len(words) else "", prefixes) for k, word in enumerate(words)]
    line = _BLANKS.sub(" ", " ".join(tokens)).strip(_CONTROL)
    return _words(line.replace(_DOT, ".").lower())


def _words(line: str) -> list[str]:
    return [word for word in _SPLIT(line) if word]


def _dotted(word: str, following: str, prefixes: Mapping[str, bool]) -> str:
    """Decide what becomes of the dot at the end of a word: dropped, kept, or a word of its own."""
    if len(word) < 2 or not word.endswith("."):
        return word
    stem = word[:-1]
    if "." in stem and _HAS_LETTER(stem):
        return word.replace(".", "")  # an abbreviation: u.s. -> us
    if stem in prefixes and (not prefixes[stem] or "0" <= following[:1] <= "9"):
        return word
    return word if "a" <= following[:1] <= "z" else f"{stem} ."
