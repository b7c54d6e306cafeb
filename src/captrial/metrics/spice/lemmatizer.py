"""Lemmas in the manner of CoreNLP's Morpha: of nouns and verbs, by tag, so that a wrong tag gives a wrong lemma."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from captrial.metrics.spice.wordlists import IN_IE, PLURAL_ONLY

Irregular = Mapping[str, Sequence[str]]

_NOUNS = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "feet": "foot",
    "teeth": "tooth",
    "geese": "goose",
    "mice": "mouse",
    "graffiti": "graffitus",
    "oxen": "ox",
    "lice": "louse",
    "dice": "die",
    "leaves": "leaf",
    "knives": "knife",
    "wolves": "wolf",
    "shelves": "shelf",
    "loaves": "loaf",
    "calves": "calf",
    "halves": "half",
    "scarves": "scarf",
    "hooves": "hoof",
    "wives": "wife",
    "lives": "life",
    "thieves": "thief",
    "elves": "elf",
    "buses": "bus",
    "vases": "vase",
}
_VERBS = {
    **dict.fromkeys(("is", "are", "was", "were", "am", "been", "being", "'s"), "be"),
    "lying": "lie",
    "dying": "die",
    "tying": "tie",
    "vying": "vie",
}
_VOWELS = "aeiou"


class MorphaLemmatizer:
    """Lemma by word and Penn tag; verbs and irregular forms come from spaCy's look-up tables."""

    def __init__(self, verbs: Collection[str], irregular_verbs: Irregular, irregular_nouns: Irregular) -> None:
        self._known = verbs
        self._irregular_verbs = irregular_verbs
        self._irregular_nouns = irregular_nouns
        self._cache: dict[tuple[str, str], str] = {}

    @classmethod
    def of(cls, lookups: Any) -> MorphaLemmatizer:
        """From the look-up tables of a spaCy rule lemmatiser."""
        exceptions = lookups.get_table("lemma_exc")
        verbs = frozenset(lookups.get_table("lemma_index")["verb"])
        return cls(verbs, exceptions["verb"], exceptions["noun"])

    def lemma(self, word: str, tag: str) -> str:
        """Lemma of a word.

        >>> table = MorphaLemmatizer({"ride", "rid", "sit", "stand"}, {"stood": ["stand"]}, {})
        >>> [table.lemma(w, t) for w, t in (("riding", "VBG"), ("riding", "NN"), ("women", "NNS"), ("sitting", "VBG"))]
        ['ride', 'riding', 'woman', 'sit']
        """
        found = self._cache.get((word, tag))
        if found is None:
            found = self._cache[word, tag] = self._lemma(word.lower(), tag)
        return found

    def _lemma(self, word: str, tag: str) -> str:
        if tag.startswith("N"):
            return self._noun(word, tag)
        if tag.startswith("V"):
            return self._verb(word)
        return "a" if word == "an" else word

    def _noun(self, word: str, tag: str) -> str:
        if word in _NOUNS:
            return _NOUNS[word]
        if word in PLURAL_ONLY or len(word) < 3:
            return word
        if tag == "NNS" and word in self._irregular_nouns:
            return self._irregular_nouns[word][0]
        if tag == "NNS" and word.endswith("i"):
            return word[:-1] + "us"
        return _singular(word) if word.endswith("s") else word

    def _verb(self, word: str) -> str:
        if word in _VERBS:
            return _VERBS[word]
        if word in self._known and not word.endswith(("ing", "ed")):
            return word
        if word in self._irregular_verbs:
            choices = self._irregular_verbs[word]
            if not word.endswith(("ing", "ed", "es")):
                return choices[0]
        for suffix in ("ing", "ed"):
            if word.endswith(suffix) and any(letter in _VOWELS + "y" for letter in word[: -len(suffix)]):
                return self._stem(word[: -len(suffix)])
        return self._third_person(word) if word.endswith("s") else word

    def _third_person(self, word: str) -> str:
        if word.endswith("ies") and len(word) > 4:
            return word[:-3] + "y"
        if word.endswith("es") and word[:-1] not in self._known and word[:-2] in self._known:
            return word[:-2]
        return word if word.endswith("ss") else word[:-1]

    def _stem(self, stem: str) -> str:
        """Undo what -ing and -ed do to a verb: doubled consonants, dropped e, y turned into i."""
        if stem.endswith("i") and stem[:-1] + "y" in self._known:
            return stem[:-1] + "y"
        if len(stem) > 2 and stem[-1] == stem[-2] and stem[-1] not in _VOWELS:
            single = stem[:-1]
            return stem if stem in self._known and (stem[-1] in "lsfz" or single not in self._known) else single
        bare, silent = stem in self._known, stem + "e" in self._known
        if bare != silent:
            return stem if bare else stem + "e"
        return stem + "e" if _short(stem) else stem


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-1] if word[:-1] in IN_IE else word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    if word.endswith("oes") and word not in ("shoes", "toes", "canoes", "hoes"):
        return word[:-2]
    return word if word.endswith(("ss", "us")) else word[:-1]


def _short(stem: str) -> bool:
    """One vowel then one consonant at the end of a syllable: `rid` would have doubled its d, so it is `ride`."""
    return (
        len(stem) > 1
        and stem[-1] not in _VOWELS + "wxy"
        and stem[-2] in _VOWELS
        and (len(stem) < 3 or stem[-3] not in _VOWELS)
    )
