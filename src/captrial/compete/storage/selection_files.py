"""The folder `selection/` of a competition: D_ij and its reserve for every pair, and the captions of these images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from captrial.compete.storage.caption_pool import StoredPool, gather
from captrial.compete.storage.manifest import SelectionSettings
from captrial.errors import DamagedError
from captrial.files import FileSum
from captrial.folders import CHECKSUMS, check_file, read_checksums, write_checked

FOLDER = "selection"
CAPTIONS = f"{FOLDER}/captions.parquet"
RESELECT = "`captrial compete select` after removing it"
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


def all_pairs(models: int) -> list[Pair]:
    """Index pairs (i, j), i < j.

    >>> all_pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(models), 2))


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
    """Reads and writes the files of the folder; content is checked when it is read, and cached until a file changes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._read: dict[Pair, tuple[tuple[int, SelectionSettings], PairSelection]] = {}
        self._captions: Captions = {}
        self._checksums: tuple[int, dict[str, list[FileSum]]] = (-1, {})

    def write(self, settings: SelectionSettings, found: Mapping[Pair, PairSelection]) -> None:
        """Write D_ij and its reserve of some pairs."""
        with write_checked(self.directory) as staging:
            (staging / FOLDER).mkdir()
            for pair, selection in found.items():
                record = {"settings": settings, **asdict(selection)}
                (staging / _file(pair)).write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")

    def read(self, pair: Pair, settings: SelectionSettings | None) -> PairSelection | None:
        """D_ij if it was selected with these settings."""
        path = self.directory / _file(pair)
        if settings is None or not path.is_file():
            return None
        stamp = (path.stat().st_mtime_ns, settings)
        if pair not in self._read or self._read[pair][0] != stamp:
            self._check(_file(pair))
            try:
                record = orjson.loads(path.read_bytes())
                if record.pop("settings") != asdict(settings):
                    return None
                found = PairSelection(**{name: tuple(values) for name, values in record.items()})
                if len(found.images) != len(found.similarity) or len(found.reserve) != len(found.reserve_similarity):
                    raise ValueError("not one similarity an image")
                if not all(isinstance(text, str) for text in (*found.models, *found.images, *found.reserve)):
                    raise ValueError("an id that is not text")
                if not all(
                    isinstance(number, int | float) for number in (*found.similarity, *found.reserve_similarity)
                ):
                    raise ValueError("a similarity that is not a number")
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise DamagedError(path, f"cannot be read as a selection ({error})", RESELECT) from None
            self._read[pair] = stamp, found
        return self._read[pair][1]

    def strata(self, images: Iterable[str], write: bool = False) -> dict[str, int]:
        """By image, which ones entered D together, as numbers; `write` gives new images the next number.

        Without it they are replacements of images that cannot be described, and count among the first.

        A stratum is labelled in a random order of its own (see `selection.design`), so the labelled part of it is a
        random one, which need not hold for D as a whole: with `add`, or a larger k, D gets images after others have
        been labelled.
        """
        known: dict[str, int] = {}
        number = 0
        while (self.directory / FOLDER / f"strata-{number}.json").is_file():
            known |= dict.fromkeys(self._stratum(f"{FOLDER}/strata-{number}.json"), number)
            number += 1
        wanted = list(images)
        fresh = sorted(set(wanted) - known.keys())
        if fresh and write:
            self._store(f"{FOLDER}/strata-{number}.json", orjson.dumps(fresh) + b"\n")
        known |= dict.fromkeys(fresh, number if write else 0)
        return {image: known[image] for image in wanted}

    def _stratum(self, name: str) -> list[str]:
        self._check(name)
        try:
            found = orjson.loads((self.directory / name).read_bytes())
            if not isinstance(found, list) or not all(isinstance(image, str) for image in found):
                raise ValueError("not a list of images")
        except (OSError, ValueError) as error:
            raise DamagedError(self.directory / name, f"cannot be read ({error})", RESELECT) from None
        return found

    def _store(self, name: str, content: bytes) -> None:
        with write_checked(self.directory) as staging:
            (staging / FOLDER).mkdir()
            (staging / name).write_bytes(content)

    def agreement(
        self, models: Sequence[int], pool: StoredPool, similarity: str, store: bool = False
    ) -> NDArray[np.float32]:
        """(images, models): how much these models' captions agree on each image of the pool; `store` keeps it."""
        from captrial.compete.selection.caption_agreement import (
            SEMANTIC,
            pool_agreement,
        )  # numba: only a sample needs it

        kind = ["agreement", *([SEMANTIC] if similarity == SEMANTIC else [])]
        name = f"{FOLDER}/{'-'.join([*kind, *map(str, models)])}.f4"  # little-endian floats, row by row
        path, shape = self.directory / name, (len(pool), len(models))
        if path.is_file() and path.stat().st_size == 4 * shape[0] * shape[1]:
            self._check(name)
            return np.fromfile(path, "<f4").reshape(shape)
        pool.check()
        found = pool_agreement(pool, models, similarity)
        if store:
            self._store(name, found.astype("<f4").tobytes())
        return found

    def captions(self, wanted: set[str], pool: StoredPool, store: bool = False) -> Captions:
        """Every model's caption of the images, from `captions.parquet` or gathered from the pool; `store` writes it."""
        captions = self._captions  # another thread may replace the attribute meanwhile
        if not captions or len(next(iter(captions.values()))) != len(pool.models):
            captions = self._stored_captions(len(pool.models))
        if not wanted <= captions.keys():
            pool.check()
            captions = gather(pool, sorted(wanted))
            if store:
                self._write_captions(captions)
        if captions.keys() != wanted:
            captions = {image: texts for image, texts in captions.items() if image in wanted}
        self._captions = captions
        return captions

    def _write_captions(self, captions: Captions) -> None:
        columns = zip(*captions.values(), strict=True)
        table = {"id": list(captions), **{str(model): texts for model, texts in enumerate(columns)}}
        with write_checked(self.directory) as staging:
            (staging / FOLDER).mkdir()
            pq.write_table(pa.table(table), staging / CAPTIONS)

    def _stored_captions(self, models: int) -> Captions:
        path = self.directory / CAPTIONS
        if not path.is_file():
            return {}
        self._check(CAPTIONS)
        try:
            table = pq.read_table(path)
            ids, *texts = [column.to_pylist() for column in table.columns]
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DamagedError(path, f"cannot be read ({str(error).partition(chr(10))[0][:200]})", RESELECT) from None
        return dict(zip(ids, zip(*texts, strict=True), strict=True)) if len(texts) == models else {}

    def _check(self, name: str) -> None:
        """Check one file; the record of all is read once, as it is long with many models."""
        path = self.directory / CHECKSUMS
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        if self._checksums[0] != changed:
            self._checksums = changed, read_checksums(self.directory)
        if name in self._checksums[1]:
            check_file(self.directory / name, self._checksums[1][name], RESELECT)


def _file(pair: Pair) -> str:
    return f"{FOLDER}/{pair[0]}-{pair[1]}.json"
