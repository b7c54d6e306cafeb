"""Every kind of input gives the same images, and what is broken becomes an error of its row."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from captrial.data.datasets.webdataset import write_shards
from captrial.data.images import pixel_batches
from captrial.engines import inputs
from captrial.engines.inputs import fetch_rows, find_parts, open_rows, parts_of_all, row_pixels
from captrial.errors import DatasetError, InputError
from captrial.records import ImageRef, Sample
from engines.example_jobs import serving

SIZES = {f"{number}.png": (8 + number, 5) for number in range(7)}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Silence."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "images"
    made.mkdir()
    for name, size in SIZES.items():
        Image.new("RGB", size, "red").save(made / name)
    (made / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nrest is missing")
    return made


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    with serving(partial(Quiet, directory=str(folder))) as base:
        yield base


def opened(source: Path, size: int = 3) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
    """Sizes of images by id, and errors by id; every part read by itself."""
    rows = [row for part in find_parts(source, size) for row in open_rows(list(part.rows()))]
    assert len({row["id"] for row in rows}) == len(rows)
    good = {row["id"]: row["image"].size for row in rows if "image" in row}
    return good, {row["id"]: row["error"] for row in rows if "error" in row}


def test_a_folder(folder: Path) -> None:
    good, bad = opened(folder)
    assert good == SIZES
    assert list(bad) == ["broken.png"]
    assert [len(part.entries) for part in find_parts(folder, 3)] == [3, 3, 2]


def test_parquet_files_with_bytes_paths_and_a_datasets_column(folder: Path, tmp_path: Path) -> None:
    content = [(folder / name).read_bytes() for name in SIZES]
    paths = [str(folder / name) for name in SIZES]
    tables = {
        "bytes": {"image_id": list(SIZES), "bytes": content},
        "paths": {"id": list(SIZES), "path": paths},
        "column": {"key": list(SIZES), "image": [{"bytes": one, "path": None} for one in content]},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=2)
        assert opened(tmp_path / f"{name}.parquet") == (SIZES, {})
    pq.write_table(pa.table({"path": paths}), tmp_path / "unnamed.parquet")
    good, _ = opened(tmp_path / "unnamed.parquet")
    assert list(good) == [f"unnamed.parquet#{number}" for number in range(7)]


@pytest.mark.parametrize("group", [1, 3, 40, 100])
def test_parts_of_parquet_files_whatever_their_row_groups(tmp_path: Path, group: int) -> None:
    ids = [str(number) for number in range(100)]
    pq.write_table(pa.table({"id": ids, "bytes": [b"x"] * 100}), tmp_path / "a.parquet", row_group_size=group)
    parts = find_parts(tmp_path / "a.parquet", 17)
    assert len(parts) == 6
    assert [[row["id"] for row in part.rows()] for part in parts] == [
        ids[start : start + 17] for start in range(0, 100, 17)
    ]


def test_a_large_row_group_is_not_read_at_once(tmp_path: Path) -> None:
    """What Arrow holds meanwhile is less than half of 30 MB that are one row group."""
    content = [bytes([number % 256]) * 100_000 for number in range(300)]
    pq.write_table(
        pa.table({"bytes": content}),
        tmp_path / "a.parquet",
        compression="none",
        use_dictionary=False,
        data_page_size=100_000,
        write_batch_size=4,
    )
    before, most = pa.total_allocated_bytes(), 0
    for _ in find_parts(tmp_path / "a.parquet", 300)[0].rows():
        most = max(most, pa.total_allocated_bytes() - before)
    assert 0 < most < 15_000_000


def test_memory_is_that_of_pages_not_of_row_groups(tmp_path: Path) -> None:
    """As pyarrow writes by default, 1 024 rows a page: twice the row group takes no more."""

    def most(rows: int) -> int:
        content = [number.to_bytes(4, "little") * 1000 for number in range(rows)]
        pq.write_table(pa.table({"bytes": content}), tmp_path / f"{rows}.parquet", compression="none")
        assert pq.read_metadata(tmp_path / f"{rows}.parquet").num_row_groups == 1
        before, held = pa.total_allocated_bytes(), 0
        for part in find_parts(tmp_path / f"{rows}.parquet", rows):
            for _ in part.rows():
                held = max(held, pa.total_allocated_bytes() - before)
        return held

    assert 0 < most(8192) < 1.1 * most(4096)


def test_paths_in_parquet_files_lead_from_their_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{folder.name}/{name}" for name in SIZES]
    pq.write_table(pa.table({"id": list(SIZES), "path": names}), tmp_path / "a.parquet")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert opened(tmp_path / "a.parquet") == (SIZES, {})


@pytest.mark.parametrize("content", [b"", b"PAR1 cut short", b"no Parquet at all"])
def test_a_parquet_file_that_is_none_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DatasetError, match=r"a\.parquet: not a complete Parquet file"):
        find_parts(tmp_path / "a.parquet")


def test_names_that_are_no_utf8_can_be_written(folder: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/\xff.png"))
    Image.new("RGB", (3, 3)).save(odd)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(odd, odd.name)
    for source, name in ((folder, r"\udcff.png"), (tmp_path / "a.tar", r"\udcff")):
        good, _ = opened(source)
        assert good[name] == (3, 3)
        assert all(name.encode() for name in good)


def test_single_images_are_called_as_they_are_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without an engine; a worker that stands elsewhere finds them all the same."""
    monkeypatch.chdir(folder)
    (part,) = parts_of_all(["0.png", folder / "1.png"])
    assert part.entries == (("0.png", str(folder / "0.png")), (str(folder / "1.png"), str(folder / "1.png")))


