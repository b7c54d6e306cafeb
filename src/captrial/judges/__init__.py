"""LLM and VLM judges: machines that compare captions, and their verdicts, kept apart from those of people.

machine_verdicts     `MachineVerdict`, `read_verdicts`, `VerdictFile`: verdicts in the competition's directory
correction           `corrected_mean`, `corrected_win_rates`: verdicts corrected by votes of people on a random part
corrected_ranking    `rank_corrected`: Bradley-Terry strengths and ranks
corrected_sequence   `plan_votes`: is the best model settled, however often one looks
"""

from captrial.judges.corrected_ranking import CorrectedRanking, rank_corrected
from captrial.judges.corrected_sequence import FairBets, VotePlan, plan_votes
from captrial.judges.correction import (
    CorrectedMean,
    CorrectedRate,
    JudgedItems,
    corrected_mean,
    corrected_win_rates,
    judged_items,
)
from captrial.judges.machine_verdicts import (
    JudgeDescription,
    MachineVerdict,
    VerdictFile,
    check_judge_name,
    read_judge,
    read_verdicts,
    verdict_file,
)

__all__ = [
    "CorrectedMean",
    "CorrectedRanking",
    "CorrectedRate",
    "FairBets",
    "JudgeDescription",
    "JudgedItems",
    "MachineVerdict",
    "VerdictFile",
    "VotePlan",
    "check_judge_name",
    "corrected_mean",
    "corrected_win_rates",
    "judged_items",
    "plan_votes",
    "rank_corrected",
    "read_judge",
    "read_verdicts",
    "verdict_file",
]
