"""LLM and VLM judges: machines that compare captions, and their verdicts, kept apart from those of people.

machine_verdicts     `MachineVerdict`, `read_verdicts`, `VerdictFile`: verdicts in the competition's directory
judging              `judge_competition`: a judge's run over a competition, resumed and cached
endpoint_judge       `EndpointJudge`: asks an OpenAI-compatible endpoint
endpoint_propositions  `EndpointPropositions`: what captions say, listed by a language model, for the metric `facts`
rubric               what a judge is told, and how its answers are read
spending             prices, costs and the budget
simulated_judge      `SimulatedJudge` with known accuracy and biases, and a server that answers for it
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
from captrial.judges.endpoint_judge import EndpointJudge
from captrial.judges.endpoint_propositions import EndpointPropositions
from captrial.judges.judging import JudgeReport, JudgeSettings, judge_competition
from captrial.judges.machine_verdicts import (
    JudgeDescription,
    MachineVerdict,
    VerdictFile,
    check_judge_name,
    read_judge,
    read_verdicts,
    verdict_file,
)
from captrial.judges.rubric import RUBRICS, read_rubric
from captrial.judges.simulated_judge import SimulatedJudge, SimulatedServer, serve_judge
from captrial.judges.spending import Spending, TokenPrice, read_prices

__all__ = [
    "RUBRICS",
    "CorrectedMean",
    "CorrectedRanking",
    "CorrectedRate",
    "EndpointJudge",
    "EndpointPropositions",
    "FairBets",
    "JudgeDescription",
    "JudgeReport",
    "JudgeSettings",
    "JudgedItems",
    "MachineVerdict",
    "SimulatedJudge",
    "SimulatedServer",
    "Spending",
    "TokenPrice",
    "VerdictFile",
    "VotePlan",
    "check_judge_name",
    "corrected_mean",
    "corrected_win_rates",
    "judge_competition",
    "judged_items",
    "plan_votes",
    "rank_corrected",
    "read_judge",
    "read_prices",
    "read_rubric",
    "read_verdicts",
    "serve_judge",
    "verdict_file",
]
