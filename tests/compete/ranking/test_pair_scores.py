"""Scores of all pairs: against the metrics themselves, and as sums of synthetic statistics."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from captrial.compete.ranking.pair_scores import LabelDesign, PairScorer, PairwiseScores
from captrial.errors import InputError
from captrial.metrics import Corpus, DocumentFrequencies, cider
from captrial.metrics.registry import MetricOptions, choose_metrics
from compete import synthetic


def corpus_of(scorer: PairScorer, model: int, images: list[str]) -> Corpus:
    index = {image: number for number, image in enumerate(scorer.images)}
    return scorer.corpus(model, np.array([index[image] for image in images if image in index]))


@pytest.mark.parametrize("metric", ["cider", "cider_plain", "bleu_4", "bleu_1", "rouge_l"])
def test_p_is_the_metric_of_the_pair_s_own_images(scorer: PairScorer, metric: str) -> None:
    p = scorer.score(metric).matrix()
    for pair in scorer.pairs:
        i, j = pair.models
        for model, other in ((i, j), (j, i)):
            corpus = corpus_of(scorer, model, list(pair.images))
            state = choose_metrics([metric], MetricOptions())[0].state(corpus, MetricOptions())
            parts = {part.name: part.corpus for part in state.scores().flat()}
            assert p[model, other] == pytest.approx(parts[metric], abs=1e-12)


def test_first_k_images_only(scorer: PairScorer) -> None:
    p = scorer.score("cider", k=6).matrix()
    corpus = corpus_of(scorer, 1, [str(number) for number in range(6)])
    assert p[1, 0] == pytest.approx(cider(corpus).corpus)
    assert [pair.wanted for pair in scorer.score("cider", k=6).pairs] == [6, 6, 6]


def test_document_frequencies_can_come_from_another_corpus(scorer: PairScorer) -> None:
    everything = scorer.score("cider", frequencies="all").matrix()
    table = DocumentFrequencies.of(corpus_of(scorer, 0, list(scorer.images)))
    from_table = scorer.score("cider", frequencies=table).matrix()
    np.testing.assert_allclose(everything, from_table)
    assert not np.allclose(everything[0, 1], scorer.score("cider").matrix()[0, 1])
    with pytest.raises(InputError, match="come from"):
        scorer.score("cider", frequencies="elsewhere")


def test_partly_labelled_pairs_count_with_what_they_have(scorer: PairScorer) -> None:
    assert scorer.score("cider").labelled.tolist() == [14, 14, 9]
    assert [pair.wanted for pair in scorer.score("cider").pairs] == [14, 14, 14]


def test_signed_and_inverted_metrics_become_positive(scorer: PairScorer) -> None:
    repeats = scorer.score("repetition").matrix()
    np.testing.assert_allclose(repeats[~np.isnan(repeats)], 1.0)  # nobody repeats anything: lower is better
    with pytest.raises(InputError, match="does not judge"):
        scorer.score("length")
    with pytest.raises(InputError, match="no metric 'beauty'"):
        scorer.score("beauty")


def test_scores_on_own_images(scorer: PairScorer) -> None:
    own = sorted({image for pair in scorer.pairs if 1 in pair.models for image in pair.images})
    assert scorer.score_on_own_images("cider", 1) == pytest.approx(cider(corpus_of(scorer, 1, own)).corpus)


def test_scores_are_means_over_each_pair() -> None:
    found = synthetic.pairwise_scores(seed=3)
    p = found.matrix()
    for pair in found.pairs:
        i, j = pair.models
        np.testing.assert_allclose([p[i, j], p[j, i]], pair.per_image.mean(axis=0))
    assert np.isnan(np.diag(p)).all()


def test_a_weight_is_shared_by_all_pairs_that_hold_the_image() -> None:
    found = synthetic.pairwise_scores(models=4, images=10, seed=1)
    weights = np.random.default_rng(0).integers(0, 3, (5, 10)).astype(float) + 0.5
    p = found.matrix(weights)
    for replicate in range(5):
        for pair in found.pairs:
            own = weights[replicate, pair.images]
            expected = (own[:, None] * pair.per_image).sum(axis=0) / own.sum()
            i, j = pair.models
            np.testing.assert_allclose([p[replicate, i, j], p[replicate, j, i]], expected)


def test_weights_of_one_change_nothing() -> None:
    found = synthetic.pairwise_scores(seed=2)
    np.testing.assert_allclose(found.matrix(np.ones((1, len(found.images))))[0], found.matrix())


def test_images_that_were_certain_to_be_labelled_stand_for_themselves() -> None:
    """Over all draws of 2 of the 4 other images, P has the mean of D_ij: weights by probability alone would not."""
    scores = np.random.default_rng(0).gamma(2.0, 1.0, (7, 2)) + np.repeat([3.0, 0.0], [3, 4])[:, None]
    found = []
    for drawn in combinations(range(3, 7), 2):
        chance = dict.fromkeys(range(3), 1.0) | dict.fromkeys(drawn, 0.3)  # 0.3: what matters is that it is below 1
        part = PairwiseScores.of_scores("made", ["a", "b"], scores, {(0, 1): np.arange(7)}, chance)
        p = part.matrix(part.weights[None])[0]
        np.testing.assert_allclose(part.weighted().matrix(), p)
        found.append([p[0, 1], p[1, 0]])
    np.testing.assert_allclose(np.mean(found, axis=0), scores.mean(axis=0))


@pytest.mark.parametrize(
    ("labelled", "reached"),
    [
        (range(10), False),  # those that an earlier pair holds, and no other
        (range(17), False),
        (range(18), True),  # and eight of the others
        (range(30), True),
    ],
)
def test_images_of_earlier_pairs_alone_are_no_random_part(labelled: range, reached: bool) -> None:
    images = [str(number) for number in range(30)]
    design = LabelDesign(probability={image: 1.0 if int(image) < 10 else 0.1 for image in images})
    assert design.reaches(images, {str(number) for number in labelled}) is reached
    assert design.reaches(images[10:], {"10"})  # all with the same probability: any of them are a random part
    assert design.reaches(images[:10], set(images[:10]))
    never = LabelDesign(probability=dict.fromkeys(images, 0.5) | {"29": 0.0})
    assert not never.reaches(images, set(images[:-1]))
