"""Synonym sets of a word: METEOR's copy of WordNet's synset numbers, looked up with WordNet's own morphology."""

from __future__ import annotations

# Detachment rules in WordNet's order: nouns, verbs, adjectives.
_DETACHMENTS = [
    *zip(
        "s ses xes zes ches shes men ies".split(),
        ["", "s", "x", "z", "ch", "sh", "man", "y"],
        strict=True,
    ),
    *zip("s ies es es ed ed ing ing".split(), ["", "y", "e", "", "e", "", "e", ""], strict=True),
    *zip("er est er est".split(), ["", "", "e", "e"], strict=True),
]
_LAST_LETTERS = {ending[-1] for ending, _ in _DETACHMENTS}


class Synonyms:
    """Two words are synonyms when their sets intersect.

    `synsets` and `exceptions` are texts of alternating lines: a word and its synset numbers; a base form and its
    irregular inflections.
    """

    def __init__(self, synsets: str, exceptions: str) -> None:
        lines = synsets.split("\n")
        self._synsets = dict(zip(lines[::2], lines[1::2], strict=False))
        self._bases: dict[str, list[str]] = {}
        lines = exceptions.split("\n")
        for base, inflections in zip(lines[::2], lines[1::2], strict=False):
            for inflection in inflections.split():
                self._bases.setdefault(inflection, []).append(base)

    def synsets(self, word: str) -> set[int]:
        """The synset numbers of a word and of its base forms.

        >>> Synonyms("dog\\n7 9\\ncanine\\n9", "").synsets("dogs")
        {9, 7}
        """
        bases = self._bases.get(word) or [self.base_form(word)]
        return {int(synset) for form in (word, *bases) for synset in self._synsets.get(form, "").split()}

    def base_form(self, word: str) -> str:
        """The first known word that a detachment rule gives, else the word itself."""
        if len(word) <= 2 or word[-1] not in _LAST_LETTERS or word.endswith("ss"):
            return word
        for ending, replacement in _DETACHMENTS:
            if word.endswith(ending) and (base := word[: -len(ending)] + replacement) in self._synsets:
                return base
        return word
