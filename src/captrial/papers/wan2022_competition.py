"""The competition that the experiments of Wan 2022 share: created once, labelled by the references."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from captrial.compete import Competition, RankingResult, SelectionSettings, rank_models
from captrial.compete.analysis.repetition import ModelRepetition, find_repetition
from captrial.compete.ranking.pair_scores import PairScorer
from captrial.compete.storage.caption_pool import gather
from captrial.compete.storage.labels import Labels
from captrial.compete.storage.manifest import fingerprint
from captrial.errors import InputError, StateError
from captrial.files import content_hash

REFERENCES = "references.json"
CAPTION_FILES = {".json", ".jsonl", ".csv", ".tsv", ".parquet"}


@dataclass(frozen=True)
class Wan2022Settings:
    """Inputs and options of the competition."""

    data: Path  # a folder with a caption file for each model and references.json
    images: Path | None = None
    scores: Mapping[str, Mapping[str, float]] | None = None  # model -> metric -> external score, a fraction
    objects: Mapping[str, Sequence[str]] | None = None  # image -> classes of its objects
    metrics: tuple[str, ...] = ("cider", "spice")
    k: int = 70
    seed: int = 0

    def caption_files(self) -> dict[str, Path]:
        """The caption files by model."""
        found = {
            path.stem: path
            for path in sorted(self.data.iterdir() if self.data.is_dir() else ())
            if path.suffix in CAPTION_FILES and path.stem != Path(REFERENCES).stem
        }
        if len(found) < 2 or not (self.data / REFERENCES).is_file():
            raise InputError(
                f"{self.data}: must be a folder with a file of captions for each of two or more models, and "
                f"{REFERENCES} (captions by people) beside them"
            )
        return found

    def describe(self) -> dict[str, Any]:
        """Everything that the numbers depend on, for JSON."""
        files = {**self.caption_files(), "references": self.data / REFERENCES}
        return {
            "data": self.data.name,
            "files": {name: fingerprint(path) for name, path in files.items()},
            "images": self.images is not None,
            "scores": self.scores and {name: dict(values) for name, values in self.scores.items()},
            "objects": self.objects and content_hash(orjson.dumps(self.objects, option=orjson.OPT_SORT_KEYS)),
            "metrics": list(self.metrics),
            "k": self.k,
            "seed": self.seed,
        }


class StudyCompetition:
    """Results that several experiments use, each computed once."""

    def __init__(self, settings: Wan2022Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self._rankings: dict[str, RankingResult] = {}

    @cached_property
    def competition(self) -> Competition:
        """The competition in the folder; created again where it has other files or settings."""
        chosen, directory = self.settings, self.folder / "competition"
        made = Competition.open(directory) if (directory / "competition.json").is_file() else None
        if made is not None and not self._is_same(made):
            if (directory / "annotations.sqlite").exists():
                raise StateError(f"{directory} was made of other captions, and people have annotated it; choose --out")
            shutil.rmtree(directory)
            made = None
        if made is None:
            made = Competition.create(directory, chosen.caption_files(), images=chosen.images, seed=chosen.seed)
        again = made.manifest.selection is not None and made.manifest.selection.k != chosen.k
        made.select(SelectionSettings(chosen.k, chosen.k), again=again)
        return made

    def _is_same(self, made: Competition) -> bool:
        chosen = self.settings
        images = None if chosen.images is None else chosen.images.resolve()
        kept = None if made.image_root is None else made.image_root.resolve()
        read = {entry.name: entry.fingerprint for entry in made.manifest.models}
        there = {name: fingerprint(path) for name, path in chosen.caption_files().items()}
        return read == there and made.manifest.seed == chosen.seed and kept == images

    @cached_property
    def labels(self) -> Labels:
        """The reference captions."""
        return self.competition.labels(self.settings.data / REFERENCES)

    @cached_property
    def scorer(self) -> PairScorer:
        """The scorer of the selected images."""
        found = self.competition.scorer(self.labels)
        if not found.images:
            raise InputError(f"{self.settings.data / REFERENCES}: no selected image is in it; check the ids")
        return found

    def ranking_by(self, metric: str) -> RankingResult:
        """The ranking by one metric."""
        if metric not in self._rankings:
            self._rankings[metric] = rank_models(self.scorer.score(metric), seed=self.settings.seed)
        return self._rankings[metric]

    @cached_property
    def external_scores(self) -> Mapping[str, Mapping[str, float]] | None:
        """Scores on other data: those given, or on all images where all have references; None where neither."""
        if self.settings.scores is not None:
            return self.settings.scores
        known = self.labels.references
        if len(known) < self.competition.manifest.image_count:
            return None
        from captrial.metrics import score

        gathered = gather(self.competition.pool, list(known))
        if len(gathered) < self.competition.manifest.image_count:
            return None
        captions = {
            name: {image: texts[number] for image, texts in gathered.items()}
            for number, name in enumerate(self.competition.models)
        }
        table = score(captions, {image: known[image] for image in gathered}, list(self.settings.metrics)).to_dict()
        return {name: {key: value for key, value in row.items() if value is not None} for name, row in table.items()}

    @cached_property
    def repeated(self) -> list[ModelRepetition]:
        """Repetition by model, most first."""
        return sorted(find_repetition(self.competition.pool), key=lambda part: -part.repeated)
