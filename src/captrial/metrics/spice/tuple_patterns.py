"""Dependencies -> SPICE tuples: edits for quantifiers and pronouns, then patterns, in the original's order."""

from __future__ import annotations

import re
from collections import deque

from captrial.metrics.spice.dependencies import Edge, Graph
from captrial.metrics.spice.wordlists import A_QUANTITY, OF_THE, QUANTITIES, SINGULAR_PRONOUNS

SceneTuple = tuple[str, ...]
"""`(object,)`, `(object, attribute)` or `(subject, object, predicate)`."""


LocatedTuple = tuple[SceneTuple, tuple[int, ...]]
"""A tuple, and the words of the caption that it came from."""


def extract(graph: Graph) -> list[SceneTuple]:
    """The tuples of one parsed caption; changes the graph."""
    return [item for item, _ in extract_located(graph)]


def extract_located(graph: Graph) -> list[LocatedTuple]:
    """The tuples of one parsed caption with their words; changes the graph."""
    _quantifiers(graph)
    _pronouns(graph)
    return _Patterns(graph).tuples()


def _quantifiers(graph: Graph) -> None:
    """`a lot of X`, `dozens of X`, `two of the X`: X takes the quantifier's place."""
    for q in range(len(graph.words) - 2):
        if graph.words[q + 1] != "of":
            continue
        for edge in graph.out(q, "nmod"):
            kind = _quantifier_kind(graph, q, edge.child) if edge.words == "of" else 0
            if kind:
                _replace_quantifier(graph, q, edge, kind)
                break


def _quantifier_kind(graph: Graph, q: int, x: int) -> int:
    """Which of the three quantifier patterns `q of x` is; 0 for none."""
    word = graph.words[q]
    pronoun = graph.tags[x].startswith("PRP")
    nominal = graph.noun(x) or pronoun
    articles = [e for e in graph.out(q, "det") if graph.words[e.child] in ("a", "an")]
    if word in A_QUANTITY and articles and nominal:
        return 1
    if word in QUANTITIES or re.fullmatch(r"\d+s", word):
        return 2 if nominal else 0
    if word in OF_THE or word.isdigit():
        return 3 if pronoun or (graph.noun(x) and graph.tags[q + 2] in ("DT", "PRP$", "PDT")) else 0
    return 0


def _replace_quantifier(graph: Graph, q: int, edge: Edge, kind: int) -> None:
    x = edge.child
    left = [e.child for e in graph.out(q) if e.child < q]
    if kind == 1:
        left = [i for i in left if graph.words[i] in ("a", "an") or graph.tags[i].startswith("JJ")]
    else:  # every word left of it that hangs below it in the original, the preposition among them
        left += [q - 1] if q and graph.tags[q - 1] in ("IN", "TO") and graph.into(q) else []
    first = min([*left, q])
    graph.edges.remove(edge)
    for other in graph.into(q):
        other.child = x
    graph.roots = [x if root == q else root for root in graph.roots]
    for other in graph.out(q):
        if other.child in left:
            graph.edges.remove(other)
    if first != q:
        graph.edges.append(Edge(first, q, "mwe"))
    graph.edges.append(Edge(x, first, "det:qmod"))


def _pronouns(graph: Graph) -> None:
    """A pronoun's edges move to the first noun found breadth-first from the root, if it stands before the pronoun."""
    for word in range(1, len(graph.words)):
        if graph.tags[word] in ("PRP", "PRP$") and graph.into(word):
            antecedent = _antecedent(graph, word)
            if antecedent is not None and antecedent < word:
                for edge in graph.edges:
                    edge.head = antecedent if edge.head == word else edge.head
                    edge.child = antecedent if edge.child == word else edge.child


def _antecedent(graph: Graph, pronoun: int) -> int | None:
    singular = graph.words[pronoun] in SINGULAR_PRONOUNS
    accepted = ("NN", "NNP") if singular else ("NN", "NNP", "NNS", "NNPS")
    queue, seen = deque(graph.roots[:1]), set(graph.roots[:1])
    while queue:
        word = queue.popleft()
        if graph.tags[word] in accepted:
            return word
        for edge in graph.out(word):
            if edge.child not in seen:
                seen.add(edge.child)
                queue.append(edge.child)
    return None


