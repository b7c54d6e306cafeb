"""Liu 2017 on any data set with phrases or labelled boxes: attention correctness, implicit against supervised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from captrial.attribution.dataset_attribution import CaptionAttributor, DatasetAttributor, RecordedCaptions
from captrial.grounding.attention_correctness import FORCED, GENERATED, AttentionResult, measure_attention
from captrial.grounding.attention_tables import (
    SIZES,
    correctness_table,
    improvements,
    quality_table,
    same_matches,
    size_table,
    spearman_table,
    terciles,
)
from captrial.grounding.figures import AttentionStudy, draw_histograms, draw_side_by_side, draw_targets
from captrial.grounding.tables import Cell, Table
from captrial.language.similarity import Similarity
from captrial.papers.experiments import ExperimentOutput, PaperClaim
from captrial.papers.reproduction import ExperimentFunction
from captrial.papers.study_captioners import StudyCaptioner, StudySplit, captions_of, score_columns, work_folder

COLUMNS = {"BLEU-3": "bleu_3", "BLEU-4": "bleu_4", "METEOR": "meteor", "CIDEr": "cider"}
TARGETS = 4  # images in Fig. 3


@dataclass(frozen=True)
class Liu2017Settings:
    """Options that the numbers depend on, beside captioners and images."""

    method: str = "attention"
    beam: int = 5
    seed: int = 0
    examples: int = 5


@dataclass
class Liu2017:
    """The experiments of Liu 2017: the first captioner is the implicit one, the others are supervised."""

    captioners: Sequence[StudyCaptioner]
    split: StudySplit
    folder: Path
    settings: Liu2017Settings = field(default_factory=Liu2017Settings)
    similarity: Similarity = field(default_factory=Similarity.default)

    def functions(self) -> dict[str, ExperimentFunction]:
        """The functions that run the experiments, by key."""
        return {
            "figure-3": self.targets,
            "table-1": self.correctness,
            "figure-4": self.histograms,
            "table-2": self.sizes,
            "figure-5": lambda: self.side_by_side("figure-5", FORCED),
            "table-3": self.captioning,
            "figure-6": lambda: self.side_by_side("figure-6", GENERATED),
            "table-4": self.quality,
            "spearman": self.spearman,
        }

    def describe(self) -> dict[str, Any]:
        """Everything that the numbers depend on, for JSON."""
        return {
            "models": {captioner.name: captioner.mark for captioner in self.captioners},
            "images": [len(self.split.samples), self.split.mark],
            "method": self.settings.method,
            "beam": self.settings.beam,
            "seed": self.settings.seed,
            "examples": self.settings.examples,
            "similarity": self.similarity.description,
        }

    # Shared by experiments ----------------------------------------------------------------------------------------

    @cached_property
    def work(self) -> Path:
        """Where measurements are kept."""
        return work_folder(self.folder, self.describe(), but=("models", "seed", "examples"))

    @cached_property
    def attributors(self) -> list[CaptionAttributor]:
        """Each captioner with its captions."""
        return [self._attributor(captioner) for captioner in self.captioners]

    def _attributor(self, captioner: StudyCaptioner) -> CaptionAttributor:
        keep = self.work / "captions" / f"{captioner.name}-{captioner.mark}.json"
        captions = captions_of(captioner, self.split, self.settings.beam, keep)
        attributor = DatasetAttributor(
            captioner.name, captioner.checkpoint, captioner.store, self.settings.method, self.settings.beam
        )
        return RecordedCaptions(attributor, captions)

    @cached_property
    def results(self) -> list[AttentionResult]:
        """Attention correctness of each captioner, phrase by phrase."""
        return [self._measure(*both) for both in zip(self.attributors, self.captioners, strict=True)]

    def _measure(self, attributor: CaptionAttributor, captioner: StudyCaptioner) -> AttentionResult:
        kept = self.work / "scores" / f"{captioner.name}-{captioner.mark}.json"
        if not kept.is_file():
            found = measure_attention(attributor, self.split.samples, similarity=self.similarity)
            found.write(kept)
        return AttentionResult.read(kept)

    # Experiments -----------------------------------------------------------------------------------------------

    def targets(self) -> ExperimentOutput:
        """Fig. 3."""
        boxed = [s for s in self.split.samples if s.captions and any(region.label for region in s.regions)]
        if not boxed or boxed[0].image.path is None:
            return ExperimentOutput(missing="no image has regions with labels")
        path = self.folder / "figures" / "figure-3.png"
        draw_targets(boxed[:TARGETS], self.attributors[0].preprocess, path, self.similarity)
        return ExperimentOutput(images=[(path, "Here")])

    def correctness(self) -> ExperimentOutput:
        """Table 1."""
        table = correctness_table(self.results, self.settings.seed)
        claims = []
        for setting in (FORCED, GENERATED):
            means = [_mean(result, setting) for result in self.results]
            if means[0] is None:
                continue
            base, first = means[0]
            claims.append(
                PaperClaim(
                    f"Implicit attention beats uniform ({setting})", first > base, f"{first:.3f} against {base:.3f}"
                )
            )
            for result, found in zip(self.results[1:], means[1:], strict=True):
                if found is not None:
                    seen = f"{found[1]:.3f} against {first:.3f}"
                    claims.append(
                        PaperClaim(
                            f"Supervised attention beats implicit ({setting}, {result.model})", found[1] > first, seen
                        )
                    )
        return ExperimentOutput([replace(table, title="Here")], claims=claims)

    def histograms(self) -> ExperimentOutput:
        """Fig. 4."""
        made = ExperimentOutput()
        for setting in (FORCED, GENERATED):
            values = {result.model: improvements(result, setting) for result in self.results}
            path = self.folder / "figures" / f"figure-4-{setting}.png"
            made.images.append((draw_histograms(values, path, f"{setting} captions"), f"Here, {setting} captions"))
        return made

    def sizes(self) -> ExperimentOutput:
        """Table 2; the same for forced captions, of which there are more."""
        made = ExperimentOutput()
        for setting in (GENERATED, FORCED):
            table = size_table(self.results, setting, self.settings.seed)
            if table is None:
                made.notes.append(f"No phrase of the {setting} captions is shared by all captioners.")
                continue
            made.tables.append(replace(table, title=f"Here, {setting} captions"))
            for number in range(1, len(self.results)):
                gains = self._gains(setting, number)
                seen = ", ".join(f"{size} {gain:+.3f}" for size, gain in zip(SIZES, gains, strict=True))
                text = f"Supervision adds most on small regions ({setting}, {self.results[number].model})"
                made.claims.append(PaperClaim(text, gains[0] == max(gains), seen))
        return made if made.tables else ExperimentOutput(missing=" ".join(made.notes).rstrip("."))

    def _gains(self, setting: str, number: int) -> list[float]:
        """What a captioner adds to the first one's correctness, by tercile of size."""
        shared = same_matches(self.results, setting)
        gains = np.array([b.correctness - a.correctness for a, b in zip(shared[0], shared[number], strict=True)])
        parts = terciles(np.array([score.area for score in shared[0]]))
        return [float(gains[parts == size].mean()) if (parts == size).any() else 0.0 for size in range(len(SIZES))]

    def side_by_side(self, key: str, setting: str) -> ExperimentOutput:
        """Fig. 5 and 6."""
        path = self.folder / "figures" / f"{key}.png"
        study = AttentionStudy(self.attributors, self.results, self.split.samples, self.similarity)
        drawn = draw_side_by_side(study, setting, path, self.settings.examples)
        if drawn is None:
            return ExperimentOutput(missing=f"no phrase of the {setting} captions is shared by all captioners")
        return ExperimentOutput(images=[(drawn, f"Here, {setting} captions; red: where the phrase should look")])

    def captioning(self) -> ExperimentOutput:
        """Table 3."""
        rows: list[tuple[Cell, ...]] = []
        bleu = []
        for result in self.results:
            found = score_columns(result.captions, self.split.references, metrics=["bleu", "meteor", "cider"])
            bleu.append(100 * found["bleu_4"])
            rows.append((result.model, *(f"{100 * found[name]:.2f}" for name in COLUMNS.values())))
        claims = [
            PaperClaim(
                f"Supervision improves captions (BLEU-4, {result.model})",
                value > bleu[0],
                f"{value:.2f} against {bleu[0]:.2f}",
            )
            for result, value in zip(self.results[1:], bleu[1:], strict=True)
        ]
        notes = (f"{len(self.split.samples)} images, x100",)
        return ExperimentOutput([Table("captioning", "Here", ("model", *COLUMNS), tuple(rows), notes)], claims=claims)

    def quality(self) -> ExperimentOutput:
        """Table 4."""
        table = quality_table(self.results[0], self.split.samples)
        if table is None:
            return ExperimentOutput(missing="fewer than three captions have a phrase that a reference has too")
        column = table.columns.index("bleu_4")
        high, middle, low = (float(row[column] or 0) for row in table.rows)  # type: ignore[arg-type]
        claim = PaperClaim(
            "Higher correctness goes with better captions (BLEU-4)",
            high > middle > low,
            f"{high:.1f}, {middle:.1f}, {low:.1f}",
        )
        return ExperimentOutput([replace(table, title="Here")], claims=[claim])

    def spearman(self) -> ExperimentOutput:
        """The text's correlations with other measures."""
        table = spearman_table(self.results)
        first = [value for value in table.rows[0][3:6] if isinstance(value, float)]
        made = ExperimentOutput([replace(table, title="Here")])
        if first:
            seen = ", ".join(f"{value:.3f}" for value in first)
            made.claims.append(
                PaperClaim("-L1, -L2 and -KL agree with correctness above 0.96 (implicit)", min(first) > 0.96, seen)
            )
        return made


def _mean(result: AttentionResult, setting: str) -> tuple[float, float] | None:
    """Mean baseline and correctness over phrases."""
    scores = [(score.area, score.correctness) for score in result.scores if score.setting == setting]
    return tuple(map(float, np.mean(scores, axis=0))) if scores else None  # type: ignore[return-value]
