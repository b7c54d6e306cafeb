"""Reading published word vectors: GloVe and word2vec, in text or binary."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError

Floats = NDArray[np.float32]
_LINES_A_BLOCK = 4096
_LONGEST_WORD = 1000  # bytes
_LONGEST_NUMBER = 64  # bytes
_LARGEST_DIMENSION = 4096  # published vectors have up to 1024; the principal axes need its square


def read_vectors(source: Path) -> tuple[list[str], Floats]:
    """Words and vectors (n, d) of a GloVe or word2vec file, text or word2vec binary."""
    try:
        return _read_vectors(source)
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror or error}") from None


def _read_vectors(source: Path) -> tuple[list[str], Floats]:
    with source.open("rb") as stream:
        first = stream.readline(1 << 20)
        header = _header(first)
        if header is None:
            stream.seek(0)
            return _read_text(stream, source, first_line=1)
        if _is_binary(stream):
            return _read_binary(stream, source, *header)
        return _read_text(stream, source, first_line=2, dimensions=header[1])


def _header(line: bytes) -> tuple[int, int] | None:
    """The count and dimension of word2vec's first line; None where there is no such line (GloVe)."""
    parts = line.split()
    if len(parts) == 2 and all(part.isdigit() and len(part) <= 18 for part in parts):
        return int(parts[0]), int(parts[1])
    return None


def _is_binary(stream: BinaryIO) -> bool:
    start = stream.tell()
    sample = stream.read(4096)
    stream.seek(start)
    numbers = sample.partition(b" ")[2].split(b"\n")[0]
    return any(byte not in b"0123456789+-.eE \t\r" for byte in numbers)


def _read_text(
    stream: BinaryIO, source: Path, first_line: int, dimensions: int | None = None
) -> tuple[list[str], Floats]:
    words: list[str] = []
    blocks: list[Floats] = []
    number = first_line
    for lines in _blocks(stream):
        if dimensions is None:
            dimensions = len(lines[0].split()) - 1
        if not 0 < dimensions <= _LARGEST_DIMENSION:
            raise InputError(
                f"{source}: line {number} must be a word and 1 to {_LARGEST_DIMENSION} numbers, found {dimensions}"
            )
        pairs = [line.rstrip().rsplit(b" ", dimensions) for line in lines]  # some words of GloVe 840B have blanks
        for offset, pair in enumerate(pairs):
            if len(pair) != dimensions + 1:
                raise InputError(f"{source}: line {number + offset} must be a word and {dimensions} numbers")
        blocks.append(_numbers(pairs, dimensions, source, number))
        words += [pair[0].decode(errors="surrogateescape") for pair in pairs]
        number += len(lines)
    if not words:
        raise InputError(f"{source}: no vectors in it")
    return words, np.concatenate(blocks)


def _blocks(stream: BinaryIO) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    for line in io.BufferedReader(stream, 1 << 20) if isinstance(stream, io.RawIOBase) else stream:
        if line.strip():
            block.append(line)
        if len(block) == _LINES_A_BLOCK:
            yield block
            block = []
    if block:
        yield block


def _numbers(pairs: list[list[bytes]], dimensions: int, source: Path, number: int) -> Floats:
    try:
        if max(map(len, chain.from_iterable(pair[1:] for pair in pairs))) > _LONGEST_NUMBER:
            raise ValueError  # numpy would give every number the room of the longest
        with np.errstate(over="ignore"):
            values = np.array([pair[1:] for pair in pairs]).astype(np.float32)
    except ValueError:
        values = np.full((len(pairs), dimensions), np.nan, np.float32)
        for index, pair in enumerate(pairs):
            try:
                with np.errstate(over="ignore"):
                    values[index] = [float(text) for text in pair[1:]]
            except ValueError:
                break
    wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(wrong):
        raise InputError(f"{source}: line {number + int(wrong[0])} has something that is not a number")
    return values


def _read_binary(stream: BinaryIO, source: Path, count: int, dimensions: int) -> tuple[list[str], Floats]:
    size = source.stat().st_size
    if dimensions > _LARGEST_DIMENSION:
        raise InputError(f"{source}: vectors of {dimensions} numbers; at most {_LARGEST_DIMENSION} can be used")
    if not (0 < count <= size and dimensions > 0 and count * dimensions * 4 <= size):
        raise InputError(
            f"{source}: the header promises {count} vectors of {dimensions}, the file is too short for that"
        )
    content = np.memmap(source, np.uint8, "r")
    raw, place = content.data, stream.tell()
    words: list[str] = []
    vectors = np.empty((count, dimensions), np.float32)
    for index in range(count):
        head = bytes(raw[place : place + _LONGEST_WORD])
        blank = head.find(b" ")
        start = place + blank + 1
        place = start + 4 * dimensions
        if blank < 0 or place > size:
            raise InputError(f"{source}: ends or breaks at word {index + 1} of {count}")
        words.append(head[:blank].lstrip(b"\n").decode(errors="surrogateescape"))
        vectors[index] = np.frombuffer(raw[start:place], "<f4")
    if not np.isfinite(vectors).all():
        raise InputError(f"{source}: a vector has something that is not a number")
    return words, vectors
