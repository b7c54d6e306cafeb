"""A whole trial from one file: captions, selection, judges, votes of people, corrected ranking.

    read_trial("trial.yaml")    the file, checked: every key is known and every value has the right type
    run_trial(trial)            does what is left to do and says what people still have to do

Every step is resumed: captions are kept in `<out>.captions`, everything else in the competition `<out>`. A second run
of a finished trial makes no requests. `<out>/trial.json` has the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson
import yaml  # type: ignore[import-untyped]

from captrial.captioners.chat_client import is_local, parse_address
from captrial.captioners.loading import check_source, runs_code
from captrial.compete import Competition, Judgement, SelectionSettings
from captrial.compete.storage.captioner_runs import check_captioners, run_captioners
from captrial.compete.storage.manifest import COMPETITION, MANIFEST, fingerprint
from captrial.errors import InputError, MismatchError, StateError
from captrial.files import FileSum, path_inside, refuse_overwrite
from captrial.folders import lock_folder, read_checksums, write_checked
from captrial.judges.corrected_ranking import JudgeResult, rank_by_judge
from captrial.judges.correction import judged_items
from captrial.judges.endpoint_judge import EndpointJudge
from captrial.judges.judge_comparison import JudgeRecord, compare_judges, competition_captions, metric_scores
from captrial.judges.judging import JudgeReport, JudgeSettings, items_for_people, judge_competition
from captrial.judges.machine_verdicts import read_judge, read_judges
from captrial.judges.rubric import read_rubric
from captrial.judges.spending import Spending, TokenPrice

RESULTS = "trial.json"
_LARGEST = 100_000  # bytes of a trial file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CAPTION_FILES = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".xlsx", ".eval")
_MOST = 2**31  # a number in the file

TEMPLATE = """\
# A trial of captioners: `captrial trial run THIS_FILE` does what is left to do, again and again, until it is finished.

out: trial                # folder of the competition, its verdicts and results; captions are kept in trial.captions
images: photos            # folder of the images

# Two or more models: a caption file (also of lmms-eval, VLMEvalKit, inspect), or a captioner that is run over the
# images: a shipped one, a run folder, a transformers model (owner/name) or an endpoint (http://host/v1#model).
models:
  ours: ours.json
  other: http://127.0.0.1:8000/v1#qwen2-vl

select: 40                # images for each pair of models, where their captions differ most
seed: 0
risk: 0.05                # of the intervals and of the stop rule

# Machine judges (may be left out). Keys of endpoints are read from OPENAI_API_KEY or CAPTRIAL_API_KEY.
judges:
  - address: http://127.0.0.1:8001/v1#judge
    name: judge           # of its file of verdicts
    mode: pairs           # or grade: one caption at a time
    # max_tokens: 4000    # of an answer, for models that reason first
    # rubric: rubric.txt  # what it is told; `captrial judge rubric` prints the default
    # budget: 5.00        # needs prices of a million tokens
    # prompt_price: 2.50
    # completion_price: 10.00

people:
  votes: 50               # comparisons by people, a random part of what was judged; 0: none (JUDGE ONLY)

# references: refs.json   # captions by people: for metrics
# metrics: [cider]
send_images: false        # true: images may be sent to endpoints on other machines
"""


@dataclass(frozen=True)
class TrialJudge:
    """A judge of a trial, as in the file."""

    address: str
    name: str
    mode: str = "pairs"
    rubric: str = ""
    budget: float | None = None
    prompt_price: float | None = None
    completion_price: float | None = None
    concurrency: int = 8
    max_tokens: int = 300
    text_only: bool = False

    def spending(self) -> Spending:
        """Prices and budget."""
        if self.prompt_price is None and self.completion_price is None:
            if self.budget is not None:
                raise InputError(f"judge {self.name}: a budget needs prompt_price and completion_price")
            return Spending()
        if self.budget is not None and not 0 < self.budget < float("inf"):
            raise InputError(f"judge {self.name}: a budget of {self.budget} is none")
        return Spending(TokenPrice(self.prompt_price or 0.0, self.completion_price or 0.0), self.budget)


@dataclass(frozen=True)
class TrialFile:
    """What a trial file says; paths are relative to the file's folder."""

    out: Path
    images: Path | None
    models: Mapping[str, str]
    select: int = 40
    seed: int = 0
    risk: float = 0.05
    judges: tuple[TrialJudge, ...] = ()
    votes: int = 50
    references: Path | None = None
    metrics: tuple[str, ...] = ("cider",)
    send_images: bool = False
    folder: Path = field(default_factory=Path)

    def caption_files(self) -> dict[str, Path]:
        """Models whose captions are a file."""
        found = {name: self.folder / source for name, source in self.models.items() if not _is_address(source)}
        return {name: path for name, path in found.items() if path.is_file()}

    def captioners(self) -> dict[str, str]:
        """Models that are run; folders of runs are relative to the file's folder, too."""
        files = self.caption_files()
        return {name: self._located(source) for name, source in self.models.items() if name not in files}

    def _located(self, source: str) -> str:
        folder = self.folder / source.partition("?")[0]
        return str(self.folder / source) if not _is_address(source) and folder.is_dir() else source

    def remote(self) -> list[str]:
        """Endpoints on other machines that would be sent images."""
        asked = [source for source in self.captioners().values() if _is_address(source)]
        asked += [judge.address for judge in self.judges if _is_address(judge.address) and not judge.text_only]
        unnamed = [judge for judge in self.judges if not _is_address(judge.address) and not judge.text_only]
        hosts = [base for base in (parse_address(one)[0] for one in asked) if not is_local(base)]
        return sorted({*hosts, *(one.base for one in map(_endpoint, unnamed) if not one.local)})


