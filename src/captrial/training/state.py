"""The state of a training run on disk: weights, their moving average, optimiser moments, and where the run is.

It is complete enough to continue as if a run had never stopped: everything random in a step is seeded by (seed, step),
and the order of batches by (seed, epoch), so these are all there is to keep. Tensors go into a safetensors file;
nothing is pickled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from captrial.errors import DamagedError
from captrial.folders import check_files, write_checked

STATE = "state.safetensors"
REMAKE = "`captrial train` after removing it: the run then begins again"


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
