"""From a captioner and a data set to the tables of Liu 2017."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch

from captrial.attribution.dataset_attribution import DatasetAttributor, PixelSource, without_class_token
from captrial.attribution.maps import square_maps
from captrial.attribution.methods.rollout import roll_out
from captrial.errors import DatasetError, InputError
from captrial.grounding.attention_correctness import (
    FORCED,
    GENERATED,
    AttentionResult,
    PhraseScore,
    attention_correctness,
    measure_attention,
)
from captrial.grounding.attention_tables import (
    all_tables,
    correctness_table,
    improvements,
    lead_table,
    quality_table,
    same_matches,
    size_table,
    spearman,
    terciles,
)
from captrial.grounding.phrases import (
    CROPPED,
    NO_REGION,
    WHOLE,
    PhrasePlacer,
    ReferringPhrase,
    class_phrases,
    match_phrases,
    reference_phrases,
)
from captrial.grounding.tables import Estimate, Table, escape, estimate, write_tables
from captrial.language.nouns import analyse
from captrial.language.similarity import Similarity
from captrial.language.tokenizer import tokenize_all
from captrial.records import Box, ImageRef, Region, Sample
from captrial.vision.preprocess import Preprocess
from explain.toys import SIDE, WIDTH, ToyFeatures, toy_checkpoint, toy_samples

DOG, OTHER = Region(Box(0, 0, 50, 50), "dog"), Region(Box(50, 50, 100, 100), "dog")


def attributor(name: str = "implicit", seed: int = 0) -> DatasetAttributor:
    return DatasetAttributor(name, toy_checkpoint(seed=seed), ToyFeatures(), beam=2)


@pytest.fixture(scope="module")
def results() -> list[AttentionResult]:
    return [measure_attention(attributor(name, seed), toy_samples()) for name, seed in (("one", 0), ("two", 1))]


def test_forced_scores_are_those_of_the_attention(results: list[AttentionResult]) -> None:
    """A phrase's record, worked out again from the captioner's attention and the toy world's boxes."""
    score = next(score for score in results[0].scores if score.setting == FORCED)
    sample = next(sample for sample in toy_samples() if sample.id == score.image)
    words = tokenize_all([sample.captions[score.caption]])[0].split()
    phrase = next(phrase for phrase in sample.phrases[score.caption] if phrase.start == score.start)
    assert " ".join(words[phrase.start : phrase.end]) == score.text
    found = attributor().attribute([sample.id], [[words]])[0][0]
    assert found.weights.shape == (len(words), SIDE * SIDE)
    assert found.weights.sum(1) == pytest.approx(np.ones(len(words)), abs=1e-5)
    mask = np.zeros((224, 224), dtype=bool)
    for place in np.ndindex(mask.shape):
        y, x = ((step + 0.5) * 64 / 224 for step in place)
        boxes = [region.box for region in phrase.regions]
        mask[place] = any(box.x1 <= x < box.x2 and box.y1 <= y < box.y2 for box in boxes)
    maps = square_maps(found.weights[phrase.start : phrase.end], found.boxes, found.grid)
    assert score.correctness == pytest.approx(attention_correctness(maps, mask).max(), abs=1e-6)
    assert score.area == pytest.approx(mask.mean())


def test_padding_changes_nothing() -> None:
    """Sentences of one image beside longer ones, and images beside others, look the same as alone."""
    first, second = toy_samples()[:2]
    words = [["a", "dog"], ["a", "man", "with", "a", "red", "kite"]]
    together = attributor().attribute([first.id, second.id], [words, [words[0]]])
    alone = attributor().attribute([first.id], [[words[0]]])[0][0]
    assert together[0][0].weights == pytest.approx(alone.weights, abs=1e-6)
    assert together[1][0].weights.shape == (2, SIDE * SIDE)
    empty = attributor().attribute([first.id], [[[]]])[0][0]
    assert empty.weights.shape == (0, SIDE * SIDE)


def test_everything_is_counted(results: list[AttentionResult]) -> None:
    """Every phrase of the references is measured or counted with its reason."""
    phrases = sum(len(said) for sample in toy_samples() for said in sample.phrases)
    forced = [score for score in results[0].scores if score.setting == FORCED]
    assert len(forced) + results[0].dropped[FORCED].total() == phrases
    assert results[0].dropped[FORCED][NO_REGION] > 0  # scene phrases
    assert all(0 <= score.correctness <= 1 for score in forced)