def _endpoint(judge: TrialJudge) -> EndpointJudge:
    return EndpointJudge.parse(judge.address)


def _is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


# Reading ------------------------------------------------------------------------------------------------------------


class _TrialLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Plain values; refuses aliases (a few lines of them are billions of values), keys twice and half characters."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias (*name); write the value itself")
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> Any:
        found = super().construct_scalar(node)
        found.encode()
        return found

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        twice = next((key for key in keys if isinstance(key, str) and keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.YAMLError(f"the key {twice[:50]} stands twice")
        return dict(super().construct_mapping(node, deep))


def read_trial(path: Path | str) -> TrialFile:
    """Read and check a trial file."""
    path = Path(path)
    try:
        content = path.read_bytes()
        if len(content) > _LARGEST:
            raise InputError(f"{path}: is larger than {_LARGEST} bytes; a trial file is short")
        found = yaml.load(content.decode(), _TrialLoader)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); write one by `captrial trial init`") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: is not YAML ({reason}); repair it") from None
    return _trial(_Section(str(path), found), path.parent)


@dataclass(frozen=True)
class _Section:
    """Part of the file: values by key, taken with their types; keys that nobody took are an error."""

    place: str
    values: Any

    def __post_init__(self) -> None:
        if not isinstance(self.values, dict) or not all(isinstance(key, str) for key in self.values):
            raise InputError(f"{self.place}: needs `key: value` lines; see `captrial trial init`")

    def only(self, *keys: str) -> None:
        unknown = [key for key in self.values if key not in keys]
        if unknown:
            raise InputError(f"{self.place}: unknown key {unknown[0][:50]}; known are {', '.join(keys)}")

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.values.get(key)
        if value is None:
            return default
        accepted = (int, float) if kind is float else (kind,)
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"{self.place}: {key} should be {_KINDS[kind]}, not {_shown(value)}")
        try:
            return kind(value)
        except OverflowError:
            raise InputError(f"{self.place}: {key} is too large a number") from None


def _shown(value: Any) -> str:
    """The start of a value, for messages."""
    try:
        return repr(str(value)[:50])
    except ValueError:  # a number of more digits than Python writes
        return "a number of thousands of digits"


_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "a group"}


def _trial(section: _Section, folder: Path) -> TrialFile:
    section.only(
        *("out", "images", "models", "select", "seed", "risk", "judges", "people", "references", "metrics"),
        "send_images",
    )
    people = _Section(f"{section.place}, people", section.get("people", dict, {}))
    people.only("votes")
    judges = tuple(
        _judge(_Section(f"{section.place}, judge {number}", one))
        for number, one in enumerate(section.get("judges", list, []), 1)
    )
    images, references = section.get("images", str), section.get("references", str)
    trial = TrialFile(
        folder / section.get("out", str, "trial"),
        None if images is None else folder / images,
        _models(section),
        section.get("select", int, 40),
        section.get("seed", int, 0),
        section.get("risk", float, 0.05),
        judges,
        people.get("votes", int, 50),
        None if references is None else folder / references,
        _metrics(section),
        section.get("send_images", bool, False),
        folder,
    )
    _check(section.place, trial)
    return trial


def _metrics(section: _Section) -> tuple[str, ...]:
    names = section.get("metrics", list, ["cider"])
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"{section.place}: metrics are names, as [bleu, cider]; see `captrial score --list-metrics`")
    return tuple(names)


