"""Arrays from damaged and hostile files: an `InputError`, and no memory for what a header merely declares."""

from __future__ import annotations

import io
import resource
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from captrial.arrays import map_npy, read_npz
from captrial.errors import InputError


def npy(header: str, content: bytes = b"") -> bytes:
    """A `.npy` file with a header of one's own."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


HUGE = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }")
HOSTILE = {
    "huge": HUGE,
    "negative": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 4), }", bytes(64)),
    "pickled": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n(S'true'\ntR."),
    "code": npy("__import__('os').abort()"),
    "nested": npy("(" * 100),
    "words": npy("{'descr': '<f8', 'fortran_order': False, 'shape': ('a',), }"),
    "no header": b"\x93NUMPY\x01\x00",
    "text": b"hello",
    "empty": b"",
}


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return stream.getvalue()


def test_what_numpy_wrote(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "c": np.array("text"),
        "d": np.zeros((0, 4), np.int8),
        "e": np.array(3),
    }
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    for name, array in read_npz(tmp_path / "a.npz").items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.dtype == arrays[name].dtype
        assert array.flags.writeable
    np.save(tmp_path / "a.npy", arrays["a"])
    np.testing.assert_array_equal(map_npy(tmp_path / "a.npy"), arrays["a"])


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_arrays(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(HOSTILE[kind])
    with pytest.raises(InputError, match=r"a\.npy: is not a readable \.npy file"):
        map_npy(tmp_path / "a.npy")
    (tmp_path / "a.npz").write_bytes(archive(a=HOSTILE[kind]))
    with pytest.raises(InputError, match=r"a\.npz: is not a readable \.npz file"):
        read_npz(tmp_path / "a.npz")


def test_archives_that_unpack_to_more_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "bomb.npz").write_bytes(archive(a=bytes(20 << 20), b=bytes(20 << 20)))
    with pytest.raises(InputError, match="unpacks to 40 MiB, over the limit of 32"):
        read_npz(tmp_path / "bomb.npz", limit=32 << 20)


def test_every_cut_of_an_archive_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.arange(20))
    content = (tmp_path / "a.npz").read_bytes()
    for length in range(0, len(content), 7):
        (tmp_path / "cut.npz").write_bytes(content[:length])
        with pytest.raises(InputError):
            read_npz(tmp_path / "cut.npz")


def test_a_header_alone_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(archive(a=HUGE))
    code = (
        "import sys\nfrom captrial.arrays import read_npz\nfrom captrial.errors import InputError\n"
        "try:\n    read_npz(sys.argv[1])\nexcept InputError:\n    print('refused')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.npz")],
        capture_output=True,
        check=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )
    assert done.stdout == b"refused\n"