def test_results_survive_json(results: list[AttentionResult]) -> None:
    again = AttentionResult.from_dict(orjson.loads(orjson.dumps(results[0].to_dict())))
    assert again == results[0]


def test_generated_captions_are_matched_word_by_word() -> None:
    sample = Sample(
        ImageRef("1", width=100, height=100), ("A dog sees a big cat.", "A dog.", "The cat."), "test", (DOG, OTHER)
    )
    references = [
        [ReferringPhrase("a dog", 0, 2, (DOG,)), ReferringPhrase("a big cat", 3, 6, (OTHER,))],
        [ReferringPhrase("a dog", 0, 2, (OTHER,))],
    ]
    one = analyse(["a dog and a cat and a big cat"])[0]
    found = match_phrases(one, references)
    assert [(mention.text, mention.start) for mention in found] == [("a dog", 0), ("a big cat", 6)]
    assert found[0].regions == (DOG, OTHER)  # two dogs are called so: either is right
    assert reference_phrases(sample) == [[], [], []]


def test_nouns_are_linked_to_classes() -> None:
    sample = Sample(ImageRef("1", width=100, height=100), ("x",), "test", (DOG, Region(Box(0, 0, 9, 9), "teddy bear")))
    one = analyse(["two puppies and a teddy bear on the street near a car"])[0]
    found = class_phrases(one, sample, Similarity.default())
    assert [(mention.text, [region.label for region in mention.regions]) for mention in found] == [
        ("puppies", ["dog"]), ("teddy bear", ["teddy bear"]), ("street", []), ("car", []),
    ]  # fmt: skip


def test_places_that_cannot_be_measured_are_counted() -> None:
    sample = Sample(ImageRef("1", width=200, height=100))
    placer = PhrasePlacer(Preprocess(224, "crop", 256))
    for regions in ((), (Region(Box(0, 0, 10, 100)),), (Region(Box(0, 0, 200, 100)),)):
        assert placer.place(sample, ReferringPhrase("it", 0, 1, regions)) is None
    assert placer.dropped == Counter({NO_REGION: 1, CROPPED: 1, WHOLE: 1})
    placed = placer.place(sample, ReferringPhrase("it", 0, 1, (Region(Box(0, 0, 100, 100)),)))
    assert placed is not None
    assert placed.area == pytest.approx(0.5)


def test_masks_are_used_when_asked_for() -> None:
    mask = np.zeros((100, 100), dtype=bool)
    mask[:10, :10] = True
    sample = Sample(ImageRef("1", width=100, height=100))
    region = Region(Box(0, 0, 50, 50), "dog", mask=mask)
    phrase = ReferringPhrase("it", 0, 1, (region,))
    areas = [PhrasePlacer(Preprocess(), masks).place(sample, phrase) for masks in (False, True)]
    assert [round(placed.area, 2) for placed in areas if placed] == [0.25, 0.01]


def test_a_class_token_is_dropped_and_the_rest_renormalised() -> None:
    with_token = DatasetAttributor("m", toy_checkpoint(), ToyFeatures(token=True))
    found = with_token.attribute([toy_samples()[0].id], [[["a", "dog"]]])[0][0]
    assert found.weights.shape == (2, SIDE * SIDE)
    assert found.grid == (SIDE, SIDE)
    assert found.weights.sum(1) == pytest.approx(np.ones(2))
    regions = without_class_token(np.ones((1, 2)) / 2, np.array([[0, 0, 1, 1], [0, 0, 0.5, 0.5]]))
    assert regions.grid is None
    assert regions.weights.shape == (1, 2)  # the whole image among regions is a region


def test_rollout_traces_cross_attention_back_through_the_encoder() -> None:
    """Worked out by hand from the weights of two layers: half of an element itself, half of what it attended to."""
    first = torch.tensor(
        [[0.5, 0.25, 0.0, 0.25], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    )  # three elements, one slot
    second = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.2, 0.2, 0.4, 0.2], [1.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, False]])
    made = roll_out([layer.expand(1, 2, 3, 4) for layer in (first, second)], mask)[0]
    own = torch.tensor([[5 / 6, 1 / 6, 0], [0, 1, 0]])  # after the first layer, without slot and padding
    both = torch.tensor([[0.5, 0.5], [0.25, 0.75]]) @ own[:2]
    assert made[:2].numpy() == pytest.approx(both.numpy())