class _Patterns:
    """The patterns of SPICE over one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.found: list[LocatedTuple] = []
        self._out: dict[int, list[Edge]] = {}
        for edge in graph.edges:
            self._out.setdefault(edge.head, []).append(edge)

    def tuples(self) -> list[LocatedTuple]:
        heads = sorted(self._out)  # a pattern starts at a word that governs another
        patterns = (
            (self._subject_object, self._clause),
            (self._predicate,),
            (self._modified,),
            (self._adjective,),
            (self._prepositional,),
            (self._counted,),
        )
        for group in patterns:
            for word in heads:
                for pattern in group:
                    pattern(word)
        self._nouns()
        return self.found

    def _edges(self, head: int, *labels: str) -> list[Edge]:
        return [edge for edge in self._out.get(head, ()) if edge.label in labels]

    def _lemma(self, word: int) -> str:
        return self.graph.lemmas[word]

    def _relation(self, subject: int, target: int, predicate: str, *words: int) -> None:
        """Add a relation; `words` are those of the predicate."""
        self.found.append(((self._lemma(subject), self._lemma(target), predicate), (subject, target, *words)))

    def _attribute(self, head: int, attribute: int) -> None:
        self.found.append(((self._lemma(head), self._lemma(attribute)), (head, attribute)))

    def _predicate_name(self, verb: int) -> str:
        particles = [self.graph.words[e.child] for e in self._edges(verb, "compound:prt")]
        if not particles:
            return self._lemma(verb)
        return f"{'' if self._lemma(verb) == 'be' else self._lemma(verb)} {particles[0]}"

    def _objects(self, verb: int) -> list[tuple[int, str]]:
        """Noun objects of a verb with the name of the relation."""
        name = self._predicate_name(verb)
        found = [(e.child, name) for e in self._edges(verb, "iobj", "dobj") if self.graph.noun(e.child)]
        for edge in self._edges(verb, "nmod", "nmod:npmod", "nmod:poss", "nmod:agent"):
            if self.graph.noun(edge.child):
                suffix = "" if edge.label in ("nmod:poss", "nmod:agent") else f" {edge.words}"
                found.append((edge.child, name + suffix))
        return found

    def _subjects(self, verb: int) -> list[int]:
        return [e.child for e in self._edges(verb, "nsubj") if self.graph.noun(e.child)]

    def _subject_object(self, verb: int) -> None:
        if not self._edges(verb, "cop"):
            for subject in self._subjects(verb):
                for target, name in self._objects(verb):
                    self._relation(subject, target, name, verb)

    def _clause(self, head: int) -> None:
        for edge in self._edges(head, "acl"):
            if self.graph.tags[edge.child].startswith("V"):
                for target, name in self._objects(edge.child):
                    self._relation(head, target, name, edge.child)

    def _predicate(self, word: int) -> None:
        """A subject with a predicate that has no noun object: a relation by its case words, else an attribute."""
        if not self._edges(word, "cop") and self._objects(word):
            return
        for subject in self._subjects(word):
            cases = self._edges(word, "case")
            if cases:
                self._relation(subject, word, cases[0].words or self.graph.words[cases[0].child], cases[0].child)
            elif self._lemma(word) != "be":
                self._attribute(subject, word)

    def _modified(self, head: int) -> None:
        for edge in self._edges(head, "amod"):
            self._attribute(head, edge.child)

    def _adjective(self, word: int) -> None:
        if self.graph.tags[word].startswith("J"):
            for edge in self._edges(word, "nsubj"):
                self._attribute(edge.child, word)

    def _prepositional(self, word: int) -> None:
        if self.graph.noun(word):
            for edge in self._edges(word, "nmod", "nmod:npmod"):
                self._relation(word, edge.child, edge.words)
            for edge in self._edges(word, "nmod:poss"):
                if self.graph.noun(edge.child):
                    self._relation(edge.child, word, "have")
        if self.graph.tags[word].startswith("V"):
            for agent in self._edges(word, "nmod:agent"):
                for subject in self._edges(word, "nsubjpass"):
                    if self.graph.noun(agent.child) and self.graph.noun(subject.child):
                        self._relation(agent.child, subject.child, self._predicate_name(word), word)

    def _counted(self, word: int) -> None:
        if self.graph.tags[word] in ("NNS", "NNPS"):
            numbers = [e.child for e in self._edges(word, "nummod") if e.child < word]
            numbers = numbers or [e.child for e in self._edges(word, "det:qmod")]
            for number in numbers[:1]:
                self._attribute(word, number)

    def _nouns(self) -> None:
        """Compounds as attributes, then every noun outside a compound as an object."""
        marked: set[int] = set()
        for head in sorted(self._out):
            for edge in self._edges(head, "compound"):
                if self.graph.noun(head) and self.graph.noun(edge.child):
                    self._attribute(head, edge.child)
                    marked |= {head, edge.child}
        self.found += [
            ((self._lemma(i),), (i,)) for i in range(len(self.graph.words)) if self.graph.noun(i) and i not in marked
        ]
