"""What defines a training run, written into its folder: a run that was begun with other settings is refused there."""

from __future__ import annotations

import dataclasses
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import torch

from captrial.errors import MismatchError
from captrial.files import atomic_write
from captrial.training.recipe import Recipe
from captrial.version import __version__
from captrial.vision.descriptions import identity

CONFIG, ENVIRONMENT = "run.json", "environment.json"
_OF_SCST = (
    "scst_rate",
    "scst_schedule",
    "scst_warmup",
    "scst_decay",
    "average",
    "scst_samples",
    "scst_by",
    "baseline",
    "count_end",
    "eta",
)
_SINCE = ("data", "validation", "regions", "started_from")  # not in folders of earlier versions


def refuse_another(run: Path, config: Mapping[str, Any]) -> None:
    """Refuse a folder that holds a run begun with another configuration, naming what differs."""
    path = run / CONFIG
    if not path.exists():
        return
    stored, wanted = (
        _comparable(each) for each in (orjson.loads(path.read_bytes()), orjson.loads(orjson.dumps(config)))
    )
    for name, value in wanted.items():
        if stored.get(name) != value and not (name in _SINCE and name not in stored):
            raise MismatchError(f"{run} was begun with another {name} (see {path.name}); choose another --out")


def write_configuration(run: Path, config: Mapping[str, Any]) -> None:
    """Write what defines the run, and what it runs on."""
    atomic_write(run / CONFIG, orjson.dumps(config, option=orjson.OPT_INDENT_2))
    environment = {
        "captrial": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "command": sys.argv,
    }
    atomic_write(run / ENVIRONMENT, orjson.dumps(environment, option=orjson.OPT_INDENT_2))


def _comparable(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration flat and without what makes no difference.

    Options of the recipe that one of two versions did not know have their defaults; those of self-critical training
    mean nothing where there is none.
    """
    defaults = orjson.loads(orjson.dumps(dataclasses.asdict(Recipe())))
    recipe = {**defaults, **{name: value for name, value in config["recipe"].items() if name in defaults}}
    idle = _OF_SCST if not recipe["scst_epochs"] else ()
    rest = {name: value for name, value in config.items() if name != "recipe"}
    return {**rest, "vision": identity(config["vision"]), **{k: v for k, v in recipe.items() if k not in idle}}
