"""Parquet caption files to rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet

from captrial.data.captions.rows import Rows, pick_columns
from captrial.errors import CaptionFileError

# Of the decoded columns: 370 000 captions take 30 MB, but a few hundred bytes of Parquet can unpack to terabytes.
MAX_BYTES = 1 << 30
MAX_ROWS = 20_000_000


def read_parquet(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    """Rows of a Parquet table; only the two columns (and `split`, if there) are decoded."""
    try:
        return _read(content, source, caption_names)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise CaptionFileError(f"{source}: is a broken Parquet file ({reason}); write it again") from None


def _read(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    file = pa.parquet.ParquetFile(pa.BufferReader(content))
    names = file.schema_arrow.names
    id_name, caption_name = (names[index] for index in pick_columns(names, caption_names, source))
    columns = [id_name, caption_name, *(["split"] if "split" in names else [])]
    table = pa.Table.from_batches(_batches(file, columns, source), schema=_schema(file, columns))
    splits = table["split"].to_pylist() if "split" in columns else None
    ids, captions = table[id_name].to_pylist(), table[caption_name].to_pylist()
    return Rows(ids, captions, id_name, caption_name, "row", splits=splits)


def _schema(file: pa.parquet.ParquetFile, columns: list[str]) -> pa.Schema:
    return pa.schema([file.schema_arrow.field(name) for name in columns])


def _batches(file: pa.parquet.ParquetFile, columns: list[str], source: str) -> list[pa.RecordBatch]:
    _check_size(file.metadata.num_rows, _claimed_bytes(file, columns), source)
    batches, size = [], 0
    for batch in file.iter_batches(65_536, columns=columns):
        size += batch.nbytes
        _check_size(0, size, source)
        batches.append(batch.select(columns))
    return batches


def _claimed_bytes(file: pa.parquet.ParquetFile, columns: list[str]) -> int:
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.partition(".")[0] in columns)


def _check_size(rows: int, size: int, source: str) -> None:
    if rows > MAX_ROWS or size > MAX_BYTES:
        raise CaptionFileError(
            f"{source}: unpacks to more than {MAX_ROWS} rows or {MAX_BYTES >> 20} MiB; split it into smaller files"
        )