@pytest.mark.parametrize("preset", ["transformer-small", "smart-small", "m2-small", "ort-small"])
def test_rollout_is_a_distribution_and_leaves_the_model_alone(preset: str) -> None:
    attributor = DatasetAttributor("one", toy_checkpoint(preset), ToyFeatures(), "rollout", beam=2)
    sample = toy_samples()[0]
    (((weights, _, _),),) = attributor.attribute([sample.id], [[sample.captions[0].lower().split()]])
    assert weights.sum(1) == pytest.approx(1)
    (((plain, _, _),),) = DatasetAttributor("one", toy_checkpoint(preset), ToyFeatures()).attribute(
        [sample.id], [[sample.captions[0].lower().split()]]
    )
    assert np.abs(weights - plain).max() > 1e-3
    captioner = attributor.checkpoint.captioner  # type: ignore[attr-defined]
    assert not any(module._forward_hooks for module in captioner.modules())


def test_rollout_needs_an_encoder() -> None:
    with pytest.raises(InputError, match=r"rollout needs an encoder.*ShowAttendTell has none"):
        DatasetAttributor("one", toy_checkpoint("show_attend_tell-small"), ToyFeatures(), "rollout")


def test_data_without_truth_is_refused() -> None:
    bare = Sample(ImageRef("7", width=9, height=9), ("a dog",))
    with pytest.raises(DatasetError, match="neither phrases with regions nor boxes"):
        measure_attention(attributor(), [bare])
    with pytest.raises(DatasetError, match="image 7 has no reference"):
        measure_attention(attributor(), [replace(bare, captions=())])
    with pytest.raises(DatasetError, match="no images"):
        measure_attention(attributor(), [])


# tables -------------------------------------------------------------------------------------------------------------


def scores(
    model: str, values: list[float], setting: str = GENERATED, areas: list[float] | None = None
) -> AttentionResult:
    areas = areas or [(number + 1) / 10 for number in range(len(values))]
    made = [
        PhraseScore(model, setting, str(number), 0, "a dog", 0, area, value, 1.0, value, value - 2, value - 1, value**3)
        for number, (value, area) in enumerate(zip(values, areas, strict=True))
    ]
    captions = {str(number): "a dog" for number in range(len(values))}
    return AttentionResult(model, "attention", made, captions, {setting: Counter()})


def test_tables_of_real_results(results: list[AttentionResult], tmp_path: Path) -> None:
    tables = all_tables(results, toy_samples())
    assert {"correctness", "size-forced", "spearman"} <= {table.name for table in tables}
    first = tables[0]
    assert len(first.rows) == 4
    written = write_tables(tables, tmp_path)
    assert all(path.stat().st_size for path in written)
    document = orjson.loads((tmp_path / "tables.json").read_bytes())
    assert document["correctness"]["rows"][0]["correctness"]["value"] == first.rows[0][5].value  # type: ignore[union-attr]


def test_terciles_are_equal_and_the_same_for_all_models() -> None:
    assert np.bincount(terciles(np.array([3.0, 3, 3, 3, 3, 3, 3]))).tolist() == [3, 2, 2]
    one, two = scores("one", [0.1, 0.2, 0.3, 0.4]), scores("two", [0.5, 0.6, 0.7])
    shared = same_matches([one, two], GENERATED)
    assert [[score.image for score in own] for own in shared] == [["0", "1", "2"]] * 2
    table = size_table([one, two])
    assert table is not None
    assert [(row[0], row[1], row[3], round(row[5].value, 6)) for row in table.rows] == [  # type: ignore[union-attr]
        ("small", "one", 1, 0.1), ("small", "two", 1, 0.5), ("medium", "one", 1, 0.2), ("medium", "two", 1, 0.6),
        ("large", "one", 1, 0.3), ("large", "two", 1, 0.7),
    ]  # fmt: skip
    assert size_table([one, scores("other", [])]) is None


