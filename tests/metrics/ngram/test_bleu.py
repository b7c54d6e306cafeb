"""BLEU, ROUGE-L and CIDEr on tokenised text against the COCO toolkit's own classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from captrial.metrics import Corpus, Scores
from captrial.metrics.ngram.bleu import BleuState, bleu
from captrial.metrics.ngram.cider import CiderPlainState, CiderState, cider, cider_plain
from captrial.metrics.ngram.rouge import RougeState, rouge_l
from metrics.example_corpora import corpus_of, toolkit_scores

WORDS = st.sampled_from(["a", "dog", "cat", "runs", "the", "'s", "1\u00a01/2", "犬", "-lrb-"])


CAPTION = st.lists(WORDS, max_size=12).map(" ".join)


IMAGE = st.tuples(CAPTION, st.lists(CAPTION, min_size=1, max_size=4))


@settings(max_examples=60, deadline=None)
@given(st.lists(IMAGE, min_size=2, max_size=8))
def test_equal_to_the_coco_toolkit(images: list[tuple[str, list[str]]]) -> None:
    corpus = corpus_of(images)
    ours = list(bleu(corpus).parts.values())
    total, each = toolkit_scores(Bleu(4), corpus, verbose=0)
    np.testing.assert_allclose([part.corpus for part in ours], total, atol=1e-12)
    np.testing.assert_allclose([part.per_image for part in ours], each, atol=1e-12)
    for scores, scorer in ((rouge_l(corpus), Rouge()), (cider(corpus), Cider())):
        if scores.name == "cider" and not any(text for refs in corpus.references for text in refs):
            continue  # the toolkit fails on max() of no document frequency at all
        total, each = toolkit_scores(scorer, corpus)
        np.testing.assert_allclose(scores.corpus, total, atol=1e-12)
        np.testing.assert_allclose(scores.per_image, each, atol=1e-12)


@pytest.mark.parametrize("state", [BleuState, RougeState, CiderState, CiderPlainState])
def test_shards_merge(state: type[CiderState]) -> None:
    rng = np.random.default_rng(1)
    words = np.array(["a", "dog", "runs", "on", "grass", "cat", "sleeps", "red"])

    def sentence() -> str:
        return " ".join(rng.choice(words, rng.integers(0, 15)))

    corpus = corpus_of([(sentence(), [sentence() for _ in range(rng.integers(1, 6))]) for _ in range(103)])
    shards = [corpus.select(part) for part in np.array_split(np.arange(103), 10)]
    whole, merged = state.of(corpus).scores(), state.merge([state.of(shard) for shard in shards]).scores()
    np.testing.assert_allclose(merged.per_image, whole.per_image, atol=1e-12)
    assert merged.corpus == pytest.approx(whole.corpus, abs=1e-12)
    assert {part.name for part in merged.flat()} == {part.name for part in whole.flat()}


@pytest.mark.parametrize("state", [BleuState, RougeState, CiderState])
def test_statistics_give_the_corpus_score_of_a_resample(state: type[CiderState]) -> None:
    images = [("a dog runs", ["a dog runs fast"]), ("a cat", ["the cat sleeps"]), ("x", ["a red car"])]
    corpus = corpus_of(images)
    whole = state.of(corpus)
    weights = np.array([2.0, 0.0, 1.0])
    resampled = whole.corpus_scores(weights @ whole.statistics())
    if state is CiderState:  # document frequencies stay those of the whole
        expected: dict[str, float] = {"cider": float(weights @ whole.scores().per_image / 3)}
    else:
        expected = {part.name: part.corpus for part in state.of(corpus.select([0, 0, 2])).scores().flat()}
    assert {name: float(value) for name, value in resampled.items()} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", [bleu, rouge_l, cider, cider_plain])
def test_empty_corpus(metric: Callable[[Corpus], Scores]) -> None:
    scores = metric(Corpus([], [], []))
    assert scores.per_image.shape == (0,)
