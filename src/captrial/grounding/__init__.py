"""Grounding: does a captioner use what it names, and is its attention where it should be?

`captrial.ground` (module `ground`) grounds one caption; `Grounder` computes GroundingScore and verdicts (Cornia 2022
Eq. 13). `ground_dataset` does a data set, `verdict_accuracy` compares verdicts with the truth. `measure_attention`
measures attention correctness (Liu 2017 Eq. 12-13). `study_data` and `regions` read what studies work on; `tables`,
`attention_tables` and `figures` show results.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captrial.grounding.attention_correctness import AttentionResult, measure_attention
    from captrial.grounding.ground import GroundedExplanation, ground_explanation
    from captrial.grounding.score import CaptionGrounding, GroundedNoun, Grounder, Verdict, grounding_threshold
    from captrial.grounding.study import GroundingResult, ground_dataset
    from captrial.grounding.tables import Estimate, Table, write_tables
    from captrial.grounding.verdicts import VerdictAccuracy, verdict_accuracy

_FROM = {  # imported when first used: tables need no torch
    "AttentionResult": "attention_correctness",
    "CaptionGrounding": "score",
    "Estimate": "tables",
    "GroundedExplanation": "ground",
    "GroundedNoun": "score",
    "Grounder": "score",
    "GroundingResult": "study",
    "Table": "tables",
    "Verdict": "score",
    "VerdictAccuracy": "verdicts",
    "ground_dataset": "study",
    "ground_explanation": "ground",
    "grounding_threshold": "score",
    "measure_attention": "attention_correctness",
    "verdict_accuracy": "verdicts",
    "write_tables": "tables",
}
__all__ = [
    "AttentionResult",
    "CaptionGrounding",
    "Estimate",
    "GroundedExplanation",
    "GroundedNoun",
    "Grounder",
    "GroundingResult",
    "Table",
    "Verdict",
    "VerdictAccuracy",
    "ground_dataset",
    "ground_explanation",
    "grounding_threshold",
    "measure_attention",
    "verdict_accuracy",
    "write_tables",
]


def __getattr__(name: str) -> Any:
    if name in _FROM:
        from importlib import import_module

        return getattr(import_module(f"captrial.grounding.{_FROM[name]}"), name)
    raise AttributeError(f"module 'captrial.grounding' has no attribute {name!r}")
