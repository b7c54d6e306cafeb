"""Where commands run models: engines, devices and number formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from captrial.engines.engine import Engine

EngineName = Annotated[str, typer.Option("--engine", help="local (processes here) or ray; see docs/scale.md.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Workers. \\[default: 1 local, 2 on Ray]")]
RayAddress = Annotated[
    str | None, typer.Option("--ray-address", help="A Ray cluster, host:port or auto; by default one is started here.")
]

DeviceOption = Annotated[
    str | None, typer.Option("--device", help="auto, cpu, cuda, cuda:1 ... \\[default: auto, a GPU where there is one]")
]
DtypeOption = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="float32, bfloat16 or float16, of transformers models. \\[default: float32 on the CPU, else as stored]",
    ),
]


@dataclass(frozen=True)
class EngineOptions:
    """What the user said about workers."""

    name: str
    workers: int | None
    ray_address: str | None

    @property
    def several(self) -> bool:
        """Whether the options ask for more than this process."""
        return self.name != "local" or (self.workers or 1) > 1

    def make(self) -> Engine:
        """The engine that the options name."""
        from captrial.engines import make_engine

        return make_engine(self.name, self.workers or (1 if self.name == "local" else 2), self.ray_address)
