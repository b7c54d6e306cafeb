"""ONNX files written byte by byte (the `onnx` package is not installed): a network with a constant answer.

Field numbers are those of onnx.proto; only what onnxruntime needs is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FLOAT = 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _value(name: str, shape: Sequence[int | str]) -> bytes:
    dimensions = b"".join(_bytes(1, _number(1, d) if isinstance(d, int) else _bytes(2, d)) for d in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, FLOAT) + _bytes(2, dimensions)))


def _tensor(name: str, values: NDArray[np.float32]) -> bytes:
    sizes = b"".join(_number(1, size) for size in values.shape)
    return sizes + _number(2, FLOAT) + _bytes(8, name) + _bytes(9, np.ascontiguousarray(values, "<f4").tobytes())


def _node(kind: str, inputs: Sequence[str], output: str, attributes: bytes = b"") -> bytes:
    return b"".join(_bytes(1, name) for name in inputs) + _bytes(2, output) + _bytes(4, kind) + attributes


def write_onnx(
    path: Path, output: NDArray[np.float32], shape: Sequence[int | str], metadata: Mapping[str, str]
) -> Path:
    """A network that takes images of `shape` and always answers `output` (zero times the images' mean is added)."""
    flat = _bytes(5, _bytes(1, "keepdims") + _number(3, 0) + _number(20, 2))
    graph = (
        _bytes(1, _node("ReduceMean", ["images"], "mean", flat))
        + _bytes(1, _node("Mul", ["mean", "zero"], "nothing"))
        + _bytes(1, _node("Add", ["answer", "nothing"], "output0"))
        + _bytes(2, "constant")
        + _bytes(5, _tensor("answer", output))
        + _bytes(5, _tensor("zero", np.zeros((), np.float32)))
        + _bytes(11, _value("images", shape))
        + _bytes(12, _value("output0", output.shape))
    )
    notes = b"".join(_bytes(14, _bytes(1, key) + _bytes(2, value)) for key, value in metadata.items())
    path.write_bytes(_number(1, 8) + _bytes(8, _bytes(1, "") + _number(2, 13)) + _bytes(7, graph) + notes)
    return path
