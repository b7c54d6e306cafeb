"""Torch function modes that see every ReLU that runs, and replace its derivative.

They see module and functional ReLUs, in place or not. No module is hooked or replaced: the model is never touched.
ReLU6 (and a hard tanh from 0 up) is treated alike. GELU, SiLU, CELU and leaky ReLUs are smooth or pass negative values
themselves, and keep their true gradient, as in captum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_RELUS: set[Any] = {torch.relu, functional.relu, Tensor.relu, functional.relu6}
_RELUS_IN_PLACE: set[Any] = {torch.relu_, functional.relu_, Tensor.relu_}
_HARD_TANHS: set[Any] = {functional.hardtanh, functional.hardtanh_}


class ReluMode(TorchFunctionMode):
    """Base: inside `with`, every ReLU is computed by `relu`."""

    sees_maxout: ClassVar[bool] = False  # `maximum(a, b)` is `b + relu(a - b)`

    def relu(self, x: Tensor, ceiling: float | None) -> Tensor:
        """A ReLU, or with a `ceiling` a ReLU6, of `x`; must not change `x`."""
        raise NotImplementedError

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Replace `func` where it is a ReLU."""
        kwargs = kwargs or {}
        if self.sees_maxout and func is torch.maximum and len(args) == 2 and not kwargs:
            return args[1] + self.relu(args[0] - args[1], None)
        if not _is_relu(func, args, kwargs):
            return func(*args, **kwargs)
        x: Tensor = args[0] if args else kwargs["input"]
        result = self.relu(x, _ceiling(func, args, kwargs))
        return x.copy_(result) if _in_place(func, args, kwargs) else result


class RecordedRelus(ReluMode):
    """Records the input of every ReLU, in order, for `AveragedRelus`."""

    sees_maxout = True

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Tensor] = []

    def relu(self, x: Tensor, ceiling: float | None) -> Tensor:
        """An ordinary ReLU."""
        self.inputs.append(x.detach().clone())
        return plain_relu(x, ceiling)


class _Sloped(torch.autograd.Function):
    """A ReLU whose derivative is given."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, result: Tensor, slope: Tensor) -> Tensor:
        return result.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return gradients[0] * slope, None, None


class AveragedRelus(ReluMode):
    """The derivative of every ReLU is its mean between two ends of a segment instead of that at one point.

    `recorded` are the ReLU inputs at the `m + 1` ends of `m` neighbouring segments; the pass made inside `with` is
    that of `m` points between them. If a ReLU's input moves evenly along a segment this is its exact mean.
    """

    sees_maxout = True

    def __init__(self, recorded: list[Tensor], segments: int) -> None:
        super().__init__()
        self.recorded: Iterator[Tensor] = iter(recorded)
        self.segments = segments

    def relu(self, x: Tensor, ceiling: float | None) -> Tensor:
        """A ReLU with its mean derivative; a plain one if its rows do not match the recorded ones."""
        ends, m = next(self.recorded), self.segments
        if not x.requires_grad or x.shape[1:] != ends.shape[1:] or len(ends) * m != len(x) * (m + 1):
            return plain_relu(x, ceiling)
        rows = ends.reshape(m + 1, -1)
        before, after = rows[:-1], rows[1:]
        way = after - before
        rise = plain_relu(after, ceiling) - plain_relu(before, ceiling)
        here = x.detach().reshape(m, -1)
        inside = (here > 0) if ceiling is None else (here > 0) & (here < ceiling)
        slope = torch.where(way == 0, inside.to(way), rise / way.masked_fill(way == 0, 1.0))
        here_relu = plain_relu(x.detach(), ceiling)
        result: Tensor = _Sloped.apply(x, here_relu, slope.reshape(x.shape))  # type: ignore[no-untyped-call]
        return result


def plain_relu(x: Tensor, ceiling: float | None) -> Tensor:
    """A ReLU, or with a `ceiling` one that stops there."""
    return torch.relu(x) if ceiling is None else functional.hardtanh(x, 0.0, ceiling)


def _is_relu(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    if func in _HARD_TANHS:
        return bool(_argument(args, kwargs, 1, "min_val", -1.0) == 0)
    return func in _RELUS or func in _RELUS_IN_PLACE


def _ceiling(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> float | None:
    if func is functional.relu6:
        return 6.0
    return float(_argument(args, kwargs, 2, "max_val", 1.0)) if func in _HARD_TANHS else None


def _in_place(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    if func in _RELUS_IN_PLACE or func is functional.hardtanh_:
        return True
    return bool(_argument(args, kwargs, 3 if func in _HARD_TANHS else 1, "inplace", False))


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str, default: Any) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)
