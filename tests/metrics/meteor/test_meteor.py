from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from captrial.errors import InputError, MismatchError
from captrial.metrics import Corpus, meteor
from captrial.metrics.meteor import MeteorResources, MeteorState, meteor_corpus, meteor_scores, meteor_stats
from captrial.metrics.meteor import resources as resources_module
from captrial.metrics.meteor.meteor import additive

CORPUS = Corpus(
    ["1", "2", "3", "4"],
    ["a dog runs", "the big hound is in front of a man", "", "geese run"],
    [["a dog runs"], ["a dog", "a guy before the fat dog"], ["a man"], ["the bird", "men jog"]],
)


def test_golden_statistics_by_hand(tiny: MeteorResources) -> None:
    stats = meteor_stats(["the big hound runs"], [["a man", "a fat dog runs"]], resources=tiny)
    # the second reference: big ~ fat and hound ~ dog are synonyms (hound -> dog also a paraphrase), runs is exact;
    # "the" and "a" match nothing; big hound runs / fat dog runs are one chunk
    assert stats.tolist() == [[4, 4, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0, 1, 3, 3]]


def test_phrases_of_different_length_match(tiny: MeteorResources) -> None:
    stats = meteor_stats(["dog in front of men"], [["dog before men"]], resources=tiny)
    assert stats[0, -3:].tolist() == [1, 5, 3]
    assert stats[0, 16:20].tolist() == [1, 1, 2, 0]  # front | before | in, of | -


def test_best_reference_wins_and_the_first_of_equals(tiny: MeteorResources) -> None:
    stats = meteor_stats(["a dog", "zebra"], [["a man", "a dog runs", "the man"], ["one two", "three"]], resources=tiny)
    assert stats[:, 1].tolist() == [3, 2]


def test_metric_and_state(tiny: MeteorResources) -> None:
    scores = meteor(CORPUS, resources=tiny)
    assert scores.name == "meteor"
    assert scores.per_image[0] == 1.0
    assert scores.per_image[2] == 0.0
    assert scores.notes == ()
    state = MeteorState.of(CORPUS, tiny)
    assert scores.corpus == pytest.approx(state.corpus_scores(state.statistics().sum(axis=0))["meteor"], abs=1e-15)
    assert state.corpus_scores(state.statistics())["meteor"] == pytest.approx(scores.per_image, abs=1e-15)


def test_shards_merge(tiny: MeteorResources) -> None:
    whole = MeteorState.of(CORPUS, tiny)
    parts = [MeteorState.of(CORPUS.select(images), tiny) for images in ([0], [1, 2], [], [3])]
    merged = MeteorState.merge(parts).scores()
    assert merged.corpus == whole.scores().corpus
    assert merged.per_image.tolist() == whole.scores().per_image.tolist()


def test_reduced_variant_has_its_own_name(tiny: MeteorResources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources_module, "find_spec", lambda _: None)
    scores = meteor(CORPUS)
    assert scores.name == "meteor_exact_stem"
    assert "captrial[meteor]" in scores.notes[0]
    assert 0 < scores.corpus < meteor(CORPUS, resources=tiny).corpus
    with pytest.raises(MismatchError, match="meteor and meteor_exact_stem"):
        MeteorState.merge([MeteorState.of(CORPUS), MeteorState.of(CORPUS, tiny)])


