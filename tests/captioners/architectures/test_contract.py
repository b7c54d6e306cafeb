"""What every captioner must keep, for all twelve and their variants. A new architecture is tested by registering it."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from captioners import tiny_captioners
from captioners.tiny_captioners import WORDS, tiny
from captrial.captioners import ARCHITECTURES, Captioner, Checkpoint, create
from captrial.captioners.architectures.layers import Dropout
from captrial.captioners.architectures.sgae import SentenceGraphs, Sgae
from captrial.captioners.architectures.stack_cap import StackCap
from captrial.decoding import BOS, EOS, PAD, BeamSettings, beam_search, greedy
from captrial.decoding.protocol import pick_hypotheses
from captrial.errors import DamagedError, InputError
from captrial.language.vocabulary import Vocabulary
from captrial.vision.features.visual_features import Features, stack_features

ELEMENTS, IMAGES = 7, 3
VARIANTS = [
    *[(name, {}) for name in ARCHITECTURES],
    ("transformer-pre-norm", {"encoder_layers": 2, "decoder_layers": 2}),
    ("transformer", {"standardise": True}),
    ("ort", {"geometry": False}),
    ("ort", {"legacy_plus_one": True}),
    ("ort", {"legacy_extra_skip": True}),
    ("ort", {"legacy_norm": True}),
    ("aoa", {"legacy_norm": True}),
    ("sgae", {"relations": False}),
    ("stack_cap", {"prior_attention": False}),
    ("stack_cap", {"context_in_query": True}),
    ("m2", {"divide_mesh": False}),
    ("m2", {"legacy_init": True}),
]


def make_features(images: int = IMAGES, elements: int = ELEMENTS, seed: int = 1, words: int = WORDS) -> Features:
    return tiny_captioners.make_features(images, elements, seed, words)


def make_tokens(captions: int = 2, length: int = 6) -> Tensor:
    tokens = torch.randint(4, WORDS, (IMAGES, captions, length), generator=torch.Generator().manual_seed(2))
    tokens[:, :, 0] = BOS
    return tokens


@pytest.fixture(params=VARIANTS, ids=lambda variant: "-".join([variant[0], *map(str, variant[1])]))
def variant(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    chosen: tuple[str, dict[str, Any]] = request.param
    return chosen


@pytest.fixture
def captioner(variant: tuple[str, dict[str, Any]]) -> Captioner:
    name, options = variant
    return tiny(name, **options)


def test_shapes_and_attention(captioner: Captioner) -> None:
    logits, attention = captioner(make_features(), make_tokens())
    assert logits.shape == (IMAGES, 2, 6, WORDS)
    assert attention.shape == (IMAGES, 2, 6, ELEMENTS)
    assert torch.allclose(attention.sum(-1), torch.ones_like(attention[..., 0]))
    assert (attention >= 0).all()
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_standardised_elements_are_what_every_architecture_reads(name: str) -> None:
    """It computes what the plain captioner of the same weights computes of features that were standardised before."""
    plain, own, tokens = tiny(name), tiny(name, standardise=True), make_tokens()
    features, padded = make_features(), make_features(2, 3)
    padded = dataclasses.replace(padded, elements=padded.elements + 100, mask=torch.zeros_like(padded.mask))
    features = features.with_elements(3 * features.elements + torch.arange(features.elements.shape[-1]))
    own.learn_standard([features, padded])
    rows = features.elements.flatten(0, 1)
    mean, spread = rows.mean(0), rows.std(0, correction=0)
    expected = plain(features.with_elements((features.elements - mean) / spread), tokens)
    found = own(features, tokens)
    assert torch.allclose(found.logits, expected.logits, atol=1e-9)
    assert not torch.allclose(plain(features, tokens).logits, expected.logits, atol=1e-3)
    assert own.count_parameters() == plain.count_parameters()


def test_step_by_step_equals_teacher_forcing(captioner: Captioner) -> None:
    features, tokens = make_features(), make_tokens(3)
    forced = captioner(features, tokens)
    memory = captioner.encode(features)
    state = pick_hypotheses(captioner.start(memory), torch.zeros(IMAGES, 3, dtype=torch.long))
    for position in range(tokens.shape[-1]):
        step = captioner.step(tokens[:, :, position], state, memory)
        state = step.state
        assert torch.allclose(step.logits, forced.logits[:, :, position], atol=1e-10)
        assert torch.allclose(step.attention, forced.attention[:, :, position], atol=1e-10)


def test_padding_changes_nothing(captioner: Captioner) -> None:
    features, tokens = make_features(), make_tokens()
    longer = make_features(1, ELEMENTS + 4, seed=5)
    padded = stack_features([features, longer]).select(torch.arange(IMAGES))
    junk = padded.elements.masked_fill(~padded.mask.unsqueeze(-1), 1e3)
    plain, with_padding = captioner(features, tokens), captioner(padded.with_elements(junk), tokens)
    assert torch.allclose(plain.logits, with_padding.logits, atol=1e-9)
    assert torch.allclose(plain.attention, with_padding.attention[..., :ELEMENTS], atol=1e-9)
    assert (with_padding.attention[..., ELEMENTS:].abs() < 1e-12).all()


def test_images_and_captions_do_not_mix(captioner: Captioner) -> None:
    features, tokens = make_features(), make_tokens(3)
    together = captioner(features, tokens).logits
    for image in range(IMAGES):
        row = torch.tensor([image])
        for caption in range(3):
            alone = captioner(features.select(row), tokens[row, caption : caption + 1]).logits
            assert torch.allclose(alone[0, 0], together[image, caption], atol=1e-9)


def test_future_words_are_not_seen(captioner: Captioner) -> None:
    features, tokens = make_features(), make_tokens()
    changed = tokens.clone()
    changed[..., 4:] = PAD
    before, after = captioner(features, tokens).logits, captioner(features, changed).logits
    assert torch.allclose(before[:, :, :4], after[:, :, :4], atol=1e-10)


def test_the_image_matters(captioner: Captioner) -> None:
    features, tokens = make_features(), make_tokens()
    other = features.with_elements(features.elements.flip(0))
    assert not torch.allclose(captioner(features, tokens).logits, captioner(other, tokens).logits)


def test_beam_of_one_is_greedy(captioner: Captioner) -> None:
    memory = captioner.encode(make_features(8))
    by_beam, by_hand = (
        beam_search(captioner, memory, BeamSettings(beam=1, max_words=9)),
        greedy(captioner, memory, max_words=9),
    )
    assert torch.equal(by_beam.tokens, by_hand.tokens)


def test_full_width_beam_is_exhaustive_search(variant: tuple[str, dict[str, Any]]) -> None:
    """With few words every caption can be written down; a beam that holds them all finds them with their scores."""
    name, options = variant
    words, length = 8, 3
    captioner, features = tiny(name, words=words, **options), make_features(words=words)
    spoken = range(EOS + 1, words)
    said = [(*start, EOS) for n in range(length) for start in itertools.product(spoken, repeat=n)]
    said += itertools.product(spoken, repeat=length)
    captions = [(*caption, *[PAD] * (length - len(caption))) for caption in said]
    log_probs = caption_log_probs(captioner, features, torch.tensor(captions).expand(IMAGES, -1, -1))
    memory, everything = captioner.encode(features), len(captions)
    found = beam_search(captioner, memory, BeamSettings(beam=everything, keep=everything, max_words=length))
    for image in range(IMAGES):
        by_beam = map(tuple, found.tokens[image].tolist())
        expected = dict(zip(captions, log_probs[image].tolist(), strict=True))
        assert dict(zip(by_beam, found.scores[image].tolist(), strict=True)) == pytest.approx(expected, abs=1e-5)
    assert (found.scores[:, :-1] >= found.scores[:, 1:]).all()


def caption_log_probs(captioner: Captioner, features: Features, captions: Tensor) -> Tensor:
    """Of whole captions (b, n, t), by teacher forcing: (b, n)."""
    tokens = torch.cat([torch.full_like(captions[..., :1], BOS), captions[..., :-1]], -1)
    log_probs = captioner(features, tokens).logits.log_softmax(-1).gather(-1, captions.unsqueeze(-1)).squeeze(-1)
    return (log_probs * (captions != PAD)).sum(-1)


def test_beam_scores_are_the_model_s(captioner: Captioner) -> None:
    """The log-probability of a decoded caption is what teacher forcing gives the same words."""
    features = make_features()
    found = beam_search(captioner, captioner.encode(features), BeamSettings(beam=4, keep=4, max_words=7))
    assert torch.allclose(caption_log_probs(captioner, features, found.tokens), found.scores.double(), atol=1e-5)
    assert (found.scores[:, :-1] >= found.scores[:, 1:]).all()


def test_every_parameter_learns(captioner: Captioner) -> None:
    captioner.train()
    forced = captioner(make_features(), make_tokens())
    forced.logits.log_softmax(-1)[..., EOS].sum().backward()
    idle = [name for name, parameter in captioner.named_parameters() if parameter.grad is None]
    assert all(name.startswith(learns_elsewhere(captioner)) for name in idle), idle


def learns_elsewhere(captioner: Captioner) -> tuple[str, ...]:
    """How the names begin of the parameters that only other stages of training use."""
    if isinstance(captioner, StackCap):
        return tuple(f"heads.{stage}." for stage in range(captioner.config.stages - 1))
    if isinstance(captioner, Sgae):
        graphs = () if captioner.config.relations else ("picture_graph.", "embed_label.")
        return ("sentence_", *graphs)
    return ()


FLAGS = [
    ("ort", "legacy_plus_one"),
    ("ort", "legacy_extra_skip"),
    ("ort", "legacy_norm"),
    ("aoa", "legacy_norm"),
    ("stack_cap", "context_in_query"),
]


@pytest.mark.parametrize(("name", "flag"), FLAGS)
def test_a_flag_changes_what_weights_mean_not_the_weights(name: str, flag: str) -> None:
    plain, other = tiny(name), tiny(name, **{flag: True})
    other.load_state_dict(plain.state_dict())
    features, tokens = make_features(), make_tokens()
    assert not torch.allclose(plain(features, tokens).logits, other(features, tokens).logits)


def test_m2_legacy_mask_attends_to_padding() -> None:
    """Padding counts as elements: what an image is stacked with changes what is said of it."""
    captioner, tokens = tiny("m2", legacy_mask=True), make_tokens()
    features, longer = make_features(), make_features(1, ELEMENTS + 4, seed=5)
    padded = stack_features([features, longer]).select(torch.arange(IMAGES))
    found = captioner(padded, tokens)
    assert not torch.allclose(captioner(features, tokens).logits, found.logits)
    everything = dataclasses.replace(padded, mask=torch.ones_like(padded.mask))
    assert torch.equal(tiny("m2")(everything, tokens).logits, found.logits)
    assert (found.attention[..., ELEMENTS:] > 0).all()


def test_checkpoint_round_trip(captioner: Captioner, tmp_path: Path) -> None:
    vocabulary = Vocabulary(tuple(f"w{index}" for index in range(WORDS - 4)))
    captioner = captioner.float()
    Checkpoint(captioner, vocabulary, {"backbone": "none"}, {"by": "test"}).save_pretrained(tmp_path / "run")
    again = Checkpoint.from_pretrained(tmp_path / "run")
    assert again.vocabulary == vocabulary
    assert again.vision == {"backbone": "none"}
    features, tokens = make_features(), make_tokens()
    features = dataclasses.replace(features.with_elements(features.elements.float()), boxes=features.boxes.float())  # type: ignore[union-attr]
    assert torch.equal(captioner(features, tokens).logits, again.captioner(features, tokens).logits)


def test_same_seed_same_model() -> None:
    for name in ARCHITECTURES:
        a, b = tiny(name, 3).state_dict(), tiny(name, 3).state_dict()
        assert all(torch.equal(a[key], b[key]) for key in a)


def test_missing_parts_are_errors() -> None:
    features = make_features()
    bare = Features(features.elements, features.mask)
    for name, word in (("ort", "boxes"), ("sgae", "relations")):
        with pytest.raises(InputError, match=word):
            tiny(name).encode(bare)
    with pytest.raises(InputError, match="no option 'depth'"):
        create("m2", words=9, features=9, depth=3)
    with pytest.raises(InputError, match="no preset"):
        create("m3", words=9, features=9)
    with pytest.raises(InputError, match="width 24 is not a multiple of 5 heads"):
        tiny("aoa", heads=5)
    with pytest.raises(InputError, match="cannot be built with these sizes: dropout"):
        tiny("att2in", dropout=2.0)


def test_weights_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    vocabulary = Vocabulary(tuple(f"w{index}" for index in range(WORDS - 4)))
    for name in ("att2in", "top_down"):
        Checkpoint(tiny(name), vocabulary).save_pretrained(tmp_path / name)
    (tmp_path / "top_down" / "model.safetensors").replace(tmp_path / "att2in" / "model.safetensors")
    with pytest.raises(DamagedError, match=r"model\.safetensors: has \d+ bytes instead of"):
        Checkpoint.from_pretrained(tmp_path / "att2in")
    (tmp_path / "att2in" / "checksums.json").unlink()
    with pytest.raises(InputError, match=r"model.safetensors does not fit the sizes in config.json \("):
        Checkpoint.from_pretrained(tmp_path / "att2in")


def test_sgae_decodes_from_sentence_graphs() -> None:
    captioner = tiny("sgae")
    assert isinstance(captioner, Sgae)
    features = make_features()
    assert features.relations is not None
    assert features.attributes is not None
    objects = torch.randint(4, WORDS, (IMAGES, ELEMENTS))
    graphs = SentenceGraphs(objects, features.relations, features.attributes)
    tokens = make_tokens()
    for use_dictionary in (False, True):
        memory = captioner.encode_sentences(graphs, use_dictionary)
        logits, attention = captioner.teacher_force(tokens, memory)
        assert logits.shape == (IMAGES, 2, 6, WORDS)
        assert torch.allclose(attention.sum(-1), torch.ones_like(attention[..., 0]))


@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_is_that_of_torch(p: float, dtype: torch.dtype) -> None:
    """The same share of elements is dropped, each independently; what is kept is scaled so that the mean stays."""
    torch.manual_seed(0)
    ones = torch.ones(400, 1001, dtype=dtype, requires_grad=True)
    dropped = Dropout(p)(ones)
    kept = dropped != 0
    scale = torch.tensor(1 / (1 - p), dtype=dtype)
    assert torch.allclose(dropped[kept], scale, rtol=2e-3 if dtype == torch.float32 else 2e-2)
    n = kept.numel()
    noise = (p * (1 - p) / n) ** 0.5
    assert abs(float(kept.float().mean()) - (1 - p)) < 4 * noise
    neighbours = (kept[:, 1:] == kept[:, :-1]).float().mean()  # also of the four elements of one random number
    assert abs(float(neighbours) - (p**2 + (1 - p) ** 2)) < 6 * noise
    dropped.float().sum().backward()
    assert ones.grad is not None
    assert torch.equal(ones.grad != 0, kept)


@pytest.mark.parametrize("p", [0.0, 1.0, 1e-7])
def test_dropout_of_nothing_and_of_everything(p: float) -> None:
    x = torch.randn(5, 7)
    assert torch.allclose(Dropout(p)(x), torch.zeros_like(x) if p == 1 else x)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert Dropout(0.5)(x[:0]).shape == (0, 7)
