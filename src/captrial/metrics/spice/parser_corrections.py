"""Rules that turn spaCy's parse of a caption into what the parser of SPICE 1.0 would have returned.

SPICE 1.0 parses captions with an unlexicalised grammar learned from newspapers (CoreNLP's englishPCFG). spaCy is
usually right where that parser is wrong, but scores are only comparable if the errors are the same. The rules were
found by comparing with the original's tuples; they depend on tags, positions and short word lists, never on whole
captions.

- Tags: words that the original takes for another part of speech than spaCy's tagger.
- Clauses: participles after nouns (`a man riding a horse`) and bare verb forms. The original takes some for nouns,
  loses others, and reads `snow covered slope` as a sentence; these errors decide many relations.
- Attachment: the original attaches modifiers, conjuncts and prepositional phrases nearly always low.
"""

from __future__ import annotations

from itertools import pairwise

from captrial.metrics.spice.parser import Parse
from captrial.metrics.spice.wordlists import (
    ALWAYS_NOUNS,
    ALWAYS_SINGULAR,
    DIRECTIONS,
    GERUND_NOUNS,
    LEADING_GERUND_NOUNS,
    MODIFIERS,
    NOUN_TAGS,
    PARTICIPLES,
    PEOPLES,
    PREDICATES,
    THREE_WORD,
    VERBAL_NOUNS,
)

_FINITE = ("VB", "VBP", "VBZ", "VBD")
_SUBORDINATORS = frozenset(("that", "who", "as", "while"))
_PREMODIFIERS = ("det", "amod", "compound", "nummod", "poss")


def correct_parse(parse: Parse) -> None:
    """Change tags, heads and labels of a parse in place."""
    correct_tags(parse)
    flatten(parse)
    join_conjuncts(parse)
    read_clauses(parse)
    attach_prepositions(parse)


def correct_tags(parse: Parse) -> None:
    """Tags word by word; a new tag also moves the dependents of the word."""
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


def read_clauses(parse: Parse) -> None:
    """Verbs in order: bare verbs, `be`, participles between nouns, gerunds."""
    _chain_verbs(parse)
    for word in range(len(parse) - 1):
        if parse.words[word] == "be" and not parse.children(word, "aux", "expl"):
            _bare_be(parse, word)
    _wear(parse)
    for word in range(1, len(parse) - 1):
        _participle_between_nouns(parse, word)
    for word in range(1, len(parse)):
        participle = parse.tags[word] == "VBG" and parse.labels[word] not in ("aux", "auxpass")
        if participle and parse.noun(word - 1) and not parse.children(word, "aux", "auxpass"):
            _gerund(parse, word)


def _chain_verbs(parse: Parse) -> None:
    """`man wear shirt hold pole`: the second verb's subject is the first one's object."""
    verbs = [
        word
        for word, tag in enumerate(parse.tags)
        if tag in _FINITE and parse.labels[word] not in ("aux", "auxpass") and not parse.children(word, "aux")
    ]
    for first, second in pairwise(verbs):
        between = parse.words[first:second]
        objects = [word for word in parse.children(first, "dobj") if word < second]
        apart = "and" in between[-2:] or not _SUBORDINATORS.isdisjoint(between) or parse.children(second, "nsubj")
        if objects and parse.children(first, "nsubj") and not apart and parse.attach(second, first, "ccomp"):
            parse.attach(objects[-1], second, "nsubj")


def _bare_be(parse: Parse, be: int) -> None:
    """`a dog be run`: a light subject belongs to `be` alone, so the verb says nothing about it."""
    verb = be + 1
    if parse.tags[verb][:2] not in ("VB", "NN", "JJ"):
        for subject in parse.children(be, "nsubj"):
            parse.labels[subject] = "nsubj" if _heavy(parse, subject) else "dep"
        return
    if parse.heads[be] == verb and parse.children(verb, "aux") in ([], [be]):
        parse.replace(verb, be, parse.labels[verb])
    elif parse.heads[verb] != be:
        return
    before = [child for child in parse.children(verb) if child < be]
    parse.adopt(be, before)
    for child in before:
        parse.labels[child] = "nsubj" if parse.labels[child] == "nsubjpass" else parse.labels[child]
    _be_and_verb(parse, be, verb)


