"""The grammar of Penn Treebank tokens, on shadows of captions (see `characters`), and how each token is spelled.

At every place the rule that reaches furthest wins, the earlier one among equals. What follows a token can belong to
its rule without belonging to the token (its *context*): it counts for the reach.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_letters
from typing import NamedTuple

# Words around which a full stop is not simply the end of a sentence: what the reference tokeniser knows, found by
# giving it every string of up to five letters and 400 000 words.
#
# These may close a sentence, so the reference looks two characters further before it decides, and by that longer reach
# they win over a word: "inc.x" is "inc." and "x", but "mr.x" is one word.
_CLOSING = """
    al ala apr ariz assn aug bancorp bhd bldg blvd bros calif co colo conn corp cos ct dak dec esq est etc ext feb fla
    fri ga inc ind intl jan jr jul jun kan kans ky ltd mar md mich minn mo mon mont neb nev nov oct okla penn plc rd rt
    sep sept seq sq sr sys tel tenn thu thurs tue tues univ va vt wed wis wisc wyo
"""
_CAPITALISED = "az ark del ill la mass miss ore pa tex wash"  # words unless they have a capital: "ill." is not a state
# These occur before a name or inside a phrase.
_LEADING = """
    adj adm adv alex assoc asst atty attys ave brig capt cf cie cmdr col comdr cpl dept det dr drs elec ens ft gen gov
    govs hon insp invt jos lieut lt maj messrs mlle mme mr mrs ms msgr mt natl pfc ph pres prof profs pvt rep reps rev
    sen sens sfc sgt spc st ste supt supts treas vs wm
"""
_NUMBERED = "art arts ca fig figs no nos op pp prop"  # only before a figure: "no. 5"
# A letter with a full stop is an initial, unless one of these starts a sentence after it.
_OPENERS = r"""
    a about according additionally after an as at but earlier he her here however if in it last many more mr\. ms\. now
    once one other our she since so some such that the their then there these they this we what when while yet you
