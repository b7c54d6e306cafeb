"""A run of a judge over a competition: which questions, what is known already, many requests at once, a report."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from captrial.captioners.chat_client import open_client
from captrial.compete.storage.caption_pool import gather
from captrial.data.images import image_data_url, open_image
from captrial.errors import InputError, StateError
from captrial.files import cache_directory, content_hash
from captrial.judges.answers import CHOICES
from captrial.judges.endpoint_judge import (
    Asked,
    BudgetReachedError,
    EndpointJudge,
    EndpointRefusedError,
    NoVerdictError,
)
from captrial.judges.machine_verdicts import (
    JudgeDescription,
    LostCost,
    MachineGrade,
    MachineVerdict,
    Record,
    VerdictFile,
    check_judge_name,
)
from captrial.judges.rubric import RUBRICS, instructions, question_text
from captrial.language.text_cache import TextCache

if TYPE_CHECKING:
    from captrial.compete import Competition

_IN_A_ROW = 20  # questions without a verdict, one after the other: something is wrong with the judge
_SIDES = (64, 4096)  # pixels of the longest side of an image that is sent
_TOKENS = (16, 100_000)  # of an answer, at most
_CACHE_VERSION = "judge-answers-3"


@dataclass(frozen=True)
class JudgeSettings:
    """How a judge is asked."""

    name: str  # of the judge, and of its file
    rubric: str = ""  # by default that of the mode
    send_images: bool = True  # False: a judge that reads texts only, and needs references
    references: Path | None = None  # shown to the judge, beside or instead of the image
    longest_side: int = 768
    concurrency: int = 8
    all_images: bool = False  # the whole pool instead of the selected and sampled images
    limit: int | None = None  # images, of those chosen at random
    mode: str = "pairs"  # or grade: one caption at a time, 0 to 10
    max_tokens: int = 300  # of an answer; models that reason first need thousands

    def __post_init__(self) -> None:
        check_judge_name(self.name)
        if self.mode not in RUBRICS:
            raise InputError(f"mode {self.mode[:50]!r}: judges know {' and '.join(RUBRICS)}")
        object.__setattr__(self, "rubric", self.rubric or RUBRICS[self.mode])
        if not _SIDES[0] <= self.longest_side <= _SIDES[1]:
            raise InputError(
                f"images of {self.longest_side} pixels: send {_SIDES[0]} to {_SIDES[1]} on the longest side"
            )
        if not 1 <= self.concurrency <= 256:
            raise InputError(f"{self.concurrency} requests at once: 1 to 256 are possible")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"{self.limit} images: judge at least one")
        if not _TOKENS[0] <= self.max_tokens <= _TOKENS[1]:
            raise InputError(f"answers of {self.max_tokens} tokens: allow {_TOKENS[0]} to {_TOKENS[1]}")


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """Two models' captions of an image, in the order in which they are shown."""

    image: str
    first: str
    second: str
    captions: tuple[str, str]
    references: tuple[str, ...]
    key: str

    @property
    def place(self) -> tuple[str, str, str, str]:
        """As `MachineVerdict.place`."""
        return (self.image, *sorted((self.first, self.second)), self.first)  # type: ignore[return-value]

    def record(self, judge: str, choice: str, reason: str, tokens: tuple[int, int], cost: float) -> MachineVerdict:
        """The verdict that an answer means."""
        preferred = {"first": self.first, "second": self.second, "tie": None}[choice]
        a, b = sorted((self.first, self.second))
        return MachineVerdict(judge, self.image, a, b, self.first, preferred, reason, *tokens, cost, self.key)


@dataclass(frozen=True, slots=True)
class GradeQuestion:
    """One model's caption of an image."""

    image: str
    model: str
    captions: tuple[str]
    references: tuple[str, ...]
    key: str

    @property
    def place(self) -> tuple[str, str]:
        """As `MachineGrade.place`."""
        return self.image, self.model

    def record(self, judge: str, choice: str, reason: str, tokens: tuple[int, int], cost: float) -> MachineGrade:
        """The grade that an answer means."""
        return MachineGrade(judge, self.image, self.model, int(choice), reason, *tokens, cost, self.key)


Question = PairQuestion | GradeQuestion


@dataclass
class JudgeReport:
    """What a run did, as in `captrial judge run --json`."""

    judge: str
    model: str
    questions: int = 0
    known: int = 0  # verdicts that were there before
    cached: int = 0  # answers that another run had paid
    verdicts: int = 0  # new ones, by requests
    requests: int = 0
    unanswered: dict[str, int] = field(default_factory=dict)  # questions without a verdict, by what went wrong
    failures: dict[str, int] = field(default_factory=dict)  # requests that failed or had a useless answer
    skipped: dict[str, int] = field(default_factory=dict)  # images that could not be asked about
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None  # of this run; None without prices
    total_cost: float | None = None  # of all runs of this judge here
    stopped: str = ""  # why the run ended early
    refused: bool = False  # the endpoint refuses every request
    notes: list[str] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """Questions that still have no verdict."""
        return self.questions - self.known - self.cached - self.verdicts


