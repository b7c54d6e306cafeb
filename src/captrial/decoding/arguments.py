"""Arguments of decoding that cannot mean anything are refused before the first step."""

from __future__ import annotations

from captrial.errors import InputError


def require_positive(**numbers: float | None) -> None:
    """Refuse numbers that leave nothing to choose from; None is what was not asked for.

    >>> require_positive(beam=5, top_k=None)
    """
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise InputError(f"{name}={number} leaves nothing to choose from; give a number above 0")
