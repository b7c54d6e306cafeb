"""`captrial doctor`: what is installed, what is missing, and what each missing part would enable."""

from __future__ import annotations

from captrial.cli.output import JsonFlag, print_json, print_table
from captrial.health import examine


def doctor(json: JsonFlag = False) -> None:
    """Say what is installed, which extras are missing and what each would enable."""
    health = examine()
    if json:
        print_json(health)
        return
    print_table(
        "captrial doctor",
        ["part", "state", "what it is for"],
        [(part.name, part.state, part.purpose) for part in health.parts],
    )
