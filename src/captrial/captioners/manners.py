"""How our captioners speak: by beam search, without unknown words, stutters and endings on "a" or "with"."""

from __future__ import annotations

from typing import Any

from captrial.decoding import beam_search, greedy
from captrial.decoding.constraints import BAD_ENDINGS, Constraint, NoBadEnding, NoImmediateRepeat, Suppress
from captrial.decoding.protocol import Speaker
from captrial.language.vocabulary import UNK, Vocabulary

LENGTH_POWER = 0.7  # by summed log-probability alone captions come out short (chosen on Flickr8k's val pictures)


def say(captioner: Speaker, vocabulary: Vocabulary, memory: Any, beam: int = 5, max_words: int = 20) -> list[list[int]]:
    """The words (ids) of one caption for each of the encoded pictures; a beam of 1 is greedy."""
    constraints = usual_constraints(vocabulary)
    if beam == 1:  # ranked by length, a beam of one would speak on past its end
        return greedy(captioner, memory, max_words=max_words, constraints=constraints).best()
    found = beam_search(
        captioner, memory, beam=beam, max_words=max_words, length_power=LENGTH_POWER, constraints=constraints
    )
    return found.best()


def usual_constraints(vocabulary: Vocabulary) -> tuple[Constraint, ...]:
    """The constraints for captions that people read; training samples without them."""
    endings = tuple(vocabulary[word] for word in BAD_ENDINGS if vocabulary[word] != UNK)
    return Suppress((UNK,)), NoImmediateRepeat(), NoBadEnding(endings)
