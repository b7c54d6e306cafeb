"""A competition: its steps, from caption files to a ranking, and its results (`directory` lists the files)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

from captrial.compete.analysis.planner import DrawnLabels, LabelPlan, PlanSettings, plan_labels
from captrial.compete.directory import CompetitionDirectory
from captrial.compete.ranking.caption_length import default_metric
from captrial.compete.ranking.estimates import PoolSample
from captrial.compete.ranking.pair_scores import Frequencies, LabelDesign, PairImages, PairScorer
from captrial.compete.ranking.preferences import PreferenceResult, rank_preferences
from captrial.compete.ranking.result import PoolRanking, RankingResult, rank_models, rank_pool, with_values
from captrial.compete.selection.design import DEFAULT_DESIGN, LABELS_PER_SELECTED, design_named
from captrial.compete.selection.discrepancy import Ranker, SearchOptions, select, select_diverse
from captrial.compete.selection.registry import refuse_stored_function, similarity_named
from captrial.compete.storage import creation
from captrial.compete.storage.judgements import Judgement
from captrial.compete.storage.labels import Labels
from captrial.compete.storage.manifest import (
    COMPETITION,
    MANIFEST,
    REMAKE,
    Manifest,
    SampleSettings,
    SelectionSettings,
    Wave,
)
from captrial.compete.storage.selection_files import Pair, PairSelection
from captrial.data import CaptionLayout
from captrial.data.image_source import ImageSource
from captrial.errors import CaptrialError, InputError, StateError
from captrial.folders import FolderVerifier, VerifiedFolder, damaged_files, lock_folder, read_checksums


class Competition(CompetitionDirectory):
    """A competition in a directory: create or open it, select, sample, label, rank, plan."""

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
        layout: CaptionLayout | None = None,
    ) -> Competition:
        """Create a competition from caption files, one a model (see `captrial.data.read_captions` for formats)."""
        directory = Path(directory)
        files = {name: Path(path) for name, path in captions.items()}
        root = Path(images) if images is not None else None
        manifest = creation.create(
            directory, files, images=root, seed=seed, first_sentence=first_sentence, common=common, layout=layout
        )
        return cls(directory, manifest)

    # Models and selection --------------------------------------------------------------------------------------

    def move_images(self, folder: Path) -> list[str]:
        """Name the folder (or pool) that the images are in now; returns the selected images that it lacks."""
        with lock_folder(self.directory, COMPETITION):
            if not folder.is_dir():
                raise InputError(f"{folder}: no such folder of images")
            source = ImageSource(folder)
            wanted = self.selected_images() or self.pool.ids()[:100].to_pylist()
            missing = [image for image in wanted if image not in source]
            if len(missing) == len(wanted):
                raise InputError(f"{folder}: none of the images of this competition is there, such as {missing[0]}")
            self._manifest = replace(Manifest.load(self.directory), images=str(folder.resolve()))
            self._manifest.save(self.directory)
        self.__dict__["image_source"] = source
        return missing

    def add_model(self, name: str, captions: Path | str, layout: CaptionLayout | None = None) -> None:
        """Add a model (Algorithm 2); its pairs are selected by the next `select`, everything else is unchanged."""
        self._manifest = creation.add_model(self.directory, name, Path(captions), layout)

    def select(
        self,
        settings: SelectionSettings | None = None,
        *,
        k: int | None = None,
        again: bool = False,
        workers: int = 1,
        progress: Callable[[], None] = lambda: None,
        rank: Ranker | None = None,
    ) -> list[Pair]:
        """Select D_ij for the pairs that have none; returns these pairs. `again` replaces them, with other settings.

        `k` is short for settings with that k. `rank` replaces the search in this process: see
        `captrial.engines.jobs.select.EngineRanker`. Without `settings` those of the competition are used; a
        `module:function` among them is refused, since importing it would run code that a file names: pass settings
        that name it.
        """
        with lock_folder(self.directory, COMPETITION):
            self._manifest = Manifest.load(self.directory)  # another process may have added a model
            kept = self._manifest.selection
            if settings is None and kept is not None:
                refuse_stored_function(kept.similarity)
            chosen = (settings or kept or SelectionSettings()).changed(k)
            return self._select(chosen, again, workers, progress, rank)

    def _select(
        self,
        settings: SelectionSettings,
        again: bool,
        workers: int,
        progress: Callable[[], None],
        rank: Ranker | None,
    ) -> list[Pair]:
        kept = self._manifest.selection
        if kept not in (None, settings) and not again:
            raise StateError(
                f"images were selected with {_described(kept)}; give the same, or --again to select again (labels "
                "are kept)"
            )
        similarity_named(settings.similarity)  # an unknown name is refused before anything is stored
        if kept != settings:  # from here on, files made with other settings do not count
            self._manifest = replace(self._manifest, selection=settings)
            self._manifest.save(self.directory)
        missing = [pair for pair in self.pairs if self._files.read(pair, self._manifest.selection) is None]
        if missing:
            self.pool.check()
            options = self._search_options(settings, missing, workers, progress)
            found = self._search(settings, options, rank)
            self._files.write(settings, dict(zip(missing, found, strict=True)))
        self._files.strata(self.selected_images(), write=True)
        self._files.captions(self._chosen(), self.pool, store=True)  # here, so that commands that read need not write
        return missing

    def sample(self, design: str = DEFAULT_DESIGN, labels: int | None = None, between: Sequence[str] = ()) -> int:
        """Choose what is labelled beside or instead of D (see `selection.design`); returns the number of images.

        `labels` is the number of distinct images in all, D included where the design labels it; by default
        `LABELS_PER_SELECTED` for each image of D for the hybrid design, and as many as D has for the others. Called
        again with more labels, the sample is continued; `between` then draws more of the images on which just these
        models disagree.
        """
        with lock_folder(self.directory, COMPETITION):
            self._manifest = Manifest.load(self.directory)  # another process may have added a model
            return self._sample(design, labels, between)

    def _sample(self, design: str, labels: int | None, between: Sequence[str]) -> int:
        chosen = design_named(design)
        names = tuple(self.models[self._model(name)] for name in between) or self.models
        kept = self._manifest.sample
        waves = list(kept.waves) if kept else []
        if chosen.sample is not None:
            selected = len(self.selected_images())
            if not selected:
                raise StateError(f"no images are selected yet; run `captrial compete select {self.directory}`")
            if labels is None:
                labels = round(selected * LABELS_PER_SELECTED) if chosen.discrepancy else selected
            wave = Wave(names, chosen.sample == "weighted", 0, self._similarity)
            for each in (*waves, wave):
                if each.weighted:
                    models = [self._model(name) for name in each.models]
                    self._files.agreement(models, self.pool, each.similarity, store=True)
            drawn = waves[-1].labels if waves else 0
            continued = bool(waves) and replace(waves[-1], labels=0) == wave
            earlier = waves[: len(waves) - continued]
            size = self._sample_size((*earlier, wave), labels) if chosen.discrepancy else labels
            size = min(max(size, 0), self._manifest.image_count)
            if continued or not waves or size > drawn:
                waves = [*earlier, replace(wave, labels=max(size, drawn))]
        self._manifest = replace(self._manifest, sample=SampleSettings(design, tuple(waves)))
        self._manifest.save(self.directory)
        self._files.captions(self._chosen(), self.pool, store=True)
        return len(self.label_sample().to_label())

    def _sample_size(self, waves: tuple[Wave, ...], labels: int) -> int:
        """How many images of the sample make `labels` different ones together with D: some of them are in D, too."""
        selected, bad = set(self.selected_images()), self.indescribable()
        missing = labels - len(selected)
        ids = self.pool.ids().to_pylist()
        drawn = (ids[row] for row in self._sample_order(waves).rows.tolist())
        size = 0
        for image in drawn:
            if missing <= 0:
                break
            size += image not in bad
            missing -= image not in bad and image not in selected
        return size

    @property
    def _similarity(self) -> str:
        return (self._manifest.selection or SelectionSettings()).similarity

    def largest_k(self, images: int, settings: SelectionSettings | None = None, workers: int = 1) -> int:
        """The largest k for which D has at most this many images; at least 1."""
        settings = (settings or SelectionSettings()).changed(max(images, 1), 0)
        found = self._search(settings, self._search_options(settings, self.pairs, workers, lambda: None), None)
        low, high = 1, max(images, 1)
        while low < high:
            middle = (low + high + 1) // 2
            fits = len({image for part in found for image in part.images[:middle]}) <= images
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def mark_indescribable(self, image_id: str) -> None:
        """Take an image out of every D_ij that holds it; each takes its next reserve image. Idempotent.

        A running `captrial annotate serve` stops showing the image.
        """
        if image_id not in self.selected_captions():
            raise InputError(f"image {image_id} is not among the selected ones")
        with lock_folder(self.directory, COMPETITION):
            self._labels.mark(image_id)

    # Results ---------------------------------------------------------------------------------------------------

    def scorer(self, labels: Labels | None = None) -> PairScorer:
        """A scorer of the selected and sampled images' captions against the labels there are."""
        labels = self.labels() if labels is None else labels
        active = self.selections()
        if not active:
            raise StateError(f"no images are selected yet; run `captrial compete select {self.directory}`")
        pairs = [PairImages(pair, selection.images) for pair, selection in active.items()]
        known, sample = labels.references, self.label_sample()
        probability = sample.probabilities(known)
        in_d = {image for pair in pairs for image in pair.images}
        sampled = tuple(image for image in sorted(probability.keys() - in_d) if image in known)
        if not sample.strata:  # D is labelled as far as the sample has reached it
            known = {image: known[image] for image in probability if image in known}
            reached = sample.order.probabilities(sample.prefix(known)) if sample.order else np.zeros(0)
            place = {image: row for row, image in enumerate(sample.images)}
            probability |= {image: float(reached[place[image]]) for image in in_d}
        if in_d <= known.keys():  # nothing is left to estimate
            probability |= dict.fromkeys(in_d, 1.0)
        captions = self._captions_with(sampled)
        design = LabelDesign(sampled, probability)
        scorer = PairScorer(self.models, pairs, self.cut.all_of(captions), known, design=design)
        scorer.options = self.metric_options
        return scorer

    def labelled_scorer(self, labels: Labels | None = None) -> PairScorer:
        """As `scorer`; an error where no selected image has a label yet."""
        scorer = self.scorer(labels)
        if not scorer.images:
            raise StateError(
                "no selected image has a reference caption; give --references FILE, or label images with "
                f"`captrial annotate serve {self.directory}`"
            )
        return scorer

    def default_metric(self, labels: Labels | Path | str | None = None) -> str:
        """The metric where none is named: `cider`, or `semantic` where captions are of very different lengths."""
        return default_metric(self.scorer(self._given(labels))) if self.selections() else "cider"

    def rank(
        self,
        metric: str | None = None,
        labels: Labels | Path | str | None = None,
        frequencies: Frequencies | None = None,
    ) -> RankingResult:
        """Rank the models where they differ most (Eq. 7) by the labels there are; `labels` may be a file.

        `metric` is `default_metric` where none is named.
        """
        scorer = self.labelled_scorer(self._given(labels))
        metric = metric or default_metric(scorer)
        scores = scorer.score(metric, frequencies=frequencies or scorer.frequencies)
        return with_values(rank_models(scores, seed=self._manifest.seed), scorer)

    def rank_pool(
        self, metric: str | None = None, labels: Labels | Path | str | None = None, frequencies: Frequencies = "all"
    ) -> PoolRanking:
        """Rank the models on the whole pool; needs a sample of it (see `sample`), or labels of all images."""
        known = self._given(labels) or self.labels()
        sample, scorer = self.pool_sample(known)
        metric = metric or self.default_metric(known)
        table = scorer.table_name(metric, frequencies)
        found = rank_pool(metric, self.models, scorer.image_scores(metric, frequencies), sample, table)
        unused = None if sample.complete else self.label_sample().unused(known.references)
        return replace(found, notes=(*found.notes, unused)) if unused else found

    def pool_sample(self, labels: Labels) -> tuple[PoolSample, PairScorer]:
        """The labelled part of the pool with its probabilities, and a scorer of just these images."""
        design, pool = self.label_sample(), self.pool
        ids = pool.ids().to_pylist()
        place = {image: row for row, image in enumerate(ids)}
        bad = design.indescribable
        known = {image: texts for image, texts in labels.references.items() if image in place and image not in bad}
        if len(known) >= len(ids) - len(bad):  # the whole pool is labelled: no design is needed
            probability = dict.fromkeys(known, 1.0)
        elif design.order is None:
            raise StateError(
                "the design labels only images on which captions differ most, which say nothing certain about the "
                f"whole pool; draw a sample of it: `captrial compete select {self.directory} --design hybrid`"
            )
        else:
            probability = {image: value for image, value in design.probabilities(known).items() if value > 0}
            known = {image: texts for image, texts in known.items() if image in probability}
        images = sorted(known)
        if not images:
            raise StateError(
                "no image of the sample has a reference caption yet; label images, or give --references FILE"
            )
        rows = np.array([place[image] for image in images])
        agreement = self._files.agreement(range(len(self.models)), pool, self._similarity)
        rate = design.order.rate(design.prefix(known)) if design.order else np.ones(len(ids))
        good = np.array([image not in bad for image in ids])
        captions = self.cut.all_of(self._captions_with(images))
        scorer = PairScorer(self.models, [], captions, known, design=LabelDesign(tuple(images), probability))
        scorer.options = self.metric_options
        sample = PoolSample(
            probability=np.array([probability[image] for image in images]),
            rate=rate[rows],
            agreement=agreement[rows].astype(np.float64),
            mean_rate=float(rate[good].mean()),
            mean_agreement=agreement[good].mean(axis=0, dtype=np.float64),
            images=int(good.sum()),
        )
        return sample, scorer

    def plan(
        self, metric: str | None = None, labels: Labels | Path | str | None = None, settings: PlanSettings | None = None
    ) -> LabelPlan:
        """Whether the winner on the whole pool is settled, what is open, and about how many labels it will take."""
        known = self._given(labels) or self.labels()
        design = self.label_sample()
        images = self._manifest.image_count - len(design.indescribable)
        drawn, rate, left = design.drawn(known.references)
        if design.order is not None and not drawn:  # nothing is labelled yet
            return plan_labels(self.models, DrawnLabels(np.zeros((0, len(self.models))), rate, left, images), settings)
        sample, scorer = self.pool_sample(known)
        metric = metric or self.default_metric(known)
        if design.order is None:  # the whole pool is labelled
            drawn, rate = list(scorer.images), np.ones(len(scorer.images))
            left = np.arange(len(drawn), 0, -1, dtype=np.float64)
        row = {image: number for number, image in enumerate(scorer.images)}
        rows = [row[image] for image in drawn]
        centred = sample.agreement[rows] - sample.mean_agreement
        scores = scorer.image_scores(metric)[rows]
        return plan_labels(self.models, DrawnLabels(scores, rate, left, images, centred), settings)

    def report(
        self, labels: Labels | Path | str | None = None, metrics: Sequence[str] = (), out: Path | str | None = None
    ) -> Path:
        """Write the page that `captrial compete report` writes, into `report` in the directory or `out`; its path."""
        write = import_module("captrial.report").write_competition_report  # a package above this one
        known = self._given(labels) or self.labels()
        chosen = list(metrics) or list(dict.fromkeys([self.default_metric(known), "cider", "spice"]))
        page: Path = write(self, known, chosen, Path(out) if out else self.directory / "report")
        return page

    def _given(self, labels: Labels | Path | str | None) -> Labels | None:
        return self.labels(labels) if isinstance(labels, Path | str) else labels

    def rank_preferences(
        self, judgements: Sequence[Judgement] | None = None, control: Sequence[str] = ()
    ) -> PreferenceResult:
        """Rank the models that were judged by people's preferences (see `captrial.compete.rank_preferences`)."""
        judgements = self.judgements(words="length" in control) if judgements is None else judgements
        if not judgements:
            raise StateError(
                "there are no judgements; give --preferences FILE, or let people compare captions: set the number of "
                f"judges with `captrial annotate serve {self.directory}`"
            )
        return rank_preferences(judgements, control=control, seed=self._manifest.seed)

    # Helpers ---------------------------------------------------------------------------------------------------

    def _search_options(
        self, settings: SelectionSettings, pairs: Sequence[Pair], workers: int, progress: Callable[[], None]
    ) -> SearchOptions:
        return SearchOptions(
            pairs,
            self._manifest.seed,
            similarity_named(settings.similarity),
            exclude=self.broken() if settings.skip_broken else (),
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


def _described(settings: SelectionSettings | None) -> str:
    return ", ".join(f"{name} = {value}" for name, value in asdict(settings).items()) if settings else "nothing"


def verify_competition(directory: Path | str) -> VerifiedFolder:
    """Check all files of a competition against their checksums, and read them; problems are listed, not raised."""
    directory = Path(directory)
    problems = damaged_files(directory, REMAKE)
    try:
        competition = Competition.open(directory)
        competition.selected_captions()
        competition.labels()
        competition.judgements()
        competition.indescribable()
        competition.broken()
        for block in range(competition.pool.blocks):
            competition.pool.block(block, range(len(competition.models)))
    except CaptrialError as error:
        problems.append(str(error))
    files = len(read_checksums(directory, lenient=True))
    return VerifiedFolder(VERIFIER.name, files, tuple(dict.fromkeys(problems)))


VERIFIER = FolderVerifier(COMPETITION, lambda folder: (folder / MANIFEST).is_file(), verify_competition)
