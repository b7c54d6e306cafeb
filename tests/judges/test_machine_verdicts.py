"""Files of machine verdicts: names instead of positions, appended, checked, and never taken for people's."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from captrial.compete import Judgement
from captrial.compete.storage.judgements import read_judgements
from captrial.errors import DamagedError, InputError, MismatchError, StateError
from captrial.folders import lock_folder
from captrial.judges import (
    JudgeDescription,
    MachineGrade,
    MachineVerdict,
    VerdictFile,
    rank_by_judge,
    read_judge,
    read_verdicts,
    verdict_file,
)
from captrial.judges.machine_verdicts import graded_verdicts

JUDGE = JudgeDescription("tiny", "tiny-vlm", rubric="r1")
VERDICT = MachineVerdict("tiny", "7", "a", "b", "b", "a", 'it says "dog"', 100, 5, 0.25, "k1")
TIE = replace(VERDICT, image="8", preferred=None, key="k2")


def write(directory: Path, *verdicts: MachineVerdict, judge: JudgeDescription = JUDGE) -> None:
    with VerdictFile(directory, judge) as file:
        file.append(verdicts)


def test_verdicts_come_back_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, VERDICT)
    write(tmp_path, TIE)
    other = replace(VERDICT, judge="other", preferred="b")
    write(tmp_path, other, judge=JudgeDescription("other", "o"))
    assert read_judge(tmp_path, "tiny") == (JUDGE, [VERDICT, TIE])
    assert read_verdicts(tmp_path) == [other, VERDICT, TIE]
    assert read_verdicts(tmp_path, ["tiny"]) == [VERDICT, TIE]
    assert read_verdicts(tmp_path, models=["a", "c"]) == []
    assert read_verdicts(tmp_path / "nothing") == []


@pytest.mark.parametrize(("shown", "preferred", "a_wins", "first_wins"), [
    ("a", "a", 1.0, 1.0), ("b", "a", 1.0, 0.0), ("a", "b", 0.0, 0.0), ("b", "b", 0.0, 1.0), ("b", None, 0.5, 0.5),
])  # fmt: skip
def test_outcome_is_of_the_model_not_of_the_position(
    shown: str, preferred: str | None, a_wins: float, first_wins: float
) -> None:
    verdict = replace(VERDICT, shown_first=shown, preferred=preferred)
    assert verdict.outcome == a_wins
    judgement = verdict.judgement()
    assert (judgement.first, judgement.second) == (shown, "b" if shown == "a" else "a")
    assert (judgement.outcome, judgement.annotator) == (first_wins, "tiny")


def test_the_later_of_two_verdicts_on_one_question_counts(tmp_path: Path) -> None:
    later = replace(VERDICT, preferred="b", key="k9")
    write(tmp_path, VERDICT, TIE, later)
    assert read_verdicts(tmp_path) == [later, TIE]


def test_results_do_not_depend_on_the_order_of_answers(tmp_path: Path) -> None:
    """Sums of the same numbers in another order differ in their last digits."""
    random = Random(3)
    found = [
        replace(VERDICT, image=str(image), shown_first=first, preferred=random.choice("aab"))
        for image in range(6)
        for first in "ab"
    ]
    people = [Judgement(str(image), "a", "b", 1.0) for image in range(6)]
    results = set()
    for seed in range(8):
        Random(seed).shuffle(found)
        write(tmp_path / str(seed), *found)
        verdicts = [one.judgement() for one in read_judge(tmp_path / str(seed), "tiny")[1]]
        results.add(repr(rank_by_judge(people, verdicts, "tiny").to_json()))
    assert len(results) == 1


def test_a_line_cut_by_a_kill_is_dropped_and_written_over(tmp_path: Path) -> None:
    write(tmp_path, VERDICT, TIE)
    path = verdict_file(tmp_path, "tiny")
    path.write_bytes(path.read_bytes()[:-20])
    assert read_verdicts(tmp_path) == [VERDICT]
    write(tmp_path, TIE)
    assert read_verdicts(tmp_path) == [VERDICT, TIE]


@pytest.mark.parametrize(("old", "new"), [
    (b'"preferred":"a"', b'"preferred":"b"'), (b'"image":"7"', b'"image":"9"'), (b"tiny-vlm", b"tony-vlm"),
])  # fmt: skip
def test_changed_bytes_are_noticed(tmp_path: Path, old: bytes, new: bytes) -> None:
    write(tmp_path, VERDICT, TIE)
    path = verdict_file(tmp_path, "tiny")
    changed = path.read_bytes().replace(old, new, 1)
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    with pytest.raises(DamagedError, match="checksum"):
        read_verdicts(tmp_path)


def test_another_rubric_needs_another_name(tmp_path: Path) -> None:
    write(tmp_path, VERDICT)
    with pytest.raises(MismatchError, match=r"rubric r1 instead of r2.*--name"):
        write(tmp_path, TIE, judge=replace(JUDGE, rubric="r2"))
    assert read_verdicts(tmp_path) == [VERDICT]


def test_a_machines_verdicts_are_not_judgements_of_people(tmp_path: Path) -> None:
    write(tmp_path, VERDICT)
    with pytest.raises(InputError, match="verdicts of a machine"):
        read_judgements(verdict_file(tmp_path, "tiny"))


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 200, "a\n"])
def test_names_that_are_no_file_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="--name"):
        write(tmp_path, VERDICT, judge=replace(JUDGE, judge=name))
    with pytest.raises(InputError, match="no verdicts of unknown"):
        read_judge(tmp_path, "unknown")


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    refused: list[Exception] = []

    def second() -> None:
        try:
            write(tmp_path, TIE)
        except StateError as error:
            refused.append(error)

    with lock_folder(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert read_verdicts(tmp_path) == []


def test_grades_become_verdicts_whose_costs_add_up() -> None:
    grades = [MachineGrade("j", "1", model, grade, cost=0.1) for model, grade in (("c", 3), ("a", 7), ("b", 7))]
    found = {(one.model_a, one.model_b): one for one in graded_verdicts(grades)}
    assert {pair: one.preferred for pair, one in found.items()} == {("a", "b"): None, ("a", "c"): "a", ("b", "c"): "b"}
    assert sum(one.cost for one in found.values()) == pytest.approx(0.3)
