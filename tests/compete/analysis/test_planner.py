"""The planner must know when it is done, prefer what is open, and need fewer labels than chance."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete.analysis.planner import PlanSettings, plan_labels
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import ranking_vector, ratios
from compete import synthetic


def split(pairwise: PairwiseScores, labelled: set[str]) -> tuple[PairwiseScores, list[list[str]]]:
    """PairwiseScores of the labelled images, and those of each pair that wait."""
    names = np.array(pairwise.images)
    inside = [np.isin(names[pair.images], sorted(labelled)) for pair in pairwise.pairs]
    waiting = [names[pair.images[~known]].tolist() for pair, known in zip(pairwise.pairs, inside, strict=True)]
    return synthetic.restrict(pairwise, [np.flatnonzero(known) for known in inside]), waiting


def test_everything_labelled_is_stable() -> None:
    pairwise = synthetic.pairwise_scores(models=3, images=20, seed=1)
    found = plan_labels(*split(pairwise, set(pairwise.images)))
    assert found.stable
    assert found.risk == 0
    assert found.next_images == ()


def test_nothing_labelled_starts_with_the_image_that_most_pairs_share() -> None:
    pairwise = synthetic.pairwise_scores(models=4, images=15, share=0.4, seed=2)
    found = plan_labels(*split(pairwise, set()))
    uses = pairwise.membership.sum(axis=1)
    assert uses[pairwise.images.index(found.next_images[0])] == uses.max()
    assert not found.stable
    assert set(found.next_images) == {pairwise.images[index] for index in np.flatnonzero(uses)}


def test_risk_is_a_probability_and_most_limits_the_list() -> None:
    pairwise = synthetic.pairwise_scores(models=4, images=40, seed=3)
    found = plan_labels(*split(pairwise, set(pairwise.images[:10])), PlanSettings("order", most=7))
    assert 0 <= found.risk <= 1
    assert len(found.next_images) == 7
    assert len(set(found.next_images)) == 7
    assert found.labels_needed >= 7 or found.stable
    assert all(0 <= doubt[2] <= 0.5 for doubt in found.doubts)


def test_prefers_the_pair_that_is_open() -> None:
    """m0 and m1 are close, m2 is far behind: images of their pair come first."""
    generator = np.random.default_rng(0)
    pairwise = synthetic.pairwise_scores(models=3, images=90, share=1.0, seed=0)
    for index, pair in enumerate(pairwise.pairs):
        pair.images[:] = np.sort(generator.choice(90, 90, replace=False))
        level = np.array([1.0 if model < 2 else 0.2 for model in pair.models])
        pair.statistics[:, :, 0] = level + generator.normal(0, 0.1, (90, 2)) * level
        object.__setattr__(pairwise.pairs[index], "per_image", pair.statistics[:, :, 0])
    thirds = [np.arange(30), np.arange(30, 60), np.arange(60, 90)]
    apart = synthetic.restrict(pairwise, thirds)  # every image is in one pair only
    labelled = {apart.images[image] for pair in apart.pairs for image in pair.images[:8]}
    found = plan_labels(*split(apart, labelled), PlanSettings("winner", most=10))
    close = {apart.images[image] for image in apart.pairs[0].images}
    assert sum(name in close for name in found.next_images) >= 6


@pytest.mark.slow
def test_saves_labels_against_chance() -> None:
    """Label by plan and at random until the winner is the final one for good; the plan needs fewer on average."""
    planned, chance = [], []
    for seed in range(8):
        pairwise = synthetic.pairwise_scores(models=5, images=120, share=0.3, seed=seed)
        final = int(np.argmax(ranking_vector(ratios(pairwise.matrix()))))
        generator = np.random.default_rng(seed)
        start = set(generator.choice(pairwise.images, 20, replace=False).tolist())
        planned.append(_labels_until(pairwise, set(start), final, None))
        chance.extend(_labels_until(pairwise, set(start), final, np.random.default_rng(s)) for s in range(3))
    assert np.mean(planned) < np.mean(chance)


def _labels_until(
    pairwise: PairwiseScores, labelled: set[str], final: int, generator: np.random.Generator | None
) -> int:
    """How many labels until the winner stays the final one."""
    right_since = len(labelled)
    rest = sorted(set(pairwise.images) - labelled)
    order = generator.permutation(rest).tolist() if generator else []
    while len(labelled) < len(pairwise.images):
        known, waiting = split(pairwise, labelled)
        q = ranking_vector(ratios(known.matrix()))
        if int(np.argmax(q)) != final:
            right_since = len(labelled) + 5
        batch = (
            order[:5]
            if generator
            else list(plan_labels(known, waiting, PlanSettings(most=5, replicates=60)).next_images[:5])
        )
        if not batch:
            break
        order = order[5:]
        labelled |= set(batch)
    return right_since
