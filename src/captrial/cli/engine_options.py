"""Where commands run models: engines, devices and number formats."""

from __future__ import annotations

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


def wants_engine(engine: str, workers: int | None) -> bool:
    """Whether the options ask for more than this process."""
    return engine != "local" or (workers or 1) > 1


def chosen_engine(engine: str, workers: int | None, ray_address: str | None) -> Engine:
    """The engine that the options name."""
    from captrial.engines import make_engine

    return make_engine(engine, workers or (1 if engine == "local" else 2), ray_address)
