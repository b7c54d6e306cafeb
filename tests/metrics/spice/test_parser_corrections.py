"""From spaCy's parse (written by hand) through the habits to tuples."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from captrial.metrics.spice.dependencies import universal
from captrial.metrics.spice.lemmatizer import MorphaLemmatizer
from captrial.metrics.spice.parser import Parse
from captrial.metrics.spice.parser_corrections import correct_parse
from captrial.metrics.spice.tuple_patterns import SceneTuple, extract
from captrial.metrics.spice.wordlists import words

VERBS = {"sit", "ride", "stand", "cover", "park", "fill", "perch", "hold", "wear"}
LEMMAS = MorphaLemmatizer(VERBS, {}, {})


def parse(text: str) -> Parse:
    """`word/TAG/label/head ...`, heads counted from 0."""
    texts, tags, labels, heads = zip(*(item.split("/") for item in text.split()), strict=True)
    return Parse(list(texts), list(tags), [int(head) for head in heads], list(labels))


def tuples(text: str) -> set[SceneTuple]:
    tree = parse(text)
    correct_parse(tree)
    lemmas = [LEMMAS.lemma(word, tag) for word, tag in zip(tree.words, tree.tags, strict=True)]
    return set(extract(universal(tree, lemmas)))


def test_a_light_leading_noun_loses_its_gerund() -> None:
    light = "a/DT/det/1 cat/NN/ROOT/1 sitting/VBG/acl/1 on/IN/prep/2 a/DT/det/5 bed/NN/pobj/3"
    assert tuples(light) == {("cat",), ("bed",)}
    heavy = (
        "a/DT/det/3 large/JJ/amod/3 brown/JJ/amod/3 cow/NN/ROOT/3 sitting/VBG/acl/3 "
        "on/IN/prep/4 a/DT/det/7 bed/NN/pobj/5"
    )
    assert ("cow", "bed", "sit on") in tuples(heavy)


def test_standing_is_a_noun() -> None:
    found = tuples("a/DT/det/1 man/NN/ROOT/1 standing/VBG/acl/1 on/IN/prep/2 a/DT/det/5 bed/NN/pobj/3")
    assert found == {("standing", "man"), ("standing", "bed", "on"), ("bed",)}


def test_people_do_stand() -> None:
    found = tuples(
        "a/DT/det/1 group/NN/ROOT/1 of/IN/prep/1 people/NNS/pobj/2 standing/VBG/acl/1 on/IN/prep/4 grass/NN/pobj/5"
    )
    assert ("people", "grass", "stand on") in found


def test_a_participle_between_nouns_makes_a_sentence() -> None:
    found = tuples(
        "people/NNS/ROOT/0 sitting/VBG/acl/0 on/IN/prep/1 "
        "a/DT/det/6 snow/NN/npadvmod/5 covered/VBN/amod/6 bed/NN/pobj/2"
    )
    assert {("people", "bed", "cover"), ("people", "snow", "sit on")} <= found


def test_prepositional_phrases_attach_low() -> None:
    found = tuples(
        "a/DT/det/1 cat/NN/nsubj/2 sits/VBZ/ROOT/2 on/IN/prep/2 a/DT/det/5 bed/NN/pobj/3 "
        "near/IN/prep/2 books/NNS/pobj/6"
    )
    assert {("cat", "bed", "sit on"), ("bed", "book", "near")} <= found


def test_three_phrases_of_a_noun_are_flat() -> None:
    found = tuples(
        "dog/NN/ROOT/0 in/IN/prep/0 yard/NN/pobj/1 with/IN/prep/2 toy/NN/pobj/3 on/IN/prep/4 grass/NN/pobj/5"
    )
    assert {("dog", "yard", "in"), ("dog", "toy", "with"), ("dog", "grass", "on")} <= found


def test_noun_phrases_are_flat() -> None:
    found = tuples("a/DT/det/3 red/JJ/amod/2 fire/NN/compound/3 hydrant/JJ/ROOT/3")
    assert found == {("hydrant", "red"), ("hydrant", "fire")}


def test_in_front_of_is_split_below_a_noun_and_kept_below_a_verb() -> None:
    rest = "in/IN/prep/1 front/NN/pobj/2 of/IN/prep/3 trees/NNS/pobj/4"
    assert ("bench", "tree", "of") in tuples(f"a/DT/det/1 bench/NN/ROOT/1 {rest}")
    verb = tuples(f"bench/NN/nsubj/1 sits/VBZ/ROOT/1 {rest}")
    assert verb == {("bench", "tree", "sit in front of"), ("bench",), ("front",), ("tree",)}


def test_conjuncts_share_their_governor() -> None:
    found = tuples(
        "a/DT/det/1 room/NN/ROOT/1 with/IN/prep/1 a/DT/det/4 bed/NN/pobj/2 and/CC/cc/1 a/DT/det/7 lamp/NN/conj/1"
    )
    assert {("room", "bed", "with"), ("room", "lamp", "with")} <= found


WORDS = sorted(
    words("man men snow covered standing riding be run wear and of in front on top living room full close up")
)
TAGS = sorted(words("DT JJ NN NNS VBG VBN VBD VB VBZ IN CC CD PRP$ PRP RB"))
LABELS = sorted(
    words("det amod compound nmod nsubj nsubjpass dobj prep pobj acl conj cc aux attr advcl appos poss dep pcomp")
)


@st.composite
def trees(draw: st.DrawFn) -> Parse:
    """Random trees over words, tags and labels that the rules look at."""
    size = draw(st.integers(1, 9))
    order = draw(st.permutations(range(size)))
    heads = [0] * size
    for place, word in enumerate(order):  # each word hangs below an earlier one of a random order: no circles
        heads[word] = order[draw(st.integers(0, place - 1))] if place else word
    chosen = [draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size)) for pool in (WORDS, TAGS, LABELS)]
    return Parse(chosen[0], chosen[1], heads, ["ROOT" if heads[i] == i else chosen[2][i] for i in range(size)])


@given(trees())
def test_a_tree_stays_a_tree(tree: Parse) -> None:
    correct_parse(tree)
    for word in range(len(tree)):
        seen = {word}
        while tree.heads[word] != word:
            word = tree.heads[word]
            assert word not in seen
            seen.add(word)
    extract(universal(tree, tree.words))
