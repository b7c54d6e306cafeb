"""Attribution over a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from attribution.toyworld_captioner import SIDE, WIDTH, ToyFeatures, toy_checkpoint, toy_samples
from captrial.attribution.dataset_attribution import DatasetAttributor, PixelSource, without_class_token
from captrial.attribution.word_maps import square_maps
from captrial.errors import InputError
from captrial.vision.preprocess import Preprocess


def attributor(name: str = "implicit", seed: int = 0) -> DatasetAttributor:
    return DatasetAttributor(name, toy_checkpoint(seed=seed), ToyFeatures(), beam=2)


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


def test_a_class_token_is_dropped_and_the_rest_renormalised() -> None:
    with_token = DatasetAttributor("m", toy_checkpoint(), ToyFeatures(token=True))
    found = with_token.attribute([toy_samples()[0].id], [[["a", "dog"]]])[0][0]
    assert found.weights.shape == (2, SIDE * SIDE)
    assert found.grid == (SIDE, SIDE)
    assert found.weights.sum(1) == pytest.approx(np.ones(2))
    regions = without_class_token(np.ones((1, 2)) / 2, np.array([[0, 0, 1, 1], [0, 0, 0.5, 0.5]]))
    assert regions.grid is None
    assert regions.weights.shape == (1, 2)  # the whole image among regions is a region


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


def test_methods_that_are_not_for_data_sets_are_refused() -> None:
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
