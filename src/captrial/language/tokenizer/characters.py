"""What the tokeniser takes each character for.

The grammar is written for kinds of characters (letters, figures, quotation marks ...), and Unicode has many of each.
So a caption is first rewritten character by character into a *shadow*, where every character outside ASCII has become
the stand-in of its kind. The grammar runs on the shadow; the tokens are then cut out of the caption itself, at the
same places. The kinds below were measured: every character of the basic plane was given to the reference tokeniser in
a handful of contexts and sorted by what came out.
"""

from __future__ import annotations

LETTER = "é"
MARK = "\u0301"  # accents, vowel signs: letters inside words, but not in hyphenated or dotted things
FIGURE = "٠"  # digits of other scripts
SOFT_HYPHEN = "\xad"
SEPARATOR = "٫"  # Arabic decimal and thousands separators
HYPHEN = "‐"
APOSTROPHE = "’"
TURNED_COMMA = "‘"
QUOTE = "“"
DASH = "–"
ELLIPSIS = "…"
NEXT_LINE = "\x85"  # an ellipsis too, after the code page of Windows, but what is before it ends there
SUPERSCRIPT = "²"
SUBSCRIPT = "₂"
SCRIPT_SIGN = "⁺"
FRACTION_SLASH = "⁄"
BLANK = "\u2003"
HARD_BLANK = "\xa0"
SIGN = "§"  # a token of its own
NOTHING = "\0"  # dropped by the reference as something it cannot tokenise
WIDE = "\1"  # the same beyond the basic plane, where the reference sees two characters

_SPECIAL = {
    APOSTROPHE: "\x92’",
    TURNED_COMMA: "\x91‘‛",
    QUOTE: "\x93\x94“”‚„‟‹›«»",
    DASH: "\x96\x97–—―",
    ELLIPSIS: ELLIPSIS,
    NEXT_LINE: NEXT_LINE,
    HYPHEN: "֊‐‑",
    SUPERSCRIPT: "⁰¹²³⁴⁵⁶⁷⁸⁹",
    SUBSCRIPT: "₀₁₂₃₄₅₆₇₈₉",
    SCRIPT_SIGN: "⁺⁻₊₋",
    SEPARATOR: "٫٬",
    SOFT_HYPHEN: SOFT_HYPHEN,
    FRACTION_SLASH: FRACTION_SLASH,
    HARD_BLANK: HARD_BLANK,
    "\t": "\t",
    BLANK: "\u3000" + "".join(map(chr, range(0x2000, 0x200B))),
    SIGN: "\x80¢£¤€₠¼½¾⅓⅔",
    LETTER: "\u1885\u1886",  # letters then, marks since
}

# Letters and digits that Unicode gained after the reference was built; it drops them.
_NEWER = (
    "37f 528-52f 560 588 5ef 860-88e 8a1 8ad-8c9 978 980 9fc af9 c34 c5a-c5d c80 cdd d04 d54-d5f de6-def e86 e89 e8c "
    "e8e-e93 e98 ea0 ea8-ea9 eac 13f5-13fd 16f1-16f8 170d 171f 1878 191d-191e 19b0-19c0 19c8-19c9 1b4c 1c80-1cbf "
    "1cf2-1cf3 1cfa 2c2f 2c5f 312e-312f 31bb-31bf 4db6-4dbf 9fcd-9fff a698-a69d a78f a794-a79f a7ab-a7f7 a8fd-a8fe "
    "a9e0-a9fe aa7e-aa7f ab30-abbf"
)
_MARKS = (
    "2c2-379 384-385 3f6 483-487 55a-55f 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7 615-61a 64b-65e 670 6d6-6fe 70f-7b0 7eb-7f3 "
    "900-903 93c-94e 951-955 962-963 981-983 9bc-9c4 9c7-9c8 9cb-9cd 9d7 9e2-9e3 a01-a03 a3c a3e-a4f a81-a83 abc-acf "
    "b82 bbe-bc2 bc6-bc8 bca-bcd c01-c03 c3e-c56 d3e-d44 d46-d48 e31-e3a e47-e4e eb1-ebc ec8-ecd"
)
_SIGNS = (
    "a1-37e 387 589 5be-5c6 5f3-5f4 600-603 606-60c 614-61b 61e-61f 66a-70d 7f6-7f8 964-965 e3f-e4f 1fbd 2016-2023 "
    "2030-203b 203e-2042 207a-208e 20a4 2100-214f 2155-215e 2190-2bff 3001-3002 3012 30fb ff01-ff65 ffe0-ffe1 ffe5-ffe6"
)


def _ranges(table: str) -> list[range]:
    bounds = [span.split("-") for span in table.split()]
    return [range(int(span[0], 16), int(span[-1], 16) + 1) for span in bounds]


_newer, _marks, _signs = map(_ranges, (_NEWER, _MARKS, _SIGNS))


def _kind(code: int) -> str:
    if code > 0xFFFF:
        return WIDE
    if any(code in span for span in _newer):
        return NOTHING
    if chr(code).isdecimal():
        return FIGURE
    if chr(code).isalpha():
        return LETTER
    if any(code in span for span in _marks):
        return MARK
    return SIGN if any(code in span for span in _signs) else NOTHING


class _Shadow(dict[int, str]):
    """A `str.translate` table that fills itself."""

    def __missing__(self, code: int) -> str:
        self[code] = kind = _kind(code)
        return kind


_SHADOW = _Shadow({code: chr(code) for code in range(32, 127)})
_SHADOW.update({ord(character): kind for kind, characters in _SPECIAL.items() for character in characters})


def shadow(text: str) -> str:
    """The text with every character outside ASCII replaced by the stand-in of its kind; same length.

    >>> shadow("naïve – ½")
    'naéve – §'
    """
    return text.translate(_SHADOW)
