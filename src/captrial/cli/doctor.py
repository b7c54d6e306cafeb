"""`captrial doctor`: what is installed, what is missing, and what each missing part would enable."""

from __future__ import annotations

from captrial.cli.output import JsonFlag, print_json, print_table
from captrial.installation import examine


def doctor(json: JsonFlag = False) -> None:
    """Say what is installed, which extras are missing and what each would enable."""
    health = examine()
    if json:
        print_json(health)
        return
    notes = [
        f"captrial {health.version}, Python {health.python}, {health.platform}, {health.cpus} processors",
        f"devices: {', '.join(health.devices) or 'torch is not installed'}",
        f"word vectors: {health.word_vectors}",
        f"parser: {health.parser}",
        f"default captioners: {health.default_model}",
    ]
    rows = [(part.name, part.state, part.purpose) for part in health.parts]
    print_table("captrial doctor", ["part", "state", "what it is for"], rows, notes)
