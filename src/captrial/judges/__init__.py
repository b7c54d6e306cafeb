"""LLM and VLM judges: machines that compare captions, and their verdicts, kept apart from those of people.

machine_verdicts     `MachineVerdict`, `read_verdicts`, `VerdictFile`: verdicts in the competition's directory
judging              `judge_competition`: a judge's run over a competition, resumed and cached; `items_for_people`
endpoint_judge       `EndpointJudge`: asks an OpenAI-compatible endpoint
endpoint_propositions  `EndpointPropositions`: what captions say, listed by a language model, for the metric `facts`
rubric               what a judge is told and asked
answers              how its answers are read
spending             prices, costs and the budget
simulated_judge      `SimulatedJudge` with known accuracy and biases, and a server that answers for it
correction           `corrected_mean`, `corrected_win_rates`: verdicts corrected by votes of people on a random part
corrected_ranking    `rank_corrected`: Bradley-Terry strengths and ranks; `rank_by_judge`: all about one judge
trial_file           `read_trial`, `run_trial`: a whole trial from one file
judge_comparison     `compare_judges`: judges and metrics against votes of people
corrected_sequence   `plan_votes`: is the best model settled, however often one looks
"""

from captrial.judges.corrected_ranking import CorrectedRanking, JudgeResult, rank_by_judge, rank_corrected
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
from captrial.judges.judge_comparison import JudgeRecord, compare_judges, competition_captions, family_of, metric_scores
from captrial.judges.judging import JudgeReport, JudgeSettings, items_for_people, judge_competition
from captrial.judges.machine_verdicts import (
    JudgeDescription,
    MachineGrade,
    MachineVerdict,
    VerdictFile,
    check_judge_name,
    judge_names,
    read_judge,
    read_judges,
    read_verdicts,
    the_judge,
    verdict_file,
)
from captrial.judges.rubric import RUBRICS, read_rubric
from captrial.judges.simulated_judge import SimulatedJudge, SimulatedServer, serve_judge
from captrial.judges.spending import Spending, TokenPrice, read_prices
from captrial.judges.trial_file import TrialFile, TrialJudge, TrialResult, read_trial, run_trial

__all__ = [
    "RUBRICS",
    "CorrectedMean",
    "CorrectedRanking",
    "CorrectedRate",
    "EndpointJudge",
    "EndpointPropositions",
    "FairBets",
    "JudgeDescription",
    "JudgeRecord",
    "JudgeReport",
    "JudgeResult",
    "JudgeSettings",
    "JudgedItems",
    "MachineGrade",
    "MachineVerdict",
    "SimulatedJudge",
    "SimulatedServer",
    "Spending",
    "TokenPrice",
    "TrialFile",
    "TrialJudge",
    "TrialResult",
    "VerdictFile",
    "VotePlan",
    "check_judge_name",
    "compare_judges",
    "competition_captions",
    "corrected_mean",
    "corrected_win_rates",
    "family_of",
    "items_for_people",
    "judge_competition",
    "judge_names",
    "judged_items",
    "metric_scores",
    "plan_votes",
    "rank_by_judge",
    "rank_corrected",
    "read_judge",
    "read_judges",
    "read_prices",
    "read_rubric",
    "read_trial",
    "read_verdicts",
    "run_trial",
    "serve_judge",
    "the_judge",
    "verdict_file",
]