def test_a_list_of_urls_that_begins_with_a_mark(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"file://{folder}/0.png\n", encoding="utf-8-sig")
    assert opened(tmp_path / "list.txt") == ({f"file://{folder}/0.png": SIZES["0.png"]}, {})


def test_tar_shards_with_a_broken_member(folder: Path, tmp_path: Path) -> None:
    samples = [Sample(ImageRef(name.removesuffix(".png"), folder / name)) for name in SIZES]
    write_shards(samples, tmp_path / "shards", size=3)
    good, bad = opened(tmp_path / "shards")
    assert (good, bad) == ({name.removesuffix(".png"): size for name, size in SIZES.items()}, {})
    assert len(find_parts(tmp_path / "shards")) == 3
    shard = find_parts(tmp_path / "shards")[0].path
    Path(shard).write_bytes(Path(shard).read_bytes()[:700])
    good, bad = opened(tmp_path / "shards")
    assert len(good) == 4
    assert any("damaged" in why for why in bad.values())


def test_urls(folder: Path, tmp_path: Path, server: str) -> None:
    urls = [*(f"{server}/{name}" for name in [*SIZES, "nothing.png", "broken.png"]), f"file://{folder}/0.png"]
    (tmp_path / "list.txt").write_text("\n".join([*urls, urls[0], "# a remark", ""]))
    good, bad = opened(tmp_path / "list.txt")
    assert list(good.values()) == [*SIZES.values(), SIZES["0.png"]]
    assert set(bad) == {urls[7], urls[8]}
    assert "404" in bad[urls[7]]


def test_small_inputs_have_small_parts_so_that_an_interruption_loses_little(tmp_path: Path) -> None:
    for number in range(155):
        (tmp_path / f"{number}.png").touch()
    parts = find_parts(tmp_path)
    assert [part.row_count for part in parts] == [16] * 9 + [11]


def test_parts_are_the_same_every_time_and_notice_another_file(folder: Path, tmp_path: Path) -> None:
    assert find_parts(folder) == find_parts(folder)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["1"], "path": ["x"]}), path)
    before = find_parts(path)
    pq.write_table(pa.table({"id": ["1"], "path": ["xx" * 500]}), path)
    assert find_parts(path) != before


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such input"):
        find_parts(tmp_path / "absent.tar")
    with pytest.raises(DatasetError, match="no such input"):
        find_parts(tmp_path / "absent.parquet")
    with pytest.raises(DatasetError, match="no images"):
        find_parts(tmp_path)


