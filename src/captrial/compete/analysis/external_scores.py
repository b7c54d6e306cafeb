"""Scores that models have elsewhere, to compare a ranking with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson

from captrial.errors import InputError

Scores = Mapping[str, Mapping[str, float]]  # model -> metric -> score


def read_scores(path: Path, metric: str = "cider") -> Scores:
    """What `captrial score --json` printed, or `{model: score}`, whose numbers are taken as scores of `metric`."""
    try:
        table = orjson.loads(path.read_bytes())
        return {
            name: {key: float(number) for key, number in value.items() if isinstance(number, int | float)}
            if isinstance(value, dict)
            else {metric: float(value)}
            for name, value in table.items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f'{path}: not a table of scores like {{"model": {{"cider": 1.2}}}} ({error})') from None
