"""Maps of words that another program made, as a captioner to be measured: `captrial attend --maps`.

A `.npz` file, or a folder of `.npy` and `.npz` files, with one array a caption: `ID#N` are the maps of the words of
reference N (from 0) of the image ID, `ID` those of the model's own caption. An array is (words, rows, columns), a map
for every word as `captrial.language.tokenizer.tokenize` counts them, over the whole image, at any resolution and scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.arrays import NpzArchive, map_npy
from captrial.attribution.dataset_attribution import Words, WordWeights
from captrial.data.captions.reading import read_captions
from captrial.errors import DatasetError, InputError
from captrial.grounding.attention_correctness import FORCED, FORCED_CLASSES, MOST_WORDS, OF_REFERENCES
from captrial.language.tokenizer import tokenize_all
from captrial.records import Sample
from captrial.vision.preprocess import RESOLUTION, Preprocess

METHOD = "maps"
SUFFIXES = (".npy", ".npz")


class MapFiles:
    """The arrays of a `.npz` file or of a folder, by key, read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, Path] = {}
        self._archive: NpzArchive | None = None
        if path.is_dir():
            self._files = {file.stem: file for file in sorted(path.iterdir()) if file.suffix in SUFFIXES}
        elif path.suffix == ".npz" and path.is_file():
            self._archive = NpzArchive(path)
        else:
            raise InputError(f"--maps {path}: give a .npz file, or a folder of .npy and .npz files")
        self.keys = set(self._files) if self._archive is None else set(self._archive.sizes)
        if not self.keys:
            raise DatasetError(f"{path}: no maps in it; an array is named ID (own caption) or ID#0 (reference 0)")

    def __getitem__(self, key: str) -> NDArray[np.float64]:
        found = self._read(key)
        if found.dtype.kind not in "fiub":
            raise DatasetError(f"{self.path}: {key} must be an array of numbers, found {found.dtype}")
        values: NDArray[np.float64] = np.asarray(found, np.float64)
        if values.ndim != 3 or not np.isfinite(values).all() or (values < 0).any():
            shape = "(words, rows, columns) of finite numbers of at least 0"
            raise DatasetError(f"{self.path}: {key} must be {shape}, found {values.shape}")
        return values

    def _read(self, key: str) -> NDArray[Any]:
        if self._archive is not None:
            return self._archive[key]
        path = self._files[key]
        if path.suffix == ".npy":
            return map_npy(path)
        with NpzArchive(path) as archive:
            if not archive.sizes:
                raise DatasetError(f"{path}: there is no array in it")
            return archive[key if key in archive.sizes else next(iter(archive.sizes))]


class MapAttributor:
    """A `CaptionAttributor` whose maps, and captions, were made before by any program."""

    method = METHOD

    def __init__(self, maps: Path, samples: Sequence[Sample], captions: Path | None = None) -> None:
        """`captions` is a file of the model's own captions, for the generated setting; any that captrial reads."""
        self.name = maps.stem if maps.suffix == ".npz" else maps.name
        self.maps = MapFiles(maps)
        self.samples = {sample.id: sample for sample in samples}
        self.captions = {} if captions is None else _captions(captions, self.samples)

    @property
    def preprocess(self) -> Preprocess:
        """Maps cover the whole image."""
        return Preprocess(RESOLUTION)

    def check(self, settings: Sequence[str]) -> None:
        """Raise `InputError`, before any work is done, if a setting asks for maps that are not here."""
        if any(setting not in OF_REFERENCES for setting in settings) and not self.captions:
            raise InputError(
                f"--maps {self.maps.path}: generated captions need their texts: --map-captions FILE; "
                f"or measure the references alone: --captions {FORCED} (without phrases: {FORCED_CLASSES})"
            )

    def caption(self, image_ids: Sequence[str]) -> list[str]:
        """The model's own captions."""
        return [self.captions[image] for image in image_ids]

    def attribute(self, image_ids: Sequence[str], captions: Sequence[Sequence[Words]]) -> list[list[WordWeights]]:
        """The maps of the words of some captions: all references of an image in their order, or the model's own."""
        found = []
        for image, texts in zip(image_ids, captions, strict=True):
            references = len(self.samples[image].captions)
            places = range(references) if len(texts) == references > 1 else [None] * len(texts)
            found.append([self._weights(image, list(words), place) for words, place in zip(texts, places, strict=True)])
        return found

    def _weights(self, image: str, words: list[str], reference: int | None) -> WordWeights:
        key, count = self._key(image, words, reference)
        maps = self.maps[key]
        if len(maps) != count:
            raise DatasetError(
                f"{self.maps.path}: {key} has {len(maps)} maps for the {count} words of {' '.join(words)!r}; "
                "one a word is needed, as captrial.language.tokenizer.tokenize counts them"
            )
        rows, columns = maps.shape[1:]
        weights = maps.reshape(len(maps), -1)[: len(words)]
        return WordWeights(weights, np.zeros((rows * columns, 4)), (rows, columns))

    def _key(self, image: str, words: list[str], reference: int | None) -> tuple[str, int]:
        """The array of a caption, found by its words, and how many words the whole caption has.

        Of captions with the same words it is that of the given reference, else the model's own.
        """
        texts = self._texts(image)
        asked = [key for key, text in texts.items() if text[:MOST_WORDS] == words or text == words]
        asked.sort(key=lambda key: key != f"{image}#{reference}")
        for key in asked:
            if key in self.maps.keys:
                return key, len(texts[key])
        raise DatasetError(f"{self.maps.path}: no array {asked[0] if asked else image} for {' '.join(words)!r}")

    @lru_cache(maxsize=64)  # noqa: B019 (an attributor lives as long as its study)
    def _texts(self, image: str) -> dict[str, list[str]]:
        """The words of every caption of an image by the key of its maps, the model's own caption first."""
        references = self.samples[image].captions
        own = {image: self.captions[image]} if image in self.captions else {}
        texts = {**own, **{f"{image}#{number}": text for number, text in enumerate(references)}}
        return {key: words.split() for key, words in zip(texts, tokenize_all(list(texts.values())), strict=True)}


def map_attributors(
    maps: str | None, samples: Sequence[Sample], captions: Path | None, settings: Sequence[str]
) -> list[MapAttributor]:
    """What `--maps` names, with commas between; `InputError` where a setting asks for what is not there."""
    if maps is None:
        if captions is not None:
            raise InputError(f"--map-captions {captions}: are the captions of --maps; give those")
        return []
    found = [MapAttributor(Path(source), samples, captions) for source in maps.split(",")]
    if captions is not None and len(found) > 1:
        raise InputError("--map-captions: are of one model; measure the maps of each by a command of its own")
    for attributor in found:
        attributor.check(settings)
    return found


def _captions(path: Path, samples: Mapping[str, Sample]) -> dict[str, str]:
    found = read_captions(path, known_ids=list(samples)).to_dict()
    missing = [image for image in samples if image not in found]
    if missing:
        raise DatasetError(f"{path}: {len(missing)} images have no caption, the first {missing[0]!r}")
    return {image: found[image] for image in samples}
