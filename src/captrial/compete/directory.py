"""The directory of a competition: every step reads it and extends it by whole files, and can be repeated or resumed.

    competition.json             the manifest: models, fingerprints of their caption files, selection settings
    pool.parquet                 image ids
    captions/0.parquet           the captions of model 0, and so on; captions/0.broken.jsonl lists broken captions
    selection/0-1.json           D_01 and its reserve, and so on
    selection/captions.parquet   captions of the selected images (derived; written again when out of date)
    selection/strata-0.json      images of D that were selected together; images selected later are in strata-1.json
    selection/agreement-*.f4     how much captions agree, image by image (derived)
    references.jsonl             labels by hand, as judgements.jsonl; never written by captrial (see `storage.labels`)
    references.annotated.jsonl   labels by `captrial annotate`, as judgements.annotated.jsonl; derived from its database
    judges/<name>.jsonl          verdicts of machines (`captrial.judges`); never used as judgements of people
    indescribable.json           images that were marked as impossible to describe
    checksums.json               lengths and checksums of all files but labels

`competition.json` is written last, so a directory without it is an interrupted `new`, which can be run again. One
process at a time writes (`captrial.folders.lock_folder`); damaged files are noticed when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson

from captrial.compete.ranking.caption_length import CaptionCut
from captrial.compete.selection.design import SampleOrder, design_named, rates
from captrial.compete.selection.label_sample import LabelSample
from captrial.compete.storage.caption_pool import StoredPool, gather
from captrial.compete.storage.judgements import Judgement, verdict, with_words
from captrial.compete.storage.labels import LabelFiles, Labels
from captrial.compete.storage.manifest import REMAKE, Manifest, Wave, changed
from captrial.compete.storage.selection_files import (
    ActiveSelection,
    Captions,
    Pair,
    PairSelection,
    SelectionFiles,
    active_selection,
    all_pairs,
)
from captrial.data import read_references
from captrial.data.image_source import MISSING, ImageSource, class_of
from captrial.errors import DamagedError, InputError, StateError
from captrial.folders import check_files
from captrial.metrics.registry import MetricOptions
from captrial.metrics.score_inputs import read_objects
from captrial.progress import track
from captrial.result_table import DataFrames, html_table

CHECKED = 10_000  # images whose headers are read when a competition is made
DECODED = 1000  # up to so many images are read whole: a header says nothing of a download that broke off


class CompetitionDirectory(DataFrames):
    """What the directory of a competition holds: models, captions, selected and sampled images, labels.

    `captrial.compete.competition.Competition` adds the steps that extend it and the results.
    """

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        """Use `open` or `create`."""
        self.directory, self._manifest = directory, manifest
        self._files = SelectionFiles(directory)
        self._labels = LabelFiles(directory, lambda ids: self.pool.match(ids))
        self.cut = CaptionCut()  # how captions are shortened before they are scored
        self.metric_options = MetricOptions()  # what metrics need beside captions and references (see `use_metric`)
        self._order: tuple[tuple[Wave, ...], SampleOrder] | None = None  # of the sample; costs a pass over the pool

    @classmethod
    def open(cls, directory: Path | str, check_sources: bool = False) -> Self:
        """Open a competition; with `check_sources`, refuse if a caption file has changed since it was read."""
        competition = cls(Path(directory), Manifest.load(Path(directory)))
        stale = competition.changed_sources() if check_sources else []
        if stale:
            raise StateError(
                f"the captions of {', '.join(stale)} have changed since this competition read them; make a new "
                "competition, add them under another name, or give --ignore-changes to go on with the old captions"
            )
        return competition

    # Models and images ---------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Models, size of the pool, and how much is labelled."""
        return f"{type(self).__name__}({str(self.directory)!r}: {', '.join(self.models)}; {self._progress()})"

    def _repr_html_(self) -> str:
        rows = [{"competition": str(self.directory), "models": ", ".join(self.models), "progress": self._progress()}]
        return html_table(rows)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a model: the length of its captions, how many are broken, and remarks."""
        return [
            {
                "model": entry.name,
                "words_per_caption": entry.mean_words,
                "broken_captions": len(broken),
                "remarks": "; ".join(entry.problems),
            }
            for entry, broken in zip(self._manifest.models, self.broken(), strict=True)
        ]

    def _progress(self) -> str:
        """`120 images, 24 selected, 8 labelled`."""
        pool = f"{self._manifest.image_count} images"
        if not self.selected_pairs():
            return f"{pool}, none selected yet"
        chosen = self.label_sample().to_label()
        return f"{pool}, {len(chosen)} selected, {len(chosen) - len(self.images_to_label())} labelled"

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

    def image_problems(self) -> list[str]:
        """Images that are missing or cannot be read, each with the reason: of all, or of `CHECKED` of more.

        Of more than `DECODED` images only headers are read. Images of a pool were checked when it was built.
        """
        source, ids = self.image_source, self.pool.ids().to_pylist()
        if source is None or source.is_pool:
            return []
        chosen = ids[:: -(-len(ids) // CHECKED)]
        whole = len(chosen) <= DECODED
        found = {image: source.problem(image, whole) for image in track(chosen, "checking images")}
        missing = [image for image, problem in found.items() if problem == MISSING]
        if len(missing) == len(chosen):
            other = f", which holds files like {first!r}" if (first := source.first()) else ""
            return [f"none of the images is in {source.root}{other}; the first is called {missing[0]!r}"]
        return [
            f"{image}: {f'is not in {source.root}' if problem == MISSING else problem}"
            for image, problem in found.items()
            if problem
        ]

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

    def broken(self) -> list[frozenset[str]]:
        """By model, the images of which its caption is broken (empty, or with an unknown-word mark)."""
        names = [f"captions/{number}.broken.jsonl" for number in range(len(self.models))]
        check_files(self.directory, REMAKE, names)
        try:
            files = [(self.directory / name).read_bytes().splitlines() for name in names]
            return [frozenset(str(orjson.loads(line)["id"]) for line in lines) for lines in files]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedError(self.directory / "captions", f"has an unreadable list ({error})", REMAKE) from None

    def use_metric(self, objects: Path | None = None, clip: str | None = None) -> None:
        """Give metrics the classes in each image (as `captrial score --objects` reads them), or a CLIP checkpoint."""
        classes, images = None, None
        if objects is not None:
            given = read_objects(objects, [])
            known = self.pool.match(given).known
            classes = {known.get(image, image): names for image, names in given.items()}
        if clip is not None:
            if self.image_source is None:
                raise StateError("this competition has no images; make it with `captrial compete new --images FOLDER`")
            paths = {image: self.image_source.path(image) for image in self.selected_captions()}
            images = {image: path for image, path in paths.items() if path is not None}
        self.metric_options = MetricOptions(objects=classes, images=images, clip=clip)

    # Selected images -----------------------------------------------------------------------------------------------

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

    @property
    def design(self) -> str:
        """The name of the design of the labels (see `selection.design.DESIGNS`)."""
        return self._manifest.sample.design if self._manifest.sample else "discrepancy"

    def label_sample(self) -> LabelSample:
        """Which images are labelled, in which order, with what probability."""
        settings, bad = self._manifest.sample, self.indescribable()
        chosen = design_named(self.design)
        strata = self._files.strata(self.selected_images()) if chosen.discrepancy else {}
        order = self._sample_order(settings.waves) if settings and settings.waves else None
        images = self.pool.ids().to_pylist() if order else []
        if images and not strata.keys() <= set(images):
            raise DamagedError(self.directory / "selection", "names images that are not in the pool", REMAKE)
        wanted = settings.labels if settings and chosen.sample else 0  # an earlier design may have drawn a sample
        return LabelSample(images, strata, order, wanted, self._manifest.seed, bad)

    def sampled_images(self) -> list[str]:
        """The images of the sample of the pool, in the order of labelling; none for the design of D alone."""
        sample = self.label_sample()
        return sample.sampled(sample.wanted)

    def selected_captions(self) -> Captions:
        """Every model's caption of every selected, reserved or sampled image."""
        return self._captions_with(())

    def _chosen(self) -> set[str]:
        """The selected and the reserved images of all pairs, and those of the sample."""
        found = [self.original_selection(*pair) for pair in self.selected_pairs()]
        selected = {image for selection in found for image in (*selection.images, *selection.reserve)}
        return selected | set(self.sampled_images())

    def _sample_order(self, waves: tuple[Wave, ...]) -> SampleOrder:
        waves = (*waves[:-1], replace(waves[-1], labels=0))  # the last wave goes on to the end whatever it says
        if self._order is not None and self._order[0] == waves:
            return self._order[1]
        pool = self.pool
        drawn = []
        for wave in waves:
            models = [self._model(name) for name in wave.models]
            agreement = self._files.agreement(models, pool, wave.similarity) if wave.weighted else None
            rate = np.ones(len(pool)) if agreement is None else rates(agreement)
            drawn.append((rate, wave.labels))
        found = SampleOrder(pool.ids().to_pylist(), self._manifest.seed, drawn)
        self._order = waves, found
        return found

    def _captions_with(self, images: Iterable[str]) -> Captions:
        return self._files.captions(self._chosen() | set(images), self.pool)

    # Labels --------------------------------------------------------------------------------------------------------

    def labels(self, references: Path | str | None = None, split: str | None = None) -> Labels:
        """Reference captions: those of a file, and those in the directory, merged (see `storage.labels`).

        Ids of another spelling are matched with those of the pool. Warnings report this, what was joined and conflicts.
        """
        given = None if references is None else read_references(references, split=split)
        return self._labels.labels(given, str(references))

    def judgements(self, file: Path | str | None = None, words: bool = False) -> list[Judgement]:
        """Preferences between two models' captions: of a file, or else those in the directory.

        `words` adds the lengths of the captions (words split at blanks) where the judgements have none.
        """
        found = self._labels.judgements(self.models, None if file is None else Path(file))
        if not words:
            return found
        bare = [judgement.image for judgement in found if judgement.words is None]
        captions = gather(self.pool, bare) if bare else {}
        lengths = {
            (image, model): len(caption.split())
            for image, texts in captions.items()
            for model, caption in zip(self.models, texts, strict=True)
        }
        return with_words(found, lengths)

    def unjudged(self, judgements: Sequence[Judgement]) -> dict[tuple[str, str], list[str]]:
        """Of every pair of models, the images of D_ij on which the two have not been compared."""
        known = {verdict(judgement)[:2] for judgement in judgements}
        return {
            active.models: [image for image in active.images if (image, frozenset(active.models)) not in known]
            for active in self.selections().values()
        }

    def indescribable(self, by_hand: bool = False) -> frozenset[str]:
        """Images that people could not describe; `by_hand`: without the votes of `captrial annotate`."""
        return self._labels.indescribable(by_hand)

    def images_to_label(self, labels: Labels | None = None) -> list[str]:
        """Images of the design that have no reference caption yet, in the order in which they should be labelled.

        The order is random, so that whoever stops early has labelled a random part.
        """
        done = (labels or self.labels()).references
        return [image for image in self.label_sample().to_label() if image not in done]

    # Summaries -----------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What has been done and what is missing, as in `compete status --json`; `pool` is the size of the pool."""
        images, unlabelled = self.label_sample().to_label(), self.images_to_label()
        return {
            "models": list(self.models),
            "pool": self._manifest.image_count,
            "selection": self._manifest.selection,
            "design": self.design,
            "pairs": len(self.pairs),
            "selected_pairs": len(self.selected_pairs()),
            "images": len(images),
            "labelled": len(images) - len(unlabelled),
            "to_label": len(unlabelled),
            "indescribable": len(self.indescribable()),
            "changed_sources": self.changed_sources(),
        }

    def selection_json(self) -> dict[str, Any]:
        """k and the images of every pair, as in `compete select --json`; scripts rely on these keys.

        Designs with a sample of the pool add `sample`: its images in the order of labelling and the probability with
        which each is labelled once all of the design is.
        """
        settings = self._manifest.selection
        found: dict[str, Any] = {
            "k": settings.k if settings else None,
            "pairs": [
                {"models": list(found.models), "images": list(found.images), "similarity": list(found.similarity)}
                for found in self.selections().values()
            ],
            "design": self.design,
        }
        sample = self.label_sample()
        if sample.order is not None and sample.wanted:
            images = sample.to_label()
            chance = sample.probabilities(frozenset(images))
            found["sample"] = [{"image": image, "probability": chance[image]} for image in images]
        return found

    # Helpers -------------------------------------------------------------------------------------------------------

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
