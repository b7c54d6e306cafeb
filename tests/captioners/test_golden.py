"""Golden values: parameter counts of the papers' sizes and equations worked out by hand."""

from __future__ import annotations

import pytest
import torch

from captrial.captioners import create
from captrial.captioners.disc import Disc, RetrievalCritic
from captrial.captioners.m2 import M2
from captrial.captioners.ort import compare_boxes, embed_geometry
from captrial.captioners.smart import Smart
from captrial.captioners.stack_cap import StackCap
from captrial.vision.features import Features

COUNTS = [
    ("att2in", 9488, 14_451_985),
    ("top_down", 9488, 52_125_025),
    ("transformer-pre-norm", 9488, 54_914_832),
    ("ort", 9488, 54_917_952),
    ("aoa", 9488, 85_562_640),
    ("x_lan", 9488, 75_189_781),
    ("m2", 10201, 38_411_264),
    ("smart", 10201, 26_290_688),
    ("transformer", 10201, 33_565_184),
]


@pytest.mark.parametrize(("preset", "words", "parameters"), COUNTS)
def test_parameter_count(preset: str, words: int, parameters: int) -> None:
    with torch.device("meta"):
        captioner = create(preset, words=words, features=2048)
    assert captioner.count_parameters() == parameters


def test_ort_geometry() -> None:
    boxes = torch.tensor([[[0.1, 0.2, 0.5, 0.6], [0.4, 0.4, 0.9, 1.0]]], dtype=torch.float64)
    comparison = compare_boxes(boxes, legacy_plus_one=True)
    assert comparison[0, 0, 1].tolist() == pytest.approx([-1.386294, -1.540445, -0.068993, -0.133531], abs=1e-6)
    assert comparison[0, 0, 0].tolist() == pytest.approx([-6.907755, -6.907755, 0, 0], abs=1e-6)
    embedded = embed_geometry(comparison)[0, 0, 1]
    golden = [-0.388828, 0.106263, -0.031660, 0.921310, 0.999499]
    assert embedded[[0, 8, 31, 32, 63]].tolist() == pytest.approx(golden, abs=1e-6)


def test_memory_slots_start_as_intended() -> None:
    captioner = create("smart", words=50, features=8)
    assert isinstance(captioner, Smart)
    attention = captioner.encoder[0].attention
    assert float(attention.memory_keys.detach().std()) == pytest.approx(1 / 64, rel=0.05)  # type: ignore[union-attr, operator]
    assert float(attention.memory_values.detach().std()) == pytest.approx(1 / 40, rel=0.05)  # type: ignore[union-attr, operator]


def test_m2_legacy_initialisation() -> None:
    captioner = create("m2", words=50, features=8, legacy_init=True)
    assert isinstance(captioner, M2)
    keys = captioner.encoder[0].attention.memory_keys.detach()  # type: ignore[union-attr]
    assert float(keys.abs().max()) <= 0.0170  # type: ignore[operator, union-attr]
    assert float(keys.std()) == pytest.approx(0.0098, rel=0.05)  # type: ignore[operator, union-attr]
    assert not torch.allclose(captioner.positions, create("m2", words=50, features=8).positions)  # type: ignore[arg-type]


def test_mesh_divisor_is_a_flag() -> None:
    for divide, divisor in ((True, 3**0.5), (False, 1.0)):
        captioner = create("m2", words=50, features=8, divide_mesh=divide)
        assert captioner.decoder[0].divisor == divisor  # type: ignore[index, union-attr]


def test_critic_hinges_on_the_hardest_negative() -> None:
    captioner = create("disc", words=20, features=6)
    assert isinstance(captioner, Disc)
    critic = RetrievalCritic(captioner.config)
    pictures = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    captions = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    # similarities [[1, 0, 0], [0, 1, 1], [.6, .8, .8]], margin 0.2; hardest caption + hardest picture of each pair
    expected = [0.0 + 0.0, 0.2 + 0.0, 0.2 + 0.4]
    assert critic.loss(pictures, captions).tolist() == pytest.approx(expected, abs=1e-6)


def test_stack_cap_supervises_every_stage() -> None:
    captioner = create("stack_cap-small", words=20, features=6, stages=3)
    assert isinstance(captioner, StackCap)
    memory = captioner.encode(Features(torch.randn(3, 5, 6), torch.ones(3, 5, dtype=torch.bool)))
    stages = captioner.speak_stages(torch.ones(3, 1, 4, dtype=torch.long), memory)
    assert len(stages) == 3
    sum(stage.logits.square().sum() for stage in stages).backward()  # type: ignore[union-attr]
    assert all(head.weight.grad is not None for head in captioner.heads)  # type: ignore[union-attr]