def test_a_row_without_a_image() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (3, 3)).save(buffer, "PNG")
    rows = open_rows([{"id": "1", "text": "x"}, {"id": "2", "error": "lost"}, {"id": "3", "bytes": buffer.getvalue()}])
    assert "no image, bytes, path or url" in rows[0]["error"]
    assert rows[1]["error"] == "lost"
    assert rows[2]["image"].size == (3, 3)


def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dripping(Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):  # the client leaves
                for _ in range(100):
                    self.wfile.write(b"x")
                    time.sleep(0.05)

    monkeypatch.setattr(inputs, "LONGEST", 0.2)
    with serving(Dripping) as base:
        began = time.monotonic()
        (row,) = open_rows([{"id": "slow", "url": f"{base}/a.png"}])
        took = time.monotonic() - began
    assert "not all there after 0.2 seconds" in row["error"]
    assert took < 4


def test_paths_of_a_file_stay_in_its_folder(folder: Path, tmp_path: Path) -> None:
    """A stranger's table or list must not make us read, and send to an endpoint, other files of this machine."""
    inside = tmp_path / "data"
    inside.mkdir()
    (inside / "a.png").write_bytes((folder / "0.png").read_bytes())
    (inside / "deeper").mkdir()
    secret = tmp_path / "secret.png"
    secret.write_bytes((folder / "1.png").read_bytes())
    places = [
        "a.png",
        "deeper/../a.png",
        str(inside / "a.png"),
        "../secret.png",
        str(secret),
        "deeper/../../secret.png",
    ]
    kinds = [
        {"path": places},
        {"image": [{"bytes": None, "path": place} for place in places]},
        {"image": places},
        {"url": [f"file://{place}" if place.startswith("/") else place for place in places]},
    ]
    for columns in kinds:
        pq.write_table(pa.table({"id": [str(n) for n in range(6)], **columns}), inside / "table.parquet")
        good, bad = opened(inside / "table.parquet")
        assert (list(good), list(bad)) == (["0", "1", "2"], ["3", "4", "5"]), columns
        assert all("leads out of the folder" in reason for reason in bad.values())
    content = secret.read_bytes()  # with its bytes in the row, the path is only a remark
    pq.write_table(pa.table({"id": ["x"], "image": [{"bytes": content, "path": "/a/b.png"}]}), inside / "table.parquet")
    assert list(opened(inside / "table.parquet")[0]) == ["x"]
    (inside / "list.txt").write_text(f"a.png\n{secret}\n")
    with pytest.raises(InputError, match="leads out of the folder"):
        find_parts(inside / "list.txt")


def test_urls_of_a_list_do_not_reach_this_machine(
    folder: Path, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAPTRIAL_ALLOW_PRIVATE")
    (tmp_path / "list.txt").write_text(f"{server}/0.png\n")
    good, bad = opened(tmp_path / "list.txt")
    assert good == {}
    assert "--allow-private" in bad[f"{server}/0.png"]


def test_images_behind_addresses_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloads hold at most a window of bytes, and batches count the pixels of images that come from afar."""
    buffer = io.BytesIO()
    Image.effect_noise((60, 40), 90).save(buffer, "PNG")
    most, held = 0, set[int]()

    class Serving(Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(buffer.getvalue())

    download = inputs._download

    def counted(url: str, client: object, budget: object) -> bytes | None:
        nonlocal most
        found = download(url, client, budget)  # type: ignore[arg-type]
        if found is not None:
            held.add(int(url[-1]))
            most = max(most, len(held))
        return found

    monkeypatch.setattr(inputs, "_download", counted)
    monkeypatch.setattr(inputs, "WINDOW", int(2.5 * len(buffer.getvalue())))
    with serving(Serving) as base:
        rows = fetch_rows({"id": str(number), "url": f"{base}/{number}"} for number in range(6))
        batches = []
        for batch in pixel_batches(rows, row_pixels, budget=5000):
            batches.append([row["id"] for row in batch])
            held -= {int(row["id"]) for row in batch}
    assert batches == [["0", "1"], ["2", "3"], ["4", "5"]]
    assert most <= 2 + 2, "two in the window, and those of the batch that is being filled"
