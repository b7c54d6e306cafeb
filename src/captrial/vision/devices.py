"""Devices that networks run on, and the memory allocator's settings."""

from __future__ import annotations

import ctypes
from functools import cache

import torch

from captrial.errors import InputError

AUTO = "auto"
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _KEPT = -1, -3, 2**30  # glibc's names in malloc.h


def best_device() -> torch.device:
    """The first GPU, or the CPU where there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def find_device(name: str = AUTO) -> torch.device:
    """A device by torch's name for it, e.g. `cuda:1`; `auto` is the best one. An unavailable one is an error."""
    try:
        return best_device() if name == AUTO else torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None


@cache
def keep_freed_memory() -> bool:
    """Let this process keep memory that it has freed, about 1 GiB of it, instead of returning it to the system.

    The feature maps of a batch are tens of megabytes each. By default glibc takes every one of them anew from the
    system, which zeroes it page by page: about half of the time a backbone needs on a virtual machine
    (benchmarks/speed/backbone.py). False where the C library has no such setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc; Windows
        return False
    # In this order: an older glibc refuses the first, and the second alone would make things worse.
    return bool(mallopt(_MMAP_THRESHOLD, _KEPT) and mallopt(_TRIM_THRESHOLD, _KEPT))
