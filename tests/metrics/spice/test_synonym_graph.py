from __future__ import annotations

from captrial.metrics.spice.synonym_graph import Concept, SceneGraph, SynonymVocabulary
from captrial.metrics.wordnet import WordNet, default_wordnet

TABLE = WordNet(
    {
        "couch": frozenset({1, 2}),
        "sofa": frozenset({1}),
        "lounge": frozenset({2, 3, 4}),
        "hall": frozenset({4}),
        "cat": frozenset({9}),
        "on": frozenset(),
    },
    {},
)


def graph(*tuples: tuple[str, ...], wordnet: WordNet | None = TABLE) -> SceneGraph:
    found = SceneGraph(SynonymVocabulary(wordnet))
    found.add(tuples)
    return found


def strings(found: SceneGraph) -> list[tuple[str, ...]]:
    return [tuple("/".join(sorted(part.strings)) for part in item) for item in found.tuples()]


def test_synonyms_become_one_object() -> None:
    assert strings(graph(("couch",), ("sofa",))) == [("couch/sofa",)]


def test_without_synonyms_nothing_merges() -> None:
    assert strings(graph(("couch",), ("sofa",), ("sofa",), wordnet=None)) == [("couch",), ("sofa",)]


def test_merging_is_transitive_and_depends_on_order() -> None:
    assert strings(graph(("sofa",), ("couch",), ("lounge",), ("hall",))) == [("couch/hall/lounge/sofa",)]
    assert strings(graph(("sofa",), ("hall",), ("cat",))) == [("sofa",), ("hall",), ("cat",)]


def test_the_more_similar_node_wins_and_ties_go_to_the_older() -> None:
    assert strings(graph(("hall",), ("sofa",), ("couch",))) == [("hall",), ("couch/sofa",)]
    two = WordNet({"a": frozenset({1}), "b": frozenset({2}), "c": frozenset({1, 2})}, {})
    assert strings(graph(("b",), ("a",), ("c",), wordnet=two)) == [("b/c",), ("a",)]


def test_attributes_merge_within_their_object_only() -> None:
    found = strings(graph(("cat", "couch"), ("cat", "sofa"), ("hall", "sofa"), ("cat", "couch")))
    assert found == [("cat",), ("hall",), ("cat", "couch/sofa"), ("hall", "sofa")]


def test_relations_make_nodes_and_drop_a_leading_be() -> None:
    found = graph(("cat", "sofa", "be on"), ("cat", "couch", "on"), ("cat", "cat", "on"))
    assert strings(found) == [("cat",), ("couch/sofa",), ("cat", "on", "couch/sofa"), ("cat", "on", "cat")]


def test_similarity_counts_shared_strings_before_synonym_sets() -> None:
    one = Concept(frozenset({"x"}), frozenset({1, 2, 3}))
    assert one.similarity(Concept(frozenset({"x", "y"}), frozenset())) == 1.0
    assert one.similarity(Concept(frozenset({"y"}), frozenset({3, 4}))) == 0.25
    assert one.similarity(Concept(frozenset({"y"}), frozenset())) == 0.0


def test_word_forms_share_synonym_sets() -> None:
    table = default_wordnet()
    assert not table.synsets("geese").isdisjoint(table.synsets("goose"))
    assert table.synsets("living room") == table.synsets("living_room") != frozenset()
    assert table.morph("boxes") == "box"
    assert table.morph("glass") == "glass"
    assert table.morph("boxesful") == "boxful"
