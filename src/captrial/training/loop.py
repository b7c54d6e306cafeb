"""The training loop: stages, validation, early stopping, and exact resume after a kill at any moment.

The state on disk is complete enough to continue as if a run had never stopped: everything random in a step is seeded
by (seed, step), and the order of batches by (seed, epoch), so weights (and their moving average), optimiser moments
and a few counters are all there is to keep. Tensors go into a safetensors file; nothing is pickled.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import orjson
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from captrial.errors import CaptrialError, DamagedError
from captrial.files import atomic_write
from captrial.folders import check_files, write_checked
from captrial.progress import progress_bar
from captrial.training.data import Batch, CaptionData
from captrial.training.parallel import WEIGHT, GradientSum, Ranks
from captrial.training.stages.base import Logs, Stage

STATE = "state.safetensors"
REMAKE = "`captrial train` after removing it: the run then begins anew"


class MovingAverage:
    """`average <- decay * average + (1 - decay) * weights` after every step, of everything `models` would save.

    Where a recipe asks for it, the average is validated and kept instead of the last step's weights. It is meant for
    self-critical training, whose steps are noisy and soon overfit. It begins with the weights of cross-entropy; a stage
    that begins with random weights has none, since they would stay in the average for long.
    """

    def __init__(self, models: nn.Module, decay: float) -> None:
        self.models, self.decay = models, decay
        self.weights = {name: tensor.detach().clone() for name, tensor in models.state_dict().items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of one more step."""
        for name, tensor in self.models.state_dict().items():
            if tensor.is_floating_point():
                self.weights[name].lerp_(tensor, 1 - self.decay)
            else:
                self.weights[name].copy_(tensor)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The models have the average as their weights inside the block, and their own again after it."""
        own = {name: tensor.detach().clone() for name, tensor in self.models.state_dict().items()}
        self.models.load_state_dict(self.weights)
        try:
            yield
        finally:
            self.models.load_state_dict(own)


@dataclass
class Counters:
    """The position of a run."""

    stage: int = 0
    epoch: int = 0  # of the stage
    batch: int = 0  # of the epoch
    step: int = 0  # of the stage
    total_steps: int = 0  # of the run
    seconds: float = 0.0
    processor: float = 0.0  # seconds of all threads, validation included
    best: float = -1.0
    waited: int = 0  # validations since the best
    scores: list[float] = field(default_factory=list)  # validation scores of the stage
    logged: dict[str, float] = field(default_factory=dict)  # sums over the steps of the epoch, for its log


def save_state(
    path: Path,
    models: nn.Module,
    optimizer: torch.optim.Optimizer,
    counters: Counters,
    average: MovingAverage | None = None,
) -> None:
    """Write models, their average, optimiser moments and counters, whole or not at all."""
    tensors = {f"model/{name}": tensor.detach().contiguous() for name, tensor in models.state_dict().items()}
    if average:
        tensors.update({f"average/{name}": tensor.contiguous() for name, tensor in average.weights.items()})
    for index, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            tensors[f"optimizer/{index}/{key}"] = torch.as_tensor(value).detach().contiguous()
    with write_checked(path.parent) as staging:
        save_file(tensors, staging / path.name, metadata={"counters": orjson.dumps(asdict(counters)).decode()})


def read_counters(path: Path) -> Counters:
    """The counters of a saved state; a `DamagedError` where the file is not what was saved."""
    check_files(path.parent, REMAKE, [path.name])
    try:
        with safe_open(path, "pt") as file:
            counters = Counters(**orjson.loads(file.metadata()["counters"]))
            if not all(isinstance(getattr(counters, name), int) for name in ("stage", "epoch", "batch", "step")):
                raise ValueError("its counters are no numbers")
            return counters
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(path, f"is not the state of a training run ({error})", REMAKE) from None


def load_state(
    path: Path, models: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage | None = None
) -> None:
    """Put a saved state back into models, their average, and an optimiser over the same parameters."""
    try:
        _load_state(path, models, optimizer, average)
    except (OSError, SafetensorError, RuntimeError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DamagedError(path, f"does not fit the captioner of this run ({reason})", REMAKE) from None


def _load_state(path: Path, models: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage | None) -> None:
    model: dict[str, Tensor] = {}
    moments: dict[int, dict[str, Tensor]] = {}
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118 (not a dict)
            kind, rest = name.split("/", 1)
            if kind == "model":
                model[rest] = file.get_tensor(name)
            elif kind == "average":
                if average:
                    average.weights[rest].copy_(file.get_tensor(name))
            else:
                index, key = rest.split("/")
                moments.setdefault(int(index), {})[key] = file.get_tensor(name)
    models.load_state_dict(model)
    saved = optimizer.state_dict()
    saved["state"] = moments
    optimizer.load_state_dict(saved)


METRICS = "metrics.csv"
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?(e[-+]?[0-9]{1,3})?")
COLUMNS = (
    "stage",
    "epoch",
    "step",
    "seconds",
    "rate",
    "loss",
    "reward",
    "attention_loss",
    "critic_loss",
    "cider",
    "processor",
)


@dataclass(frozen=True)
class LoopSettings:
    """What all stages share."""

    batch: int = 32  # images
    seed: int = 0
    weight_decay: float = 0.01
    beta: float = 0.98  # Adam's second
    clip: float = 1.0  # gradient norm; 0 for none
    clamp: float = 0.0  # each element of the gradient; 0 for none
    average: float = 0.0  # decay of the moving average of weights, in stages that have one; 0 for none
    patience: int = 5  # validations without a better score before a stage ends
    save_every: float = 60.0  # seconds between two saves of the state
    autocast: bool = False  # bfloat16
    accumulate: int = 1  # pieces that a rank cuts its share of a batch into: less memory, the same gradient


class BestCaptioner(Protocol):
    """The captioner in training: how good it is, and its best weights so far."""

    def validate(self) -> float:
        """The score of the present weights."""
        ...

    def save(self) -> None:
        """Keep the present weights: their score is the best of the run."""
        ...

    def restore(self) -> None:
        """Put the best weights back, before a stage that follows one that was validated."""
        ...


@dataclass(eq=False)
class Trainer:
    """Runs stages over data, keeping the best captioner by validation score."""

    run: Path  # the run folder
    models: nn.Module
    stages: list[Stage]
    data: CaptionData
    best: BestCaptioner
    settings: LoopSettings = field(default_factory=LoopSettings)
    ranks: Ranks = field(default_factory=Ranks)
    counters: Counters = field(init=False, default_factory=Counters)
    average: MovingAverage | None = field(init=False, default=None)  # of the present stage

    def __post_init__(self) -> None:
        self.device = next(self.models.parameters()).device

    def train(self) -> Counters:
        """Train to the end, from the state in the run folder where there is one."""
        state = self.run / STATE
        resuming = state.is_file()
        if resuming:
            self.counters = read_counters(state)
        if self.ranks.is_first:
            begun = self.counters.batch > 0  # its epoch may be logged already: that row is dropped
            _drop_rows_after(self.run / METRICS, self.counters.total_steps - begun)
        while self.counters.stage < len(self.stages):
            stage = self.stages[self.counters.stage]
            optimizer = self._optimizer(stage)
            if self.counters.best >= 0 and self.ranks.is_first and not resuming:
                self.best.restore()
            self.ranks.copy_first(self.models)
            self.average = None
            if self.settings.average and stage.averages:
                self.average = MovingAverage(self.models, self.settings.average)
            if resuming:
                load_state(state, self.models, optimizer, self.average)
                resuming = False
            else:  # what the stage begins with: after a kill the best may already be one of its own
                self._save(optimizer)
            self._train_stage(stage, optimizer)
            last = self.counters
            fresh = Counters(total_steps=last.total_steps, seconds=last.seconds, processor=last.processor)
            fresh.stage, fresh.best = last.stage + 1, last.best
            self.counters = fresh
        return self.counters

    def _optimizer(self, stage: Stage) -> torch.optim.Optimizer:
        settings = self.settings
        parameters = [parameter for parameter in stage.parameters() if parameter.requires_grad]
        return torch.optim.AdamW(
            parameters, betas=(0.9, settings.beta), eps=1e-9, weight_decay=settings.weight_decay, fused=True
        )

    def _train_stage(self, stage: Stage, optimizer: torch.optim.Optimizer) -> None:
        counters = self.counters
        while counters.epoch < stage.epochs:
            logs = self._train_epoch(stage, optimizer)
            if stage.validates:
                started = time.process_time()
                with self.average.in_place() if self.average else nullcontext():
                    logs["cider"] = self._validate()
                counters.processor += time.process_time() - started
            if self.ranks.is_first:
                _append(self.run / METRICS, self._row(stage, logs))
            counters.epoch, counters.batch, counters.logged = counters.epoch + 1, 0, {}
            if stage.validates and counters.waited >= self.settings.patience:
                counters.epoch = stage.epochs
            self._save(optimizer)

    def _validate(self) -> float:
        """The score of the present weights; the best are kept."""
        counters, score = self.counters, self.ranks.from_first(self.best.validate)
        counters.scores.append(score)
        counters.waited += 1
        if score > counters.best:
            counters.best, counters.waited = score, 0
            if self.ranks.is_first:
                self.best.save()
        return score

    def _train_epoch(self, stage: Stage, optimizer: torch.optim.Optimizer) -> Logs:
        """The rest of the present epoch; logs are means over all its batches, also those before a resume."""
        counters, size = self.counters, self.settings.batch
        batches = self.data.count_batches(size)
        saved = time.monotonic()
        self.models.train()
        with progress_bar(hidden=not self.ranks.is_first) as bar:
            task = bar.add_task(f"{stage.name} {counters.epoch + 1}/{stage.epochs}", total=batches)
            bar.update(task, completed=counters.batch)
            # A stage has its own order of batches, so that SCST does not repeat cross-entropy's.
            order = counters.stage * 1000 + counters.epoch
            for batch in self.data.batches(size, self.settings.seed, order, counters.batch, self.ranks.share):
                started, computed = time.monotonic(), time.process_time()
                logs = self._step(stage, optimizer, batch)
                counters.batch += 1
                counters.seconds += time.monotonic() - started
                counters.processor += time.process_time() - computed
                for key, value in logs.items():
                    counters.logged[key] = counters.logged.get(key, 0.0) + value
                bar.update(task, advance=1, description=_describe(stage, counters, logs))
                if time.monotonic() - saved > self.settings.save_every:
                    self._save(optimizer)
                    saved = time.monotonic()
        return {key: value / max(1, counters.batch) for key, value in counters.logged.items()}

    def _save(self, optimizer: torch.optim.Optimizer) -> None:
        if self.ranks.is_first:
            save_state(self.run / STATE, self.models, optimizer, self.counters, self.average)

    def _step(self, stage: Stage, optimizer: torch.optim.Optimizer, batch: Batch | None) -> Logs:
        counters = self.counters
        counters.step += 1
        counters.total_steps += 1
        seed = self.settings.seed * 1_000_003 + counters.total_steps  # dropout and samples of this step
        torch.manual_seed(seed + self.ranks.rank * 2**40)
        for group in optimizer.param_groups:
            group["lr"] = stage.schedule.at(counters.step, counters.scores)
        optimizer.zero_grad(set_to_none=True)
        if batch is not None and self.ranks.size == self.settings.accumulate == 1:
            loss, logs = self._loss(stage, batch)
            logs.pop(WEIGHT, None)
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            total = GradientSum(self.ranks, stage.parameters())
            for piece in batch.pieces(self.settings.accumulate) if batch is not None else []:
                loss, logs = self._loss(stage, piece)
                total.add(loss, logs, len(piece.rows))
            logs = total.finish()
        if self.settings.clamp:
            nn.utils.clip_grad_value_(stage.parameters(), self.settings.clamp)
        if self.settings.clip:
            nn.utils.clip_grad_norm_(stage.parameters(), self.settings.clip)
        optimizer.step()
        if self.average:
            self.average.update()
        return logs

    def _loss(self, stage: Stage, batch: Batch) -> tuple[Tensor, Logs]:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.autocast):
            loss, logs = stage.loss(batch.to(self.device), self.counters.epoch)
        if not torch.isfinite(loss):
            raise CaptrialError(
                f"the loss became {float(loss)} at step {self.counters.step}; lower the rate: --set rate=..."
            )
        return loss, logs

    def _row(self, stage: Stage, logs: Logs) -> dict[str, object]:
        rate = stage.schedule.at(self.counters.step, self.counters.scores)
        place = {"stage": stage.name, "epoch": self.counters.epoch + 1, "step": self.counters.total_steps}
        return {
            **place,
            "seconds": round(self.counters.seconds, 1),
            "rate": rate,
            **logs,
            "processor": round(self.counters.processor, 3),
        }


def _describe(stage: Stage, counters: Counters, logs: Logs) -> str:
    shown = " ".join(f"{key} {value:.3f}" for key, value in logs.items())
    return f"{stage.name} {counters.epoch + 1}/{stage.epochs} {shown}"


def _append(path: Path, row: dict[str, object]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
    atomic_write(path, "".join(f"{line}\n" for line in [*_lines(path), text.getvalue().rstrip()]))


def _drop_rows_after(path: Path, step: int) -> None:
    """Drop rows of epochs that were logged but not saved before a kill: those behind `step`; and incomplete rows."""
    if path.exists():
        header, *rows = _lines(path)
        kept = [row for row in rows if len(cells := row.split(",")) == len(COLUMNS) and _is_until(cells[2], step)]
        atomic_write(path, "".join(f"{line}\n" for line in [header, *kept]))


def _is_until(cell: str, step: int) -> bool:
    return cell.isascii() and cell.isdecimal() and int(cell) <= step


def _lines(path: Path) -> list[str]:
    """The lines of the log, in the columns of this version; only its header where there is none yet."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    header = tuple(lines[0].split(",")) if lines else COLUMNS
    added = len(COLUMNS) - len(header) if header == COLUMNS[: len(header)] else 0  # columns that a later version added
    return [",".join(COLUMNS), *(f"{line}{',' * added}" for line in lines[1:])]


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The rows of the log, the cells that are numbers by column."""
    rows = [dict(zip(COLUMNS, line.split(","), strict=False)) for line in _lines(path)[1:]]
    return [{name: float(cell) for name, cell in row.items() if _NUMBER.fullmatch(cell)} for row in rows]
