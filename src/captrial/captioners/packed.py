"""A captioner prepared for speaking only: its matrices packed for the CPU, smaller than float32.

Words come one at a time, so a step reads every weight for a few rows: on a CPU the time goes into fetching weights
from memory. "float16" keeps weights in half the bytes and computes in float32: exact for checkpoints that are stored
in float16. "int8" keeps them in a quarter, a scale for every output, and rounds what goes in to 8 bits as well.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from captrial.captioners.transformer import DecoderLayer
from captrial.errors import InputError

PRECISIONS = ("float32", "float16", "int8")
Model = TypeVar("Model", bound=nn.Module)


class PackedLinear(nn.Module):
    """A linear layer whose weights are kept as float16 or int8; it cannot be trained."""

    def __init__(self, linear: nn.Linear, precision: str) -> None:
        super().__init__()
        self.in_features, self.out_features, self.precision = linear.in_features, linear.out_features, precision
        weight = linear.weight.detach().float()
        bias = None if linear.bias is None else linear.bias.detach().float()
        operators: Any = torch.ops.quantized
        if precision == "float16":
            self.packed = operators.linear_prepack_fp16(weight, bias)
        else:
            self.packed = operators.linear_prepack(_to_int8(weight), bias)
        # Without VNNI, sums of 8-bit products may saturate: 7 bits of what goes in are then safe.
        self.reduce_range = not torch.cpu._is_vnni_supported()

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out), in float32."""
        operators: Any = torch.ops.quantized
        if self.precision == "float16":
            result: Tensor = operators.linear_dynamic_fp16(x, self.packed)
        else:
            result = operators.linear_dynamic(x, self.packed, self.reduce_range)
        return result

    def extra_repr(self) -> str:
        """Sizes, as `nn.Linear` shows them."""
        return f"{self.in_features}, {self.out_features}, {self.precision}"


def packed(model: Model, precision: str) -> Model:
    """A copy of a model in evaluation mode with every linear layer packed; "float32" gives the model itself."""
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r}: there are {', '.join(PRECISIONS)}")
    if precision == "float32":
        return model
    made = copy.deepcopy(model).eval().requires_grad_(False)
    for module in made.modules():
        if isinstance(module, DecoderLayer):
            module.self_attention.fuse()
    for module in list(made.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PackedLinear(child, precision))
    return made


def _to_int8(weight: Tensor) -> Tensor:
    """Symmetric 8-bit weights with a scale for every output."""
    scales = (weight.abs().amax(1) / 127).clamp(min=1e-12).double()
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # quantised tensors are to be replaced one day
        made: Tensor = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    return made
