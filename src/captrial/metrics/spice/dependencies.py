"""spaCy's parse -> a graph in the style of CoreNLP's collapsed, conjunction-propagated dependencies (UD v1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from captrial.metrics.spice.parser import Parse
from captrial.metrics.spice.wordlists import THREE_WORD, TWO_WORD


@dataclass(slots=True)
class Edge:
    """`head` governs `child` by `label`; `words` are the preposition or conjunction words that the label carries."""

    head: int
    child: int
    label: str
    words: str = ""


@dataclass(slots=True)
class Graph:
    """Words with tags and lemmas, and labelled edges between them; a word may have several heads."""

    words: list[str]
    tags: list[str]
    lemmas: list[str]
    roots: list[int]
    edges: list[Edge] = field(default_factory=list)

    def out(self, head: int, *labels: str) -> list[Edge]:
        """Edges leaving a word."""
        return [edge for edge in self.edges if edge.head == head and (not labels or edge.label in labels)]

    def into(self, child: int) -> list[Edge]:
        """Edges reaching a word."""
        return [edge for edge in self.edges if edge.child == child]

    def noun(self, word: int) -> bool:
        """Whether the word is tagged as a noun."""
        return self.tags[word].startswith("NN")


_RENAMED = {
    "relcl": "acl:relcl",
    "prt": "compound:prt",
    "poss": "nmod:poss",
    "quantmod": "advmod",
    "predet": "det:predet",
    "preconj": "cc:preconj",
    "dative": "iobj",
    "npadvmod": "nmod:npmod",
    "attr": "xcomp",
    "acomp": "xcomp",
    "oprd": "xcomp",
    "nmod": "compound",
    "intj": "discourse",
    "meta": "dep",
}


def universal(parse: Parse, lemmas: Sequence[str]) -> Graph:
    """Convert a parse to collapsed universal dependencies with propagated conjunctions."""
    graph = Graph(parse.words, parse.tags, list(lemmas), [i for i, head in enumerate(parse.heads) if head == i])
    converter = _Converter(parse, graph)
    converter.run()
    _propagate(graph)
    return graph


class _Converter:
    """Builds the edges of one graph from one parse."""

    def __init__(self, parse: Parse, graph: Graph) -> None:
        self.parse = parse
        self.graph = graph
        self.moved: dict[int, int] = {}  # copula -> its predicate, which takes the copula's place

    def run(self) -> None:
        for word in range(len(self.parse.words)):
            self._copula(word)
        self.graph.roots = [self.moved.get(root, root) for root in self.graph.roots]
        for word, (head, label) in enumerate(zip(self.parse.heads, self.parse.labels, strict=True)):
            if head != word and label not in ("prep", "agent", "pobj", "pcomp", "case"):
                self._plain(word, head, label)
            elif label in ("prep", "agent"):
                self._preposition(word)

    def _add(self, head: int, child: int, label: str, words: str = "") -> None:
        if head != child:
            self.graph.edges.append(Edge(head, child, label, words))

    def _copula(self, verb: int) -> None:
        """`man is happy`: the predicate becomes the head and the verb its `cop`, unless `there is ...`."""
        parse = self.parse
        if parse.words[verb] not in ("is", "are", "was", "were", "been", "being", "'s") or parse.children(verb, "expl"):
            return
        predicates = parse.children(verb, "attr", "acomp")
        if not predicates:
            objects = [noun for prep in parse.children(verb, "prep") for noun in self._objects(prep)]
            predicates = objects[:1]
        if predicates and parse.children(verb, "nsubj"):
            self.moved[verb] = predicates[0]
            self._add(predicates[0], verb, "cop")

    def _objects(self, prep: int) -> list[int]:
        found = self.parse.children(prep, "pobj")
        for inner in self.parse.children(prep, "prep"):
            found += self._objects(inner)
        return found

    def _plain(self, word: int, head: int, label: str) -> None:
        parse = self.parse
        governor = self.moved.get(head, head)
        place = self.moved.get(word, word)
        if governor == word:
            return  # the predicate itself: its copula hangs below it
        if label == "conj":
            self._conjunct(word, head)
            return
        if label == "attr" and parse.children(head, "expl"):
            label = "nsubj"
        label = _RENAMED.get(label, label)
        self._add(governor, place, label, "npmod" if label == "nmod:npmod" else "")

    def _conjunct(self, word: int, head: int) -> None:
        if self.parse.labels[head] in ("prep", "agent"):
            return  # `through trees and on grass`: handled with the preposition
        marker = [self.parse.words[i] for i in self.parse.children(head, "cc") if i < word] or ["and"]
        place = self.moved.get(word, word)
        self._add(self.moved.get(head, head), place, "conj", marker[-1])

    def _preposition(self, prep: int) -> None:
        parse = self.parse
        head = parse.heads[prep]
        if parse.labels[head] == "prep" and parse.labels[prep] == "prep" and not parse.children(head, "pobj"):
            return  # `out of`, `from behind`: reached from the first preposition
        if self._inside(prep):
            return  # `of` in `on top of`: reached from `on`
        governor, words = self._governor(prep)
        self._attach(prep, governor, words)
        for other in parse.children(prep, "conj"):
            if parse.tags[other] in ("IN", "TO", "RP", "RB"):
                self._attach(other, governor, [parse.words[other]])

    def _inside(self, prep: int) -> bool:
        """Whether a preposition is the last word of one of three words."""
        noun = self.parse.heads[prep]
        outer = self.parse.heads[noun]
        if noun != prep - 1 or outer != noun - 1 or self.parse.labels[noun] != "pobj":
            return False
        return "_".join(self.parse.words[outer : prep + 1]) in THREE_WORD

    def _governor(self, prep: int) -> tuple[int, list[str]]:
        """What a preposition attaches to, and its words with an adverb before it (`next to`)."""
        parse = self.parse
        head = parse.heads[prep]
        pair = f"{parse.words[head]}_{parse.words[prep]}"
        if (
            pair in TWO_WORD
            and parse.labels[head] in ("advmod", "acomp", "amod", "prep", "npadvmod")
            and head == prep - 1
        ):
            governor = self.moved.get(parse.heads[head], parse.heads[head])
            verbal = pair == "next_to" and parse.tags[governor].startswith("V")
            return governor, [parse.words[prep]] if verbal else [parse.words[head], parse.words[prep]]
        return self.moved.get(head, head), [parse.words[prep]]

    def _attach(self, prep: int, governor: int, words: list[str]) -> None:
        parse = self.parse
        for inner in parse.children(prep, "prep"):
            if not parse.children(prep, "pobj"):
                self._attach(inner, governor, [*words, parse.words[inner]])
        for clause in parse.children(prep, "pcomp"):
            kind = "acl" if self.graph.noun(governor) else "advcl"
            self._add(governor, clause, f"{kind}:prep", " ".join(words))
        for noun in parse.children(prep, "pobj"):
            self._object(prep, noun, governor, words)

    def _object(self, prep: int, noun: int, governor: int, words: list[str]) -> None:
        """One `nmod`; an inner noun as in `on top of` joins the preposition."""
        parse = self.parse
        for inner in parse.children(noun, "prep"):
            chain = [*words, parse.words[noun], parse.words[inner]]
            if "_".join(chain) in THREE_WORD:
                for target in parse.children(inner, "pobj"):
                    self._nominal(governor, target, prep, chain)
                return
        self._nominal(governor, noun, prep, words)

    def _nominal(self, governor: int, noun: int, prep: int, words: list[str]) -> None:
        if governor == noun:  # the predicate of a copula: `man is in house`
            self._add(noun, prep, "case", " ".join(words))
            return
        agent = self.parse.labels[prep] == "agent" and bool(self.parse.children(governor, "auxpass"))
        self._add(governor, noun, "nmod:agent" if agent else "nmod", " ".join(words))


def _propagate(graph: Graph) -> None:
    """Conjuncts share what governs the first one, and its subject where they have none."""
    for edge in [edge for edge in graph.edges if edge.label == "conj"]:
        head, child = edge.head, edge.child
        for governing in graph.into(head):
            if governing.label != "case" and governing.head != child:
                graph.edges.append(Edge(governing.head, child, governing.label, governing.words))
        if graph.tags[child][:2] in ("VB", "JJ") and not graph.out(child, "nsubj", "nsubjpass"):
            passive = bool(graph.out(child, "auxpass"))
            for subject in graph.out(head, "nsubj", "nsubjpass"):
                label = "nsubjpass" if passive else subject.label
                if (
                    label == "nsubjpass"
                    and not passive
                    and graph.tags[child] in ("VB", "VBZ", "VBP", "JJ", "JJR", "JJS")
                ):
                    label = "nsubj"
                graph.edges.append(Edge(child, subject.child, label))
