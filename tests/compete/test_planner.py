"""The planner must know when it is done, prefer what is open, and need fewer labels than chance."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete.analysis.planner import plan
from captrial.compete.ranking.dominance import ratios
from captrial.compete.ranking.evidence import Evidence
from captrial.compete.ranking.perron import ranking_vector
from compete import made


def split(evidence: Evidence, labelled: set[str]) -> tuple[Evidence, list[list[str]]]:
    """Evidence of the labelled images, and those of each pair that wait."""
    names = np.array(evidence.images)
    inside = [np.isin(names[pair.images], sorted(labelled)) for pair in evidence.pairs]
    waiting = [names[pair.images[~known]].tolist() for pair, known in zip(evidence.pairs, inside, strict=True)]
    return made.restrict(evidence, [np.flatnonzero(known) for known in inside]), waiting


def test_everything_labelled_is_stable() -> None:
    evidence = made.evidence(models=3, images=20, seed=1)
    found = plan(*split(evidence, set(evidence.images)))
    assert found.stable
    assert found.risk == 0
    assert found.next_images == ()


def test_nothing_labelled_starts_with_the_image_that_most_pairs_share() -> None:
    evidence = made.evidence(models=4, images=15, share=0.4, seed=2)
    found = plan(*split(evidence, set()))
    uses = evidence.membership.sum(axis=1)
    assert uses[evidence.images.index(found.next_images[0])] == uses.max()
    assert not found.stable
    assert set(found.next_images) == {evidence.images[index] for index in np.flatnonzero(uses)}


def test_risk_is_a_probability_and_most_limits_the_list() -> None:
    evidence = made.evidence(models=4, images=40, seed=3)
    found = plan(*split(evidence, set(evidence.images[:10])), goal="order", most=7)
    assert 0 <= found.risk <= 1
    assert len(found.next_images) == 7
    assert len(set(found.next_images)) == 7
    assert found.labels_needed >= 7 or found.stable
    assert all(0 <= doubt[2] <= 0.5 for doubt in found.doubts)


def test_prefers_the_pair_that_is_open() -> None:
    """m0 and m1 are close, m2 is far behind: images of their pair come first."""
    generator = np.random.default_rng(0)
    evidence = made.evidence(models=3, images=90, share=1.0, seed=0)
    for index, pair in enumerate(evidence.pairs):
        pair.images[:] = np.sort(generator.choice(90, 90, replace=False))
        level = np.array([1.0 if model < 2 else 0.2 for model in pair.models])
        pair.statistics[:, :, 0] = level + generator.normal(0, 0.1, (90, 2)) * level
        object.__setattr__(evidence.pairs[index], "per_image", pair.statistics[:, :, 0])
    thirds = [np.arange(30), np.arange(30, 60), np.arange(60, 90)]
    apart = made.restrict(evidence, thirds)  # every image is in one pair only
    labelled = {apart.images[image] for pair in apart.pairs for image in pair.images[:8]}
    found = plan(*split(apart, labelled), goal="winner", most=10)
    close = {apart.images[image] for image in apart.pairs[0].images}
    assert sum(name in close for name in found.next_images) >= 6


@pytest.mark.slow
def test_saves_labels_against_chance() -> None:
    """Label by plan and at random until the winner is the final one for good; the plan needs fewer on average."""
    planned, chance = [], []
    for seed in range(8):
        evidence = made.evidence(models=5, images=120, share=0.3, seed=seed)
        final = int(np.argmax(ranking_vector(ratios(evidence.scores()))))
        generator = np.random.default_rng(seed)
        start = set(generator.choice(evidence.images, 20, replace=False).tolist())
        planned.append(_labels_until(evidence, set(start), final, None))
        chance.extend(_labels_until(evidence, set(start), final, np.random.default_rng(s)) for s in range(3))
    assert np.mean(planned) < np.mean(chance)


def _labels_until(evidence: Evidence, labelled: set[str], final: int, generator: np.random.Generator | None) -> int:
    """How many labels until the winner stays the final one."""
    right_since = len(labelled)
    rest = sorted(set(evidence.images) - labelled)
    order = generator.permutation(rest).tolist() if generator else []
    while len(labelled) < len(evidence.images):
        known, waiting = split(evidence, labelled)
        q = ranking_vector(ratios(known.scores()))
        if int(np.argmax(q)) != final:
            right_since = len(labelled) + 5
        batch = order[:5] if generator else list(plan(known, waiting, most=5, replicates=60).next_images[:5])
        if not batch:
            break
        order = order[5:]
        labelled |= set(batch)
    return right_since
