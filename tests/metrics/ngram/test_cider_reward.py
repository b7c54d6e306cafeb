"""CIDEr-D as a reward: golden values, the text metric, and mistakes that must not pass."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from captrial.errors import InputError, MismatchError
from captrial.language.vocabulary import EOS, PAD, Vocabulary
from captrial.metrics import Corpus
from captrial.metrics.ngram.cider import cider
from captrial.metrics.ngram.cider_reward import CiderReward
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies

REFERENCES = [
    ["a man rides a horse on the beach", "a person riding a horse near the sea"],
    ["a cat sleeps on a couch", "a cat lying on the sofa"],
    ["two dogs play in the grass", "dogs running in a field"],
    ["a plate of food on a table", "a meal on a wooden table"],
]
SAID = [
    "a man riding a horse on the beach",
    "a cat sleeping on a couch",
    "two dogs in the grass",
    "a plate of food on the",
]
WITHOUT_EOS = [4.067971, 2.533072, 2.908279, 3.662177]
WITH_EOS = [4.257968, 3.089094, 3.532905, 3.166920]

VOCABULARY = Vocabulary.build((text.split() for text in chain(SAID, *REFERENCES)), min_count=1)
TOKENS = [[VOCABULARY.encode(text.split()) for text in texts] for texts in REFERENCES]


def samples() -> np.ndarray:
    rows = [VOCABULARY.encode(text.split(), bos=False) for text in SAID]
    longest = max(map(len, rows))
    return np.array([[*row, *[PAD] * (longest - len(row))] for row in rows])


@pytest.mark.parametrize(("count_end", "golden"), [(False, WITHOUT_EOS), (True, WITH_EOS)])
def test_golden_values(count_end: bool, golden: list[float]) -> None:
    table = DocumentFrequencies.of_tokens(TOKENS, VOCABULARY, count_end)
    reward = CiderReward(table, TOKENS, VOCABULARY, count_end)
    np.testing.assert_allclose(reward.rewards(samples(), np.arange(4)), golden, atol=1e-6)
    shuffled = [2, 0, 3, 1, 2]
    np.testing.assert_allclose(reward.rewards(samples()[shuffled], shuffled), np.array(golden)[shuffled], atol=1e-6)


def test_text_metric_gives_the_golden_values() -> None:
    corpus = Corpus(list("1234"), SAID, REFERENCES)
    np.testing.assert_allclose(cider(corpus).per_image, WITHOUT_EOS, atol=1e-6)


def test_equals_the_text_metric_on_random_ids() -> None:
    rng = np.random.default_rng(0)
    vocabulary = Vocabulary(tuple("abcdefgh"))
    tokens = [[list(rng.integers(4, 12, rng.integers(1, 9))) for _ in range(rng.integers(1, 6))] for _ in range(30)]
    sampled = rng.choice([EOS, *range(4, 12)], (30, 11))  # ends at the first EOS, if there is one
    table = DocumentFrequencies.of_tokens(tokens, vocabulary)
    rewards = CiderReward(table, tokens, vocabulary).rewards(sampled, np.arange(30))
    cut = [row[: list(row).index(EOS) + 1] if EOS in row else row for row in sampled]
    said = [" ".join(map(vocabulary.word, row)) for row in cut]
    refs = [[" ".join(map(vocabulary.word, [*row, EOS])) for row in of_image] for of_image in tokens]
    np.testing.assert_allclose(rewards, cider(Corpus(said, said, refs)).per_image, atol=1e-12)


def test_n_grams_the_table_does_not_know_count_as_never_seen() -> None:
    table = DocumentFrequencies.of(Corpus(["1", "2"], ["", ""], [["a dog"], ["a cat"]]))
    corpus = Corpus(["1"], ["zebra dog"], [["dog zebra"]])
    log2 = np.log(2)
    # dog and zebra both weigh log 2 (df 1 and unseen), so the unigrams are parallel and no bigram is shared
    assert cider(corpus, document_frequencies=table).corpus == pytest.approx(10 / 4 * (2 * log2**2) / (2 * log2**2))
    assert not cider(corpus, document_frequencies=table).notes  # a table makes sense of a single image


def test_table_round_trip_and_refusals(tmp_path: Path) -> None:
    table = DocumentFrequencies.of_tokens(TOKENS, VOCABULARY)
    table.save(tmp_path / "df.npz")
    loaded = DocumentFrequencies.load(tmp_path / "df.npz")
    assert loaded.fingerprint == VOCABULARY.fingerprint
    assert loaded.images == 4
    first = CiderReward(table, TOKENS, VOCABULARY).rewards(samples(), np.arange(4))
    np.testing.assert_array_equal(CiderReward(loaded, TOKENS, VOCABULARY).rewards(samples(), np.arange(4)), first)
    with pytest.raises(MismatchError, match="built with vocabulary"):
        CiderReward(loaded, TOKENS, Vocabulary((*VOCABULARY.words, "more")))
    (tmp_path / "bad.npz").write_bytes(b"no zip")
    with pytest.raises(InputError, match=r"bad\.npz"):
        DocumentFrequencies.load(tmp_path / "bad.npz")


def test_table_whose_words_were_changed_is_refused(tmp_path: Path) -> None:
    table = DocumentFrequencies.of_tokens(TOKENS, VOCABULARY)
    table.save(tmp_path / "df.npz")
    arrays = dict(np.load(tmp_path / "df.npz"))
    arrays["words"] = np.frombuffer("\n".join(reversed(VOCABULARY.words)).encode(), dtype=np.uint8)
    np.savez(tmp_path / "changed.npz", **arrays)
    with pytest.raises(MismatchError, match=r"changed\.npz"):
        DocumentFrequencies.load(tmp_path / "changed.npz")


@pytest.mark.parametrize(
    ("sampled", "images"),
    [([[999, 2]], [0]), ([[-1, 2]], [0]), ([[4, 2]], [4]), ([[4, 2]], [0, 1]), ([4, 2], [0, 0])],
)
def test_ids_out_of_range_are_refused(sampled: list[list[int]], images: list[int]) -> None:
    table = DocumentFrequencies.of_tokens(TOKENS, VOCABULARY)
    with pytest.raises(InputError):
        CiderReward(table, TOKENS, VOCABULARY).rewards(sampled, images)


def test_references_of_another_vocabulary_are_refused() -> None:
    table = DocumentFrequencies.of_tokens(TOKENS, VOCABULARY)
    with pytest.raises(MismatchError, match="token ids reach"):
        CiderReward(table, [[[len(VOCABULARY)]]], VOCABULARY)
    with pytest.raises(InputError, match="no reference"):
        CiderReward(table, [[[4]], []], VOCABULARY)
