"""Verdicts of machines: which of two models' captions an LLM or VLM judge preferred. Kept apart from those of people.

    judges/<judge>.jsonl    in the competition's directory: a line that describes the judge, then a line a verdict

A verdict names the better model, never a position; a pair of models is always written in the order of their names, and
`shown_first` says which of the two captions the judge saw first. `captrial compete rank --preferences` refuses such a
file: verdicts of machines are not judgements of people.

A judge that grades single captions (mode `grade`) has a line a grade instead; `read_judge` turns grades into verdicts:
of two captions of an image the one with the higher grade is better, equal grades are a tie.

A request that was paid for and led to no verdict has a line with its cost, so that a budget holds over all runs.
`read_judge` shares these costs out among the verdicts, by their own costs.

Verdicts are appended. Every line has a checksum; a last line that a kill has cut is dropped, any other damage is an
error. Where a judge was asked twice about the same images, models and order, the later verdict counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import orjson

from captrial.compete.storage.judgements import MACHINE, Judgement
from captrial.errors import CaptrialError, DamagedError, InputError, MismatchError
from captrial.files import atomic_write, content_hash
from captrial.folders import FolderVerifier, VerifiedFolder, lock_folder

FOLDER = "judges"
REMAKE = "`captrial judge run`, which asks only for what is missing"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CHECK = re.compile(rb'^(.*),"check":"([0-9a-f]{8})"\}$', re.DOTALL)


@dataclass(frozen=True, slots=True)
class MachineVerdict:
    """What a judge answered about the captions of two models for one image, shown in one order."""

    judge: str
    image: str
    model_a: str  # the names are in order: model_a < model_b
    model_b: str
    shown_first: str  # one of the two
    preferred: str | None  # the better one; None: a tie
    reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0  # in the currency of the price table
    key: str = ""  # a hash of what was asked: image, captions, rubric, model, order

    @property
    def outcome(self) -> float:
        """1 where `model_a` is better, 0 where `model_b` is, 0.5 for a tie."""
        return 0.5 if self.preferred is None else float(self.preferred == self.model_a)

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What the verdict is about: image, the two models, and which was shown first."""
        return self.image, self.model_a, self.model_b, self.shown_first

    def judgement(self) -> Judgement:
        """The verdict in the form that rankings by preferences take, with the judge as annotator."""
        second = self.model_b if self.shown_first == self.model_a else self.model_a
        outcome = 0.5 if self.preferred is None else float(self.preferred == self.shown_first)
        return Judgement(self.image, self.shown_first, second, outcome, self.judge)


@dataclass(frozen=True, slots=True)
class MachineGrade:
    """The grade, 0 to 10, that a judge gave one model's caption of an image."""

    judge: str
    image: str
    model: str
    grade: int
    reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    key: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """What was graded."""
        return self.image, self.model


@dataclass(frozen=True, slots=True)
class LostCost:
    """What requests cost that led to no verdict."""

    image: str
    lost: float


Record = MachineVerdict | MachineGrade


def graded_verdicts(grades: Iterable[MachineGrade]) -> list[MachineVerdict]:
    """A verdict for every two graded captions of an image; the costs of grades are shared out among them."""
    by_image: dict[str, list[MachineGrade]] = {}
    for grade in grades:
        by_image.setdefault(grade.image, []).append(grade)
    found = []
    for image, graded in by_image.items():
        for one, other in combinations(sorted(graded, key=lambda grade: grade.model), 2):
            better = None if one.grade == other.grade else max(one, other, key=lambda grade: grade.grade).model
            cost = (one.cost + other.cost) / (len(graded) - 1)
            found.append(MachineVerdict(one.judge, image, one.model, other.model, one.model, better, cost=cost))
    return found


@dataclass(frozen=True, slots=True)
class JudgeDescription:
    """Who judged and how: the first line of a file of verdicts. One judge has one description."""

    judge: str
    model: str
    mode: str = "pairs"  # what it was shown: see `captrial.judges`
    rubric: str = ""  # a hash of the rubric's text
    settings: str = ""  # a hash of what else changes answers: size of images, temperature, references

    def line(self) -> bytes:
        """The line itself."""
        return _line({"machine": MACHINE, **asdict(self)})