def judge_competition(
    competition: Competition,
    judge: EndpointJudge,
    settings: JudgeSettings,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> JudgeReport:
    """Ask a judge about pairs of captions (both orders), or for grades; keep its verdicts in the directory.

    Questions that have a verdict are not asked again, and answers are cached by content: a second run makes no
    requests. An interrupted run keeps what was answered; run it again to continue. `advance` is told how many of how
    many questions are done.
    """
    head = JudgeDescription(
        settings.name,
        judge.model,
        settings.mode,
        content_hash(settings.rubric),
        content_hash(repr((settings.send_images, settings.longest_side, settings.references is not None))),
    )
    report = JudgeReport(settings.name, judge.model)
    with VerdictFile(competition.directory, head) as file:
        questions = list(_questions(competition, judge, settings, report))
        report.questions = len(questions)
        left = [one for one in questions if not _is_known(file, one)]
        report.known = len(questions) - len(left)
        judge.spending.spent, judge.max_tokens = file.spent, settings.max_tokens
        before = judge.spending.spent
        run = _Run(competition, judge, settings, file, report, advance)
        try:
            left = run.use_cache(left)
            if left:
                asyncio.run(run.ask_all(left))
        finally:
            _complete(report, judge, before)
    return report


def _complete(report: JudgeReport, judge: EndpointJudge, before: float) -> None:
    report.requests, report.failures = judge.requests, dict(judge.failures)
    if judge.spending.price is not None:
        report.cost, report.total_cost = judge.spending.spent - before, judge.spending.spent
        if judge.uncounted:
            report.notes.append(f"{judge.uncounted} answers had no count of tokens; their cost is an estimate")
    other = sorted(set(judge.answered_by) - {judge.model})
    if other:
        report.notes.append(f"asked for {judge.model}, the endpoint answered as {', '.join(other)}")


def _is_known(file: VerdictFile, question: Question) -> bool:
    verdict = file.verdicts.get(question.place)
    return verdict is not None and verdict.key == question.key


# Questions -----------------------------------------------------------------------------------------------------------


def _questions(
    competition: Competition, judge: EndpointJudge, settings: JudgeSettings, report: JudgeReport
) -> Iterator[Question]:
    """All questions, in an order that is random but always the same: who stops early has judged a random part."""
    pairs_of = _pairs_of(competition, settings.all_images)
    images = sorted(pairs_of)
    random.Random(competition.manifest.seed).shuffle(images)
    images = images[: settings.limit]
    captions = gather(competition.pool, images)
    needs = settings.references is not None or not settings.send_images
    references = competition.labels(settings.references).references if needs else {}
    skipped: Counter[str] = Counter()
    for image in images:
        content = _image_hash(competition, image) if settings.send_images else ""
        written = tuple(references.get(image, ()))
        if content is None or (not settings.send_images and not written):
            skipped["no image" if content is None else "no references"] += 1
            continue
        texts = dict(zip(competition.models, captions[image], strict=True))
        key = partial(_key, judge, settings, content, written)
        if settings.mode == "grade":
            for model in dict.fromkeys(name for pair in pairs_of[image] for name in pair):
                yield GradeQuestion(image, model, (texts[model],), written, key((texts[model],)))
            continue
        for pair in pairs_of[image]:
            for first, second in (pair, pair[::-1]):
                shown = (texts[first], texts[second])
                yield PairQuestion(image, first, second, shown, written, key(shown))
    report.skipped = dict(skipped)


def _key(
    judge: EndpointJudge, settings: JudgeSettings, content: str, written: tuple[str, ...], shown: tuple[str, ...]
) -> str:
    """A hash of all that is asked."""
    asked = [_CACHE_VERSION, judge.model, settings.longest_side, settings.rubric, content, shown, written]
    return content_hash(orjson.dumps(asked, default=str), 32)


def items_for_people(competition: Competition) -> dict[tuple[str, str, str], int]:
    """Image and two models, in the order of names: what the annotation pages show, and a run judges by default.

    The value is the stratum: 1 for images on which just these models differ most (D_ij), 0 for others of the sample.
    """
    pairs_of = _pairs_of(competition, False)
    found = {(image, min(pair), max(pair)): 0 for image, pairs in pairs_of.items() for pair in pairs}
    for active in competition.selections().values():
        found |= {(image, min(active.models), max(active.models)): 1 for image in active.images}
    return found


def _pairs_of(competition: Competition, all_images: bool) -> dict[str, list[tuple[str, str]]]:
    """By image, the pairs of models to compare: D_ij for each pair, and all pairs on images of the sample."""
    every = list(combinations(competition.models, 2))
    if all_images:
        return dict.fromkeys(competition.pool.ids().to_pylist(), every)
    found: dict[str, list[tuple[str, str]]] = {}
    for active in competition.selections().values():
        for image in active.images:
            found.setdefault(image, []).append((active.models[0], active.models[1]))
    found |= dict.fromkeys(competition.sampled_images(), every)
    if not found:
        raise StateError(
            f"no images are selected yet; run `captrial compete select {competition.directory}`, or judge the whole "
            "pool with --all-images"
        )
    return found


def _image_hash(competition: Competition, image: str) -> str | None:
    if competition.image_source is None:
        raise StateError(
            "this competition has no images; name their folder with `captrial compete images`, or give a judge that "
            "reads texts only --text-only and --references FILE"
        )
    content = competition.image_source.content(image)
    return None if content is None else content_hash(content, 32)


# Asking --------------------------------------------------------------------------------------------------------------


class _Run:
    """The questions of one run, asked by some workers that take one after the other."""

    def __init__(
        self,
        competition: Competition,
        judge: EndpointJudge,
        settings: JudgeSettings,
        file: VerdictFile,
        report: JudgeReport,
        advance: Callable[[int, int], None],
    ) -> None:
        self.competition, self.judge, self.settings = competition, judge, settings
        self.file, self.report, self.advance = file, report, advance
        self.cache = TextCache(_CACHE_VERSION, directory=cache_directory() / "judges")
        self.in_a_row = 0
        self.unanswered: Counter[str] = Counter()

    def use_cache(self, questions: Sequence[Question]) -> list[Question]:
        """Write the verdicts of answers that another run received; the questions that are left."""
        stored = self.cache.known([self._cache_key(question) for question in questions])
        left, found = [], []
        for question in questions:
            verdict = self._cached(question, stored.get(self._cache_key(question)))
            if verdict is None:
                left.append(question)
            else:
                found.append(verdict)
        self.file.append(found)
        self.report.cached = len(found)
        self._tell()
        return left

    def _cache_key(self, question: Question) -> str:
        """Of the question and the endpoint: on two machines one name may stand for two models."""
        return content_hash(f"{self.judge.name}\n{question.key}", 32)

    def _cached(self, question: Question, stored: str | None) -> Record | None:
        try:
            answer = orjson.loads(stored or "null")
            choice, reason, tokens = answer["choice"], answer["reason"], answer["tokens"]
            if choice not in CHOICES[self.settings.mode] or not isinstance(reason, str):
                return None
            return question.record(self.settings.name, choice, reason, (int(tokens[0]), int(tokens[1])), 0.0)
        except (ValueError, KeyError, TypeError, IndexError):
            return None

    async def ask_all(self, questions: Iterable[Question]) -> None:
        """Ask; ends early where the budget is reached or the judge does not work. What was answered is on disk."""
        waiting = iter(questions)
        async with open_client(self.judge.base, self.settings.concurrency, self.judge.timeout) as client:

            async def work() -> None:
                for question in waiting:
                    if self.report.stopped:
                        return
                    try:
                        await self._ask(client, question)
                    except (BudgetReachedError, EndpointRefusedError) as error:
                        self.report.stopped = self.report.stopped or str(error)
                        self.report.refused |= isinstance(error, EndpointRefusedError)
                        return

            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(self.settings.concurrency):
                        group.create_task(work())
            except ExceptionGroup as errors:  # a full disk, for one
                raise errors.exceptions[0] from None

    async def _ask(self, client: Any, question: Question) -> None:
        asked = Asked(lambda cost: self.file.append([LostCost(question.image, cost)]))
        try:
            messages = await asyncio.to_thread(self._messages, question)
            answer = await self.judge.ask(client, messages, self.settings.mode, asked)
        except NoVerdictError as error:
            self._failed(error.kind, str(error))
            return
        except InputError as error:  # an image that cannot be opened
            self._failed("image", str(error))
            return
        finally:
            self.report.prompt_tokens += asked.prompt_tokens
            self.report.completion_tokens += asked.completion_tokens
        tokens = (asked.prompt_tokens, asked.completion_tokens)
        kept = {"choice": answer.choice, "reason": answer.reason, "tokens": tokens}
        self.cache.store([self._cache_key(question)], [orjson.dumps(kept).decode()])
        self.file.append([question.record(self.settings.name, answer.choice, answer.reason, tokens, asked.cost)])
        self.in_a_row = 0
        self.report.verdicts += 1
        self._tell()

    def _failed(self, kind: str, problem: str) -> None:
        self.unanswered[kind] += 1
        self.report.unanswered = dict(self.unanswered)
        self.in_a_row += 1
        if self.in_a_row >= _IN_A_ROW and not self.report.stopped:
            self.report.stopped = f"{self.in_a_row} questions in a row have no verdict; the last: {problem}"
        self._tell()

    def _tell(self) -> None:
        done = self.report.known + self.report.cached + self.report.verdicts + self.unanswered.total()
        self.advance(done, self.report.questions)

    def _messages(self, question: Question) -> list[dict[str, Any]]:
        text = question_text(question.captions, question.references)
        content: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if self.settings.send_images:
            source = self.competition.image_source
            image = source.content(question.image) if source else None
            if image is None:
                raise InputError(f"image {question.image} is not there any more")
            url = image_data_url(open_image(image, name=question.image), side=self.settings.longest_side, quality=90)
            content.append({"type": "image_url", "image_url": {"url": url}})
        system = {"role": "system", "content": instructions(self.settings.rubric, self.settings.mode)}
        return [system, {"role": "user", "content": content}]
