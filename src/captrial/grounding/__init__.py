"""Grounding: does a captioner use what it names, and is its attention where it should be?

`captrial.ground` (module `ground`) grounds one caption; `Grounder` computes GroundingScore and verdicts (Cornia 2022
Eq. 13). `ground_dataset` does a data set, `verdict_accuracy` compares verdicts with the truth. `measure_attention`
measures attention correctness (Liu 2017 Eq. 12-13). `study_data` and `regions` read what studies work on; `tables`,
`attention_tables` and `figures` show results.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.grounding.attention_correctness import AttentionResult, measure_attention
    from captrial.grounding.ground import GroundedExplanation, ground_explanation
    from captrial.grounding.score import CaptionGrounding, GroundedNoun, Grounder, Verdict, grounding_threshold
    from captrial.grounding.study import GroundingResult, ground_dataset
    from captrial.grounding.tables import Estimate, Table, write_tables
    from captrial.grounding.verdict_evaluation import VerdictAccuracy, verdict_accuracy

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

__getattr__ = lazy_exports(
    __name__,
    {
        "attention_correctness": "AttentionResult measure_attention",
        "ground": "GroundedExplanation ground_explanation",
        "score": "CaptionGrounding GroundedNoun Grounder Verdict grounding_threshold",
        "study": "GroundingResult ground_dataset",
        "tables": "Estimate Table write_tables",
        "verdict_evaluation": "VerdictAccuracy verdict_accuracy",
    },
)