def _models(section: _Section) -> dict[str, str]:
    models = section.get("models", dict, {})
    for name, source in models.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(source, str) or not source:
            raise InputError(f"{section.place}: models are `name: caption file or captioner`, not {_shown(name)}")
        if runs_code(source):
            raise InputError(
                f"{section.place}: {name} would run code or read pickles that come with its checkpoint, which captrial "
                "does not do because a file says so; if you trust it, caption by `captrial caption` and name the file "
                "of captions here"
            )
    if len(models) < 2:
        raise InputError(f"{section.place}: a trial has two or more models, this one {len(models)}")
    return dict(models)


def _judge(section: _Section) -> TrialJudge:
    known = {one.name: one for one in fields(TrialJudge)}
    section.only(*known)
    kinds = {"budget": float, "prompt_price": float, "completion_price": float, "concurrency": int, "max_tokens": int}
    kinds["text_only"] = bool
    given = {name: section.get(name, kinds.get(name, str)) for name in known if section.values.get(name) is not None}
    if "address" not in given:
        raise InputError(f"{section.place}: needs an address, http://host/v1#model")
    given.setdefault("name", re.sub(r"[^A-Za-z0-9._-]+", "-", EndpointJudge.parse(given["address"]).model).strip("-._"))
    return TrialJudge(**given)


def _check(place: str, trial: TrialFile) -> None:
    numbers = (trial.select, trial.votes, trial.seed)
    if not 0 < trial.risk < 0.5 or trial.select < 1 or min(numbers) < 0 or max(numbers) >= _MOST:
        raise InputError(
            f"{place}: risk is between 0 and 0.5, select at least 1, votes and seed at least 0, all below {_MOST}"
        )
    if trial.references is not None and not trial.references.is_file():
        raise InputError(f"{trial.references}: no such file of references; correct `references` in {place}")
    if trial.images is None and trial.captioners():
        raise InputError(
            f"{place}: {next(iter(trial.captioners()))} is not a caption file; to run it, name images: FOLDER"
        )
    if len({judge.name for judge in trial.judges}) < len(trial.judges):
        raise InputError(f"{place}: two judges have the same name")
    for judge in trial.judges:
        judge.spending()
        _endpoint(judge)
        _settings(trial, judge)


# Running ------------------------------------------------------------------------------------------------------------


