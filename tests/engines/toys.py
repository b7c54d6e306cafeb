"""Jobs for tests: quick, and bad in ways that can be counted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from captrial.engines.job import Job, Row
from captrial.errors import CaptrialError, InputError


class Shout(Job):
    """Upper-cases `item`; rows named `bad...` fail, and with them every batch they are in."""

    schema: ClassVar[pa.Schema] = pa.schema([("loud", pa.string())])

    def __init__(self, pause: float = 0.0, log: str = "", died: str = "", deadly: str = "") -> None:
        self.pause, self.log, self.died, self.deadly = pause, log, died, deadly

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        for row in rows:
            self._live_or_die(row["id"])
            time.sleep(self.pause)
            if row["id"].startswith("bad"):
                raise InputError(f"{row['id']} is bad")
            if row["id"].startswith("gone"):
                raise CaptrialError("the endpoint is gone")
        return [{"loud": row["item"].upper()} for row in rows]

    def _live_or_die(self, name: str) -> None:
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{name} {os.getpid()}\n")
        if name == self.deadly and (not self.died or not Path(self.died).exists()):
            if self.died:
                Path(self.died).touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Unloadable(Shout):
    """Cannot even be loaded."""

    def __init__(self) -> None:
        raise InputError("no such model: nonsense")


def longer(first: Sequence[str], second: Sequence[str]) -> list[float]:
    """A similarity of one's own: captions of like length are alike."""
    return [-abs(len(one) - len(other)) / 100 for one, other in zip(first, second, strict=True)]