"""
_ODD_CASE = "mfg mtg pte ptes pty ptys ppte pptes ppty pptys"


def _any_of(words: str) -> str:
    return f"(?i:{'|'.join(words.split())})"


CLOSING = rf"(?:{_any_of(_CLOSING)}|(?=[A-Z]){_any_of(_CAPITALISED)}|[pP]{{1,2}}[tT][ey][sS]?|(?i:ph\.d))"
LEADING = f"(?:{_any_of(_LEADING)}|[mM][ft][gG])"
NUMBERED = _any_of(_NUMBERED)
OPENERS = f"(?=[A-Z]){_any_of(_OPENERS)}"
STOPPED = frozenset(f"{_CLOSING} {_CAPITALISED} {_LEADING} {_NUMBERED} {_ODD_CASE}".split())
"""Every word after which a full stop needs a closer look, in lower case; single letters are not listed."""


_ENTITY = re.compile("&(?:amp|lt|gt|quot|apos|nbsp);", re.IGNORECASE)
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": "''", "&apos;": "'", "&nbsp;": ""}
_ASCII_QUOTES = str.maketrans(
    {"‘": "`", "‛": "`", "\x91": "`", "‹": "`", "’": "'", "\x92": "'", "›": "'"}
    | {"“": "``", "\x93": "``", "«": "``", "”": "''", "\x94": "''", "»": "''"}
)
_JOINED = str.maketrans({" ": "\xa0", "(": "-lrb-", ")": "-rrb-"})
_SPELLED_SIGNS = dict(zip("()[]{}", ["-lrb-", "-rrb-", "-lsb-", "-rsb-", "-lcb-", "-rcb-"], strict=True))
_SPELLED_SIGNS |= dict(zip("¼½¾⅓⅔", ["1/4", "1/2", "3/4", "1/3", "2/3"], strict=True))
_SPELLED_SIGNS |= {'"': "''", "¢": "cents", "£": "#"} | dict.fromkeys("¤€\x80₠", "$")
_SPELLED_SIGNS |= dict.fromkeys("\x96\x97–—―", "--") | dict.fromkeys("\x85…", "...")
_SPELLED_SIGNS |= dict.fromkeys("֊‐‑٫٬", "")  # of use inside things and numbers only


def _spell_nothing(_: str) -> str:
    """Blanks, and what cannot be tokenised."""
    return ""


def _spell_word(token: str) -> str:
    """Without soft hyphens; a lone soft hyphen is a hyphen."""
    return token.replace("\xad", "") or "-"


def _spell_halves(token: str) -> str:
    """`cannot` is two tokens, and so are its like; all of them part after three letters."""
    return f"{token[:3]} {token[3:]}"


def _spell_joined(token: str) -> str:
    """A token with blanks or brackets inside stays one: hard blanks, Treebank brackets."""
    return token.translate(_JOINED)


def _spell_tag(token: str) -> str:
    """A tag is one token, whatever it holds."""
    return token.replace(" ", "\xa0")


def _spell_dash(token: str) -> str:
    """Up to four hyphens are a dash, and a row of full stops an ellipsis."""
    if token[0] == ".":
        return "..."
    return token if token == "-" or (len(token) > 4 and token[0] == "-") else "--"


def _spell_entities(token: str) -> str:
    """Character references as characters."""
    return _ENTITY.sub(lambda match: _ENTITIES[match[0].lower()], token)


def _spell_quote(token: str) -> str:
    """Quotation marks and apostrophes in ASCII."""
    return _spell_entities(token).translate(_ASCII_QUOTES)


def spell_sign(character: str) -> str:
    """A character that is a token by itself."""
    return _SPELLED_SIGNS.get(character, character)


Spelling = Callable[[str], str]


class TokenRule(NamedTuple):
    """One kind of token: group 1 of the pattern is the token, what comes after it is context."""

    pattern: re.Pattern[str]
    spell: Spelling


def _rule(token: str, context: str = "", spell: Spelling = str) -> TokenRule:
    return TokenRule(re.compile(f"({token}){context}"), spell)


# Quantifiers are possessive (`*+`) where giving back cannot help, lest odd input take long. Case-blind groups are
# safe: a shadow has no letters outside ASCII but the stand-ins.
_LATIN, _PLAIN = "[A-Za-z]", "[A-Za-z0-9]"
_LETTER, _ALNUM, _FIGURE = "[A-Za-zé]", "[A-Za-zé0-9٠]", "[0-9٠]"
_GAP = r"[ \t\xa0\u2003\n\x85]"  # a blank or the end of a line
_APOSTROPHE, _ANY_APOSTROPHE = "(?:['’]|&apos;)", "(?:['’‘`]|&apos;)"
_AND = "&(?i:amp;)?"

# Words: letters, accents and figures, also with . ! ? between two parts.
_WORD_LETTER = r"(?:[A-Za-zé\u0301\xad]|&[aeiouAEIOU](?:acute|grave|uml);)"
_PART = rf"{_WORD_LETTER}(?:{_WORD_LETTER}|{_FIGURE})*+"
_WORD = rf"{_PART}(?:[.!?]{_PART})*+"
_CLITIC = f"{_APOSTROPHE}(?i:[msd]|re|ve|ll)"
_NOT = f"[nN]{_ANY_APOSTROPHE}[tT]"
WORDS = [
    _rule("(?i:cannot|gonna|gotta|lemme|gimme|wanna)", spell=_spell_halves),
    _rule(_WORD, _CLITIC, _spell_word),
    _rule(r"[A-Za-z\xad]*[A-MO-Za-mo-z]\xad*", _NOT, _spell_word),
    _rule(_WORD, spell=_spell_word),
]
ELISIONS = [
    _rule(f"[lLdDjJ]{_APOSTROPHE}|(?i:dunkin|somethin|ol){_APOSTROPHE}"),
    _rule(f"[A-HJ-XZn]{_ANY_APOSTROPHE}{_LETTER}{{2,}}"),  # O'Neil
    _rule(f"{_LETTER}+[aeiouyAEIOUY]{_ANY_APOSTROPHE}[aeiouA-Z]{_LETTER}*"),  # Hawai'i
    _rule(rf"(?i:nor'easter|c'mon|c'est|s'mores|ev'ry|li'l|nat'l|cont'd\.|e'er|cap{_APOSTROPHE}n)"),
    _rule(f"[oO]{_ANY_APOSTROPHE}(?i:er|o)"),
    _rule(f"[yY]{_APOSTROPHE}", _LETTER),
    _rule(_NOT, spell=_spell_quote),
]

# Things: words and figures tied together by hyphens, strokes and the like.
_LIAISON = f"(?:[dDoOlL]{_ANY_APOSTROPHE}{_ALNUM})?{_ALNUM}+"
_THING = f"{_LIAISON}(?:[-_‐]{_LIAISON})*"
_COMPOUND = rf"{_PLAIN}[A-Za-z0-9.,\xad]*+(?:-(?:{_LATIN}(?:\.{_LATIN})+\.|[A-Za-z0-9\xad]+))+"
_TEAM = rf"[A-Z]+(?:(?:{_AND}|\+)[A-Z]+)+"  # AT&T
_BRANCH = f"{_PLAIN}+(?:-{_LATIN}+){{0,2}}"
_EXTENSION = (
    "bat|bmp|c|class|cgi|cpp|dll|docx?|exe|gif|gz|h|html?|jar|java|jpe?g|mov|mp3|pdf|php|pl|png|ppt|ps|py|sql|tar|txt|"
    "wav|x|xml|zip"
)
CHOICE = _rule(rf"{_BRANCH}(?:\\?/{_BRANCH}){{1,2}}")  # and/or
FILE_NAME = _rule(
    rf"(?:{_WORD_LETTER}|{_FIGURE})+(?:\.(?:{_WORD_LETTER}|{_FIGURE})+)*\.(?i:{_EXTENSION})", rf"(?:{_GAP}|[.?!,])"
)
BEFORE_COMMA = [_rule(rf"{word}\.", "[,;:]", _spell_word) for word in (_WORD, _THING, _COMPOUND, _TEAM)]
THINGS = [_rule(_COMPOUND, spell=_spell_word), _rule(_THING), _rule(_TEAM, spell=_spell_entities)]
NAMES = _rule(rf"(?i:c\.d\.s|pro-|anti-|s{_AND}p-500|s{_AND}ls|c\+\+|[cf]#)", spell=_spell_entities)

# Addresses. One character beyond the basic plane is two to the reference, so it can be a whole path.
_END = r'[^ \t\n"<>|.!?(){},-]'
_PATH = rf'(?:/(?:[^ \t\n"<>|()]+{_END}|\x01))?'
_MAILBOX, _HOST = r'[^ \t\n"<>|(){}\xa0]', r'[^ \t\n"<>|().{}\xa0]'
SITE = _rule(rf"""(?:[^ \t\n"`'!$(){{}}|,-_]++\.)+(?i:com|net|org|edu){_PATH}""")
MAIL = _rule(rf"(?:<|&lt;)?{_PLAIN}{_MAILBOX}*@(?:{_HOST}+\.)*{_HOST}+>?")
ADDRESSES = [
    _rule(rf'(?i:https?)://(?:[^ \t\n"<>|(){{}}]+{_END}|\x01)'),
    _rule(rf"""(?i:www)\.(?:[^ \t\n"<>|.!?(){{}},]+\.)+{_LATIN}{{2,4}}{_PATH}"""),
    SITE,
    MAIL,
]

# Markup: a tag with its attributes, a declaration, a closing tag; references to characters.
_NAME = r"[A-Za-z][A-Za-z0-9_:.-]*"
_ATTRIBUTE = rf"""{_NAME}(?: *= *(?:"[^"\n]*"|'[^'\n]*'))?"""
_TAG = rf"(?:<{_NAME}(?: +{_ATTRIBUTE})* *+/? *+>|<[!?][A-Za-z-][^>\n]*>|</{_NAME} *+>)"
TAG = _rule(_TAG, spell=_spell_tag)
REFERENCES = [
    _rule("&(?:MD|mdash|ndash|NDASH);", spell=_spell_dash),
    _rule("&(?:HT|TL|UR|LR|QC|QL|QR|odq|cdq|#[0-9]+);"),
    _rule("&(?i:amp|lt|gt);|&(?:quot|apos|nbsp);", spell=_spell_entities),
]

ABBREVIATIONS = [
    _rule(rf"{CLOSING}\.", r"[\s\S]{2}"),
    _rule(rf"{LEADING}\."),
    _rule(_LATIN, rf"\.{_GAP}+(?:{OPENERS}|{_TAG}){_GAP}"),
    _rule(rf"{_LATIN}(?:\.{_LATIN})*\."),
    _rule(rf"{NUMBERED}\.", f"{_GAP}?{_FIGURE}"),
]

# Figures.
_TAIL = "[0-9]{3,4}[- \xa0]?[0-9]{3,5}"
NUMBER = _rule(rf"[-+]?(?:{_FIGURE}*(?:[.:,\xad٫]{_FIGURE}+)+|{_FIGURE}+)", spell=_spell_word)
FRACTIONS = [
    _rule(f"{_FIGURE}{{1,2}}[-/]{_FIGURE}{{1,2}}[-/]{_FIGURE}{{2,4}}"),
    _rule(rf"(?:{_FIGURE}{{1,4}}[- \xa0])?{_FIGURE}{{1,4}}(?:\\?/|⁄){_FIGURE}{{1,4}}", spell=_spell_joined),
]
PHONES = [
    _rule(rf"\([0-9]{{2,3}}\)[ \xa0]?{_TAIL}", spell=_spell_joined),
    _rule(rf"(?:\+\+?)?(?:[0-9]{{2,4}}[- \xa0])?[0-9]{{2,4}}[- \xa0]{_TAIL}", spell=_spell_joined),
    _rule(r"(?:(?:\+\+?)?[0-9]{2,4}\.)?[0-9]{2,4}\.[0-9]{3,4}\.[0-9]{3,5}"),
]

# What begins with an apostrophe; a straight one before a word of two characters or more is a quotation mark.
_FACE = "[-^x=~<>']"
FACE = _rule(f"{_FACE}_{_FACE}")
QUOTES = [
    _rule("'[tT]", "(?i:is|was)"),
    _rule(f"{_APOSTROPHE}(?:[nN]{_APOSTROPHE}?|(?i:em|till?|cause|[2-9]0s))"),
    _rule(_CLITIC, "[^A-Za-z]", _spell_quote),
    _rule(f"{_APOSTROPHE}[0-9]{{2}}", _GAP),
    FACE,
    _rule("'", r"[A-Za-z][^ \t\xa0\n]"),
    _rule(_CLITIC, spell=_spell_quote),
    _rule("''|[`’‘“]{1,2}", spell=_spell_quote),
]

SIGNS = [
    _rule(r"@[A-Za-z_][A-Za-z_0-9]*"),
    _rule(f"#{_WORD_LETTER}+"),
    _rule("-[lLrR][rRcCsS][bB]-"),
    _rule("⁺?(?:²+|₂+)"),
    _rule(r"[<>]?[:;=][-o*']?[()DPdpO\\{@|\[\]]", "[^A-Za-z0-9]", _spell_joined),
    _rule(rf"\({_FACE}[_.]?{_FACE}\)|\([\^x=~<>']-[\^x=~<>'`]\)", spell=_spell_joined),
    _rule("-+", spell=_spell_dash),
    _rule(r"\.{3,5}|(?:\.[ \xa0]){2,4}\.", spell=_spell_dash),
    _rule(r"@+|#+|_+|\*+|(?:\\\*){1,3}|[?!]+|<<?|>>?"),
    _rule(r"[ \t\xa0\u2003]+|[\x00\x01]", spell=_spell_nothing),
]
MONEY = _rule(r"[A-Z]*\$")


# Which rules can begin with which character.
_BY_LETTER = [
    *WORDS,
    *ELISIONS,
    *ADDRESSES,
    NAMES,
    CHOICE,
    MONEY,
    *ABBREVIATIONS,
    FILE_NAME,
    *BEFORE_COMMA,
    FACE,
    *THINGS,
]
_BY_FIGURE = [SITE, MAIL, *FRACTIONS, NUMBER, CHOICE, FILE_NAME, *BEFORE_COMMA, *PHONES, *THINGS]
_BY_OTHER = [*WORDS, NUMBER, *QUOTES, SITE, MAIL, FILE_NAME, *BEFORE_COMMA, *REFERENCES]
_BY_SIGN = [TAG, SITE, MAIL, NUMBER, MONEY, *PHONES, FACE, *SIGNS]
_BEGINNINGS = {
    ascii_letters + "é\u0301": _BY_LETTER,
    "0123456789٠": _BY_FIGURE,
    "'’‘`“": [SITE, *QUOTES],
    "&\xad": _BY_OTHER,
}
_RULES = {character: rules for characters, rules in _BEGINNINGS.items() for character in characters}


def rules_for(character: str) -> list[TokenRule]:
    """The rules whose tokens can begin with a character, in order of precedence."""
    return _RULES.get(character, _BY_SIGN)
