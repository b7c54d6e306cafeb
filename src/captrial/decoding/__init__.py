"""Decoding: greedy search, beam search and sampling over any model that can take a step.

| name | what it is |
| --- | --- |
| `greedy`, `beam_search`, `diverse_beam_search`, `sample` | the searches; each returns `Decoded` |
| `BeamSettings`, `SamplingSettings` | their settings |
| `NoImmediateRepeat`, `NoRepeatedNgram`, `NoBadEnding`, `Suppress` | constraints on the next word |
| `StepModel`, `Step` | what a search needs of a captioner |

    found = beam_search(captioner, captioner.encode(features), BeamSettings(beam=3, keep=3))
"""

from captrial.decoding.beam import BeamSettings, beam_search, diverse_beam_search
from captrial.decoding.constraints import (
    BAD_ENDINGS,
    Constraint,
    NoBadEnding,
    NoImmediateRepeat,
    NoRepeatedNgram,
    Suppress,
)
from captrial.decoding.protocol import BOS, EOS, PAD, Decoded, Step, StepModel
from captrial.decoding.sampling import SamplingSettings, greedy, sample

__all__ = [
    "BAD_ENDINGS",
    "BOS",
    "EOS",
    "PAD",
    "BeamSettings",
    "Constraint",
    "Decoded",
    "NoBadEnding",
    "NoImmediateRepeat",
    "NoRepeatedNgram",
    "SamplingSettings",
    "Step",
    "StepModel",
    "Suppress",
    "beam_search",
    "diverse_beam_search",
    "greedy",
    "sample",
]
