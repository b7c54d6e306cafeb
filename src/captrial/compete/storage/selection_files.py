"""What was selected, in a competition's folder `selection/`: D_ij and its reserve by pair, and the captions of all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from captrial.compete.selection.selection import PairSelection
from captrial.compete.storage.caption_pool import gather
from captrial.compete.storage.caption_store import StoredPool
from captrial.compete.storage.manifest import SelectionSettings
from captrial.files import atomic_path, atomic_write

Pair = tuple[int, int]
Captions = dict[str, tuple[str, ...]]  # by image, one a model


@dataclass(frozen=True, slots=True)
class ActiveSelection:
    """D_ij as it stands: indescribable images have left and the next of the reserve have taken their places."""

    models: tuple[str, str]
    images: tuple[str, ...]
    similarity: tuple[float, ...]
    reserve: tuple[str, ...]
    replaced: tuple[str, ...]
    wanted: int


def without(chosen: PairSelection, bad: frozenset[str]) -> ActiveSelection:
    """D_ij without bad images: derived from their list alone, so it can be computed any number of times."""
    order = zip((*chosen.images, *chosen.reserve), (*chosen.similarity, *chosen.reserve_similarity), strict=True)
    good = [(image, value) for image, value in order if image not in bad]
    k = len(chosen.images)
    return ActiveSelection(
        models=chosen.models,
        images=tuple(image for image, _ in good[:k]),
        similarity=tuple(value for _, value in good[:k]),
        reserve=tuple(image for image, _ in good[k:]),
        replaced=tuple(image for image in chosen.images if image in bad),
        wanted=k,
    )


class ChosenFiles:
    """The files of the folder; what was read is kept until they change."""

    def __init__(self, directory: Path) -> None:
        self.folder = directory / "selection"
        self._read: dict[Pair, tuple[tuple[int, SelectionSettings], PairSelection]] = {}
        self._captions: Captions = {}

    def write(self, pair: Pair, settings: SelectionSettings, found: PairSelection) -> None:
        """Keep D_ij and its reserve."""
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
        """Every model's caption of the images: as kept, or gathered from the pool and kept."""
        captions = self._captions  # other threads may put others in their place meanwhile
        if not captions or len(next(iter(captions.values()))) != len(pool.models):
            captions = self._kept_captions(len(pool.models))
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

    def _kept_captions(self, models: int) -> Captions:
        path = self.folder / "captions.parquet"
        table = pq.read_table(path) if path.is_file() else None
        if table is None or table.num_columns != 1 + models:
            return {}
        ids, *texts = [column.to_pylist() for column in table.columns]
        return dict(zip(ids, zip(*texts, strict=True), strict=True))

    def _file(self, pair: Pair) -> Path:
        return self.folder / f"{pair[0]}-{pair[1]}.json"
