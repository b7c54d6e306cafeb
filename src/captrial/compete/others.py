"""Similarities beside NGSM."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Resemblance = Callable[[Sequence[str], Sequence[str]], NDArray[np.float64] | Sequence[float]]
