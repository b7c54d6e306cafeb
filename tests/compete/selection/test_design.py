"""Orders of labelling: reproducible, random parts of every subset, with the probabilities that they claim."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from captrial.compete.selection.caption_agreement import caption_agreement, semantic_agreement
from captrial.compete.selection.design import LEAST_RATE, SampleOrder, design_named, rates, uniform_order
from captrial.compete.selection.label_sample import LabelSample
from captrial.compete.selection.token_rows import TokenEncoder
from captrial.errors import InputError

IMAGES = [f"image{number}" for number in range(40)]


def test_every_prefix_is_a_random_part_of_every_subset() -> None:
    subset = set(IMAGES[::3])
    counts = np.zeros(len(IMAGES))
    for seed in range(2000):
        prefix = uniform_order(IMAGES, seed)[:10]
        assert prefix == uniform_order(reversed(IMAGES), seed)[:10]
        counts += np.isin(IMAGES, prefix)
    assert np.abs(counts / 2000 - 0.25).max() < 0.045  # 40 binomial shares, standard deviation 0.0097
    assert counts[np.isin(IMAGES, sorted(subset))].mean() / 2000 == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("waves", [[15], [6, 15]])
def test_inverse_probabilities_are_unbiased(waves: list[int]) -> None:
    generator = np.random.default_rng(0)
    values, first, second = generator.gamma(2.0, 1.0, (3, len(IMAGES)))
    found = []
    for seed in range(4000):
        order = SampleOrder(IMAGES, seed, list(zip([first, second], waves, strict=False)))
        chosen, chance = order.rows[:15], order.probabilities(15)
        found.append((values[chosen] / chance[chosen]).sum())
    assert np.mean(found) == pytest.approx(values.sum(), abs=4 * np.std(found) / np.sqrt(4000))


def test_likelier_images_come_earlier_and_all_come_in_the_end() -> None:
    rate = np.where(np.arange(len(IMAGES)) < 20, 1.0, 0.1)
    early = [np.mean(SampleOrder(IMAGES, seed, [(rate, 10)]).rows[:10] < 20) for seed in range(200)]
    assert np.mean(early) > 0.8
    order = SampleOrder(IMAGES, 0, [(rate, 10), (np.ones(len(IMAGES)), 12)])
    assert sorted(order.rows.tolist()) == list(range(len(IMAGES)))
    assert (order.probabilities(40) == 1).all()
    assert (order.probabilities(0) == 0).all()
    rate, left = order.draws(40)
    assert rate[-1] == pytest.approx(left[-1])  # the last image is drawn for sure
    assert ((rate > 0) & (rate <= left + 1e-12)).all()


def test_a_later_wave_leaves_the_order_before_it_unchanged() -> None:
    one = SampleOrder(IMAGES, 3, [(np.ones(40), 10)])
    two = SampleOrder(IMAGES, 3, [(np.ones(40), 10), (np.linspace(0.1, 2, 40), 30)])
    np.testing.assert_array_equal(one.rows[:10], two.rows[:10])
    assert one.rows[10:].tolist() != two.rows[10:].tolist()


def test_agreement_is_the_share_of_common_ngrams_by_rarity() -> None:
    captions = ["a dog on a bed", "a cat", "", "a dog on a bed", "a dog", "a cat", "a dog", "a dog", "a cat"]
    found = caption_agreement(TokenEncoder().encode(pa.array(captions)), 3)  # three models, three images
    images_with = {"a": 3, "dog": 2, "on": 1, "bed": 1}
    a, dog, on, bed = (np.log(4 / count) for count in images_with.values())
    both, all_words, pairs = a + dog, a + dog + on + bed, (a + dog) + (dog + on) + (on + a) + (a + bed)
    first = ((all_words + both) / 2 / all_words + (pairs + both) / 2 / pairs) / 2  # against its copy, and "a dog"
    np.testing.assert_allclose(found[0], [first, first, 1.0])
    assert found[2, 0] == 0  # an empty caption agrees with nothing


def test_rates_grow_with_disagreement() -> None:
    found = rates(np.array([[1.0, 1.0], [0.5, 0.5], [0.0, 0.0]]))
    np.testing.assert_allclose(found, [LEAST_RATE * (1 + np.sqrt(0.5)) / 3, np.sqrt(0.5), 1.0])
    assert (rates(np.ones((3, 2))) == 1).all()  # all captions are the same: all images are alike


@pytest.mark.needs("minilm")
def test_agreement_by_meaning_does_not_need_the_same_words() -> None:
    captions = [["a dog runs", "a dog runs"], ["a dog runs", "a puppy is running"], ["a dog runs", "two red buses"]]
    found = semantic_agreement(captions)
    np.testing.assert_allclose(found[0], 1.0, atol=1e-3)  # equal captions
    assert found[1, 1] > found[1, 2] + 0.2
    words = caption_agreement(TokenEncoder().encode(pa.array([text for texts in captions for text in texts])), 3)
    assert words[1, 1] < 0.2 < found[1, 1]
    np.testing.assert_allclose(semantic_agreement([["", ""], ["", "a dog"]]), [[1, 1], [0, 0]])  # empty captions


def test_strata_and_sample_together() -> None:
    order = SampleOrder(IMAGES, 0, [(np.ones(40), 10)])
    strata = {image: int(number >= 8) for number, image in enumerate(IMAGES[:12])}
    sample = LabelSample(IMAGES, strata, order, 10, 0)
    wanted = sample.to_label()
    assert len(set(wanted)) == len(wanted)
    assert set(wanted) == set(IMAGES[:12]) | set(sample.sampled(10))
    labelled = frozenset(sample.sampled(10)) | frozenset(IMAGES[:8])  # the first stratum, none of the second
    assert sample.prefix(labelled) >= 10
    chance = sample.probabilities(labelled)
    assert all(chance[image] == 1.0 for image in IMAGES[:8])
    assert all(0 < chance[image] < 0.5 for image in IMAGES[8:12])  # by the sample alone
    alone = LabelSample(IMAGES, strata, None, 0, 0).probabilities(frozenset(IMAGES[:8]))
    assert [alone[image] for image in IMAGES[8:12]] == [0, 0, 0, 0]
    assert sample.unused(labelled) is None


def test_labels_that_say_nothing_about_the_pool_are_counted() -> None:
    sample = LabelSample(IMAGES, {}, SampleOrder(IMAGES, 0, [(np.ones(40), 10)]), 10, 0)
    drawn = sample.sampled(12)
    found = sample.unused({*drawn[:4], *drawn[5:7], drawn[11], "no image of the pool"})
    assert found is not None
    assert "3 labelled images are not used" in found
    assert f"2 come after image {drawn[4]} of the sample" in found
    assert "1 were not drawn" in found
    assert sample.unused(drawn[:4]) is None


def test_an_indescribable_image_is_replaced() -> None:
    order = SampleOrder(IMAGES, 0, [(np.ones(40), 5)])
    first = IMAGES[order.rows[0]]
    sample = LabelSample(IMAGES, {}, order, 5, 0, frozenset([first]))
    assert first not in sample.sampled(5)
    assert len(sample.sampled(5)) == 5


def test_unknown_design() -> None:
    with pytest.raises(InputError, match="no design 'best'; choose from discrepancy, random, weighted, hybrid"):
        design_named("best")