def check_judge_name(name: str) -> str:
    """The name of a judge, which is also that of its file; an `InputError` where it cannot be one."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name[:100]!r}: a judge's name has letters, digits and . _ - only; choose one by --name")
    return name


def verdict_file(directory: Path | str, judge: str) -> Path:
    """Where the verdicts of a judge are."""
    return Path(directory) / FOLDER / f"{check_judge_name(judge)}.jsonl"


def read_verdicts(
    directory: Path | str, judges: Sequence[str] | None = None, models: Sequence[str] | None = None
) -> list[MachineVerdict]:
    """The verdicts of all judges, or of some, in a competition's directory; those of `models` alone, if given."""
    names = judge_names(directory) if judges is None else list(judges)
    found = [verdict for name in names for verdict in read_judge(directory, name)[1]]
    allowed = None if models is None else frozenset(models)
    return [verdict for verdict in found if allowed is None or {verdict.model_a, verdict.model_b} <= allowed]


def judge_names(directory: Path | str) -> list[str]:
    """Judges that have verdicts in a competition's directory."""
    return [path.stem for path in sorted((Path(directory) / FOLDER).glob("*.jsonl")) if _NAME.fullmatch(path.stem)]


def the_judge(directory: Path | str, name: str | None = None) -> str:
    """The judge of this name, or the only one; an `InputError` where there are none or several."""
    names = judge_names(directory)
    if name is not None:
        return name
    if not names:
        raise InputError(f"{directory}: has no verdicts of judges; run `captrial judge run`")
    if len(names) > 1:
        raise InputError(f"{directory}: has verdicts of {', '.join(names)}; choose one by --judge")
    return names[0]


def read_judges(directory: Path | str) -> dict[str, tuple[str, list[MachineVerdict]]]:
    """By judge: its model and its verdicts; judges without a verdict are left out."""
    found = {name: read_judge(directory, name) for name in judge_names(directory)}
    return {name: (head.model, verdicts) for name, (head, verdicts) in found.items() if verdicts}


def read_judge(directory: Path | str, judge: str) -> tuple[JudgeDescription, list[MachineVerdict]]:
    """The description and the verdicts of one judge, in the order of images; of several on one question the last."""
    path = verdict_file(directory, judge)
    if not path.is_file():
        known = ", ".join(one.stem for one in sorted(path.parent.glob("*.jsonl"))) or "none"
        raise InputError(f"{directory}: has no verdicts of {judge}; judges here: {known}; run `captrial judge run`")
    head, records, lost = _read(path)
    paid = sum(record.cost for record in records)
    whole = 1 + lost / paid if paid else 1.0
    latest = {record.place: replace(record, cost=whole * record.cost) for record in records}
    ordered = [latest[place] for place in sorted(latest)]  # answers come in any order, results must not depend on it
    grades = graded_verdicts(one for one in ordered if isinstance(one, MachineGrade))
    return head, [*(one for one in ordered if isinstance(one, MachineVerdict)), *grades]


def verify_verdicts(directory: Path | str) -> VerifiedFolder:
    """Read the verdicts of all judges against their checksums; problems are listed, not raised."""
    names, problems = judge_names(directory), list[str]()
    for name in names:
        try:
            read_judge(directory, name)
        except CaptrialError as error:
            problems.append(str(error))
    return VerifiedFolder(VERDICTS.name, len(names), tuple(problems))


VERDICTS = FolderVerifier("verdicts of judges", lambda folder: bool(judge_names(folder)), verify_verdicts)


class VerdictFile:
    """The verdicts of one judge, open for appending; the competition's folder is locked by the caller's `with`.

    >>> with VerdictFile(directory, JudgeDescription("gpt", "gpt-4o")) as file:  # doctest: +SKIP
    ...     file.append([verdict])
    """

    def __init__(self, directory: Path | str, description: JudgeDescription) -> None:
        self.directory, self.description = Path(directory), description
        self.path = verdict_file(directory, description.judge)
        self.verdicts: dict[tuple[str, ...], Record] = {}  # or grades
        self.spent = 0.0  # by all runs until now

    def __enter__(self) -> VerdictFile:
        self._lock = lock_folder(self.directory, "competition")
        self._lock.__enter__()
        try:
            self._descriptor = self._open()
        except BaseException as error:
            self._lock.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        os.close(self._descriptor)
        self._lock.__exit__(*error)

    def append(self, verdicts: Iterable[Record | LostCost]) -> None:
        """Add verdicts or grades, or a cost alone; when this returns they are on disk."""
        fresh = list(verdicts)
        content = b"".join(
            _line({name: value for name, value in asdict(one).items() if name != "judge"}) for one in fresh
        )
        while content:
            content = content[os.write(self._descriptor, content) :]
        os.fsync(self._descriptor)
        self.verdicts |= {one.place: one for one in fresh if not isinstance(one, LostCost)}

    def _open(self) -> int:
        if not self.path.exists():
            atomic_write(self.path, self.description.line())
        head, verdicts, lost = _read(self.path)
        if head != self.description:
            raise MismatchError(
                f"{self.path}: {head.judge} was asked differently before ({_changed(head, self.description)}); give "
                "this judge another --name, so that its verdicts are kept apart"
            )
        self.verdicts = {verdict.place: verdict for verdict in verdicts}
        self.spent = sum(verdict.cost for verdict in verdicts) + lost
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(descriptor, _complete(self.path.read_bytes()))
        return descriptor


