"""Which tags the original's parser gives where spaCy's tagger decides otherwise."""

from __future__ import annotations

from captrial.metrics.spice.parse_tree import Parse
from captrial.metrics.spice.wordlists import (
    ALWAYS_NOUNS,
    ALWAYS_SINGULAR,
    MODIFIERS,
    PARTICIPLES,
    PEOPLES,
    PREDICATES,
)


def correct_tags(parse: Parse) -> None:
    """Word by word; a new tag also moves what hangs on it."""
    for word in range(len(parse)):
        _noun(parse, word)
    for word in range(1, len(parse)):
        _predicate(parse, word)
    for word in range(len(parse)):
        _modifier(parse, word)
        _special(parse, word)


def _noun(parse: Parse, word: int) -> None:
    """`fire hydrant`, with the hydrant taken for an adjective."""
    before = word - 1
    if parse.words[word] in ALWAYS_NOUNS and not parse.noun(word):
        parse.tags[word] = "NN"
        if word and parse.noun(before) and parse.heads[word] == before:
            parse.replace(before, word, "compound")
            parse.adopt(word, parse.children(before))
    if parse.words[word] in ALWAYS_SINGULAR:
        parse.tags[word] = "NN"


def _predicate(parse: Parse, word: int) -> None:
    """`a black dog run through ...`: no compound with a head `run`, but subject and verb."""
    subject = word - 1
    taken_for_noun = parse.words[word] in PREDICATES and parse.tags[word].startswith(("NN", "JJ"))
    if not (taken_for_noun and parse.noun(subject) and parse.heads[subject] == word):
        return
    if parse.labels[subject] == "nsubj":
        parse.tags[word] = "VBP"
    elif parse.labels[subject] in ("compound", "nmod", "amod"):
        parse.tags[word] = "VBP"
        parse.replace(word, subject, "acl")
        parse.adopt(subject, [child for child in parse.children(word) if child < subject])
        if parse.root < word and parse.noun(parse.root):
            parse.crown(word, parse.root)


def _modifier(parse: Parse, word: int) -> None:
    """Words before a noun: participles in -ed are adjectives, some nouns too, and peoples are nouns."""
    text, before_noun = parse.words[word], parse.heads[word] > word
    if parse.labels[word] not in ("amod", "compound", "nmod"):
        return
    if text in PARTICIPLES and word + 1 < len(parse) and parse.noun(word + 1):
        parse.tags[word], parse.labels[word] = "VBG", "amod"
    elif text.endswith("ed") and parse.labels[word] == "amod" and parse.tags[word] in ("VBN", "VBD"):
        parse.tags[word] = "JJ"
    if text in MODIFIERS and before_noun:
        parse.tags[word], parse.labels[word] = "JJ", "amod"
    if text in PEOPLES and parse.labels[word] != "nmod":
        parse.tags[word], parse.labels[word] = "NN", "compound"
    if text == "colored" and parse.labels[word] == "amod":
        parse.tags[word] = "VBN"


def _special(parse: Parse, word: int) -> None:
    """Single expressions with a parse of their own."""
    text, after = parse.words[word], parse.word(word + 1)
    if (text, after) == ("living", "room") and word == 0:
        parse.tags[word], parse.labels[word] = "VBG", "dep"
    elif (text, after) == ("living", "room") and word == 1:
        parse.tags[word], parse.labels[word] = "NN", "compound"
    elif (text, after) == ("full", "of") and word and parse.noun(word - 1):
        if parse.attach(word + 1, word - 1, "prep"):
            parse.labels[word] = "dep"
    elif text in ("outdoors", "indoors"):
        parse.tags[word] = "NNS"
        parse.labels[word] = "dobj" if parse.labels[word] == "advmod" else parse.labels[word]
    elif text == "graffiti":
        parse.tags[word] = "NNS"
    elif (text, after) == ("close", "up"):
        _close_up(parse, word)


def _close_up(parse: Parse, word: int) -> None:
    """`a close up of X` says nothing about X."""
    parse.tags[word] = "NN" if word else "RB"
    for child in [*parse.children(word + 1, "prep", "pobj"), word + 1]:
        if parse.labels[child] in ("prep", "pobj"):
            parse.labels[child] = "dep"
