"""Steps that leave a file behind and are skipped when it is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Steps:
    """Says what is going on, how long it took, and what was reused from the last run."""

    say: Callable[[str], None]
    reused: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def make(self, what: str, result: Path, work: Callable[[], object]) -> None:
        """Do some work, unless its result is there."""
        if result.exists():
            self.reused.append(what)
            self.say(f"reusing {what}")
            return
        self.say(f"making {what}")
        started = time.monotonic()
        work()
        self.seconds[what] = time.monotonic() - started
