"""The training loop: stages, validation, early stopping, and the log of every epoch.

A run that was stopped continues from its last state on disk; see `captrial.training.state`.
"""

from __future__ import annotations

import csv
import io
import re
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from captrial.errors import CaptrialError
from captrial.files import atomic_write
from captrial.progress import progress_bar
from captrial.training.data import Batch, CaptionData
from captrial.training.parallel import WEIGHT, GradientSum, Ranks
from captrial.training.stages.base import Logs, Stage
from captrial.training.state import STATE, Counters, MovingAverage, load_state, read_counters, save_state

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
