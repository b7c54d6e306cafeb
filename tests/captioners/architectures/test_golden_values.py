"""Golden values: parameter counts of the papers' sizes and equations worked out by hand."""

from __future__ import annotations

import pytest
import torch

from captrial.captioners import create
from captrial.captioners.architectures.disc import Disc, RetrievalCritic
from captrial.captioners.architectures.layers import LegacyNorm, MultiHeadAttention
from captrial.captioners.architectures.m2 import M2
from captrial.captioners.architectures.ort import Ort, SkippingAttention, compare_boxes, embed_geometry
from captrial.captioners.architectures.smart import Smart
from captrial.captioners.architectures.stack_cap import StackCap
from captrial.vision.features.visual_features import Features

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


def test_ort_extra_skip() -> None:
    """`W_o (context + x)` is what attention gives without the skip, plus `W_o x`; in the encoder alone."""
    captioner = create("ort-small", words=20, features=6, legacy_extra_skip=True).eval()
    assert isinstance(captioner, Ort)
    skips = {name for name, part in captioner.named_modules() if isinstance(part, SkippingAttention)}
    assert skips == {"encoder.0.attention", "encoder.1.attention"}
    skipping: SkippingAttention = captioner.encoder[0].attention  # type: ignore[assignment]
    plain = MultiHeadAttention(192, 6).eval()
    plain.load_state_dict(skipping.state_dict())
    x = torch.randn(2, 5, 192)
    (skipped, _), (context, _) = (attention(x, attention.project(x)) for attention in (skipping, plain))
    assert torch.allclose(skipped - context, torch.nn.functional.linear(x, plain.out.weight), atol=1e-5)


def test_legacy_norm() -> None:
    norm = LegacyNorm(4)
    torch.nn.init.constant_(norm.weight, 2.0)
    torch.nn.init.constant_(norm.bias, 0.5)
    # of 0, 0, 0, 2e-6: mean 0.5e-6 and unbiased deviation 1e-6, so that the 1e-6 added to it halves the result
    assert norm(torch.tensor([0.0, 0.0, 0.0, 2e-6])).tolist() == pytest.approx([0.0, 0.0, 0.0, 2.0], abs=1e-5)
    for name in ("ort-small", "aoa-small"):
        for legacy, kind in ((False, torch.nn.LayerNorm), (True, LegacyNorm)):
            captioner = create(name, words=20, features=6, legacy_norm=legacy)
            norms = [part for part in captioner.modules() if isinstance(part, torch.nn.LayerNorm)]
            assert norms
            assert {type(part) for part in norms} == {kind}


@pytest.mark.parametrize("context_in_query", [False, True])
def test_stack_cap_query(context_in_query: bool) -> None:
    """A fine stage asks with `h`, or with `h + a`, of the stage before."""
    captioner = create("stack_cap-small", words=20, features=6, context_in_query=context_in_query).eval()
    assert isinstance(captioner, StackCap)
    seen: dict[str, torch.Tensor] = {}
    coarse, fine = captioner.attention
    coarse.register_forward_hook(lambda _, inputs, found: seen.update(context=found[0]))
    fine.query.register_forward_hook(lambda _, inputs, found: seen.update(query=inputs[0]))  # type: ignore[union-attr, operator]
    memory = captioner.encode(Features(torch.randn(3, 5, 6), torch.ones(3, 5, dtype=torch.bool)))
    outputs, _, _ = captioner.recurrent_step(torch.ones(3, 1, dtype=torch.long), captioner.start(memory), memory)
    hidden = outputs.chunk(2, -1)[0]
    assert torch.equal(seen["query"], hidden + seen["context"] if context_in_query else hidden)


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
    table: torch.Tensor = captioner.positions  # type: ignore[assignment]
    bound = (6 / (55 + 512)) ** 0.5  # Xavier over the 55 rows of their table; ours has more
    assert 0.99 * bound < float(table.abs().max()) <= bound


def test_mesh_divisor_is_a_flag() -> None:
    for divide, divisor in ((True, 3**0.5), (False, 1.0)):
        captioner = create("m2", words=50, features=8, divide_mesh=divide)
        assert captioner.decoder[0].divisor == divisor  # type: ignore[index, union-attr]


def test_critic_hinges_on_the_hardest_negative() -> None:
    captioner = create("disc", words=20, features=6)
    assert isinstance(captioner, Disc)
    critic = RetrievalCritic(captioner.config)
    images = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    captions = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    # similarities [[1, 0, 0], [0, 1, 1], [.6, .8, .8]], margin 0.2; hardest caption + hardest image of each pair
    expected = [0.0 + 0.0, 0.2 + 0.0, 0.2 + 0.4]
    assert critic.loss(images, captions).tolist() == pytest.approx(expected, abs=1e-6)


def test_stack_cap_supervises_every_stage() -> None:
    captioner = create("stack_cap-small", words=20, features=6, stages=3)
    assert isinstance(captioner, StackCap)
    memory = captioner.encode(Features(torch.randn(3, 5, 6), torch.ones(3, 5, dtype=torch.bool)))
    stages = captioner.teacher_force_stages(torch.ones(3, 1, 4, dtype=torch.long), memory)
    assert len(stages) == 3
    sum(stage.logits.square().sum() for stage in stages).backward()  # type: ignore[union-attr]
    assert all(head.weight.grad is not None for head in captioner.heads)  # type: ignore[union-attr]
