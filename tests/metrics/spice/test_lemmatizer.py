from __future__ import annotations

import pytest

from captrial.metrics.spice.parser import lemmatizer

NOUNS = "women:woman benches:bench puppies:puppy pies:pie horses:horse glasses:glass shoes:shoe knives:knife"
ODD_NOUNS = "pants:pants scissors:scissors bus:bus grass:grass graffiti:graffitus tennis:tennis people:people"
VERBS = "riding:ride sitting:sit falling:fall lying:lie visiting:visit covered:cover parked:park stood:stand"
FINITE_VERBS = "carries:carry watches:watch rides:ride is:be passes:pass goes:go"


@pytest.mark.parametrize("pair", f"{NOUNS} {ODD_NOUNS}".split())
def test_nouns(pair: str) -> None:
    word, lemma = pair.split(":")
    assert lemmatizer().lemma(word, "NNS") == lemma


@pytest.mark.parametrize("pair", f"{VERBS} {FINITE_VERBS}".split())
def test_verbs(pair: str) -> None:
    word, lemma = pair.split(":")
    assert lemmatizer().lemma(word, "VBZ") == lemma


def test_the_tag_decides() -> None:
    assert lemmatizer().lemma("standing", "NN") == "standing"
    assert lemmatizer().lemma("older", "JJR") == "older"
    assert lemmatizer().lemma("an", "DT") == "a"