def test_leads_are_of_the_same_phrases() -> None:
    one, two = scores("one", [0.1, 0.2, 0.3, 0.4]), scores("two", [0.2, 0.2, 0.6])
    table = lead_table([one, two])
    assert table is not None
    assert [row[:3] for row in table.rows] == [("generated", "two - one", 3)]
    assert [cell.value for cell in table.rows[0][3:]] == pytest.approx([0.4 / 3, 0.1, 0.0, 0.3])  # type: ignore[union-attr]
    assert lead_table([one]) is None
    assert lead_table([one, scores("other", [])]) is None


def test_quality_goes_by_correctness() -> None:
    result = scores("one", [0.9, 0.1, 0.5])
    result.captions.update({"0": "a dog runs on the grass", "1": "a cat", "2": "a dog on the sofa", "3": "no match"})
    samples = [Sample(ImageRef(str(number)), ("a dog runs on the grass",), "test", (DOG,)) for number in range(4)]
    table = quality_table(result, samples, ["bleu"])
    assert table is not None
    assert [(row[0], row[1], row[2]) for row in table.rows] == [("high", 1, 0.9), ("middle", 1, 0.5), ("low", 1, 0.1)]
    bleu = [row[table.columns.index("bleu_1")] for row in table.rows]
    assert bleu[0] == pytest.approx(100) and bleu[0] > bleu[1] > bleu[2]  # type: ignore[operator]  # noqa: PT018
    assert "1 of 4 captions have no matched phrase" in table.notes[0]
    assert quality_table(scores("one", [0.5, 0.6]), samples) is None


def test_spearman_of_ranks() -> None:
    from scipy.stats import spearmanr

    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 5, 40).astype(float), generator.normal(size=40)
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert spearman(first, np.ones(40)) is None
    assert spearman(first[:1], second[:1]) is None


def test_improvement_over_the_baseline() -> None:
    assert improvements(scores("one", [0.5, 0.2]), GENERATED) == pytest.approx([0.4, 0.0])
    assert len(improvements(scores("one", [0.5]), FORCED)) == 0


def test_empty_tables_have_dashes_not_nan() -> None:
    table = correctness_table([scores("one", [])])
    assert [table.show(cell) for cell in table.rows[0]] == ["generated", "one", "attention", "0", *["–"] * 5]
    assert "nan" not in table.to_csv().lower()


def test_intervals_resample_images() -> None:
    """Ten equal values of one image are one observation: the interval knows no better than from one an image."""
    once = estimate(["a", "b", "c"], np.array([[0.0], [1.0], [2.0]]))[0]
    often = estimate(["a"] * 10 + ["b"] * 10 + ["c"] * 10, np.repeat([[0.0], [1.0], [2.0]], 10, axis=0))[0]
    assert (once.value, once.low, once.high) == (often.value, often.low, often.high)
    assert often.count == 30
    nothing = estimate(["a"], np.array([[np.nan]]))[0]
    assert nothing == Estimate(None, None, None, 0)
    assert nothing.show() == "–"
    alone, both = estimate(["a", "a", "b"], np.array([[0.2, 0.2], [0.4, 0.4], [np.nan, 0.6]]))
    assert (alone.low, alone.high, alone.show()) == (None, None, "0.300 ±–")  # all of one image
    assert both.low is not None
    assert estimate([], np.zeros((0, 2))) == [nothing, nothing]


def test_tables_are_written_in_all_forms() -> None:
    cells = (Estimate(0.5, 0.4, 0.6, 7), None)
    table = Table(
        "t",
        "T",
        ("model", "δ=0", "δ=∞"),
        (("a_b & c", *cells),),
        ("a note",),
        (("", 1), ("saliency", 2)),
        {0: "grid"},
        100,
        1,
    )
    assert list(table.shown()) == [["grid", "", ""], ["a_b & c", "50.0 ±10.0", "–"]]
    assert table.headings() == ["model", "saliency δ=0", "saliency δ=∞"]
    assert table.to_csv().splitlines() == [
        "section,model,saliency δ=0,saliency δ=0 low,saliency δ=0 high,saliency δ=∞", "grid,a_b & c,0.5,0.4,0.6,",
    ]  # fmt: skip
    latex = table.to_latex()
    assert r"\multicolumn{2}{c}{saliency} \\" in latex
    assert r"a\_b \& c & 50.0 $\pm$10.0 & -- \\" in latex
    assert escape("x^2") == r"x\textasciicircum{}2"
    assert table.to_dict()["rows"] == [
        {"section": "grid", "model": "a_b & c", "saliency δ=0": {"value": 0.5, "low": 0.4, "high": 0.6, "count": 7},
         "saliency δ=∞": None}
    ]  # fmt: skip