def _changed(before: JudgeDescription, now: JudgeDescription) -> str:
    old, new = asdict(before), asdict(now)
    return ", ".join(
        f"{name} {old[name] or 'none'} instead of {new[name] or 'none'}" for name in old if old[name] != new[name]
    )


def _line(record: Mapping[str, Any]) -> bytes:
    body = orjson.dumps(record)[:-1]
    return body + b',"check":"' + content_hash(body, 8).encode() + b'"}\n'


def _complete(content: bytes) -> int:
    """The length of the content without a last line that was cut."""
    return content.rfind(b"\n") + 1


def _read(path: Path) -> tuple[JudgeDescription, list[Record], float]:
    """The description, all verdicts or grades, and what was paid for none."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedError(path, f"cannot be read ({error.strerror or error})", REMAKE) from None
    records = _records(path, content[: _complete(content)])
    try:
        _, first = next(records, (0, {}))
        if first.pop("machine", None) != MACHINE:
            raise ValueError("its first line does not describe a judge")
        head = JudgeDescription(**{name: _text(first, name) for name in first})
    except (TypeError, ValueError) as error:
        raise DamagedError(path, f"is not a file of verdicts ({error})", REMAKE) from None
    parse = _grade if head.mode == "grade" else _verdict
    found, lost = list[Record](), 0.0
    for number, record in records:
        if "lost" in record:
            lost += _lost(path, number, record)
        else:
            found.append(parse(path, number, head.judge, record))
    return head, found, lost


def _records(path: Path, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        parts = _CHECK.match(line)
        if parts is None or content_hash(parts[1], 8).encode() != parts[2]:
            raise DamagedError(path, f"line {number} does not match its checksum", REMAKE)
        try:
            record = orjson.loads(parts[1] + b"}")
        except orjson.JSONDecodeError as error:
            raise DamagedError(path, f"line {number} is not JSON ({error})", REMAKE) from None
        yield number, record


def _verdict(path: Path, number: int, judge: str, record: Mapping[str, Any]) -> MachineVerdict:
    try:
        names = ("image", "model_a", "model_b", "shown_first", "reason", "key")
        texts = {name: _text(record, name) for name in names}
        models = (texts["model_a"], texts["model_b"])
        preferred = record["preferred"]
        if not models[0] < models[1] or texts["shown_first"] not in models or preferred not in (None, *models):
            raise ValueError("its models do not fit together")
        tokens, cost = _spent(record)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedError(path, f"line {number} is not a verdict ({error})", REMAKE) from None
    return MachineVerdict(judge, preferred=preferred, cost=cost, **texts, **tokens)  # type: ignore[arg-type]


def _grade(path: Path, number: int, judge: str, record: Mapping[str, Any]) -> MachineGrade:
    try:
        texts = {name: _text(record, name) for name in ("image", "model", "reason", "key")}
        grade, (tokens, cost) = _count(record, "grade"), _spent(record)
        if grade > 10:
            raise ValueError(f"its grade is {grade}")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedError(path, f"line {number} is not a grade ({error})", REMAKE) from None
    return MachineGrade(judge, grade=grade, cost=cost, **texts, **tokens)  # type: ignore[arg-type]


def _lost(path: Path, number: int, record: Mapping[str, Any]) -> float:
    try:
        return _cost(record["lost"])
    except (TypeError, ValueError, OverflowError) as error:
        raise DamagedError(path, f"line {number} has no cost ({error})", REMAKE) from None


def _spent(record: Mapping[str, Any]) -> tuple[dict[str, int], float]:
    return {name: _count(record, name) for name in ("prompt_tokens", "completion_tokens")}, _cost(record["cost"])


def _cost(value: Any) -> float:
    cost = float(value)
    if not 0 <= cost < float("inf"):
        raise ValueError(f"its cost is {cost}")
    return cost


def _text(record: Mapping[str, Any], name: str) -> str:
    if not isinstance(record[name], str):
        raise ValueError(f"{name} is not text")
    return str(record[name])


def _count(record: Mapping[str, Any], name: str) -> int:
    if not isinstance(record[name], int) or isinstance(record[name], bool) or record[name] < 0:
        raise ValueError(f"{name} is not a count")
    return int(record[name])
