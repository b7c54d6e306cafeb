"""Liu 2017 on any data set with phrases or labelled boxes: attention correctness, implicit against supervised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from captrial.attribution.dataset_attribution import CaptionAttributor, DatasetAttributor, RecordedCaptions
from captrial.grounding.attention_correctness import AttentionResult, choose_settings, measure_attention
from captrial.grounding.attention_tables import (
    SIZES,
    caption_correctness,
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
from captrial.metrics.registry import column_title
from captrial.metrics.scores import State
from captrial.metrics.significance.bootstrap import REPLICATES, percentile_bounds, replicate_scores, resamples
from captrial.papers.claims import PaperClaim, agreement_bounds, all_hold, beyond, paired_claim
from captrial.papers.experiments import ExperimentOutput
from captrial.papers.reproduction import ExperimentFunction
from captrial.papers.study_captioners import StudyCaptioner, StudySplit, captions_of, score_columns, work_folder

COLUMNS = ("bleu_3", "bleu_4", "meteor", "cider")
AGREEMENT = 0.96  # of any two measures, in the paper's text
CORRELATION_REPLICATES = 200
COMPARED = 4  # measures that the text compares: correctness, -L1, -L2, -KL


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
            "figure-5": lambda: self.side_by_side("figure-5", self.forced),
            "table-3": self.captioning,
            "figure-6": lambda: self.side_by_side("figure-6", self.generated),
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

    @cached_property
    def forced(self) -> str:
        """The setting of the references: by phrases, or by the classes of boxes where there are no phrases."""
        return choose_settings(None, self.split.samples)[0]

    @cached_property
    def generated(self) -> str:
        """The setting of the captioners' own captions."""
        return choose_settings(None, self.split.samples)[1]

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
        boxed = [s for s in self.split.samples if s.captions and (s.phrases or any(one.label for one in s.regions))]
        if not boxed or boxed[0].image.path is None:
            return ExperimentOutput(missing="no image has regions with labels")
        path = self.folder / "figures" / "figure-3.png"
        draw_targets(boxed, self.attributors[0].preprocess, path, self.similarity)
        return ExperimentOutput(images=[(path, "Here")])

    def correctness(self) -> ExperimentOutput:
        """Table 1."""
        table = correctness_table(self.results, self.settings.seed)
        claims = []
        for setting in (self.forced, self.generated):
            base = by_image(self.results[0], setting, "area")
            first = by_image(self.results[0], setting)
            if not first:
                continue
            claims.append(self._beats(f"Implicit attention beats uniform ({setting})", first, base))
            claims += [
                self._beats(
                    f"Supervised attention beats implicit ({setting}, {result.model})",
                    by_image(result, setting),
                    first,
                )
                for result in self.results[1:]
            ]
        return ExperimentOutput([replace(table, title="Here")], claims=claims)

    def _beats(self, text: str, first: Mapping[str, float], second: Mapping[str, float]) -> PaperClaim:
        """A claim about correctness, paired by the images that both have."""
        images = [image for image in first if image in second]
        one, other = (np.array([values[image] for image in images], np.float64) for values in (first, second))
        return paired_claim(text, one, other, images, self.settings.seed)

    def histograms(self) -> ExperimentOutput:
        """Fig. 4."""
        made = ExperimentOutput()
        for setting in (self.forced, self.generated):
            values = {result.model: improvements(result, setting) for result in self.results}
            path = self.folder / "figures" / f"figure-4-{setting}.png"
            made.images.append((draw_histograms(values, path, f"{setting} captions"), f"Here, {setting} captions"))
        return made

    def sizes(self) -> ExperimentOutput:
        """Table 2; the same for forced captions, of which there are more."""
        made = ExperimentOutput()
        for setting in (self.generated, self.forced):
            table = size_table(self.results, setting, self.settings.seed)
            if table is None:
                made.notes.append(f"No phrase of the {setting} captions is shared by all captioners.")
                continue
            made.tables.append(replace(table, title=f"Here, {setting} captions"))
            for number in range(1, len(self.results)):
                text = f"Supervision adds most on small regions ({setting}, {self.results[number].model})"
                made.claims.append(self._small_claim(text, setting, number))
        return made if made.tables else ExperimentOutput(missing=" ".join(made.notes).rstrip("."))

    def _small_claim(self, text: str, setting: str, number: int) -> PaperClaim:
        """What a captioner adds to the first one's correctness: more on small regions than on medium and large ones?

        Both differences of means by their 95% intervals, images resampled.
        """
        shared = same_matches(self.results, setting)
        gains = np.array([b.correctness - a.correctness for a, b in zip(shared[0], shared[number], strict=True)])
        parts = terciles(np.array([score.area for score in shared[0]]))
        columns = np.where(parts[:, None] == np.arange(len(SIZES)), gains[:, None], np.nan)
        drawn, means = resampled_means([score.image for score in shared[0]], columns, self.settings.seed)
        holds = all_hold(
            beyond(*map(float, percentile_bounds(drawn[:, 0] - drawn[:, size]))) for size in range(1, len(SIZES))
        )
        seen = ", ".join(f"{size} {gain:+.3f}" for size, gain in zip(SIZES, means, strict=True))
        return PaperClaim.decided(text, holds, seen)

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
        for result in self.results:
            found, _ = score_columns(result.captions, self.split.references, metrics=["bleu", "meteor", "cider"])
            rows.append((result.model, *(f"{100 * found[name]:.2f}" for name in COLUMNS)))
        captions = {str(number): result.captions for number, result in enumerate(self.results)}
        drawn = replicate_scores(bleu_states(captions, self.split.references), seed=self.settings.seed)
        column = COLUMNS.index("bleu_4") + 1
        claims = []
        for number, result in enumerate(self.results[1:], 1):
            low, high = percentile_bounds(100 * (drawn[str(number)]["bleu_4"] - drawn["0"]["bleu_4"]))
            seen = f"{rows[number][column]} against {rows[0][column]}, difference [{low:.2f}, {high:.2f}]"
            text = f"Supervision improves captions (BLEU-4, {result.model})"
            claims.append(PaperClaim.decided(text, beyond(low, high), seen))
        notes = (f"{len(self.split.samples)} images, x100",)
        columns = ("model", *map(column_title, COLUMNS))
        return ExperimentOutput([Table("captioning", "Here", columns, tuple(rows), notes)], claims=claims)

    def quality(self) -> ExperimentOutput:
        """Table 4."""
        table = quality_table(self.results[0], self.split.samples)
        if table is None:
            return ExperimentOutput(missing="fewer than three captions have a phrase that a reference has too")
        means = caption_correctness(self.results[0])
        images = list(means)
        parts = terciles(np.array([means[image] for image in images]))
        drawn = []  # BLEU-4 of high, middle and low: other images, so resampled apart
        for level in (2, 1, 0):
            chosen = [image for image, part in zip(images, parts, strict=True) if part == level]
            captions = {"": {image: self.results[0].captions[image] for image in chosen}}
            states = bleu_states(captions, {image: self.split.references[image] for image in chosen})
            drawn.append(100 * replicate_scores(states, seed=self.settings.seed + level)[""]["bleu_4"])
        holds = all_hold(beyond(*percentile_bounds(drawn[level] - drawn[level + 1])) for level in (0, 1))
        column = table.columns.index("bleu_4")
        seen = ", ".join(f"{float(row[column] or 0):.1f}" for row in table.rows)  # type: ignore[arg-type]
        text = "Higher correctness goes with better captions (BLEU-4: high, middle, low)"
        claim = PaperClaim.decided(text, holds, seen)
        return ExperimentOutput([replace(table, title="Here")], claims=[claim])

    def spearman(self) -> ExperimentOutput:
        """The text's correlations with other measures."""
        table = spearman_table(self.results, self.forced)
        measures = range(COMPARED)  # the rows of the first captioner, and as many columns behind their names
        cells = [table.rows[row][4 + column] for row in measures for column in measures if column > row]
        first = [value for value in cells if isinstance(value, float)]
        made = ExperimentOutput([replace(table, title="Here")])
        if first:
            seen = ", ".join(f"{value:.3f}" for value in first)
            low, high = agreement_bounds(min(first), self._lowest_agreements())
            text = f"Any two of correctness, -L1, -L2 and -KL agree above {AGREEMENT} (implicit)"
            holds = beyond(low, high, AGREEMENT)
            made.claims.append(PaperClaim.decided(text, holds, f"{seen}; lowest [{low:.3f}, {high:.3f}]"))
        return made

    def _lowest_agreements(self) -> NDArray[np.float64]:
        """The lowest of the correlations of the first captioner's measures, with resampled images."""
        scores = [score for score in self.results[0].scores if score.setting == self.forced]
        values = np.array([[score.correctness, score.l1, score.l2, score.kl] for score in scores])
        _, places = np.unique([score.image for score in scores], return_inverse=True)
        rows = [np.flatnonzero(places == image) for image in range(int(places.max()) + 1)]
        rng = np.random.default_rng(self.settings.seed)
        drawn = []
        for _ in range(CORRELATION_REPLICATES):
            chosen = np.concatenate([rows[image] for image in rng.integers(len(rows), size=len(rows))])
            ranked = rankdata(values[chosen], axis=0)
            drawn.append(float(np.corrcoef(ranked.T)[np.triu_indices(COMPARED, 1)].min()))
        return np.array(drawn)


