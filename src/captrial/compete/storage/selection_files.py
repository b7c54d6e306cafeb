"""The folder `selection/` of a competition: D_ij and its reserve for every pair, and the captions of these images."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from captrial.compete.storage.caption_pool import StoredPool, gather
from captrial.compete.storage.manifest import SelectionSettings
from captrial.files import atomic_path, atomic_write

Pair = tuple[int, int]
Captions = dict[str, tuple[str, ...]]  # by image, one a model


@dataclass(frozen=True, slots=True)
class PairSelection:
    """D_ij of one pair of models, most different captions first; `reserve` continues the same order."""

    models: tuple[str, str]
    images: tuple[str, ...]
    similarity: tuple[float, ...]
    reserve: tuple[str, ...]
    reserve_similarity: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ActiveSelection:
    """D_ij without indescribable images, which are replaced by the next of the reserve."""

    models: tuple[str, str]
    images: tuple[str, ...]
    similarity: tuple[float, ...]
    reserve: tuple[str, ...]
    replaced: tuple[str, ...]
    wanted: int


def active_selection(selection: PairSelection, bad: frozenset[str]) -> ActiveSelection:
    """D_ij without the images in `bad`."""
    order = zip(
        (*selection.images, *selection.reserve), (*selection.similarity, *selection.reserve_similarity), strict=True
    )
    good = [(image, value) for image, value in order if image not in bad]
    k = len(selection.images)
    return ActiveSelection(
        models=selection.models,
        images=tuple(image for image, _ in good[:k]),
        similarity=tuple(value for _, value in good[:k]),
        reserve=tuple(image for image, _ in good[k:]),
        replaced=tuple(image for image in selection.images if image in bad),
        wanted=k,
    )


class SelectionFiles:
    """Reads and writes the files of the folder; content is cached until a file changes."""

    def __init__(self, directory: Path) -> None:
        self.folder = directory / "selection"
        self._read: dict[Pair, tuple[tuple[int, SelectionSettings], PairSelection]] = {}
        self._captions: Captions = {}

    def write(self, pair: Pair, settings: SelectionSettings, found: PairSelection) -> None:
        """Write D_ij and its reserve."""
        record = {"settings": settings, **asdict(found)}
        atomic_write(self._file(pair), orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")

    def read(self, pair: Pair, settings: SelectionSettings | None) -> PairSelection | None:
        """D_ij if it was selected with these settings."""
        path = self._file(pair)
        if settings is None or not path.is_file():
            return None
        stamp = (path.stat().st_mtime_ns, settings)
        if pair not in self._read or self._read[pair][0] != stamp:
            record = orjson.loads(path.read_bytes())
            if record.pop("settings") != asdict(settings):
                return None
            self._read[pair] = stamp, PairSelection(**{name: tuple(values) for name, values in record.items()})
        return self._read[pair][1]

    def captions(self, wanted: set[str], pool: StoredPool) -> Captions:
        """Every model's caption of the images, from the cache or gathered from the pool."""
        captions = self._captions  # another thread may replace the attribute meanwhile
        if not captions or len(next(iter(captions.values()))) != len(pool.models):
            captions = self._stored_captions(len(pool.models))
        if not wanted <= captions.keys():
            captions = gather(pool, sorted(wanted))
            columns = zip(*captions.values(), strict=True)
            table = {"id": list(captions), **{str(model): texts for model, texts in enumerate(columns)}}
            with atomic_path(self.folder / "captions.parquet") as temporary:
                pq.write_table(pa.table(table), temporary)
        if captions.keys() != wanted:
            captions = {image: texts for image, texts in captions.items() if image in wanted}
        self._captions = captions
        return captions

    def _stored_captions(self, models: int) -> Captions:
        path = self.folder / "captions.parquet"
        table = pq.read_table(path) if path.is_file() else None
        if table is None or table.num_columns != 1 + models:
            return {}
        ids, *texts = [column.to_pylist() for column in table.columns]
        return dict(zip(ids, zip(*texts, strict=True), strict=True))

    def _file(self, pair: Pair) -> Path:
        return self.folder / f"{pair[0]}-{pair[1]}.json"
