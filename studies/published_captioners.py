"""A competition between nine published captioners on the Karpathy test split, with reference captions as labels.

python -m studies.published_captioners [--metrics cider,spice] [--draws 200] [--runs 10] [--out docs]

Prints the tables of docs/competition.md and draws its figures. Three questions: does the ranking from the few selected
images agree with the ranking from all 5 000; would as many images chosen at random do as well; how many labels does
the budget planner save. Data: `../shared/data/captioners/karpathy_test` (or `CAPTRIAL_DATA`).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from captrial.compete import Competition, SelectionSettings, rank_models
from captrial.compete.analysis.flip import flip_report
from captrial.compete.analysis.planner import PlanSettings, plan_labels
from captrial.compete.analysis.stability import measure_stability, spearman
from captrial.compete.ranking.pair_scores import PairImages, PairScorer, PairwiseScores
from captrial.compete.ranking.perron import ranking_vector, ranks, ratios
from captrial.progress import track
from captrial.report import charts
from studies.data_paths import KARPATHY_TEST, published_captions

BUDGETS = (5, 10, 20, 30, 40, 50, 70)  # k
BATCH = 10  # labels between two plans


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

    def selected_scores(self, metric: str, k: int) -> np.ndarray:
        """(m,) the ranking vector from the first k images of every pair."""
        return ranking_vector(ratios(self.scorer.score(metric, k).matrix()))

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
        sure = np.maximum(found.replicates.beats, found.replicates.beats.T)
        upper = sure[np.triu_indices(len(sure), 1)]
        print(f"{(upper >= 0.95).sum()} of {len(upper)} pairs decided at 95%; ", end="")
        print(f"Bradley-Terry SRCC {spearman(found.strengths.strength, found.scores):.3f}")
        report = flip_report(study.scorer.score(metric))
        print(f"\n{report.summary()} ({report.method}) Margin {report.margin:.3f}.")
        curve = measure_stability(lambda k, metric=metric: study.scorer.score(metric, k))  # type: ignore[misc]
        print(f"\nSRCC of top-k above 0.9 from k = {curve.settled()} on. [{time.perf_counter() - start:.0f} s]")


def against_random(study: Study, metric: str, draws: int, out: Path) -> None:
    """The ranking from the selected images, and from as many at random, against the ranking from all 5 000."""
    truth = study.scores_everywhere(metric)
    generator = np.random.default_rng(0)
    panel = study.everything
    size = len(panel.images)
    rows = []
    for k in BUDGETS:
        labels = study.budget(k)
        selected = study.selected_scores(metric, k)
        chance, winners, decided = [], [], []
        for _ in range(draws):
            images = np.sort(generator.choice(size, labels, replace=False))
            scores = random_scores(panel, metric, images)
            chance.append(spearman(scores.mean(axis=1), truth))
            winners.append(int(np.argmax(scores.mean(axis=1))) == int(np.argmax(truth)))
            decided.append(pairs_decided(scores))
        beats = rank_models(study.scorer.score(metric, k), replicates=500).replicates.beats
        sure = np.maximum(beats, beats.T)[np.triu_indices(len(beats), 1)]
        rows.append(
            (k, labels, spearman(selected, truth), float(np.mean(chance)), *np.quantile(chance, [0.05, 0.95]).tolist(),
             int(np.argmax(selected)) == int(np.argmax(truth)), float(np.mean(winners)),
             int((sure >= 0.95).sum()), float(np.mean(decided)))
        )  # fmt: skip
    print(f"\n## Against random selection, {metric} ({draws} draws)\n")
    table_head(
        ["k", "labels", "SRCC selected", "SRCC random, mean", "5%–95%", "winner right, selected", "right, random",
         "pairs decided, selected", "pairs decided, random"]
    )  # fmt: skip
    for k, labels, chosen, mean, low, high, right, lucky, sure, by_chance in rows:
        print(
            f"| {k} | {labels} | {chosen:.3f} | {mean:.3f} | {low:.3f}–{high:.3f} | {'yes' if right else 'no'} "
            f"| {lucky:.0%} | {sure} of 36 | {by_chance:.1f} |"
        )
    x = [row[1] for row in rows]
    series = {
        "selected": (x, [row[2] for row in rows]),
        "random, mean": (x, [row[3] for row in rows]),
        "random, 5%": (x, [row[4] for row in rows]),
    }
    title = f"Agreement with the ranking from all 5 000 images, {metric}"
    charts.lines(f"competition-random-{metric}", title, series, ("labelled images", "SRCC")).write(out / "images")


def two_models(study: Study, metric: str, draws: int) -> None:
    """One pair at a time: how often n selected images, and n random ones, name the model that is better on all."""
    truth = study.scores_everywhere(metric)
    generator = np.random.default_rng(1)
    size = len(study.everything.images)
    print(f"\n## Two models at a time, {metric} (36 pairs, {draws} draws each)\n")
    table_head(["labels", "right, selected", "right, random", "size of log f, selected", "size of log f, random"])
    for n in (5, 10, 20, 40, 70):
        p = study.scorer.score(metric, n).matrix()
        right, lucky, apart, apart_by_chance = [], [], [], []
        for pair in study.scorer.score(metric, n).pairs:
            i, j = pair.models
            better = truth[i] > truth[j]
            right.append((p[i, j] > p[j, i]) == better)
            apart.append(log_ratio(p[i, j], p[j, i]))
            for _ in range(draws):
                images = np.sort(generator.choice(size, n, replace=False))
                first, second = (random_scores(study.everything, metric, images, [model])[0].mean() for model in (i, j))
                lucky.append((first > second) == better)
                apart_by_chance.append(log_ratio(first, second))
        print(
            f"| {n} | {np.mean(right):.0%} | {np.mean(lucky):.0%} | {np.nanmean(apart):.2f} "
            f"| {np.nanmean(apart_by_chance):.2f} |"
        )


def log_ratio(first: float, second: float) -> float:
    return abs(float(np.log(first / second))) if first > 0 and second > 0 else float("nan")


def table_head(columns: Sequence[str]) -> None:
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")


def random_scores(
    scorer: PairScorer, metric: str, images: np.ndarray, models: Sequence[int] | None = None
) -> np.ndarray:
    """(models, n) image scores on these images, document frequencies being theirs."""
    models = range(len(scorer.models)) if models is None else models
    if metric == "cider":
        return np.stack([scorer.cider_panel(True).scores(model, images) for model in models])
    return np.stack([image_scores(scorer, metric, model)[images] for model in models])


@cache
def image_scores(scorer: PairScorer, metric: str, model: int) -> np.ndarray:
    """(5 000,) of a metric without document frequencies."""
    return scorer.score(metric).pairs[model].per_image[:, 0]


def pairs_decided(scores: np.ndarray, replicates: int = 200) -> int:
    """How many pairs a bootstrap over the images decides at 95% when models are compared by their means."""
    weights = np.random.default_rng(0).standard_exponential((replicates, scores.shape[1]))
    means = weights @ scores.T  # (replicates, m)
    wins = (means[:, :, None] > means[:, None, :]).mean(axis=0)
    return int((np.maximum(wins, wins.T)[np.triu_indices(len(scores), 1)] >= 0.95).sum())


def planner_simulation(study: Study, metric: str, goal: str, runs: int, out: Path) -> None:
    """Label by plan, by use (images that most pairs share first) and at random; when is the goal reached for good?"""
    final = ranking_vector(ratios(study.scorer.score(metric).matrix()))
    policies = ("plan", "shared first", "random")
    reached: dict[str, list[int]] = {policy: [] for policy in policies}
    stopped: dict[str, list[tuple[int, bool, float]]] = {policy: [] for policy in policies}
    curves: dict[str, list[np.ndarray]] = {policy: [] for policy in policies}
    for run in track(range(runs), f"simulating {goal}"):
        for policy in policies:
            at, stop, curve = simulate(study, metric, goal, policy, run, final)
            reached[policy].append(at)
            stopped[policy].append(stop)
            curves[policy].append(curve)
    total = len(study.scorer.images)
    print(f"\n## Budget planner, {metric}, goal: {goal} ({runs} runs, {total} images in D)\n")
    table_head(["labels by", "right for good after", "stops after", "right when it stops", "SRCC then"])
    for policy in policies:
        labels, right, srcc = (np.mean([entry[column] for entry in stopped[policy]]) for column in range(3))
        print(f"| {policy} | {np.mean(reached[policy]):.0f} | {labels:.0f} | {right:.0%} | {srcc:.3f} |")
    x = list(range(BATCH, BATCH * (1 + min(len(c) for cs in curves.values() for c in cs)), BATCH))
    series = {
        policy: (x, np.mean([curve[: len(x)] for curve in curves[policy]], axis=0).tolist()) for policy in policies
    }
    title = f"Agreement with the ranking from all of D, {metric}"
    charts.lines(f"competition-planner-{goal}", title, series, ("labelled images", "SRCC")).write(out / "images")


def simulate(
    study: Study, metric: str, goal: str, policy: str, seed: int, final: np.ndarray
) -> tuple[int, tuple[int, bool, float], np.ndarray]:
    """One experiment: labels until the goal stays reached; (labels, right?, SRCC) when the planner stops; SRCC."""
    generator = np.random.default_rng(seed)
    scorer, images = study.scorer, list(study.scorer.images)
    order = generator.permutation(images).tolist()
    if policy == "shared first":
        uses = {image: sum(image in pair.images for pair in scorer.pairs) for image in images}
        order.sort(key=lambda image: -uses[image])
    labelled: list[str] = order[:BATCH] if policy != "plan" else generator.permutation(images)[:BATCH].tolist()
    right_since, stop, curve = BATCH, None, []
    while True:
        known = set(labelled)
        pairwise = scorer.score(metric, only=known)
        unlabelled = [[p for p in pair.images if p not in known] for pair in scorer.pairs]
        scores = scores_so_far(pairwise)
        curve.append(spearman(scores, final))
        right = reaches(scores, final, goal)
        if not right:
            right_since = len(labelled) + BATCH
        ahead = (
            plan_labels(pairwise, unlabelled, PlanSettings(goal, most=BATCH, replicates=100, seed=seed))
            if stop is None or policy == "plan"
            else None
        )
        if stop is None and ahead is not None and ahead.stable:
            stop = (len(labelled), right, curve[-1])
        if len(labelled) == len(images):
            return min(right_since, len(images)), stop or (len(labelled), right, curve[-1]), np.array(curve)
        batch = list(ahead.next_images[:BATCH]) if policy == "plan" and ahead else order[len(labelled) :][:BATCH]
        batch = batch or [p for p in images if p not in known][:BATCH]
        labelled += batch


def scores_so_far(pairwise: PairwiseScores) -> np.ndarray:
    """The ranking vector, or equal scores while models are not connected."""
    try:
        return ranking_vector(ratios(pairwise.matrix()))
    except Exception as error:
        if "label more images" not in str(error):
            raise
        return np.ones(len(pairwise.models))


def reaches(scores: np.ndarray, final: np.ndarray, goal: str) -> bool:
    if goal == "winner":
        return int(np.argmax(scores)) == int(np.argmax(final))
    return bool((ranks(scores) == ranks(final)).all())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", default="cider,spice")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--parts", default="ranking,random,planner")
    parser.add_argument("--skip-broken", action="store_true", help="leave out images with a broken caption")
    arguments = parser.parse_args()
    metrics, parts = arguments.metrics.split(","), arguments.parts.split(",")
    with tempfile.TemporaryDirectory() as folder:
        study = Study(Path(folder), arguments.skip_broken)
        if "ranking" in parts:
            ranking_tables(study, metrics)
        if "random" in parts:
            for metric in metrics:
                against_random(study, metric, arguments.draws, arguments.out)
                two_models(study, metric, arguments.draws)
        if "planner" in parts:
            for goal in ("winner", "order"):
                planner_simulation(study, metrics[0], goal, arguments.runs, arguments.out)


if __name__ == "__main__":
    main()