# attribution --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["saliency", "guided_backprop", "integrated_gradients", "input_x_gradient"])
def test_attribution_maps_are_measured_like_attention(method: str) -> None:
    asked = DatasetAttributor("one", toy_checkpoint(), ToyFeatures(), method, beam=1)
    words = ["a", "dog", "near", "a", "tree"]
    found = asked.attribute([toy_samples()[0].id], [[words, words[:1], []]])[0]
    assert [one.weights.shape for one in found] == [(5, 16), (1, 16), (0, 16)]
    assert found[0].grid == (SIDE, SIDE)
    assert np.all(found[0].weights >= 0)
    assert found[0].weights.any()
    result = measure_attention(asked, toy_samples()[:2], [FORCED])
    assert result.method == method
    assert all(0 <= score.correctness <= 1 for score in result.scores)


def test_saliency_is_the_gradient_of_the_words_logit() -> None:
    """The word's own logit moves, to first order, by the gradient that the scores are the sums of."""
    import torch

    checkpoint, name = toy_checkpoint(), toy_samples()[0].id
    features = ToyFeatures().get([name])
    elements = features.elements.clone().requires_grad_()
    dog = checkpoint.vocabulary["dog"]
    tokens = torch.tensor([[checkpoint.vocabulary.encode(["a"], eos=False)]])
    logit = checkpoint.captioner(features.with_elements(elements), tokens).logits[0, 0, 1, dog]
    (gradient,) = torch.autograd.grad(logit, elements)
    found = DatasetAttributor("one", checkpoint, ToyFeatures(), "saliency").attribute([name], [[["a", "dog"]]])[0][0]
    assert found.weights[1] == pytest.approx(gradient[0].abs().sum(-1).numpy(), rel=1e-4)


def test_methods_that_cannot_be_had_are_said() -> None:
    with pytest.raises(
        InputError, match="no attribution method 'occlusion' for a whole data set; there are: integrated_gradients, "
    ):
        DatasetAttributor("one", toy_checkpoint(), ToyFeatures(), "occlusion")


def test_pixels_through_the_backbone(tmp_path: Path) -> None:
    """A backbone of one convolution: the pixels that matter are those of the cells that matter."""
    import torch
    from PIL import Image

    from captrial.vision.backbones.base import Backbone, grid_boxes

    class Patches(Backbone):
        name, width, preprocess = "patches", WIDTH, Preprocess(16)

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.convolution = torch.nn.Conv2d(3, WIDTH, 4, 4)

        def elements(self, pixels: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.convolution(pixels)
            return found.flatten(2).transpose(1, 2)

        def cells(self) -> torch.Tensor:
            return grid_boxes(SIDE, SIDE)

    Image.effect_noise((32, 32), 80).convert("RGB").save(tmp_path / "noise.png")
    images = {"noise": tmp_path / "noise.png"}
    attributor = DatasetAttributor(
        "m", toy_checkpoint(), ToyFeatures(), "saliency", pixels=PixelSource(Patches(), images)
    )
    found = attributor.attribute(["noise"], [[["a", "dog"]]])[0][0]
    assert found.weights.shape == (2, 256)
    assert found.grid == (16, 16)
    assert square_maps(found.weights, found.boxes, found.grid).sum((1, 2)) == pytest.approx([1, 1])


def test_wide_tables_are_shown_group_by_group() -> None:
    groups = (("", 1), ("saliency", 2), ("attention", 1))
    table = Table("t", "T", ("model", "δ=0", "δ=1", "δ=0"), (("m", 1, 2, 3),), ("note",), groups)
    first, second = table.parts()
    assert (first.title, first.columns, first.rows, first.notes) == (
        "T: saliency",
        ("model", "δ=0", "δ=1"),
        (("m", 1, 2),),
        (),
    )
    assert (second.title, second.columns, second.rows, second.notes) == (
        "T: attention",
        ("model", "δ=0"),
        (("m", 3),),
        ("note",),
    )
    assert first.parts() == [first]
