"""Where networks compute."""

from __future__ import annotations

import torch

from captrial.errors import InputError

AUTO = "auto"


def best_device() -> torch.device:
    """The first GPU that can be seen, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def find_device(name: str = AUTO) -> torch.device:
    """A device by torch's name for it, e.g. `cuda:1`; `auto` is the best one. One that is not there is an error."""
    try:
        return best_device() if name == AUTO else torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None
