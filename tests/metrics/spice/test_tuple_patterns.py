"""Patterns and edits on dependency graphs written by hand."""

from __future__ import annotations

from captrial.metrics.spice.dependencies import Edge, Graph
from captrial.metrics.spice.tuple_patterns import SceneTuple, extract

LEMMAS = {"men": "man", "cows": "cow", "is": "be", "are": "be", "sitting": "sit", "sits": "sit", "laid": "lay"}


def tuples(tagged: str, *edges: tuple[int, int, str] | tuple[int, int, str, str], root: int = 0) -> list[SceneTuple]:
    """Tuples of `word/TAG ...` with edges (head, child, label[, words])."""
    words, tags = zip(*(item.rsplit("/", 1) for item in tagged.split()), strict=True)
    lemmas = [LEMMAS.get(word, word) for word in words]
    return extract(Graph(list(words), list(tags), lemmas, [root], [Edge(*edge) for edge in edges]))


def test_subject_verb_object_with_particle_and_preposition() -> None:
    found = tuples(
        "meal/NN laid/VBD out/RP on/IN table/NN",
        *((1, 0, "nsubj"), (1, 2, "compound:prt"), (1, 4, "nmod", "on")),
        root=1,
    )
    assert found == [("meal", "table", "lay out on"), ("meal",), ("table",)]


def test_clause_of_a_noun() -> None:
    found = tuples("men/NNS sitting/VBG on/IN bench/NN", (0, 1, "acl"), (1, 3, "nmod", "on"))
    assert found == [("man", "bench", "sit on"), ("man",), ("bench",)]
    relative = tuples("men/NNS sitting/VBG on/IN bench/NN", (0, 1, "acl:relcl"), (1, 3, "nmod", "on"))
    assert relative == [("man",), ("bench",)]


def test_predicates() -> None:
    assert ("man", "sit") in tuples("man/NN sits/VBZ", (1, 0, "nsubj"), root=1)
    copula = tuples("man/NN is/VBZ rider/NN", (2, 0, "nsubj"), (2, 1, "cop"), root=2)
    assert copula == [("man", "rider"), ("man",), ("rider",)]
    house = tuples("man/NN is/VBZ in/IN house/NN", (3, 0, "nsubj"), (3, 1, "cop"), (3, 2, "case", "in"), root=3)
    assert house[0] == ("man", "house", "in")
    assert tuples("man/NN is/VBZ", (1, 0, "nsubj"), root=1) == [("man",)]


def test_adjective_possessor_and_agent() -> None:
    assert tuples("red/JJ bus/NN", (1, 0, "amod"), root=1) == [("bus", "red"), ("bus",)]
    owned = tuples("man/NN 's/POS head/NN", (2, 0, "nmod:poss"), root=2)
    assert owned[0] == ("man", "head", "have")
    passive = tuples(
        "dog/NN is/VBZ held/VBN by/IN man/NN",
        *((2, 0, "nsubjpass"), (2, 1, "auxpass"), (2, 4, "nmod:agent", "by")),
        root=2,
    )
    assert passive == [("man", "dog", "held"), ("dog",), ("man",)]


def test_numbers_count_plural_nouns_only() -> None:
    assert ("cow", "two") in tuples("two/CD cows/NNS", (1, 0, "nummod"), root=1)
    assert tuples("two/CD cow/NN", (1, 0, "nummod"), root=1) == [("cow",)]
    assert tuples("cows/NNS 8/CD", (0, 1, "nummod")) == [("cow",)]


def test_a_compound_is_an_attribute_and_no_object() -> None:
    assert tuples("tennis/NN ball/NN", (1, 0, "compound"), root=1) == [("ball", "tennis")]


def test_a_couple_of_cows() -> None:
    found = tuples(
        "a/DT couple/NN of/IN cows/NNS in/IN field/NN",
        *((1, 0, "det"), (1, 3, "nmod", "of"), (3, 5, "nmod", "in")),
        root=1,
    )
    assert found == [("cow", "field", "in"), ("cow", "a"), ("couple",), ("cow",), ("field",)]


def test_a_group_is_no_quantity() -> None:
    found = tuples("a/DT group/NN of/IN cows/NNS", (1, 0, "det"), (1, 3, "nmod", "of"), root=1)
    assert found[0] == ("group", "cow", "of")


def test_lots_take_the_preposition_before_them() -> None:
    found = tuples("forest/NN with/IN lots/NNS of/IN plants/NNS", (0, 2, "nmod", "with"), (2, 4, "nmod", "of"))
    assert ("forest", "plants", "with") in found
    assert ("plants", "with") in found


def test_a_pronoun_stands_for_the_first_noun_before_it() -> None:
    found = tuples("man/NN in/IN his/PRP$ car/NN", (0, 3, "nmod", "in"), (3, 2, "nmod:poss"))
    assert found == [("man", "car", "in"), ("man", "car", "have"), ("man",), ("car",)]
    plural = tuples("men/NNS in/IN his/PRP$ car/NN", (0, 3, "nmod", "in"), (3, 2, "nmod:poss"))
    assert plural == [("man", "car", "in"), ("man",), ("car",)]
