"""Planted evidence: in these images one known place decides one word, and every method must find it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from captioners.huggingface.planted import COLOURS, NONE, Planted, planted_images, teach_planted
from captioners.huggingface.tiny_checkpoints import Lesson
from captioners.huggingface.tiny_vlms import make
from captrial.attribution.explain import explain
from captrial.attribution.language_prior import NEEDED_NO_IMAGE
from captrial.attribution.sanity_checks import deletion_insertion, random_order
from captrial.attribution.subject import from_image_tokens, word_targets
from captrial.captioners.huggingface import HfOptions, load_transformers
from captrial.vision.hub_checkpoints import quiet_transformers

pytestmark = [pytest.mark.slow]
SIZES = {
    "qwen2_5_vl": [(84, 56), (112, 112), (60, 140)],
    "smolvlm": [(192, 64), (100, 150)],
    "llava": [(64, 64), (96, 96)],
}
GRADIENT_METHODS = ("saliency", "input_x_gradient", "integrated_gradients")
OTHERS = ("attention", "attention_x_gradient", "rollout")
FAMILIES = [
    pytest.param("llava", id="llava"),
    pytest.param("qwen2_5_vl", id="qwen2_5_vl", marks=pytest.mark.full),
    pytest.param("smolvlm", id="smolvlm", marks=pytest.mark.full),
]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, list[Planted]]]:
    """A captioner that has learnt to name the colour, and images that it has not seen."""
    made: dict[str, tuple[Any, list[Planted]]] = {}

    def get(name: str) -> tuple[Any, list[Planted]]:
        if name not in made:
            folder: Path = tmp_path_factory.mktemp(name)
            told = Lesson([], [f"a {colour} mark here" for colour in [*COLOURS, NONE]])
            with torch.random.fork_rng(), quiet_transformers():
                make(name, folder, told, trained=False)
                captioner: Any = load_transformers(str(folder), HfOptions(max_tokens=12))
                teach_planted(captioner, SIZES[name])
            images = [one for size in SIZES[name] for one in planted_images(size, 14, 7) if one.colour != NONE]
            made[name] = captioner, images
        return made[name]

    return get


@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_methods_point_at_the_evidence(planted: Any, name: str) -> None:
    """The pointing game, 95% (a random place is right in one of 16), and the words' shares of the language prior."""
    captioner, images = planted(name)
    said = captioner.caption([one.image for one in images])
    images = [one for one, text in zip(images, said, strict=True) if text == one.caption]
    assert len(images) >= 0.95 * len(said)
    for method in GRADIENT_METHODS:
        found = [explain(captioner, one.image, method, caption=one.caption, tolerance=0.05) for one in images]
        hits = [one.hit(explained.attribution) for one, explained in zip(images, found, strict=True)]
        assert np.mean(hits) >= 0.95, method
    shares = np.array([explained.language_shares for explained in found])
    assert shares[:, [0, 2, 3]].mean() > 0.95  # words that are always said
    assert (shares[:, [0, 2, 3]] >= NEEDED_NO_IMAGE).mean() > 0.95
    assert shares[:, 1].mean() < 0.1  # the colour


@pytest.mark.parametrize("name", FAMILIES)
def test_curves_are_better_than_random_order(planted: Any, name: str) -> None:
    """Deletion falls and insertion rises faster than in random order, on average over images, for every method."""
    captioner, images = planted(name)
    for method in (*GRADIENT_METHODS, *OTHERS):
        better = []
        for number, one in enumerate(images[:12]):
            tokens = captioner.tokenize(one.caption)
            subject, targets = (
                from_image_tokens(captioner, one.image),
                word_targets(tokens, captioner.word_spans(tokens)),
            )
            found = explain(captioner, one.image, method, caption=one.caption, tolerance=0.05, prior="off").attribution
            own = deletion_insertion(subject, targets, found.scores).areas()
            random = [
                deletion_insertion(subject, targets, random_order(found, seed)).areas()
                for seed in range(10 * number, 10 * number + 3)
            ]
            deletion, insertion = (np.mean([areas[kind][1] for areas in random]) for kind in (0, 1))
            better.append((deletion - own[0][1], own[1][1] - insertion))
        assert (np.mean(better, 0) > 0).all(), method


def test_context_correction_moves_maps_to_what_a_word_adds() -> None:
    """A later map that is an earlier one and a little of its own place points at its own place."""
    from captrial.attribution.context_correction import remove_context

    random = np.random.default_rng(0)
    first, second = random.random(50) ** 4, random.random(50) ** 8
    leaked = 0.9 * first + 0.3 * second
    assert leaked.argmax() == first.argmax() != second.argmax()
    corrected = remove_context(np.stack([first, leaked]))
    assert corrected[0] == pytest.approx(first)
    assert corrected[1].argmax() == second.argmax()
    assert (corrected >= 0).all()
    assert remove_context(np.zeros((3, 4))).sum() == 0
