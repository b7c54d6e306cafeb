"""LLM and VLM judges: machines that compare captions, and their verdicts, kept apart from those of people.

machine_verdicts   `MachineVerdict`, `read_verdicts`, `VerdictFile`: verdicts in the competition's directory
"""

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
    "JudgeDescription",
    "MachineVerdict",
    "VerdictFile",
    "check_judge_name",
    "read_judge",
    "read_verdicts",
    "verdict_file",
]
