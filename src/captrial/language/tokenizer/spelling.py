"""How a token is written down, given how it stood in the caption."""

from __future__ import annotations

import re

_ENTITY = re.compile("&(?:amp|lt|gt|quot|apos|nbsp);", re.IGNORECASE)
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": "''", "&apos;": "'", "&nbsp;": ""}
_QUOTES = str.maketrans(
    {"‘": "`", "‛": "`", "\x91": "`", "‹": "`", "’": "'", "\x92": "'", "›": "'"}
    | {"“": "``", "\x93": "``", "«": "``", "”": "''", "\x94": "''", "»": "''"}
)
_JOINED = str.maketrans({" ": "\xa0", "(": "-lrb-", ")": "-rrb-"})
_SIGNS = dict(zip("()[]{}", ["-lrb-", "-rrb-", "-lsb-", "-rsb-", "-lcb-", "-rcb-"], strict=True))
_SIGNS |= dict(zip("¼½¾⅓⅔", ["1/4", "1/2", "3/4", "1/3", "2/3"], strict=True))
_SIGNS |= {'"': "''", "¢": "cents", "£": "#"} | dict.fromkeys("¤€\x80₠", "$")
_SIGNS |= dict.fromkeys("\x96\x97–—―", "--") | dict.fromkeys("\x85…", "...")
_SIGNS |= dict.fromkeys("֊‐‑٫٬", "")  # of use inside things and numbers only


def nothing(_: str) -> str:
    """Blanks, and what cannot be tokenised."""
    return ""


def word(token: str) -> str:
    """Without soft hyphens; a lone soft hyphen is a hyphen."""
    return token.replace("\xad", "") or "-"


def halves(token: str) -> str:
    """`cannot` is two tokens, and so are its like; all of them part after three letters."""
    return f"{token[:3]} {token[3:]}"


def joined(token: str) -> str:
    """A token with blanks or brackets inside stays one: hard blanks, Treebank brackets."""
    return token.translate(_JOINED)


def tag(token: str) -> str:
    """A tag is one token, whatever it holds."""
    return token.replace(" ", "\xa0")


def dash(token: str) -> str:
    """Up to four hyphens are a dash, and a row of full stops an ellipsis."""
    if token[0] == ".":
        return "..."
    return token if token == "-" or (len(token) > 4 and token[0] == "-") else "--"


def entities(token: str) -> str:
    """Character references as characters."""
    return _ENTITY.sub(lambda match: _ENTITIES[match[0].lower()], token)


def quote(token: str) -> str:
    """Quotation marks and apostrophes in ASCII."""
    return entities(token).translate(_QUOTES)


def sign(character: str) -> str:
    """A character that is a token by itself."""
    return _SIGNS.get(character, character)
