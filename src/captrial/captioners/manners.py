"""How our captioners speak by default: no unknown word, no stutter, no ending on "a" or "with", not too short."""

from __future__ import annotations

from captrial.decoding.constraints import BAD_ENDINGS, Constraint, NoBadEnding, NoImmediateRepeat, Suppress
from captrial.language.vocabulary import UNK, Vocabulary

LENGTH_POWER = 0.7  # of the beam search; by summed log-probability alone captions come out short (Flickr8k val)


def usual_constraints(vocabulary: Vocabulary) -> tuple[Constraint, ...]:
    """The constraints for captions that people read; training samples without them."""
    endings = tuple(vocabulary[word] for word in BAD_ENDINGS if vocabulary[word] != UNK)
    return Suppress((UNK,)), NoImmediateRepeat(), NoBadEnding(endings)
