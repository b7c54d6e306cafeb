"""A competition: a directory that every step reads and extends by whole files, so that it can be repeated or resumed.

    competition.json             the manifest: models, fingerprints of their caption files, selection settings
    pool.parquet                 image ids
    captions/0.parquet           the captions of model 0, and so on; captions/0.broken.jsonl lists broken captions
    selection/0-1.json           D_01 and its reserve, and so on
    selection/captions.parquet   captions of the selected images (derived; written again when out of date)
    references.jsonl             reference captions; judgements.jsonl holds people's preferences (see `storage.labels`)
    indescribable.json           images that were marked as impossible to describe

`competition.json` is written last, so a directory without it is an interrupted `new`, which can be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import orjson

from captrial.compete.ranking.pair_scores import PairImages, PairScorer
from captrial.compete.ranking.result import RankingResult, rank_models
from captrial.compete.selection.discrepancy import Ranker, SearchOptions, all_pairs, select, select_diverse
from captrial.compete.selection.registry import refuse_stored_function, similarity_named
from captrial.compete.storage import creation
from captrial.compete.storage.caption_pool import StoredPool
from captrial.compete.storage.labels import Judgement, Labels, read_judgements, read_labels
from captrial.compete.storage.manifest import Manifest, SelectionSettings, changed
from captrial.compete.storage.selection_files import (
    ActiveSelection,
    Captions,
    Pair,
    PairSelection,
    SelectionFiles,
    active_selection,
)
from captrial.data import read_references
from captrial.data.image_source import ImageSource, class_of
from captrial.errors import InputError, StateError
from captrial.files import atomic_write


class Competition:
    """A competition in a directory; the module's docstring lists its files."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        """Use `open` or `create`."""
        self.directory, self._manifest = directory, manifest
        self._files = SelectionFiles(directory)

    @classmethod
    def create(
        cls,
        directory: Path | str,
        captions: Mapping[str, Path | str],
        *,
        images: Path | str | None = None,
        seed: int = 0,
        first_sentence: bool = False,
        common: bool = False,
    ) -> Competition:
        """Create a competition from caption files, one a model (see `captrial.data.read_captions` for formats)."""
        directory = Path(directory)
        files = {name: Path(path) for name, path in captions.items()}
        root = Path(images) if images is not None else None
        manifest = creation.create(
            directory, files, images=root, seed=seed, first_sentence=first_sentence, common=common
        )
        return cls(directory, manifest)

    @classmethod
    def open(cls, directory: Path | str, check_sources: bool = False) -> Competition:
        """Open a competition; with `check_sources`, refuse if a caption file has changed since it was read."""
        competition = cls(Path(directory), Manifest.load(Path(directory)))
        stale = competition.changed_sources() if check_sources else []
        if stale:
            raise StateError(
                f"the captions of {', '.join(stale)} have changed since this competition read them; make a new "
                "competition, add them under another name, or give --ignore-changes to go on with the old captions"
            )
        return competition

    # Properties -----------------------------------------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        """The content of `competition.json`."""
        return self._manifest

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in the order in which they were added."""
        return tuple(entry.name for entry in self._manifest.models)

    @property
    def pairs(self) -> list[Pair]:
        """All pairs of models, as indices i < j."""
        return all_pairs(len(self.models))

    @property
    def image_root(self) -> Path | None:
        """The folder of the images, if one was given."""
        return Path(self._manifest.images) if self._manifest.images else None

    @property
    def pool(self) -> StoredPool:
        """All captions of all images."""
        return StoredPool(self.directory, self.models)

    @cached_property
    def image_source(self) -> ImageSource | None:
        """Access to the images by id, if a folder or a pool was given."""
        return ImageSource(self.image_root) if self.image_root else None

    def class_of(self, image_id: str) -> str | None:
        """The class of an image in the pool, where it has one."""
        return self.image_source.label(image_id) if self.image_source else class_of(image_id)

    def changed_sources(self) -> list[str]:
        """Models whose caption file has changed since it was read."""
        return [entry.name for entry in self._manifest.models if changed(entry)]

    def captions_of(self, image_id: str) -> dict[str, str]:
        """Every model's caption of a selected image."""
        captions = self.selected_captions()
        if image_id not in captions:
            raise InputError(f"image {image_id} is not among the selected ones")
        return dict(zip(self.models, captions[image_id], strict=True))

    # Models and selection --------------------------------------------------------------------------------------

    def add_model(self, name: str, captions: Path | str) -> None:
        """Add a model (Algorithm 2); its pairs are selected by the next `select`, everything else is unchanged."""
        self._manifest = creation.add_model(self.directory, self._manifest, name, Path(captions))

    def select(
        self,
        settings: SelectionSettings | None = None,
        *,
        again: bool = False,
        workers: int = 1,
        progress: Callable[[], None] = lambda: None,
        rank: Ranker | None = None,
    ) -> list[Pair]:
        """Select D_ij for the pairs that have none; returns these pairs. `again` selects anew with other settings.

        `rank` replaces the search in this process: see `captrial.engines.jobs.select.EngineRanker`. Without `settings`
        those of the competition are used; a `module:function` among them is refused, since importing it would run
        code that a file names: pass settings that name it.
        """
        kept = self._manifest.selection
        if settings is None and kept is not None:
            refuse_stored_function(kept.similarity)
        settings = settings or kept or SelectionSettings()
        if kept not in (None, settings) and not again:
            raise StateError(
                f"images were selected with {_described(kept)}; give the same, or --again to select anew (labels "
                "are kept)"
            )
        similarity_named(settings.similarity)  # an unknown name is refused before anything is stored
        if kept != settings:  # from here on, files made with other settings do not count
            self._manifest = replace(self._manifest, selection=settings)
            self._manifest.save(self.directory)
        missing = [pair for pair in self.pairs if self._files.read(pair, self._manifest.selection) is None]
        if missing:
            options = self._search_options(settings, missing, workers, progress)
            for pair, found in zip(missing, self._search(settings, options, rank), strict=True):
                self._files.write(pair, settings, found)
        return missing

    def selected_pairs(self) -> list[Pair]:
        """Pairs that have their D_ij."""
        return [pair for pair in self.pairs if self._files.read(pair, self._manifest.selection) is not None]

    def original_selection(self, first: int | str, second: int | str) -> PairSelection:
        """D_ij and its reserve as they were selected, including images marked as indescribable since."""
        pair = self._pair(first, second)
        found = self._files.read(pair, self._manifest.selection)
        if found is None:
            raise StateError(
                f"no images are selected for {self._named(pair)}; run `captrial compete select {self.directory}`"
            )
        return found

    def selection(self, first: int | str, second: int | str, bad: frozenset[str] | None = None) -> ActiveSelection:
        """D_ij without the images known to be indescribable (`bad`; by default those marked so far)."""
        return active_selection(self.original_selection(first, second), self.indescribable() if bad is None else bad)

    def selections(self) -> dict[Pair, ActiveSelection]:
        """All D_ij, without indescribable images."""
        bad = self.indescribable()
        return {pair: self.selection(*pair, bad=bad) for pair in self.selected_pairs()}

    def selected_images(self) -> list[str]:
        """D: the images of all D_ij, without indescribable ones, sorted."""
        return sorted({image for active in self.selections().values() for image in active.images})

    def selected_captions(self) -> Captions:
        """Every model's caption of every selected or reserved image."""
        wanted = {
            image
            for pair in self.selected_pairs()
            for selection in [self.original_selection(*pair)]
            for image in (*selection.images, *selection.reserve)
        }
        return self._files.captions(wanted, self.pool)

    # Labels ----------------------------------------------------------------------------------------------------

    def labels(self, references: Path | str | None = None, split: str | None = None) -> Labels:
        """Reference captions: from this file, or from `references.jsonl` in the directory."""
        kept = read_labels(self.directory / "references.jsonl")
        if references is None:
            return kept
        return Labels(read_references(references, split=split), kept.indescribable)

    def judgements(self) -> list[Judgement]:
        """People's preferences between two models' captions."""
        return read_judgements(self.directory / "judgements.jsonl", self.models)

    def indescribable(self) -> frozenset[str]:
        """Images that people could not describe."""
        path = self.directory / "indescribable.json"
        marked = orjson.loads(path.read_bytes()) if path.is_file() else []
        return read_labels(self.directory / "references.jsonl").indescribable | frozenset(marked)

    def mark_indescribable(self, image_id: str) -> None:
        """Take an image out of every D_ij that holds it; each takes its next reserve image. Idempotent."""
        path = self.directory / "indescribable.json"
        marked = set(orjson.loads(path.read_bytes())) if path.is_file() else set()
        if image_id not in self.selected_captions():
            raise InputError(f"image {image_id} is not among the selected ones")
        if image_id not in marked:
            atomic_write(path, orjson.dumps(sorted({*marked, image_id})) + b"\n")

    def images_to_label(self, labels: Labels | None = None) -> list[str]:
        """Images of D that have no reference caption yet, those in most D_ij first."""
        done = (labels or self.labels()).references
        uses: dict[str, int] = {}
        for active in self.selections().values():
            for image in active.images:
                uses[image] = uses.get(image, 0) + (image not in done)
        return sorted((image for image in uses if uses[image]), key=lambda image: (-uses[image], image))

    # Results ---------------------------------------------------------------------------------------------------

    def scorer(self, labels: Labels | None = None) -> PairScorer:
        """A scorer of the selected images' captions against the labels there are."""
        labels = self.labels() if labels is None else labels
        active = self.selections()
        if not active:
            raise StateError(f"no images are selected yet; run `captrial compete select {self.directory}`")
        pairs = [PairImages(pair, selection.images) for pair, selection in active.items()]
        return PairScorer(self.models, pairs, self.selected_captions(), labels.references)

    def labelled_scorer(self, labels: Labels | None = None) -> PairScorer:
        """As `scorer`; an error where no selected image has a label yet."""
        scorer = self.scorer(labels)
        if not scorer.images:
            raise StateError(
                "no selected image has a reference caption; give --references FILE, or label images with "
                f"`captrial annotate serve {self.directory}`"
            )
        return scorer

    def rank(self, metric: str = "cider", labels: Labels | None = None, replicates: int = 1000) -> RankingResult:
        """Rank the models by the labels there are, with intervals from `replicates` bootstrap replicates."""
        return rank_models(self.labelled_scorer(labels).score(metric), replicates, self._manifest.seed)

    # Summaries -------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What has been done and what is missing, as in `compete status --json`; `pool` is the size of the pool."""
        images, unlabelled = self.selected_images(), self.images_to_label()
        return {
            "models": list(self.models),
            "pool": self._manifest.image_count,
            "selection": self._manifest.selection,
            "pairs": len(self.pairs),
            "selected_pairs": len(self.selected_pairs()),
            "images": len(images),
            "labelled": len(images) - len(unlabelled),
            "to_label": len(unlabelled),
            "indescribable": len(self.indescribable()),
            "changed_sources": self.changed_sources(),
        }

    def selection_json(self) -> dict[str, Any]:
        """k and the images of every pair, as in `compete select --json`; scripts rely on these keys."""
        settings = self._manifest.selection
        return {
            "k": settings.k if settings else None,
            "pairs": [
                {"models": list(found.models), "images": list(found.images), "similarity": list(found.similarity)}
                for found in self.selections().values()
            ],
        }

    # Helpers ---------------------------------------------------------------------------------------------------

    def _search_options(
        self, settings: SelectionSettings, pairs: Sequence[Pair], workers: int, progress: Callable[[], None]
    ) -> SearchOptions:
        return SearchOptions(
            pairs,
            self._manifest.seed,
            similarity_named(settings.similarity),
            exclude=self.broken() if settings.skip_broken else frozenset(),
            workers=workers,
            progress=progress,
        )

    def _search(self, settings: SelectionSettings, options: SearchOptions, rank: Ranker | None) -> list[PairSelection]:
        search = partial(select_diverse, fingerprint=self._fingerprint) if settings.diverse else select
        return search(self.pool, settings.k, settings.reserve, options, rank)

    def _fingerprint(self, image_id: str) -> int | None:
        """A perceptual hash of an image, 64 bits, or None where the image is not available."""
        from captrial.data.pools.duplicates import signature  # only `--diverse` needs it

        image = self.image_source.open(image_id) if self.image_source else None
        return signature(image)[0] if image else None

    def broken(self) -> frozenset[str]:
        """Images for which some model's caption is broken (empty, or with an unknown-word mark)."""
        files = [self.directory / "captions" / f"{number}.broken.jsonl" for number in range(len(self.models))]
        return frozenset(orjson.loads(line)["id"] for file in files for line in file.read_bytes().splitlines())

    def _pair(self, first: int | str, second: int | str) -> Pair:
        indices = sorted(self._model(model) for model in (first, second))
        if indices[0] == indices[1]:
            raise InputError(f"{first} and {second} are one model; a pair needs two")
        return indices[0], indices[1]

    def _model(self, model: int | str) -> int:
        if isinstance(model, int) and 0 <= model < len(self.models):
            return model
        if model in self.models:
            return self.models.index(str(model))
        raise InputError(f"no model {model!r} here; the models are {', '.join(self.models)}")

    def _names(self, pair: Pair) -> tuple[str, str]:
        return self.models[pair[0]], self.models[pair[1]]

    def _named(self, pair: Pair) -> str:
        return " and ".join(self._names(pair))


def _described(settings: SelectionSettings | None) -> str:
    return ", ".join(f"{name} = {value}" for name, value in asdict(settings).items()) if settings else "nothing"