def by_image(result: AttentionResult, setting: str, measure: str = "correctness") -> dict[str, float]:
    """A measure of a captioner's phrases, the mean over the phrases of an image."""
    values: dict[str, list[float]] = {}
    for score in result.scores:
        if score.setting == setting:
            values.setdefault(score.image, []).append(float(getattr(score, measure)))
    return {image: float(np.mean(found)) for image, found in values.items()}


def bleu_states(captions: Mapping[str, Mapping[str, str]], references: Mapping[str, Sequence[str]]) -> dict[str, State]:
    """The states of BLEU of several captioners, for resampling."""
    from captrial.metrics import score

    table = score(captions, references, ["bleu"])
    return {name: families["bleu"] for name, families in table.states.items()}


def resampled_means(
    images: Sequence[str], values: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means of the columns of (n, m) where they are not NaN: (replicates, m) with resampled images, and (m,)."""
    _, rows = np.unique(images, return_inverse=True)
    there = ~np.isnan(values)
    sums, counts = np.zeros((2, int(rows.max()) + 1, values.shape[1]))
    np.add.at(sums, rows, np.where(there, values, 0.0))
    np.add.at(counts, rows, there)
    blocks = [(weights @ sums) / np.maximum(weights @ counts, 1) for weights in resamples(len(sums), REPLICATES, seed)]
    return np.concatenate(blocks), sums.sum(0) / np.maximum(counts.sum(0), 1)
