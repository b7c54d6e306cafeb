"""Tuples of one image -> one scene graph whose synonymous objects, attributes and relations are merged.

All references of an image go into one graph, in order. Merging grows a concept, so it depends on the order of the
tuples and is transitive, as in SPICE 1.0. Ties, which Java breaks by memory address, go to the older node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from captrial.metrics.wordnet import WordNet

Tuples = Sequence[Sequence[str]]
"""Object `(o,)`, attribute `(o, a)` and relation `(subject, object, predicate)` tuples in order of emission."""


class Concept:
    """A set of strings and the union of their synonym sets; it grows when another concept is merged into it."""

    __slots__ = ("strings", "synsets")

    def __init__(self, strings: frozenset[str], synsets: frozenset[int]) -> None:
        self.strings = strings
        self.synsets = synsets

    def equals(self, other: Concept) -> bool:
        """Same strings and same synonym sets."""
        return self.strings == other.strings and self.synsets == other.synsets

    def similar(self, other: Concept) -> bool:
        """Share a string or a synonym set."""
        return not (self.synsets.isdisjoint(other.synsets) and self.strings.isdisjoint(other.strings))

    def similarity(self, other: Concept) -> float:
        """1 if a string is shared, else the Jaccard index of the synonym sets."""
        if not self.strings.isdisjoint(other.strings):
            return 1.0
        shared = len(self.synsets & other.synsets)
        return shared / (len(self.synsets) + len(other.synsets) - shared) if shared else 0.0

    def absorb(self, other: Concept) -> None:
        """Take over another concept's strings and synonym sets."""
        self.strings |= other.strings
        self.synsets |= other.synsets


class SynonymVocabulary:
    """Concepts of single strings, made once; `wordnet=None` knows no synonyms."""

    def __init__(self, wordnet: WordNet | None) -> None:
        self._wordnet = wordnet
        self._parts: dict[str, tuple[frozenset[str], frozenset[int]]] = {}

    def concept(self, string: str) -> Concept:
        """A fresh concept of one string: merging may change it."""
        parts = self._parts.get(string)
        if parts is None:
            name = string.strip().lower()
            synsets = self._wordnet.synsets(name) if self._wordnet else frozenset()
            parts = self._parts[string] = (frozenset({name}), synsets)
        return Concept(*parts)


class Node(Concept):
    """An object with its attributes."""

    __slots__ = ("attributes",)

    def __init__(self, concept: Concept) -> None:
        super().__init__(concept.strings, concept.synsets)
        self.attributes: list[Concept] = []


class SceneGraph:
    """Objects, their attributes and the relations between them, merged as tuples are added."""

    def __init__(self, vocabulary: SynonymVocabulary) -> None:
        self._vocabulary = vocabulary
        self.nodes: list[Node] = []
        self.edges: dict[tuple[int, int], list[Concept]] = {}

    def add(self, tuples: Iterable[Sequence[str]]) -> None:
        """Add object, attribute and relation tuples in order."""
        for item in tuples:
            if len(item) == 1:
                self._object(item[0])
            elif len(item) == 2:
                _merge(self._object(item[0]).attributes, self._vocabulary.concept(item[1]))
            else:
                ends = id(self._object(item[0])), id(self._object(item[1]))
                relation = item[2].strip().lower().removeprefix("be ")
                _merge(self.edges.setdefault(ends, []), self._vocabulary.concept(relation))

    def tuples(self) -> list[tuple[Concept, ...]]:
        """One tuple an object, one an attribute `(object, attribute)`, one an edge `(source, relation, target)`."""
        by_id = {id(node): node for node in self.nodes}
        found: list[tuple[Concept, ...]] = [(node,) for node in self.nodes]
        found += [(node, attribute) for node in self.nodes for attribute in node.attributes]
        found += [(by_id[a], concept, by_id[b]) for (a, b), relations in self.edges.items() for concept in relations]
        return found

    def _object(self, string: str) -> Node:
        concept = self._vocabulary.concept(string)
        best, highest = None, 0.0
        for node in self.nodes:
            if node.equals(concept):
                return node
            score = node.similarity(concept)
            if score > highest:
                best, highest = node, score
        if best is None:
            best = Node(concept)
            self.nodes.append(best)
        else:
            best.absorb(concept)
        return best


def _merge(concepts: list[Concept], new: Concept) -> None:
    """Ignore an equal concept, else grow the first similar one, else append."""
    if any(concept.equals(new) for concept in concepts):
        return
    for concept in concepts:
        if concept.similar(new):
            concept.absorb(new)
            return
    concepts.append(new)
