"""Data parallel training: every rank works on its images of a global batch, and gradients are added up exactly.

Started by `torchrun`, which gives each process its rank; without it there is one rank and nothing here has an effect.
Losses are means over words, so what a rank (or one piece of an accumulated batch) found is weighted by its words: the
gradient is that of the whole batch in one process, however it was divided.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

from captrial.vision.devices import AUTO, find_device

T = TypeVar("T")
PATIENCE = timedelta(days=1)  # ranks wait while the first extracts features or validates; torch's 30 minutes are short
LOGGED = ("loss", "reward", "attention_loss", "critic_loss")
OF_IMAGES = ("reward", "critic_loss")  # logs that are means over images, not words
WEIGHT = "weight"  # in a stage's logs: of how many words its loss is the mean; by default its images count


@dataclass(frozen=True)
class Ranks:
    """Which of the processes this is, how many there are, and where it computes."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def from_environment(cls) -> Ranks:
        """From the variables of `torchrun` (RANK, WORLD_SIZE, LOCAL_RANK): NCCL where there are GPUs, else Gloo."""
        device = torch.device("cpu")
        if torch.cuda.is_available():
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(device)
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(device=device)
        if not distributed.is_initialized():
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        return cls(distributed.get_rank(), distributed.get_world_size(), device)

    def on(self, device: str) -> Ranks:
        """These ranks on another device by its name; several ranks stay where `torchrun` put them."""
        return self if device == AUTO or self.size > 1 else replace(self, device=find_device(device))

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that validates, writes and prints."""
        return self.rank == 0

    @property
    def share(self) -> slice:
        """This rank's images of a batch: dealt out one by one, so that long captions are spread."""
        return slice(self.rank, None, self.size)

    def wait(self) -> None:
        """Wait until all ranks are here."""
        if self.size > 1:
            distributed.barrier()

    def leave(self) -> None:
        """Leave the process group when all is done, as NCCL requires."""
        if self.size > 1:
            distributed.destroy_process_group()

    def first_then_all(self, make: Callable[[], T]) -> T:
        """What `make` returns, called on the first rank before the others: it leaves files that they find."""
        made = make() if self.is_first else None
        self.wait()
        return make() if made is None else made

    def from_first(self, compute: Callable[[], float]) -> float:
        """A number that the first rank computes and tells the others."""
        value = torch.tensor(compute() if self.is_first else 0.0, dtype=torch.float64, device=self.device)
        if self.size > 1:
            distributed.broadcast(value, 0)
        return float(value)

    def copy_first(self, models: nn.Module) -> None:
        """Give all ranks the weights of the first."""
        if self.size > 1:
            for tensor in models.state_dict().values():
                distributed.broadcast(tensor, 0)

    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.size > 1:
            distributed.all_reduce(tensor)
        return tensor


class GradientSum:
    """Adds up gradients and logs of the pieces of a batch, here and on other ranks, each weighted by its words."""

    def __init__(self, ranks: Ranks, parameters: Iterable[nn.Parameter]) -> None:
        self.ranks = ranks
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._sums = torch.zeros(1 + 2 * len(LOGGED), dtype=torch.float64)  # weight; by log its sum and weight

    def add(self, loss: Tensor, logs: Mapping[str, float], images: int) -> None:
        """Differentiate one piece, of so many images."""
        weight = logs.get(WEIGHT, images)
        (loss * weight).backward()  # type: ignore[no-untyped-call]
        self._sums[0] += weight
        for place, name in enumerate(LOGGED):
            if name in logs:
                count = images if name in OF_IMAGES else weight
                self._sums[1 + 2 * place : 3 + 2 * place] += torch.tensor([count * logs[name], count])

    def finish(self) -> dict[str, float]:
        """Leave the gradient of the whole batch in the parameters of every rank; returns its logs."""
        sums = self.ranks.add_up(self._sums.to(self.ranks.device))
        self._share_gradients(float(sums[0]))
        values = sums[1:].view(-1, 2).tolist()
        return {name: total / count for name, (total, count) in zip(LOGGED, values, strict=True) if count}

    def _share_gradients(self, weight: float) -> None:
        """One message: all gradients, and which parameters have one (a rank without images has none)."""
        gradients = [parameter.grad for parameter in self.parameters]
        flat = torch.cat(
            [
                (torch.zeros_like(parameter) if gradient is None else gradient).flatten()
                for parameter, gradient in zip(self.parameters, gradients, strict=True)
            ]
            + [torch.tensor([float(gradient is not None) for gradient in gradients], device=self.ranks.device)]
        )
        self.ranks.add_up(flat)
        *parts, given = torch.split(flat, [*(parameter.numel() for parameter in self.parameters), len(self.parameters)])
        for parameter, part, exists in zip(self.parameters, parts, given.tolist(), strict=True):
            parameter.grad = (part / weight).view_as(parameter) if exists else None
