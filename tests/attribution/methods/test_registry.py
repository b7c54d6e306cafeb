"""The registry of attribution methods, and what all methods have in common."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
from typer.testing import CliRunner

import captrial
from attribution.small_captioners import (
    TOKENS,
    make_features,
    noise_image,
    subject_of,
    targets_of,
    tiny,
    trained_captioner,
)
from attribution.toyworld_captioner import ToyFeatures, toy_checkpoint, toy_samples
from captrial.attribution.attribution import Attribution
from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.attribution.methods.registry import (
    METHODS,
    AttributionMethod,
    AttributionSettings,
    Needs,
    attribute,
    gradient_methods,
)
from captrial.attribution.subject import Subject, Targets, find_word, from_features, input_attribution, word_targets
from captrial.captioners import ARCHITECTURES
from captrial.captioners.protocols import WordSpan
from captrial.cli.app import app
from captrial.errors import InputError
from captrial.grounding.score import Grounder
from captrial.grounding.study import ground_dataset, grounding_table


@pytest.fixture(params=ARCHITECTURES)
def subject(request: pytest.FixtureRequest) -> Subject:
    return subject_of(request.param)


@pytest.mark.parametrize("method", [*gradient_methods(), "attention"])
def test_one_word_no_word_and_no_element(method: str) -> None:
    captioner = tiny("transformer")
    subject = from_features(captioner, make_features(1))
    one = word_targets([5], [WordSpan("a", 0, 1)])
    none = word_targets([], [])
    empty = from_features(captioner, make_features(1, elements=0))
    assert np.isfinite(attribute(subject, one, method).scores).all()
    assert attribute(subject, none, method).scores.shape == (0, 7)
    assert attribute(empty, targets_of(), method).scores.shape == (len(TOKENS), 0)


def test_the_model_is_not_changed() -> None:
    captioner = tiny("transformer")
    before, hooks = copy.deepcopy(captioner.state_dict()), [len(m._backward_hooks) for m in captioner.modules()]
    for method in gradient_methods():
        attribute(from_features(captioner, make_features(1)), targets_of(), method)
    assert all(torch.equal(before[name], tensor) for name, tensor in captioner.state_dict().items())
    assert hooks == [len(m._backward_hooks) for m in captioner.modules()]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in captioner.modules())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in captioner.parameters())
    assert not captioner.training


def test_a_model_without_gradients_says_so() -> None:
    subject = subject_of("transformer")
    cut = Subject(subject.inputs, lambda x: subject.encode(x.detach()), subject.decode)
    for method in gradient_methods():
        with pytest.raises(InputError, match=r"gives no gradients.*occlusion"):
            attribute(cut, targets_of(), method)
    with pytest.raises(InputError, match="reports no attention"):
        attribute(cut, targets_of(), "attention")


def test_bad_settings_and_names() -> None:
    subject = subject_of("transformer")
    with pytest.raises(InputError, match="at least one step"):
        attribute(subject, targets_of(), settings=AttributionSettings(steps=0))
    with pytest.raises(InputError, match=r"a tolerance of 0\.0"):
        AttributionSettings(tolerance=0.0)
    with pytest.raises(InputError, match="no quadrature rule 'simpson'"):
        attribute(subject, targets_of(), settings=AttributionSettings(rule="simpson"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no attribution method 'magic'"):
        attribute(subject, targets_of(), "magic")
    with pytest.raises(
        InputError,
        match=r"no attribution method 'occlusion' here; there are: .*attention, rollout, attention_x_gradient$",
    ):
        attribute(subject, targets_of(), "occlusion")
    with pytest.raises(InputError, match="features of 2"):
        from_features(tiny("transformer"), make_features(2))
    words = [WordSpan("a", 0, 1), WordSpan("dog", 1, 2), WordSpan("a", 2, 3)]
    assert find_word(words, "Dog") == 1
    with pytest.raises(InputError, match="stands 2 times"):
        find_word(words, "a")
    with pytest.raises(InputError, match="'cat' is not a word of: a dog a"):
        find_word(words, "cat")


# The registry ---------------------------------------------------------------------------------------------------------


def attribute_evenly(subject: Subject, targets: Targets, settings: AttributionSettings) -> Attribution:
    """A method of a test: every element has the same score for every word."""
    return input_attribution(subject, targets, "even", torch.ones(len(targets), *subject.inputs.shape))


@pytest.fixture
def even(monkeypatch: pytest.MonkeyPatch) -> AttributionMethod:
    """The method `even`, added with one entry."""
    method = AttributionMethod("even", "Even", "the same score everywhere", Needs.GRADIENTS, attribute=attribute_evenly)
    monkeypatch.setitem(METHODS, method.name, method)
    return method


def test_a_new_method_explains_an_image(even: AttributionMethod) -> None:
    found = captrial.explain(trained_captioner(), noise_image(), "even", caption="a dog")
    assert found.attribution.method == "even"
    assert np.ptp(found.to_numpy()) == 0
    with pytest.raises(InputError, match=r"no attribution method 'odd'; there are: integrated_gradients, .*, even"):
        captrial.explain(trained_captioner(), noise_image(), "odd")


def test_a_new_method_is_offered_by_the_command_line(
    even: AttributionMethod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("captrial.captioners.loading.load_captioner", lambda *_: trained_captioner())
    noise_image().save(tmp_path / "image.png")
    arguments = ["explain", tmp_path / "image.png", "--caption", "a dog", "--method", "even", "--regions", "grid"]
    done = CliRunner().invoke(app, [*map(str, arguments), "--out", str(tmp_path / "out"), "--json"])
    assert orjson.loads(done.stdout)["method"] == "even"


def test_a_new_method_grounds_a_data_set(even: AttributionMethod) -> None:
    attributor = DatasetAttributor("one", toy_checkpoint(), ToyFeatures(), "even", beam=1)
    result = ground_dataset(attributor, toy_samples()[:2], Grounder(["dog"], threshold=0.9))
    assert [image.image for image in result.images] == [sample.id for sample in toy_samples()[:2]]
    assert grounding_table([result]).groups[1] == ("Even", 5)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_entry_is_described_and_has_its_functions(method: AttributionMethod) -> None:
    assert method.title
    assert method.description
    assert method.explains or method.on_datasets
    for kind in ("attribute", "attend", "black_box", "check"):
        if getattr(method, kind) is not None:
            assert callable(method.function(kind))  # type: ignore[arg-type]
