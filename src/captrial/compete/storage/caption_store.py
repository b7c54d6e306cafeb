"""The captions of a competition on disk: aligned once, then read block by block, any model by itself.

`pool.parquet` holds the image ids, `captions/0.parquet`, `captions/1.parquet`, ... one caption a row in the same
order and the same row groups. Adding a model adds a file and touches no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import local

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from captrial.compete.storage.caption_pool import BLOCK, Block
from captrial.data import read_captions
from captrial.data.captions.rows import CAPTION_NAMES, pick_columns
from captrial.errors import InputError, MismatchError
from captrial.files import atomic_path
from captrial.language.sentences import first_sentence


@dataclass(frozen=True)
class ImportedCaptions:
    """One model's captions as they came: ids, texts and what was odd about the file."""

    ids: pa.Array
    texts: pa.Array
    problems: tuple[str, ...]


def import_captions(path: Path) -> ImportedCaptions:
    """Read a caption file; a Parquet file without oddities is read as columns, without a Python object a row."""
    columns = _clean_parquet(path)
    if columns is not None:
        return ImportedCaptions(*columns, ())
    found = read_captions(path)
    return ImportedCaptions(
        pa.array(found.ids, pa.string()), pa.array(found.texts, pa.string()), tuple(map(str, found.problems))
    )


def align(name: str, captions: ImportedCaptions, pool: pa.Array) -> pa.Array:
    """The model's captions in the order of the pool; an id too many or too few is an error that names it."""
    if captions.ids.equals(pool):
        return captions.texts
    places = pc.index_in(pool, value_set=captions.ids)
    if places.null_count:
        missing = pool.filter(pc.is_null(places))
        raise MismatchError(_differs(name, "has no caption for", missing))
    if len(captions.ids) > len(pool):
        unknown = captions.ids.filter(pc.invert(pc.is_in(captions.ids, value_set=pool)))
        raise MismatchError(_differs(name, "has a caption that others lack for", unknown))
    return captions.texts.take(places)


def common_ids(several: Sequence[pa.Array]) -> pa.Array:
    """The ids that all arrays hold, in the order of the first."""
    ids = several[0]
    for other in several[1:]:
        ids = ids.filter(pc.is_in(ids, value_set=other))
    if not len(ids):
        raise MismatchError("no image has a caption of every model; check that the files name images the same way")
    return ids


def restrict(captions: ImportedCaptions, ids: pa.Array) -> ImportedCaptions:
    """Only the captions of these images, in their order."""
    return ImportedCaptions(ids, captions.texts.take(pc.index_in(ids, value_set=captions.ids)), captions.problems)


def first_sentences(texts: pa.Array) -> pa.Array:
    """Cut every caption after its first sentence.

    >>> first_sentences(pa.array(["A dog at St. Ives. It sleeps.", "a cat"])).to_pylist()
    ['A dog at St. Ives.', 'a cat']
    """
    return pa.array([first_sentence(text) for text in texts.to_pylist()], pa.string())


def mean_words(texts: pa.Array) -> float:
    """Words a caption, split at blanks: enough to notice paragraphs beside short captions."""
    return float(np.mean(pc.add(pc.count_substring(pc.utf8_trim_whitespace(texts), " "), 1)))


def write_column(path: Path, name: str, values: pa.Array) -> None:
    """Write one column in row groups of a block each, whole or not at all."""
    with atomic_path(path) as temporary:
        pq.write_table(
            pa.table({name: values}), temporary, row_group_size=BLOCK, compression="lz4", use_dictionary=False
        )


class StoredPool:
    """A pool on disk (see `captrial.compete.storage.caption_pool.Pool`); any number of threads may read blocks."""

    def __init__(self, directory: Path, models: Sequence[str]) -> None:
        self._directory, self._names, self._own = directory, tuple(models), local()
        metadata = pq.read_metadata(directory / "pool.parquet")
        self._rows, self._groups = metadata.num_rows, metadata.num_row_groups

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return self._names

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return int(self._groups)

    def __len__(self) -> int:
        return int(self._rows)

    def block(self, index: int, models: Sequence[int]) -> Block:
        """Read one block with the captions of these models."""
        captions = tuple(self._column(f"captions/{model}.parquet", index) for model in models)
        return Block(self._column("pool.parquet", index), captions)

    def ids(self) -> pa.Array:
        """All image ids."""
        return pq.read_table(self._directory / "pool.parquet")["id"].combine_chunks()

    def _column(self, file: str, index: int) -> pa.Array:
        opened = self._own.__dict__.setdefault("files", {})
        if file not in opened:
            opened[file] = pq.ParquetFile(self._directory / file)
        return opened[file].read_row_group(index, use_threads=False).column(0).combine_chunks()


def _clean_parquet(path: Path) -> tuple[pa.Array, pa.Array] | None:
    """Ids and captions of a Parquet file about which there is nothing to report, otherwise None."""
    try:
        with path.open("rb") as stream:
            if stream.read(4) != b"PAR1":
                return None
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        chosen = [names[index] for index in pick_columns(names, CAPTION_NAMES, path.name)]
        table = file.read(columns=chosen)
        ids, texts = (table[name].combine_chunks() for name in chosen)
    except (OSError, pa.ArrowException, InputError):
        return None  # read_captions says what is wrong
    if not (_is_text(ids.type) or pa.types.is_integer(ids.type)) or not _is_text(texts.type):
        return None
    ids, texts = ids.cast(pa.string()), texts.cast(pa.string())
    odd = not len(ids) or ids.null_count or texts.null_count or pc.count_distinct(ids).as_py() < len(ids)
    blank = pc.any(pc.or_(pc.equal(pc.utf8_trim_whitespace(texts), ""), pc.equal(ids, ""))).as_py()
    return None if odd or blank else (ids, texts)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _differs(name: str, what: str, ids: pa.Array) -> str:
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return (
        f"model {name} {what} image {ids[0]}{more}; all models must caption the same images: complete the file, "
        "or let `compete new --common` make a competition on the images they share"
    )
