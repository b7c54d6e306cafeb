"""Where the original's parser attaches modifiers, conjuncts and prepositional phrases: nearly always low."""

from __future__ import annotations

from captrial.metrics.spice.parse_tree import Parse
from captrial.metrics.spice.wordlists import DIRECTIONS, THREE_WORD

_PREMODIFIERS = ("det", "amod", "compound", "nummod", "poss")


def flatten(parse: Parse) -> None:
    """Noun phrases are flat: `red fire hydrant` is a red hydrant."""
    for word, label in enumerate(parse.labels):
        if label in (*_PREMODIFIERS, "nmod"):
            parse.attach(word, _last_noun(parse, word, parse.heads[word]))
    if parse.word(1) == "and" and parse.labels[0] == "amod" and parse.tags[2:3] == ["JJ"]:
        head = parse.heads[0]  # `black and white cat ...`: the first colour is lost
        parse.attach(1, head, "cc")
        parse.attach(2, head, "amod")
        parse.labels[0] = "dep"


def join_conjuncts(parse: Parse) -> None:
    """A noun phrase after `and` joins the noun before it."""
    for word, label in enumerate(parse.labels):
        if label not in ("conj", "appos") or not parse.noun(word):
            continue
        start = word
        while start and parse.heads[start - 1] == word and parse.labels[start - 1] in _PREMODIFIERS:
            start -= 1
        before = start - 2
        joined = before >= 0 and parse.words[start - 1] in ("and", "or") and parse.noun(before)
        if joined and parse.heads[word] < before and parse.attach(word, before, "conj"):
            parse.attach(start - 1, before)


def attach_prepositions(parse: Parse) -> None:
    """A prepositional phrase belongs to the noun right before it, with few exceptions."""
    for prep, label in enumerate(parse.labels):
        if label != "prep" or not prep or not parse.noun(prep - 1):
            continue
        noun, head = prep - 1, parse.heads[prep]
        if parse.verb(head) and parse.words[prep] in DIRECTIONS:
            continue
        if parse.labels[noun] == "dobj" and _goes_to_verb(parse, prep, parse.heads[noun]):
            parse.attach(prep, parse.heads[noun])
        elif head < noun:
            parse.attach(prep, _last_noun(parse, prep, noun))
    if not any(parse.verb(word) and label != "amod" for word, label in enumerate(parse.labels)):
        _spread(parse)
    for clause in parse.children(parse.root, "relcl"):
        _split(parse, parse.children(clause, "prep"), parse.root)


def _goes_to_verb(parse: Parse, prep: int, verb: int) -> bool:
    """Whether a preposition after an object belongs to the verb: by its word, or where more phrases follow."""
    if parse.words[prep] == "of":
        return False
    detached = parse.labels[verb] == "dep" and parse.tags[verb] in ("VBG", "VBN")
    return detached or parse.words[prep] in ("with", "at") or "prep" in parse.labels[prep + 1 :]


def _spread(parse: Parse) -> None:
    """In a caption without a verb, three phrases or more all belong to the first noun; so does one after `A and B`."""
    root = parse.root
    preps = [i for i, label in enumerate(parse.labels) if label == "prep" and i > root and parse.noun(i - 1)]
    plain = [prep for prep in preps if parse.words[prep] != "of"]
    flat = len(plain) >= 3 or (len(plain) == 2 and preps[0] < plain[0])
    for prep in preps:
        after_conjunct = parse.labels[prep - 1] == "conj"
        if (flat and prep in plain) or (after_conjunct and prep != preps[0]):
            parse.attach(prep, root)
        elif after_conjunct:
            parse.attach(prep, parse.heads[prep - 1])
    if not parse.words[root].endswith("ing") and not parse.children(root, "conj"):
        _split(parse, preps, root)


def _split(parse: Parse, preps: list[int], root: int) -> None:
    """`bench in front of a tree` is in front, and of a tree."""
    for prep in preps:
        if "_".join(parse.words[prep : prep + 3]) in THREE_WORD and parse.heads[prep + 2] == prep + 1:
            parse.attach(prep + 2, root)


def _last_noun(parse: Parse, limit: int, noun: int) -> int:
    """The head of the noun phrase that a noun modifies, as far as it lies on the same side of `limit`."""
    right = noun > limit
    while parse.labels[noun] in (("compound", "nmod") if right else ("compound", "nmod", "poss")):
        head = parse.heads[noun]
        if head <= noun or (not right and head >= limit):
            break
        noun = head
    return noun
