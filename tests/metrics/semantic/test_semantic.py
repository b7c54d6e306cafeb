"""Semantic, facts and unsupported words: what they prefer, what they list, and that length brings no jump."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from captrial.metrics import Corpus, fact_reports, facts, semantic, unsupported, word_scores
from captrial.metrics.semantic.propositions import propositions
from captrial.metrics.semantic.sentence_encoder import sentence_encoder
from captrial.metrics.semantic.soft_matching import Parts, soft_match

pytestmark = [pytest.mark.needs("minilm"), pytest.mark.slow]
REFERENCES = ["A man is riding a brown horse on the beach.", "Someone rides a horse by the sea."]
LONG = (
    "A man in a red shirt rides a brown horse along a sandy beach. Small waves roll in from the sea on the left. "
    "Behind him stands a white house with a blue door. Two dogs run beside the horse, and a child watches them. "
)


def test_parts_match_by_hand() -> None:
    axes = np.eye(3, dtype=np.float32)
    caption = Parts(axes[:2], np.array([3.0, 1.0]))  # a sentence of 3 words and one of 1
    match = soft_match(caption, [Parts(axes[[0, 2]], np.array([1.0, 1.0])), Parts(axes[:1], np.ones(1))])
    assert match.support.tolist() == [1, 0]
    assert (match.precision, match.recall) == (0.75, 0.75)  # recall: mean of 1/2 and 1
    assert match.f == 0.75
    nothing = Parts(axes[:0], np.zeros(0))
    assert soft_match(nothing, [caption]).f == 0
    assert np.isnan(soft_match(caption, [nothing]).precision)


def test_one_sentence_is_the_nearest_and_the_mean_cosine() -> None:
    caption = "A person on a horse near the water"
    scores = semantic([caption], [REFERENCES])
    vectors = sentence_encoder().encode([caption, *REFERENCES]).astype(float)
    cosines = vectors[1:] @ vectors[0]
    assert scores.parts["semantic_precision"].corpus == pytest.approx(cosines.max(), abs=1e-6)
    assert scores.parts["semantic_recall"].corpus == pytest.approx(cosines.mean(), abs=1e-6)


@pytest.mark.parametrize("match", ["sentences", "tokens"])
def test_meaning_counts_more_than_words(match: str) -> None:
    said = ["A guy on horseback at the seaside", "A man is eating a brown sandwich on the sofa", ""]
    right, wrong, empty = semantic(said, [REFERENCES] * 3, match=match).per_image  # type: ignore[arg-type]
    assert right > wrong > empty == 0


@pytest.mark.parametrize("text", [LONG * 12, LONG.replace(".", " and") * 12], ids=["sentences", "no full stop"])
def test_length_brings_no_jump(text: str) -> None:
    """Word by word from 10 to 560 words: no large step where models cut, at 77, 128, 256 and 512 tokens."""
    words = text.split()[:560]
    captions = [" ".join(words[:count]) for count in range(10, 561)]
    tokens = len(sentence_encoder().encode_tokens(captions[-1:])[0].vectors)
    assert tokens > 520
    every = slice(None, None, 5)  # facts are parsed, which takes time
    values = {
        "semantic": semantic(captions, [[LONG]] * len(captions)).per_image[every],
        "facts": facts(captions[every], [[LONG]] * len(captions[every])).per_image,
    }
    for name, scores in values.items():
        steps = np.abs(np.diff(scores))  # of 5 words
        for limit in (77, 128, 256, 512):
            at = round((limit / tokens * 560 - 10) / 5)
            assert steps[max(at - 2, 0) : at + 3].max() < 0.06, (name, limit)


def test_tokens_and_words_bring_no_jump_where_the_encoder_starts_a_new_window() -> None:
    words = (LONG * 12).split()
    captions = [" ".join(words[:count]) for count in range(200, 240, 4)]
    tokens = [len(of.vectors) for of in sentence_encoder().encode_tokens(captions)]
    assert tokens[0] < 254 < tokens[-1]  # of 256, two are special
    corpus = Corpus.prepare(captions, [[LONG]] * len(captions))
    for scores in (semantic(corpus, match="tokens").per_image, unsupported(corpus).per_image):
        assert np.abs(np.diff(scores)).max() < 0.03


def test_what_comes_after_512_tokens_counts() -> None:
    true = LONG * 9
    false = true + "An astronaut cooks spaghetti in a spaceship full of green cats. " * 8
    for metric in (semantic, facts):
        one, other = (metric([text], [[LONG]]) for text in (true, false))
        assert other.parts[f"{one.name}_precision"].corpus < one.parts[f"{one.name}_precision"].corpus - 0.03


def test_mistakes_and_omissions_have_their_words() -> None:
    caption = "A man rides a brown horse on the beach. A purple elephant sleeps in the kitchen."
    report = fact_reports([caption], [REFERENCES])[0]
    wrong = {caption[start:end].strip(".") for item in report.mistakes() for start, end in item.proposition.words}
    assert {"elephant", "purple", "kitchen"} <= wrong
    assert not wrong & {"man", "brown", "horse"}
    assert not report.omissions(0.3)
    short = fact_reports(["A man."], [REFERENCES])[0]
    left_out = {item.proposition.text for item in short.omissions()}
    assert "horse" in left_out
    assert report.recall > short.recall
    for item in short.omissions():
        assert item.reference is not None
        text = REFERENCES[item.reference]
        assert all(text[start:end].strip() == text[start:end] for start, end in item.proposition.words)


def test_a_false_sentence_costs_precision_and_not_recall() -> None:
    honest = "A man rides a brown horse on the beach."
    false = honest + " An astronaut cooks spaghetti in a spaceship."
    one, other = (facts([text], [REFERENCES]) for text in (honest, false))
    assert other.parts["facts_precision"].corpus < one.parts["facts_precision"].corpus - 0.1
    assert other.parts["facts_recall"].corpus >= one.parts["facts_recall"].corpus - 1e-9


def test_propositions_of_a_paragraph() -> None:
    found = propositions([LONG, ""])
    texts = [item.text for item in found[0]]
    assert {"brown horse", "white house", "red shirt", "two dog"} <= set(texts)
    assert len(texts) == len(set(texts))
    assert found[1] == []
    for item in found[0]:
        assert item.words == tuple(sorted(item.words))


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"\x00\x3c" * 384])
def test_damaged_values_of_the_cache_are_computed_anew(
    value: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path))
    corpus = Corpus.prepare(["A man.", "Two dogs."], [REFERENCES[:1]] * 2)
    metrics = (semantic, facts, unsupported)
    before = [metric(corpus).per_image.tolist() for metric in metrics]
    caches = list((tmp_path / "texts").glob("*.sqlite"))
    assert len(caches) == 3  # vectors, propositions, tags
    for path in caches:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE checked SET value = ? WHERE key IN (SELECT key FROM checked LIMIT 2)", (value,))
    assert [metric(corpus).per_image.tolist() for metric in metrics] == before


def test_words_that_nothing_supports() -> None:
    corpus = Corpus.prepare(["A man rides a giraffe on the beach."], [REFERENCES])
    scores = {word.word: word.score for word in word_scores(corpus)[0]}
    assert max(scores, key=scores.__getitem__) == "giraffe"
    assert "the" not in scores
    given = {word.word: word.score for word in word_scores(corpus, objects={"0": ["giraffe"]})[0]}
    assert given["giraffe"] < scores["giraffe"]
    summary = unsupported(["A man rides a giraffe.", "on the"], [REFERENCES] * 2)
    assert summary.parts["unsupported_worst"].per_image[0] == pytest.approx(max(scores.values()), abs=0.2)
    assert np.isnan(summary.per_image[1])
