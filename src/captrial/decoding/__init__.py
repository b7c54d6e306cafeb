"""Greedy, beam and sampling: knows the contract, never a model."""

from captrial.decoding.beam import beam_search, diverse_beam_search
from captrial.decoding.constraints import BAD_ENDINGS, NoBadEnding, NoImmediateRepeat, NoRepeatedNgram, Suppress
from captrial.decoding.protocol import (
    BOS,
    EOS,
    PAD,
    Decoded,
    Step,
    StepModel,
)
from captrial.decoding.sampling import greedy, sample

__all__ = [
    "BAD_ENDINGS",
    "BOS",
    "EOS",
    "PAD",
    "Decoded",
    "NoBadEnding",
    "NoImmediateRepeat",
    "NoRepeatedNgram",
    "Step",
    "StepModel",
    "Suppress",
    "beam_search",
    "diverse_beam_search",
    "greedy",
    "sample",
]
