"""What the original's parser makes of verbs in captions: participles after nouns, and bare verb forms.

An unlexicalised grammar of newspaper text meets `a man riding a horse`. It takes some of these words for nouns, loses
others, and reads `snow covered slope` as a sentence. These habits decide many relations, so they are imitated.
"""

from __future__ import annotations

from itertools import pairwise

from captrial.metrics.spice.parse_tree import Parse
from captrial.metrics.spice.wordlists import GERUND_NOUNS, LEADING_GERUND_NOUNS, NOUN_TAGS, VERBAL_NOUNS

_FINITE = ("VB", "VBP", "VBZ", "VBD")
_SUBORDINATORS = frozenset(("that", "who", "as", "while"))


def read_clauses(parse: Parse) -> None:
    """Apply the habits in order: bare verbs, `be`, participles between nouns, gerunds."""
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
