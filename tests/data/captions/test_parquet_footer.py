"""The footer of a Parquet file: sizes as pyarrow tells them, and no damage that ends the process."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captrial.data.captions.parquet_footer import column_bytes


def written(**options: object) -> bytes:
    stream = io.BytesIO()
    table = pa.table(
        {
            "id": [str(n) for n in range(1000)],
            "captions": [["a dog", f"caption {n}"] for n in range(1000)],
            "deep": [{"a": n, "b": [{"c": 0.5}]} for n in range(1000)],
            "flag": [n % 2 == 0 for n in range(1000)],
        },
        metadata={"key": "value"},
    )
    pq.write_table(table, stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize("options", [{}, {"row_group_size": 100}, {"compression": "zstd", "version": "1.0"}])
def test_sizes_are_those_that_pyarrow_tells(options: dict[str, object]) -> None:
    content = written(**options)
    metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    expected: dict[str, int] = {}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name = column.path_in_schema.partition(".")[0]
            expected[name] = expected.get(name, 0) + column.total_uncompressed_size
    assert dict(column_bytes(content)) == expected


def test_every_cut_is_refused() -> None:
    content = written()
    for length in range(0, len(content), 101):
        with pytest.raises(ValueError, match=r"its|footer"):
            column_bytes(content[:length])
    size = int.from_bytes(content[-8:-4], "little")
    for end in range(1, size, 7):
        footer = content[-8 - size : -8 - size + end]
        with pytest.raises(ValueError, match="footer"):
            column_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


ATTACK = """
import io, random, sys
from pathlib import Path
from captrial.data import read_captions
from captrial.errors import CaptrialError

content, rng, path = Path(sys.argv[1]).read_bytes(), random.Random(0), Path(sys.argv[1] + ".x")
start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
for _ in range(2000):
    changed = bytearray(content)
    for _ in range(rng.randint(1, 2)):
        changed[rng.randrange(start, len(content) - 8)] = rng.randrange(256)
    path.write_bytes(changed)
    try:
        read_captions(path)
    except CaptrialError:
        pass
print("done")
"""


@pytest.mark.slow
def test_a_damaged_footer_does_not_end_the_process(tmp_path: Path) -> None:
    """pyarrow's description of a column aborts the interpreter for about one in 400 of these files."""
    table = pa.table({"id": ["1", "2", "3"], "caption": ["a dog", "a cat", "a bus"], "split": ["a", "b", "a"]})
    pq.write_table(table, tmp_path / "a.parquet")
    done = subprocess.run(
        [sys.executable, "-c", ATTACK, str(tmp_path / "a.parquet")], capture_output=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, b"done\n"), done.stderr[-2000:]
