"""A competition between nine published captioners on the Karpathy test split, with reference captions as labels.

python -m studies.published_captioners [--metrics cider,spice] [--skip-broken]

Prints the first table of docs/competition.md: does the ranking from the few selected images agree with the ranking
from all 5 000? Designs, intervals and the stop are compared over many competitions by `studies.competition_designs`,
`competition_coverage` and `competition_stop`. Data: `../shared/data/captioners/karpathy_test` (or `CAPTRIAL_DATA`).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from captrial.compete import Competition, SelectionSettings, rank_models
from captrial.compete.analysis.flip import flip_report
from captrial.compete.analysis.stability import measure_stability, spearman
from captrial.compete.ranking.pair_scores import PairImages, PairScorer
from captrial.compete.ranking.perron import ranks
from studies.data_paths import KARPATHY_TEST, published_captions


class Study:
    """The competition, all labels, and results."""

    def __init__(self, folder: Path, skip_broken: bool = False, k: int = 70) -> None:
        files = published_captions()
        self.references = json.loads((KARPATHY_TEST / "references.json").read_text())
        self.competition = Competition.create(folder / "competition", files)
        self.competition.select(SelectionSettings(k, k, skip_broken=skip_broken), workers=2)
        self.models = self.competition.models
        self.labels = self.competition.labels(KARPATHY_TEST / "references.json")
        self.scorer = self.competition.scorer(self.labels)
        self.everything = self._everything(files)

    def _everything(self, files: dict[str, Path]) -> PairScorer:
        """A scorer of all 5 000 images; each pair holds all of them."""
        texts = [
            {str(row["image_id"]): row["caption"] for row in json.loads(path.read_text())} for path in files.values()
        ]
        captions = {image: tuple(text[image] for text in texts) for image in self.references}
        pairs = [PairImages((model, (model + 1) % len(texts)), tuple(captions)) for model in range(len(texts))]
        return PairScorer(self.models, pairs, captions, self.references)

    def scores_everywhere(self, metric: str) -> np.ndarray:
        """(m,) each model's score on all 5 000 images."""
        return np.array([self.everything.score_on_own_images(metric, model) for model in range(len(self.models))])

    def budget(self, k: int) -> int:
        """How many different images the first k of every pair are."""
        return len({image for pair in self.scorer.pairs for image in pair.images[:k]})


def ranking_tables(study: Study, metrics: Sequence[str]) -> None:
    print(f"\n## Selection\n\n{study.budget(70)} different images in 36 sets of 70.\n")
    for metric in metrics:
        start = time.perf_counter()
        found = rank_models(study.scorer.score(metric))
        everywhere = study.scores_everywhere(metric)
        places = ranks(everywhere)
        print(f"\n## {metric}\n")
        table_head(
            ["rank", "captioner", "q", "95% interval", "ranks", "first in", "all 5 000 (x100)", "rank there", "change",
             "on D (x100)"]
        )  # fmt: skip
        for row in found.rows():
            model = study.models.index(row["model"])
            change = int(places[model]) - row["rank"]
            print(
                f"| {row['rank']} | {row['model']} | {row['score']:.4f} | {row['low']:.4f}–{row['high']:.4f} "
                f"| {row['rank_low']}–{row['rank_high']} | {100 * row['first']:.1f}% | {100 * everywhere[model]:.2f} "
                f"| {places[model]} | {change:+d} | {100 * study.scorer.score_on_own_images(metric, model):.1f} |"
            )
        print(f"\nSRCC with the ranking from all 5 000: {spearman(found.scores, everywhere):.3f}; ", end="")
        sure = np.maximum(found.uncertainty.beats, found.uncertainty.beats.T)
        upper = sure[np.triu_indices(len(sure), 1)]
        print(f"{(upper >= 0.95).sum()} of {len(upper)} pairs decided at 95%; ", end="")
        print(f"Bradley-Terry SRCC {spearman(found.strengths.strength, found.scores):.3f}")
        report = flip_report(study.scorer.score(metric))
        print(f"\n{report.summary()} ({report.method}) Margin {report.margin:.3f}.")
        curve = measure_stability(lambda k, metric=metric: study.scorer.score(metric, k))  # type: ignore[misc]
        print(f"\nSRCC of top-k above 0.9 from k = {curve.settled()} on. [{time.perf_counter() - start:.0f} s]")


def table_head(columns: Sequence[str]) -> None:
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", default="cider,spice")
    parser.add_argument("--skip-broken", action="store_true", help="leave out images with a broken caption")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ranking_tables(Study(Path(folder), arguments.skip_broken), arguments.metrics.split(","))


if __name__ == "__main__":
    main()
