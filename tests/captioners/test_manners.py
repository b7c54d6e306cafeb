"""How our captioners speak, on a model of bigrams."""

from __future__ import annotations

from captrial.captioners.trained import generate, usual_constraints
from captrial.decoding import greedy
from captrial.language.vocabulary import Vocabulary
from decoding.bigram_model import Bigrams

VOCABULARY = Vocabulary(("a", "dog", "runs", "on", "grass", "fast"))


def test_a_beam_of_one_is_greedy() -> None:
    """With a reward for length, a beam of one went on where greedy ends."""
    model = Bigrams(50, words=len(VOCABULARY))
    found = greedy(model, model.memory, max_words=8, constraints=usual_constraints(VOCABULARY))
    assert generate(model, VOCABULARY, model.memory, beam=1, max_words=8) == found.best()
