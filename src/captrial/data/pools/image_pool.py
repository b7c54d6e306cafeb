"""A finished pool: a folder with `manifest.parquet`, `summary.json` and downloaded images, read by `ImagePool`.

`checksums.json` has the lengths and checksums of both files, the manifest the hash of every image: `ImagePool.load` and
`read` raise a `DamagedError` where they do not match, `verify_pool` checks all of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from PIL import Image

from captrial.data.images import MAX_BYTES, open_image
from captrial.data.pools.sources import PoolCandidate
from captrial.errors import CaptrialError, DamagedError, DatasetError, InputError
from captrial.files import output_path
from captrial.folders import FolderVerifier, VerifiedFolder, check_files
from captrial.progress import track
from captrial.records import ImageRef

MANIFEST, SUMMARY = "manifest.parquet", "summary.json"
COLUMNS = {  # of the manifest, as far as they are read
    "id": pa.string(),
    "class": pa.string(),
    "path": pa.string(),  # relative to the pool, or absolute for an image that stays where it was found
    "shard": pa.string(),
    "offset": pa.int64(),
    "size": pa.int64(),
    "width": pa.int32(),
    "height": pa.int32(),
    "hash": pa.string(),  # blake2b of the file's bytes
    "status": pa.string(),
    "reason": pa.string(),
    "copy_of": pa.string(),
}
REMAKE = "`captrial pool build`"
NO_CLASS = "(no class)"
LABELLED_CLASSES = 60  # up to this number, the bars of `draw_classes` are labelled


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An image that was found but is not in the pool.

    Status: `unreadable`, `not downloaded`, `exact duplicate` or `near duplicate` (of the image `copy_of`, which stays).
    """

    id: str
    status: str
    reason: str
    copy_of: str | None = None


@dataclass(frozen=True)
class ImagePool:
    """The images of a pool, in id order. `table` has all images that were found, with status and reason."""

    directory: Path
    table: pa.Table = field(repr=False)
    summary: dict[str, Any] = field(repr=False)

    @classmethod
    def load(cls, directory: Path | str) -> ImagePool:
        """Read a pool written by `build_pool`."""
        directory = Path(directory)
        if not (directory / MANIFEST).is_file() or not (directory / SUMMARY).is_file():
            raise DatasetError(f"{directory}: is not a finished pool; build it with {REMAKE}")
        check_files(directory, REMAKE, [MANIFEST, SUMMARY])
        return cls(directory, _read_manifest(directory / MANIFEST), _read_summary(directory / SUMMARY))

    def __len__(self) -> int:
        return len(self._rows)

    def images(self) -> list[ImageRef]:
        """The images of the pool; `path` is None for images in a tar shard (see `open`)."""
        return [
            ImageRef(row["id"], self._path(row["path"]), row["width"], row["height"], row["class"])
            for row in self._rows.values()
        ]

    def left_out(self) -> list[LeftOut]:
        """The images that are not in the pool, with reasons, in id order."""
        rest = self.table.filter(pa.compute.not_equal(self.table["status"], "kept"))
        columns = rest.select(["id", "status", "reason", "copy_of"]).to_pylist()
        return [LeftOut(**row) for row in columns]

    def classes(self) -> dict[str, int]:
        """Class to number of images, largest first."""
        return count_classes(row["class"] for row in self._rows.values())

    def read(self, image_id: str) -> bytes:
        """The bytes of an image, from its file or shard; a `DamagedError` if they changed since the pool was built."""
        row = self._rows.get(image_id)
        if row is None:
            raise InputError(f"{self.directory}: has no image {image_id!r}; see `captrial pool show`")
        candidate = PoolCandidate(
            row["id"], None, self._path(row["path"]), self._path(row["shard"]), row["offset"], row["size"]
        )
        place = candidate.path or candidate.shard
        if place is None:
            raise DamagedError(self.directory / MANIFEST, f"has no file for the image {image_id!r}", REMAKE)
        try:
            content = candidate.read(MAX_BYTES)
        except OSError as error:
            raise DatasetError(f"{place}: is missing since the pool was built ({error})") from None
        if hashlib.blake2b(content, digest_size=16).hexdigest() != row["hash"]:
            raise DamagedError(place, f"the image {image_id!r} has changed since the pool was built", REMAKE)
        return content

    def open(self, image_id: str) -> Image.Image:
        """An image in RGB (see `captrial.data.open_image`)."""
        return open_image(self.read(image_id), name=image_id)

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        kept = self.table.filter(pa.compute.equal(self.table["status"], "kept"))
        columns = ["id", "class", "path", "shard", "offset", "size", "width", "height", "hash"]
        return {row["id"]: row for row in kept.select(columns).to_pylist()}

    def _path(self, stored: str | None) -> Path | None:
        return None if stored is None else self.directory / stored  # absolute paths stay unchanged


