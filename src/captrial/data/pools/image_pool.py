"""A finished pool: a folder with `manifest.parquet`, `summary.json` and downloaded images, read by `ImagePool`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from PIL import Image

from captrial.data.images import MAX_BYTES, open_image
from captrial.data.pools.sources import PoolCandidate
from captrial.errors import DatasetError, InputError
from captrial.files import atomic_path
from captrial.records import ImageRef

MANIFEST, SUMMARY = "manifest.parquet", "summary.json"
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
        try:
            table = pq.read_table(directory / MANIFEST)
            summary = orjson.loads((directory / SUMMARY).read_bytes())
        except FileNotFoundError:
            raise DatasetError(f"{directory}: is not a finished pool; build it with `captrial pool build`") from None
        except PermissionError:
            raise DatasetError(f"{directory}: its manifest may not be read; check its permissions") from None
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DatasetError(f"{directory}: its manifest is damaged ({error}); build the pool again") from None
        return cls(directory, table, summary)

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
        """The bytes of an image, from its file or shard."""
        row = self._rows.get(image_id)
        if row is None:
            raise InputError(f"{self.directory}: has no image {image_id!r}; see `captrial pool show`")
        candidate = PoolCandidate(
            row["id"], None, self._path(row["path"]), self._path(row["shard"]), row["offset"], row["size"]
        )
        try:
            return candidate.read(MAX_BYTES)
        except OSError as error:
            raise DatasetError(
                f"{candidate.path or candidate.shard}: is missing since the pool was built ({error})"
            ) from None

    def open(self, image_id: str) -> Image.Image:
        """An image in RGB (see `captrial.data.open_image`)."""
        return open_image(self.read(image_id), name=image_id)

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        kept = self.table.filter(pa.compute.equal(self.table["status"], "kept"))
        columns = ["id", "class", "path", "shard", "offset", "size", "width", "height"]
        return {row["id"]: row for row in kept.select(columns).to_pylist()}

    def _path(self, stored: str | None) -> Path | None:
        return None if stored is None else self.directory / stored  # absolute paths stay unchanged


def count_classes(labels: Iterable[str | None]) -> dict[str, int]:
    """Class to number of images, largest first, ties by name.

    >>> count_classes(["dog", "cat", "dog", None])
    {'dog': 2, '(no class)': 1, 'cat': 1}
    """
    counts = Counter(NO_CLASS if label is None else label for label in labels)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def draw_classes(classes: Mapping[str, int], path: Path | str, title: str = "") -> None:
    """Draw the class distribution of a pool (Wan 2022 Fig. 5): one bar per class, largest first; .svg, .png or .pdf."""
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
    with rc_context({"svg.hashsalt": "captrial"}), atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