def _be_and_verb(parse: Parse, be: int, verb: int) -> None:
    heavy = any(_heavy(parse, subject) for subject in parse.children(be, "nsubj")[:1])
    after = parse.tags[verb + 1 : verb + 2]
    walk = parse.words[verb] == "walk"
    nominal = parse.words[verb] in VERBAL_NOUNS and after in ([], ["IN"], ["TO"], ["NN"]) and not (walk and heavy)
    clause = nominal or walk or after == ["RB"] or parse.children(verb, "dobj")
    if heavy and clause and parse.words[verb] not in ("run", "hold"):
        parse.replace(be, verb, "cop" if nominal else "aux")
        parse.adopt(verb, parse.children(be))
        parse.tags[verb] = "NN" if nominal else "VB"
    elif nominal:
        parse.tags[verb], parse.labels[verb] = "NN", "dep"
        _let_go(parse, parse.children(verb, "dobj", "xcomp"))
    elif parse.labels[verb] != "acomp" or parse.tags[verb][0] in "NV":
        parse.tags[verb], parse.labels[verb] = "VBN", "dep"


def _heavy(parse: Parse, noun: int) -> bool:
    """Whether a noun phrase has two modifiers beside its article, or anything behind its noun."""
    modifiers = parse.children(noun, "amod", "compound", "nummod", "poss")
    return len(modifiers) > 1 or bool(parse.children(noun, "prep", "conj", "acl", "relcl"))


def _wear(parse: Parse) -> None:
    """`wear` beside another verb is taken for a noun, whatever it governs."""
    verbs = [word for word in range(len(parse)) if parse.verb(word)]
    for word, text in enumerate(parse.words):
        if text == "wear" and any(other != word for other in verbs):
            parse.tags[word] = "NN"


def _participle_between_nouns(parse: Parse, verb: int) -> None:
    """`... a snow covered slope`: snow keeps the place in the sentence, and covered becomes a verb with an object."""
    noun, thing = verb - 1, parse.heads[verb]
    participle = parse.words[verb].endswith("ed") or parse.words[verb] == "drawn"
    modifier = parse.labels[verb] in ("amod", "compound") and thing > verb
    if not (participle and modifier and parse.noun(noun) and parse.noun(thing) and parse.heads[noun] in (verb, thing)):
        return
    finite = parse.words[verb] != "drawn" and not any(tag in _FINITE[1:] for tag in parse.tags)
    parse.heads[noun] = thing
    parse.replace(thing, noun, "dobj")
    parse.adopt(noun, [child for child in parse.children(thing) if child < noun])
    parse.adopt(verb, parse.children(thing, "prep"))
    parse.tags[verb], parse.heads[verb], parse.labels[verb] = "VBN", noun, "acl"
    parse.heads[thing] = verb
    if finite and parse.root < verb:
        parse.tags[verb] = "VBD"
        parse.crown(verb, parse.root)


def _gerund(parse: Parse, verb: int) -> None:
    """A word in -ing after a noun: a noun itself, lost, or a clause of that noun."""
    noun = verb - 1
    singular = parse.tags[noun] in ("NN", "NNP")
    leading = all(tag in NOUN_TAGS for tag in parse.tags[:verb])
    for subject in parse.children(verb, "nsubj")[:1]:
        parse.replace(verb, subject, parse.labels[verb])
    if leading and not singular and _compound_with_object(parse, noun, verb):
        return
    if parse.words[verb] in (LEADING_GERUND_NOUNS if leading and singular else GERUND_NOUNS) and (singular or leading):
        _gerund_noun(parse, noun, verb, singular)
        return
    parse.attach(verb, noun, "acl")
    light = sum(tag != "DT" for tag in parse.tags[:verb]) <= 2
    if leading and singular and light and not _has_finite_verb(parse, verb):
        parse.labels[verb] = "dep"


def _gerund_noun(parse: Parse, noun: int, verb: int, singular: bool) -> None:
    """`a man standing`: standing is the head, man its modifier; after a plural it stands alone."""
    parse.tags[verb] = "NN"
    _let_go(parse, parse.children(verb, "dobj", "advcl", "xcomp", "ccomp"))
    if parse.attach(verb, noun, "dep") and singular:
        parse.replace(noun, verb, "compound")
        parse.adopt(verb, parse.children(noun))


def _compound_with_object(parse: Parse, noun: int, verb: int) -> bool:
    """`people playing frisbee`: the gerund modifies its object."""
    objects = parse.children(verb, "dobj")
    bare = verb + 1 < len(parse) and parse.noun(verb + 1)
    if not (bare and objects and parse.words[verb] in ("playing", "riding", "eating")):
        return False
    parse.attach(objects[0], noun, "dep")
    parse.tags[verb] = "NN"
    parse.attach(verb, objects[0], "compound")
    return True


def _has_finite_verb(parse: Parse, besides: int) -> bool:
    return any(
        tag in _FINITE[1:] or (tag[0] == "V" and word != besides and parse.children(word, "nsubj", "nsubjpass"))
        for word, tag in enumerate(parse.tags)
    )


def _let_go(parse: Parse, words: list[int]) -> None:
    for word in words:
        parse.labels[word] = "dep"


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