def _read_manifest(path: Path) -> pa.Table:
    """The manifest, with the columns and types that are needed, and without relative paths that leave the pool."""
    try:
        table = pq.read_table(path)
        for name, kind in COLUMNS.items():
            if table.schema.field(name).type != kind:
                raise DamagedError(path, f"its column {name!r} has the type {table.schema.field(name).type}", REMAKE)
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise DamagedError(path, f"cannot be read ({str(error).partition(chr(10))[0][:200]})", REMAKE) from None
    for name in ("path", "shard"):
        for stored in table[name].drop_null().unique().to_pylist():
            if ".." in PurePosixPath(stored).parts or "\0" in stored:
                raise DamagedError(path, f"has a {name} that leads out of the pool ({stored[:80]!r})", REMAKE)
    return table


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        summary = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DamagedError(path, f"cannot be read ({error})", REMAKE) from None
    if not isinstance(summary, dict):
        raise DamagedError(path, "is not a JSON object", REMAKE)
    return summary


def verify_pool(directory: Path | str) -> VerifiedFolder:
    """Check the files of a pool and every image against their checksums; problems are listed, not raised."""
    try:
        pool = ImagePool.load(directory)
    except CaptrialError as error:
        return VerifiedFolder(POOL.name, 2, (str(error),))
    problems = []
    for image in track(pool.images(), "verifying images"):
        try:
            pool.read(image.id)
        except CaptrialError as error:
            problems.append(str(error))
    return VerifiedFolder(POOL.name, 2 + len(pool), tuple(problems))


POOL = FolderVerifier("image pool", lambda folder: (folder / MANIFEST).is_file(), verify_pool)


def count_classes(labels: Iterable[str | None]) -> dict[str, int]:
    """Class to number of images, largest first, ties by name.

    >>> count_classes(["dog", "cat", "dog", None])
    {'dog': 2, '(no class)': 1, 'cat': 1}
    """
    counts = Counter(NO_CLASS if label is None else label for label in labels)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def draw_classes(classes: Mapping[str, int], path: Path | str, title: str = "", *, overwrite: bool = False) -> None:
    """Draw the class distribution of a pool (Wan 2022 Fig. 5): one bar per class, largest first; .svg, .png or .pdf.

    A file that captrial did not write is replaced only with `overwrite`.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise InputError(f"{path}: a figure is .svg, .png or .pdf; choose one of these suffixes")
    names = sorted(classes, key=lambda name: (-classes[name], name))
    counts = [classes[name] for name in names]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.bar(range(len(names)), counts, width=0.86 if len(names) <= LABELLED_CLASSES else 1.0, color="#2f6f8f")
    axes.set_xlim(-0.6, max(len(names), 1) - 0.4)
    axes.set_ylabel("images")
    axes.set_title(title or f"{sum(counts)} images in {len(names)} classes", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    if len(names) <= LABELLED_CLASSES:
        axes.set_xticks(
            range(len(names)), names, rotation=60 if len(names) > 8 else 0, ha="right" if len(names) > 8 else "center"
        )
        axes.tick_params(axis="x", labelsize=8, length=0)
    else:
        axes.set_xlabel("class, largest first")
    # Without date and random ids, the same pool gives the same bytes.
    with rc_context({"svg.hashsalt": "captrial"}), output_path(path, overwrite=overwrite) as temporary:
        figure.savefig(temporary, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