def test_misplaced_data_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"meteor-1\.5\.jar is not there"):
        MeteorResources.find(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("meteor-1.5.jar", "data/paraphrase-en.gz"):
        (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"not METEOR's jar"):
        MeteorResources.find(tmp_path)


def test_uneven_input_is_refused(tiny: MeteorResources) -> None:
    with pytest.raises(InputError, match="2 candidates but 1 lists"):
        meteor_stats(["a", "b"], [["a"]], resources=tiny)
    with pytest.raises(InputError, match="candidate 1 needs"):
        meteor_stats(["a", "b"], [["a"], []], resources=tiny)
    with pytest.raises(InputError, match="candidate 0 needs a list"):
        meteor_stats(["a"], ["a dog"], resources=tiny)
    assert meteor_stats([], [], resources=tiny).shape == (0, 23)


@settings(max_examples=150, deadline=None)
@given(candidate=st.text(max_size=40), references=st.lists(st.text(max_size=40), min_size=1, max_size=3))
@example("", [""])
@example("😀 שלום", ["مرحبا 😀"])
@example("\ud800 lone", ["surrogate \udfff"])
@example("a ||| dog", ["a dog"])
def test_any_text_has_a_score(tiny: MeteorResources, candidate: str, references: list[str]) -> None:
    stats = meteor_stats([candidate], [references], resources=tiny)
    assert 0 <= meteor_scores(stats)[0] <= 1
    assert 0 <= meteor_corpus(stats) <= 1


@given(st.lists(st.sampled_from(["a", "dog", "runs", "the", "zebra"]), min_size=1, max_size=10).map(" ".join))
def test_identical_captions_score_one(tiny: MeteorResources, caption: str) -> None:
    assert meteor_scores(meteor_stats([caption], [["a man", caption]], resources=tiny))[0] == pytest.approx(
        1, abs=1e-12
    )


@pytest.mark.slow
def test_very_long_captions(tiny: MeteorResources) -> None:
    rng = np.random.default_rng(0)
    words = np.array(["dog", "man", "runs", "the", "big", *(f"word{k}" for k in range(200))])
    long, other = (" ".join(rng.choice(words, 10_000)) for _ in range(2))
    stats = meteor_stats([long, "a dog runs", "dog " * 1000], [["a big dog"], [long], [other]], resources=tiny)
    assert stats[:, 0].tolist() == [10_000, 3, 1000]
    scores = meteor_scores(stats)
    assert np.all((scores > 0) & (scores < 1))


# The formula ----------------------------------------------------------------------------------------------------------


# "a dog runs fast" against "the dog runs": dog and runs match exactly, one chunk; "a" and "the" are function words.
HALF = [4, 3, 1, 1, 2, 2, 0, 0, *[0] * 12, 1, 2, 2]
WHOLE = [3, 3, 1, 1, 2, 2, 1, 1, *[0] * 12, 1, 3, 3]
NOTHING = [4, 3, 1, 1, *[0] * 19]


def test_formula_by_hand() -> None:
    precision, recall = 0.75 * 2 / (0.75 * 3 + 0.25), 0.75 * 2 / (0.75 * 2 + 0.25)  # 0.6, 0.857142...
    f_mean = 1 / (0.15 / precision + 0.85 / recall)
    expected = f_mean * (1 - 0.6 * (1 / 2) ** 0.2)
    assert meteor_scores(np.array([HALF]))[0] == pytest.approx(expected, abs=1e-15)
    assert expected == pytest.approx(0.384700, abs=1e-6)


def test_modules_have_their_weights() -> None:
    scores = []
    for module in range(4):
        row = [2, 2, 0, 0, *[0] * 16, 1, 1, 1]
        row[4 + 4 * module] = row[5 + 4 * module] = 1
        scores.append(meteor_scores(np.array([row]))[0])
    assert np.array(scores) / scores[0] == pytest.approx([1, 0.6, 0.8, 0.6])


def test_whole_segments_have_no_penalty_and_empty_ones_no_score() -> None:
    assert meteor_scores(np.array([WHOLE, NOTHING, [0] * 23])).tolist() == [1.0, 0.0, 0.0]


def test_corpus_is_the_score_of_sums_without_the_chunks_of_whole_segments() -> None:
    stats = np.array([HALF, WHOLE, NOTHING])
    total = np.sum([HALF, WHOLE, NOTHING], axis=0)
    total[20] -= 1
    assert meteor_corpus(stats) == meteor_scores(total[None])[0]
    assert meteor_corpus(stats) != pytest.approx(meteor_scores(stats).mean(), abs=1e-3)
    assert meteor_corpus(np.empty((0, 23), int)) == 0.0


def test_any_shape() -> None:
    stats = np.array([HALF, WHOLE, NOTHING, HALF]).reshape(2, 2, 23)
    assert meteor_scores(stats).tolist() == meteor_scores(stats.reshape(4, 23)).reshape(2, 2).tolist()


@given(arrays(np.int64, (5, 23), elements=st.integers(0, 50)))
def test_never_nan_nor_negative(stats: np.ndarray) -> None:
    scores = meteor_scores(stats)
    assert np.all(np.isfinite(scores))
    assert np.all(scores >= 0)
    assert np.all(additive(stats) <= stats)