@dataclass
class TrialResult:
    """What a trial has come to."""

    directory: Path
    reports: dict[str, JudgeReport] = field(default_factory=dict)
    votes: int = 0  # of people, on items that were judged (or on any, without judges)
    wanted: int = 0
    rankings: dict[str, JudgeResult] = field(default_factory=dict)
    people: list[dict[str, Any]] | None = None  # the ranking by people alone
    comparison: list[JudgeRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """To judges, in this run."""
        return sum(report.requests for report in self.reports.values())

    @property
    def complete(self) -> bool:
        """Whether every question has a verdict and people have voted as often as was planned."""
        return self.votes >= self.wanted and not any(report.missing for report in self.reports.values())

    def to_json(self) -> dict[str, Any]:
        """As in `trial.json`."""
        return {
            "complete": self.complete,
            "votes": self.votes,
            "wanted": self.wanted,
            "judges": {name: result.to_json() for name, result in self.rankings.items()},
            "people": self.people,
            "comparison": [record.to_json() for record in self.comparison],
            "notes": self.notes,
        }


def run_trial(trial: TrialFile, tell: Callable[[str], None] = lambda step: None) -> TrialResult:
    """Do every step that is not done yet; `tell` is called before each. Writes `trial.json`."""
    _refuse_sending(trial)
    with lock_folder(trial.out, COMPETITION):
        return _run_steps(trial, tell)


def _run_steps(trial: TrialFile, tell: Callable[[str], None]) -> TrialResult:
    refuse_overwrite(trial.out / RESULTS, overwrite=None, ours=_is_recorded)
    tell("captions")
    competition = _competition(trial)
    tell("selection")
    _select(trial, competition)
    result = TrialResult(trial.out, wanted=trial.votes)
    for judge in trial.judges:
        tell(f"judge {judge.name}")
        result.reports[judge.name] = _ask(trial, judge, competition)
        if result.reports[judge.name].stopped:
            result.notes.append(f"{judge.name} stopped: {result.reports[judge.name].stopped}")
    tell("ranking")
    _rank(trial, competition, result)
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    with write_checked(trial.out) as staging:
        (staging / RESULTS).write_bytes(orjson.dumps(result.to_json(), option=options) + b"\n")
    return result


def _is_recorded(path: Path) -> bool:
    """Whether a file of a competition is as captrial left it there."""
    return path.is_file() and FileSum.of(path) in read_checksums(path.parent).get(path.name, [])


def _refuse_sending(trial: TrialFile) -> None:
    if trial.remote() and not trial.send_images:
        raise InputError(
            f"images would be sent to {', '.join(trial.remote())}; allow it with send_images: true in the file, or "
            "--send-images"
        )


def _competition(trial: TrialFile) -> Competition:
    if (trial.out / MANIFEST).is_file():
        found = Competition.open(trial.out)
        _check_same(trial, found)
        return found
    files = trial.caption_files() | _run_captioners(trial)
    ordered = {name: files[name] for name in trial.models}
    common = len(trial.captioners()) > 0  # a file may caption more images than the folder has
    return Competition.create(trial.out, ordered, images=trial.images, seed=trial.seed, common=common)


def _run_captioners(trial: TrialFile) -> dict[str, Path]:
    captioners = trial.captioners()
    if not captioners:
        return {}
    assert trial.images is not None
    for name, source in captioners.items():  # before any captioner is run
        if Path(source).suffix in _CAPTION_FILES:
            raise InputError(f"{trial.folder / source}: no such caption file, for the model {name}; correct the path")
        check_source(source)
    return run_captioners(trial.out, captioners, trial.images)


def _check_same(trial: TrialFile, competition: Competition) -> None:
    """What a trial began with cannot be changed: its results would be of something else than its file says."""
    manifest, names = competition.manifest, ", ".join(competition.models)
    changed = ""
    if list(competition.models) != list(trial.models):
        changed = f"has the models {names}, the trial file {', '.join(trial.models)}"
    elif manifest.seed != trial.seed:
        changed = f"was made with the seed {manifest.seed}, the trial file says {trial.seed}"
    elif manifest.selection not in (None, _selection(trial, competition)):
        changed = f"has {manifest.selection.k} images selected for each pair, the trial file says {trial.select}"
    if changed:
        raise MismatchError(f"{trial.out}: {changed}; name another `out`")
    check_captioners(trial.out, trial.captioners())
    for entry in manifest.models:
        path = trial.caption_files().get(entry.name)
        if path is not None and fingerprint(path) != entry.fingerprint:
            raise MismatchError(
                f"{trial.out}: has other captions of {entry.name} than {path} now; name another `out`, or undo the "
                "change of that file"
            )


def _selection(trial: TrialFile, competition: Competition) -> SelectionSettings:
    size = competition.manifest.image_count
    k = min(trial.select, size)
    return SelectionSettings(k, min(k, size - k))


def _select(trial: TrialFile, competition: Competition) -> None:
    count = len(competition.models)
    if len(competition.selected_pairs()) < count * (count - 1) // 2:
        competition.select(_selection(trial, competition))


def _ask(trial: TrialFile, judge: TrialJudge, competition: Competition) -> JudgeReport:
    asked = _endpoint(judge)
    asked.spending = judge.spending()
    return judge_competition(competition, asked, _settings(trial, judge))


def _settings(trial: TrialFile, judge: TrialJudge) -> JudgeSettings:
    return JudgeSettings(
        judge.name,
        rubric=read_rubric(path_inside(trial.folder, judge.rubric)) if judge.rubric else "",  # it is sent away
        send_images=not judge.text_only,
        references=trial.references if judge.text_only else None,
        concurrency=judge.concurrency,
        mode=judge.mode,
        max_tokens=judge.max_tokens,
    )


def _rank(trial: TrialFile, competition: Competition, result: TrialResult) -> None:
    people = competition.judgements()
    judges = {name: found for name, found in read_judges(trial.out).items() if name in result.reports}
    counts = [len({(one.image, *sorted((one.first, one.second))) for one in people})]
    for name in judges:
        verdicts = [one.judgement() for one in read_judge(trial.out, name)[1]]
        counts.append(int(judged_items(people, verdicts).voted.sum()))
        result.rankings[name] = rank_by_judge(people, verdicts, name, trial.risk, True, items_for_people(competition))
    result.votes = min(counts[1:] or counts)
    result.people = _by_people(competition, people, result)
    if people:
        images = {one.image for one in people} | {one.image for _, of in judges.values() for one in of}
        captions = competition_captions(competition, sorted(images))
        references = competition.labels(trial.references).references
        scores = metric_scores(captions, references, trial.metrics) if references else {}
        result.comparison = compare_judges(people, judges, scores, captions)


def _by_people(
    competition: Competition, people: Sequence[Judgement], result: TrialResult
) -> list[dict[str, Any]] | None:
    try:
        return competition.rank_preferences(people).rows() if people else None
    except StateError as error:
        result.notes.append(f"no ranking by people alone: {error}")
        return None
