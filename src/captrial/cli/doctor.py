"""`captrial doctor`: what is installed, what is missing, and what each missing component would enable."""

from __future__ import annotations

from captrial.cli.output import JsonFlag, print_json, print_table
from captrial.installation import examine


def doctor(json: JsonFlag = False) -> None:
    """Show what is installed, which extras are missing, and what each would enable."""
    found = examine()
    if json:
        print_json(found)
        return
    notes = [
        f"captrial {found.version}, Python {found.python}, {found.platform}, {found.cpus} processors",
        f"devices: {', '.join(found.devices) or 'torch is not installed'}",
        f"word vectors: {found.word_vectors}",
        f"parser: {found.parser}",
        f"shipped captioners: {found.default_model}",
    ]
    rows = [(component.name, component.state, component.purpose) for component in found.parts]
    print_table("captrial doctor", ["component", "state", "enables"], rows, notes)
