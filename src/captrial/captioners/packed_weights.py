"""A captioner packed for inference: its weight matrices in the layout that the CPU needs.

Words are decoded one at a time, so a step reads every weight for a few rows: on a CPU the time goes into fetching
weights from memory and rearranging them for the product. "float32" loses nothing: weights that fit into float16, as
those of a checkpoint stored in it, are kept in half the bytes and computed with in float32; others stay as they are, in
the blocks that the product needs. "float16" rounds all weights to half the bytes. "int8" keeps them in a quarter, a
scale for every output, and rounds what goes in to 8 bits as well.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.transformer import DecoderLayer
from captrial.errors import InputError

PRECISIONS = ("float32", "float16", "int8")
Model = TypeVar("Model", bound=nn.Module)
_ROWS = 16  # of a typical product, as a hint for its blocks: the hypotheses of a few images


class PackedLinear(nn.Module):
    """A linear layer whose weights are kept as float32 in blocks, as float16 or as int8; it cannot be trained."""

    def __init__(self, linear: nn.Linear, precision: str) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach().float()
        self.bias = None if linear.bias is None else linear.bias.detach().float()
        if precision == "float32" and torch.equal(weight.half().float(), weight):
            precision = "float16"  # exact
        self.precision = precision
        if precision == "float32":
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)
        elif precision == "float16":
            self.packed = torch.ops.quantized.linear_prepack_fp16(weight, self.bias)
        else:
            self.packed = torch.ops.quantized.linear_prepack(_to_int8(weight), self.bias)
        # Without VNNI, sums of 8-bit products may saturate: 7 bits of what goes in are then safe.
        self.reduce_range = not torch.cpu._is_vnni_supported()

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out), in float32."""
        operators: Any = torch.ops.quantized
        if self.precision == "float32":
            result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        elif self.precision == "float16":
            result = operators.linear_dynamic_fp16(x, self.packed)
        else:
            result = operators.linear_dynamic(x, self.packed, self.reduce_range)
        return result

    def extra_repr(self) -> str:
        """Sizes, as `nn.Linear` shows them."""
        return f"{self.in_features}, {self.out_features}, {self.precision}"


def packed(model: Model, precision: str) -> Model:
    """A copy of a model in evaluation mode with every linear layer packed.

    In "float32" it is the model itself where there is nothing to gain: on a GPU, or on a processor that the libraries
    of these layouts were not built for.
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r}: there are {', '.join(PRECISIONS)}")
    on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    if precision == "float32" and not (_has_layouts() and on_cpu):
        return model
    if not on_cpu:
        raise InputError(f"{precision} weights are packed for the CPU: add device=cpu, or leave the precision out")
    made = copy.deepcopy(model).eval().requires_grad_(False)
    for module in made.modules():
        if isinstance(module, DecoderLayer):
            module.self_attention.fuse()
    for module in list(made.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, PackedLinear(child, precision))
    return made


def _has_layouts() -> bool:
    blocks: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return blocks and "fbgemm" in torch.backends.quantized.supported_engines


def _to_int8(weight: Tensor) -> Tensor:
    """Symmetric 8-bit weights with a scale for every output."""
    scales = (weight.abs().amax(1) / 127).clamp(min=1e-12).double()
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # quantised tensors are to be replaced one day
        made: Tensor = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    return made
