"""The sizes of the columns of a Parquet file, from its footer, before anything is unpacked.

pyarrow can tell them too, but a damaged footer makes its accessors (`row_group(0).column(0)`) end the whole process by
a C++ exception that nothing catches. The footer is therefore decoded here: a structure in Thrift's compact protocol, of
which only a few fields are needed (parquet-format, `parquet.thrift`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

_MAX_DEPTH = 32
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_ROW_GROUPS, _COLUMNS, _META_DATA, _PATH, _UNCOMPRESSED = 4, 1, 3, 3, 6  # numbers of fields


def column_bytes(content: bytes) -> Counter[str]:
    """The uncompressed bytes of each top-level column, as the footer declares them; `ValueError` if it is damaged."""
    if len(content) < 12 or content[-4:] != b"PAR1":
        raise ValueError("its end is missing")
    length = int.from_bytes(content[-8:-4], "little")
    if length > len(content) - 12:
        raise ValueError("its footer is longer than the file")
    footer = _Decoder(content[-8 - length : -8]).structure()
    sizes: Counter[str] = Counter()
    for group in _items(footer, _ROW_GROUPS):
        for chunk in _items(group, _COLUMNS):
            described = chunk.get(_META_DATA)
            if not isinstance(described, dict):
                raise ValueError("a column is not described")
            path, size = described.get(_PATH), described.get(_UNCOMPRESSED)
            if not isinstance(path, list) or not path or not isinstance(path[0], bytes) or not isinstance(size, int):
                raise ValueError("a column has no name or no size")
            sizes[path[0].decode(errors="replace")] += max(size, 0)
    return sizes


def _items(structure: dict[int, Any], field: int) -> list[dict[int, Any]]:
    found = structure.get(field, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError("its footer is not that of a Parquet file")
    return found


class _Decoder:
    """Decodes values of Thrift's compact protocol: structures as dicts by field number."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.place = 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """The fields up to the stop byte."""
        if depth > _MAX_DEPTH:
            raise ValueError("its footer is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            kind, step = head & 15, head >> 4
            number = number + step if step else self._signed()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # inside lists, a boolean is a byte
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._number())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 != 15 else self._number()
            if count > len(self.content) - self.place:  # an item takes at least a byte
                raise ValueError("a list in its footer is too long")
            return [self._item(head & 15, depth) for _ in range(count)]
        if kind == _MAP:
            count = self._number()
            kinds = self._byte() if count else 0
            if count > len(self.content) - self.place:
                raise ValueError("a map in its footer is too long")
            return [(self._item(kinds >> 4, depth), self._item(kinds & 15, depth)) for _ in range(count)]
        if kind == _STRUCT:
            return self.structure(depth + 1)
        raise ValueError(f"a value of the unknown kind {kind} in its footer")

    def _item(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("its footer is nested too deeply")
        return self._value(kind, depth + 1)

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        end = self.place + count
        if end > len(self.content):
            raise ValueError("its footer ends too early")
        found = self.content[self.place : end]
        self.place = end
        return found

    def _number(self) -> int:
        """A number of variable length, without sign."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number in its footer is too long")

    def _signed(self) -> int:
        value = self._number()
        return (value >> 1) ^ -(value & 1)
