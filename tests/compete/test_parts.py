"""Labels, scoring, diversity, repetition, statistics, people, other similarities."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from captrial.compete import CaptionPool, select
from captrial.compete.analysis.repetition import repetition
from captrial.compete.analysis.statistics import (
    annotation_statistics,
    class_distribution,
    outcomes,
    right_threshold,
)
from captrial.compete.ranking.pair_scores import Contest, Jury
from captrial.compete.ranking.preferences import agreement, ranking_by_people
from captrial.compete.selection.diversity import select_diverse
from captrial.compete.selection.similarities import Resemblance, resemblance_named
from captrial.compete.storage.labels import Judgement, read_judgements, read_labels
from captrial.errors import InputError, MissingExtraError
from captrial.metrics import Corpus, DocumentFrequencies, cider
from captrial.metrics.registry import MetricOptions, choose_metrics
from compete import made
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
def jury() -> Jury:
    made_up = made.captions(30, 3, seed=1)
    truth = made_up.pop("truth")
    captions = {image: tuple(texts[image] for texts in made_up.values()) for image in truth}
    references = {image: [text, f"there is {text}"] for image, text in truth.items() if int(image) < 25}
    contests = [
        Contest((0, 1), tuple(map(str, range(14)))),
        Contest((0, 2), tuple(map(str, range(8, 22)))),
        Contest((1, 2), tuple(map(str, range(16, 30)))),
    ]
    return Jury(list(made_up), contests, captions, references, tokenize=same)


def corpus_of(jury: Jury, model: int, images: list[str]) -> Corpus:
    index = {image: number for number, image in enumerate(jury.images)}
    return jury.corpus(model, np.array([index[image] for image in images if image in index]))


@pytest.mark.parametrize("metric", ["cider", "cider_plain", "bleu_4", "bleu_1", "rouge_l"])
def test_p_is_the_metric_of_the_pair_s_own_images(jury: Jury, metric: str) -> None:
    p = jury.evidence(metric).scores()
    for contest in jury.contests:
        i, j = contest.models
        for model, other in ((i, j), (j, i)):
            corpus = corpus_of(jury, model, list(contest.images))
            state = choose_metrics([metric], MetricOptions())[0].state(corpus, MetricOptions())
            parts = {part.name: part.corpus for part in state.scores().flat()}
            assert p[model, other] == pytest.approx(parts[metric], abs=1e-12)


def test_first_k_images_only(jury: Jury) -> None:
    p = jury.evidence("cider", k=6).scores()
    corpus = corpus_of(jury, 1, [str(number) for number in range(6)])
    assert p[1, 0] == pytest.approx(cider(corpus).corpus)
    assert [pair.wanted for pair in jury.evidence("cider", k=6).pairs] == [6, 6, 6]


def test_document_frequencies_can_come_from_elsewhere(jury: Jury) -> None:
    everything = jury.evidence("cider", frequencies="all").scores()
    table = DocumentFrequencies.of(corpus_of(jury, 0, list(jury.images)))
    from_table = jury.evidence("cider", frequencies=table).scores()
    np.testing.assert_allclose(everything, from_table)
    assert not np.allclose(everything[0, 1], jury.evidence("cider").scores()[0, 1])
    with pytest.raises(InputError, match="come from"):
        jury.evidence("cider", frequencies="elsewhere")


def test_partly_labelled_pairs_count_with_what_they_have(jury: Jury) -> None:
    assert jury.evidence("cider").labelled.tolist() == [14, 14, 9]
    assert [pair.wanted for pair in jury.evidence("cider").pairs] == [14, 14, 14]


def test_signed_and_inverted_metrics_become_positive(jury: Jury) -> None:
    repeats = jury.evidence("repetition").scores()
    np.testing.assert_allclose(repeats[~np.isnan(repeats)], 1.0)  # nobody repeats anything: lower is better
    with pytest.raises(InputError, match="does not judge"):
        jury.evidence("length")
    with pytest.raises(InputError, match="no metric 'beauty'"):
        jury.evidence("beauty")


def test_scores_on_own_images(jury: Jury) -> None:
    own = sorted({image for contest in jury.contests if 1 in contest.models for image in contest.images})
    assert jury.scores_on_own("cider", 1) == pytest.approx(cider(corpus_of(jury, 1, own)).corpus)


# Statistics


def test_table_2() -> None:
    found = annotation_statistics([["a b c", "a b"], ["a b c d e f g"]])
    assert found is not None
    assert (found.images, found.refs, found.words) == (2, 1.5, 4.0)
    assert (found.max_refs, found.min_refs, found.max_words, found.min_words) == (2, 1, 7, 2)
    assert annotation_statistics([]) is None


def test_classes_and_outcomes(jury: Jury) -> None:
    assert class_distribution(["dog", "cat", "dog", None]) == {"dog": 2, "cat": 1}
    evidence = jury.evidence("cider")
    threshold = right_threshold(jury, "cider").value
    assert threshold == pytest.approx(np.quantile(jury.people("cider"), 0.25))
    for found, pair in zip(outcomes(evidence, threshold), evidence.pairs, strict=True):
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
    first, second = repetition(pool, tokenize=lambda texts: [text.replace(".", " ") for text in texts])
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
    plain = select(pool, 10, reserve=0, tokenize=same)[0]
    diverse = select_diverse(pool, 10, reserve=5, tokenize=same)[0]
    repeated = {image for image in images[:20] if image in (*diverse.images, *diverse.reserve)}
    assert len(repeated) == 1
    assert sum(image in images[:20] for image in plain.images) > 1
    order = select(pool, 40, reserve=0, tokenize=same)[0].images
    places = [order.index(image) for image in (*diverse.images, *diverse.reserve)]
    assert places == sorted(places)  # the order itself is unchanged
    assert (len(diverse.images), len(diverse.reserve)) == (10, 5)


def test_look_alike_images_are_passed_over() -> None:
    images = [str(number) for number in range(12)]
    captions = {name: [f"{name}{number} is here" for number in range(12)] for name in "AB"}
    looks = {image: 0xFFFF << 16 * (int(image) // 4) for image in images}
    found = select_diverse(CaptionPool(images, captions), 12, tokenize=same, fingerprint=looks.get)[0]
    assert len(found.images) == 3


def test_similarities_by_name() -> None:
    assert resemblance_named("ngsm") is None
    assert resemblance_named("os.path:commonprefix") is not None
    with pytest.raises(InputError, match="choose from ngsm, nouns"):
        resemblance_named("telepathy")
    for wrong in ("os.path:nothing", "no_such_module:f", ":f"):
        with pytest.raises(InputError, match="Python can import"):
            resemblance_named(wrong)


@pytest.mark.parametrize(
    ("resemblance", "message"),
    [
        (lambda first, second: 0.5, "one number for each pair"),
        (lambda first, second: [0.5], "one number for each pair"),
        (lambda first, second: [0.5, np.nan], "image 2: nan cannot be a similarity"),
        (lambda first, second: [0.5, 1e7], "image 2: 10000000.0 cannot be a similarity"),
    ],
)
def test_a_similarity_that_makes_no_sense_is_said(resemblance: Resemblance, message: str) -> None:
    pool = CaptionPool(["1", "2"], {"A": ["a dog", "a cat"], "B": ["a dog", "a tree"]})
    with pytest.raises(InputError, match=message):
        select(pool, 1, resemblance=resemblance, tokenize=same)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nouns", "spice"])
def test_meaning_counts_for_other_similarities(name: str) -> None:
    resemblance = resemblance_named(name)
    assert resemblance is not None
    first = ["a man rides a horse", "a man rides a horse", "a dog"]
    second = ["a horse is ridden by a man", "two pizzas on a table", "a dog"]
    values = np.asarray(resemblance(first, second))
    assert values[0] > values[1]
    assert values[2] == pytest.approx(1)
    np.testing.assert_allclose(values, np.asarray(resemblance(second, first)))


def test_sentence_embeddings_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    resemblance = resemblance_named("embedding")
    assert resemblance is not None
    with pytest.raises(MissingExtraError, match="sentence-transformers"):
        resemblance(["a"], ["b"])


# People


def test_people_rank_and_judge_the_metric(small: Small) -> None:
    evidence = small.competition.jury(small.competition.labels(small.references)).evidence("cider")
    judgements = []
    for pair in evidence.pairs:
        first, second = (evidence.models[model] for model in pair.models)
        for image, (a, b) in zip(pair.images, pair.per_image, strict=True):
            if a != b:
                judgements.append(Judgement(evidence.images[image], second, first, float(b > a)))
    found = agreement(evidence, judgements)
    assert (found.tau, found.low, found.high) == (1, 1, 1)
    assert found.judgements == len(judgements)
    opposite = [Judgement(j.image, j.first, j.second, 1 - j.outcome) for j in judgements]
    assert agreement(evidence, opposite).tau == -1
    half = agreement(evidence, judgements[::2] + opposite[1::2])
    assert -0.5 < half.tau < 0.5
    assert half.low < half.tau < half.high
    unknown = [Judgement("nowhere", "model0", "model1", 1.0), Judgement(judgements[0].image, "model0", "model1", 0.5)]
    assert (agreement(evidence, unknown).judgements, agreement(evidence, unknown).left_out) == (0, 1)
    alone = agreement(evidence, judgements[:1])
    assert (alone.tau, alone.judgements) == (1, 1)
    assert np.isnan([alone.low, alone.high]).all()  # there is no interval over one image
    evidence.pairs[0].per_image[0, 0] = np.nan  # the metric has nothing to say there
    silent = [j for j in judgements if j.image == evidence.images[evidence.pairs[0].images[0]] and j.first == "model1"]
    assert agreement(evidence, silent).left_out == len(silent)
    strengths = ranking_by_people(evidence.models, judgements).strength
    assert int(np.argmax(strengths)) == 0
