"""Labels, scoring, diversity, repetition, statistics, people, other similarities."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from captrial.compete import CaptionPool, SearchOptions, select
from captrial.compete.analysis.repetition import find_repetition
from captrial.compete.analysis.statistics import (
    annotation_statistics,
    class_distribution,
    pair_outcomes,
    right_threshold,
)
from captrial.compete.ranking.bradley_terry import metric_agreement, rank_by_judgements
from captrial.compete.ranking.pair_scores import PairImages, PairScorer
from captrial.compete.selection.registry import CaptionSimilarity, similarity_named
from captrial.compete.selection.selection import select_diverse
from captrial.compete.storage.labels import Judgement, read_judgements, read_labels
from captrial.errors import InputError, MissingExtraError
from captrial.metrics import Corpus, DocumentFrequencies, cider
from captrial.metrics.registry import MetricOptions, choose_metrics
from compete import synthetic
from compete.conftest import Small


def same(texts: list[str]) -> list[str]:
    return texts


# Labels


def test_the_last_line_about_a_image_counts(tmp_path: Path) -> None:
    path = tmp_path / "references.jsonl"
    lines = [
        {"id": "1", "captions": ["a dog"]},
        {"id": 2, "indescribable": True},
        {"id": "1", "captions": ["a dog", "a brown dog"]},
        {"id": "3", "captions": []},
        {"id": "2", "captions": ["a cat"]},
        {"id": "4", "captions": ["x"]},
        {"id": "4", "indescribable": True},
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    labels = read_labels(path)
    assert labels.references == {"1": ["a dog", "a brown dog"], "2": ["a cat"]}
    assert labels.indescribable == {"4"}
    assert read_labels(tmp_path / "none.jsonl").references == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[]", 'line 1: needs an object with an "id"'),
        ('{"id": "1"}', 'line 1: image 1 needs "captions"'),
        ('{"id": "1", "captions": "a dog"}', 'line 1: image 1 needs "captions"'),
    ],
)
def test_bad_label_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "references.jsonl").write_text(line)
    with pytest.raises(InputError, match=message):
        read_labels(tmp_path / "references.jsonl")


def test_judgements(tmp_path: Path) -> None:
    path = tmp_path / "judgements.jsonl"
    rows = [("a", 1.0), ("B", 0.0), ("tie", 0.5), ("b", 0.0), ("A", 1.0)]
    path.write_text("\n".join(json.dumps({"id": "7", "a": "A", "b": "B", "winner": winner}) for winner, _ in rows))
    assert [judgement.outcome for judgement in read_judgements(path, ["A", "B"])] == [value for _, value in rows]
    path.write_text(json.dumps({"id": "7", "a": "A", "b": "C", "winner": "a"}))
    with pytest.raises(InputError, match="A and C are not two models"):
        read_judgements(path, ["A", "B"])
    path.write_text(json.dumps({"id": "7", "a": "A", "b": "B", "winner": "C"}))
    with pytest.raises(InputError, match="winner is 'C'"):
        read_judgements(path, ["A", "B"])


# Scoring


@pytest.fixture
def scorer() -> PairScorer:
    made_up = synthetic.captions(30, 3, seed=1)
    truth = made_up.pop("truth")
    captions = {image: tuple(texts[image] for texts in made_up.values()) for image in truth}
    references = {image: [text, f"there is {text}"] for image, text in truth.items() if int(image) < 25}
    pairs = [
        PairImages((0, 1), tuple(map(str, range(14)))),
        PairImages((0, 2), tuple(map(str, range(8, 22)))),
        PairImages((1, 2), tuple(map(str, range(16, 30)))),
    ]
    return PairScorer(list(made_up), pairs, captions, references, tokenize=same)


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


def test_document_frequencies_can_come_from_elsewhere(scorer: PairScorer) -> None:
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


# Statistics


def test_table_2() -> None:
    found = annotation_statistics([["a b c", "a b"], ["a b c d e f g"]])
    assert found is not None
    assert (found.images, found.refs, found.words) == (2, 1.5, 4.0)
    assert (found.max_refs, found.min_refs, found.max_words, found.min_words) == (2, 1, 7, 2)
    assert annotation_statistics([]) is None


def test_classes_and_pair_outcomes(scorer: PairScorer) -> None:
    assert class_distribution(["dog", "cat", "dog", None]) == {"dog": 2, "cat": 1}
    pairwise = scorer.score("cider")
    threshold = right_threshold(scorer, "cider").value
    assert threshold == pytest.approx(np.quantile(scorer.human_scores("cider"), 0.25))
    for found, pair in zip(pair_outcomes(pairwise, threshold), pairwise.pairs, strict=True):
        right = pair.per_image >= threshold
        assert found.both == (right[:, 0] & right[:, 1]).sum()
        assert found.both + found.first + found.second + found.neither == len(pair.images)


# Repetition


def test_repetition_by_model_and_word() -> None:
    pool = CaptionPool(
        ["1", "2", "3", "4"],
        {
            "A": ["a dog dog dog", "a dog and a dog", "no no no no yes yes yes", "x x"],
            "B": ["a a", "", "b . b b", "c"],
        },
        block=2,
    )
    first, second = find_repetition(pool, tokenize=lambda texts: [text.replace(".", " ") for text in texts])
    assert (first.captions, first.repeated, first.share) == (4, 2, 0.5)
    assert first.words == {"dog": 1, "no": 1, "yes": 1}
    assert first.examples[0] == ("1", "a dog dog dog", "dog")
    assert (second.repeated, second.words) == (1, {"b": 1})


# Diversity and other similarities


def test_near_duplicates_are_passed_over() -> None:
    images = [str(number) for number in range(40)]
    one = ["red green blue black white"] * 20 + [f"one{number} two{number}" for number in range(20)]
    two = ["dog cat bird cow horse"] * 20 + [f"three{number} four{number}" for number in range(20)]
    pool = CaptionPool(images, {"A": one, "B": two}, block=7)
    plain = select(pool, 10, 0, SearchOptions(tokenize=same))[0]
    diverse = select_diverse(pool, 10, 5, SearchOptions(tokenize=same))[0]
    repeated = {image for image in images[:20] if image in (*diverse.images, *diverse.reserve)}
    assert len(repeated) == 1
    assert sum(image in images[:20] for image in plain.images) > 1
    order = select(pool, 40, 0, SearchOptions(tokenize=same))[0].images
    places = [order.index(image) for image in (*diverse.images, *diverse.reserve)]
    assert places == sorted(places)  # the order itself is unchanged
    assert (len(diverse.images), len(diverse.reserve)) == (10, 5)


def test_look_alike_images_are_passed_over() -> None:
    images = [str(number) for number in range(12)]
    captions = {name: [f"{name}{number} is here" for number in range(12)] for name in "AB"}
    looks = {image: 0xFFFF << 16 * (int(image) // 4) for image in images}
    found = select_diverse(
        CaptionPool(images, captions), 12, options=SearchOptions(tokenize=same), fingerprint=looks.get
    )[0]
    assert len(found.images) == 3


def test_similarities_by_name() -> None:
    assert similarity_named("ngsm") is None
    assert similarity_named("os.path:commonprefix") is not None
    with pytest.raises(InputError, match="choose from ngsm, nouns"):
        similarity_named("telepathy")
    for wrong in ("os.path:nothing", "no_such_module:f", ":f"):
        with pytest.raises(InputError, match="Python can import"):
            similarity_named(wrong)


@pytest.mark.parametrize(
    ("similarity", "message"),
    [
        (lambda first, second: 0.5, "one number for each pair"),
        (lambda first, second: [0.5], "one number for each pair"),
        (lambda first, second: [0.5, np.nan], "image 2: nan cannot be a similarity"),
        (lambda first, second: [0.5, 1e7], "image 2: 10000000.0 cannot be a similarity"),
    ],
)
def test_a_similarity_that_makes_no_sense_is_said(similarity: CaptionSimilarity, message: str) -> None:
    pool = CaptionPool(["1", "2"], {"A": ["a dog", "a cat"], "B": ["a dog", "a tree"]})
    with pytest.raises(InputError, match=message):
        select(pool, 1, options=SearchOptions(similarity=similarity, tokenize=same))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nouns", "spice"])
def test_meaning_counts_for_other_similarities(name: str) -> None:
    similarity = similarity_named(name)
    assert similarity is not None
    first = ["a man rides a horse", "a man rides a horse", "a dog"]
    second = ["a horse is ridden by a man", "two pizzas on a table", "a dog"]
    values = np.asarray(similarity(first, second))
    assert values[0] > values[1]
    assert values[2] == pytest.approx(1)
    np.testing.assert_allclose(values, np.asarray(similarity(second, first)))


def test_sentence_embeddings_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    similarity = similarity_named("embedding")
    assert similarity is not None
    with pytest.raises(MissingExtraError, match="sentence-transformers"):
        similarity(["a"], ["b"])


# People


def test_people_rank_and_judge_the_metric(small: Small) -> None:
    pairwise = small.competition.scorer(small.competition.labels(small.references)).score("cider")
    judgements = []
    for pair in pairwise.pairs:
        first, second = (pairwise.models[model] for model in pair.models)
        for image, (a, b) in zip(pair.images, pair.per_image, strict=True):
            if a != b:
                judgements.append(Judgement(pairwise.images[image], second, first, float(b > a)))
    found = metric_agreement(pairwise, judgements)
    assert (found.tau, found.low, found.high) == (1, 1, 1)
    assert found.judgements == len(judgements)
    opposite = [Judgement(j.image, j.first, j.second, 1 - j.outcome) for j in judgements]
    assert metric_agreement(pairwise, opposite).tau == -1
    half = metric_agreement(pairwise, judgements[::2] + opposite[1::2])
    assert -0.5 < half.tau < 0.5
    assert half.low < half.tau < half.high
    unknown = [Judgement("nowhere", "model0", "model1", 1.0), Judgement(judgements[0].image, "model0", "model1", 0.5)]
    assert (metric_agreement(pairwise, unknown).judgements, metric_agreement(pairwise, unknown).left_out) == (0, 1)
    alone = metric_agreement(pairwise, judgements[:1])
    assert (alone.tau, alone.judgements) == (1, 1)
    assert np.isnan([alone.low, alone.high]).all()  # there is no interval over one image
    pairwise.pairs[0].per_image[0, 0] = np.nan  # the metric has nothing to say there
    silent = [j for j in judgements if j.image == pairwise.images[pairwise.pairs[0].images[0]] and j.first == "model1"]
    assert metric_agreement(pairwise, silent).left_out == len(silent)
    strengths = rank_by_judgements(pairwise.models, judgements).strength
    assert int(np.argmax(strengths)) == 0
