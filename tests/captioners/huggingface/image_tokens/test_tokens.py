"""VLMs as functions of their image tokens: the model's own logits, captum's gradients, every method, the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from typer.testing import CliRunner

from captioners.huggingface.tiny_checkpoints import Lesson
from captioners.huggingface.tiny_vlms import COUNT, VLMS, forced_inputs
from captrial.attribution.explain import explain
from captrial.attribution.methods.integrated_gradients import integrated_gradients
from captrial.attribution.methods.registry import AttributionSettings, explain_methods
from captrial.attribution.methods.saliency import gradients_times_input, input_gradients
from captrial.attribution.subject import from_image_tokens, word_targets
from captrial.captioners.huggingface import HfOptions, load_transformers
from captrial.captioners.huggingface.image_tokens.tokens import ImageTokens
from captrial.cli.app import app
from captrial.errors import InputError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # PaliGemma's processor
]
Vlm = Callable[..., Path]
QUICK = ("qwen2_5_vl", "smolvlm", "llava", "blip-2")  # other families only in `make test-full`
FAMILIES = [*QUICK, *(pytest.param(name, marks=pytest.mark.full) for name in VLMS if name not in QUICK)]
ONE_TENSOR = ("llava", "blip-2", "instructblip", "gemma3", "paligemma", "florence2")
ENCODED = ("instructblip", "florence2")  # an encoder reads their prompt


def load(vlm: Vlm, name: str, trained: bool = False, **options: Any) -> Any:
    return load_transformers(str(vlm(name, trained)), HfOptions(**options))


def whole_model(captioner: Any, image: Any, tokens: list[int]) -> torch.Tensor:
    """Logits (t, vocabulary) of the transformers model on pixels, prompt and caption."""
    inputs = forced_inputs(captioner, captioner.prepare([image]), torch.tensor([tokens]))
    with torch.no_grad():
        logits: torch.Tensor = captioner.model(**inputs, use_cache=False).logits
    return logits[0, -len(tokens) :]


@pytest.mark.parametrize("name", VLMS)
def test_forced_words_have_the_logits_of_the_whole_model(vlm: Vlm, lesson: Lesson, name: str) -> None:
    """For several sizes, several captions and rows at once, and with attention recorded."""
    captioner = load(vlm, name)
    for size in ((64, 64), (150, 60)):
        image = lesson.images[0].resize(size)
        seen = captioner.image_tokens(image)
        texts = [captioner.tokenize(lesson.captions[number])[:6] for number in (0, 1)]
        rows = torch.stack([seen.embeddings, torch.zeros_like(seen.embeddings), seen.embeddings])
        logits = seen.decode(rows, torch.tensor(texts)).logits
        for number, text in enumerate(texts):
            wanted = whole_model(captioner, image, text)
            near = 1e-4 * float(wanted.abs().max())
            assert torch.allclose(logits[0, number], wanted, atol=near)
            assert torch.allclose(logits[2, number], wanted, atol=near)
            assert not torch.allclose(logits[1, number], wanted, atol=near)
            ahead = seen.decode(rows[:1], torch.tensor([[*text[:3], *text[:1] * (len(text) - 3)]])).logits
            assert torch.allclose(ahead[0, 0, :3], wanted[:3], atol=near)  # later words do not matter
            eager, layers = seen.attend(torch.tensor(text), lambda layer: layer)
            assert torch.allclose(eager[0, 0], wanted, atol=near)
            assert len(layers) == (6 if name in ENCODED else 2)  # encoder, decoder, and from one to the other
            assert torch.allclose(layers[0].weights.sum(-1), torch.ones(()), atol=1e-5)
    assert captioner.model.get_decoder().config._attn_implementation == "sdpa"  # as before


@pytest.mark.parametrize("name", FAMILIES)
def test_a_trained_checkpoint_captions_and_is_explained(vlm: Vlm, lesson: Lesson, name: str) -> None:
    """Its own captions, one by one and together, and the words of one of them by integrated gradients."""
    captioner = load(vlm, name, trained=True, max_tokens=30)
    assert captioner.caption(lesson.images[:COUNT]) == lesson.captions[:COUNT]
    assert captioner.caption(lesson.images[1:2]) == lesson.captions[1:2]
    found = explain(captioner, lesson.images[0])
    assert found.caption == lesson.captions[0]
    assert found.attribution.error is not None
    assert found.attribution.error < 0.01
    assert found.language_shares is not None


@pytest.mark.parametrize("name", VLMS)
def test_pixels_are_explained_where_an_image_is_one_tensor(vlm: Vlm, lesson: Lesson, name: str) -> None:
    captioner = load(vlm, name)
    if name not in ONE_TENSOR:
        with pytest.raises(InputError, match="cuts images into pieces that depend on their size"):
            explain(captioner, lesson.images[2].resize((150, 60)), "saliency", caption="a red dog", over="pixels")
        return
    found = explain(captioner, lesson.images[2], "saliency", caption="a red dog", over="pixels")
    assert found.attribution.grid == (64, 64)
    assert (found.to_numpy().sum(1) > 0).all()
    tokens = captioner.tokenize("a red dog")
    pixels = captioner.visual_input(lesson.images[2]).inputs[None]
    logits = captioner.decode(captioner.encode(pixels), torch.tensor([tokens])).logits[0, 0]
    wanted = whole_model(captioner, lesson.images[2], tokens)
    assert torch.allclose(logits, wanted, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_are_captums(vlm: Vlm, lesson: Lesson, name: str) -> None:
    """Saliency, input x gradient and integrated gradients, one word after the other with captum, within 1e-6."""
    captum = pytest.importorskip("captum.attr")
    captioner = load(vlm, name, dtype="float64")
    subject = from_image_tokens(captioner, lesson.images[1])
    tokens = captioner.tokenize(lesson.captions[1])
    targets = word_targets(tokens, captioner.word_spans(tokens))
    settings = AttributionSettings(rule="gauss_legendre", steps=8)
    ours = [
        input_gradients(subject, targets),
        gradients_times_input(subject, targets),
        integrated_gradients(subject, targets, settings).attribution,
    ]

    def score(elements: torch.Tensor, word: int) -> torch.Tensor:
        return targets.scores(subject.decode(elements, targets.tokens).logits)[:, word]

    inputs = subject.inputs[None].clone().requires_grad_()
    for word in (0, len(targets) - 1):
        theirs = [
            captum.Saliency(score).attribute(inputs, additional_forward_args=(word,), abs=False),
            captum.InputXGradient(score).attribute(inputs, additional_forward_args=(word,)),
            captum.IntegratedGradients(score).attribute(
                inputs, additional_forward_args=(word,), n_steps=8, method="gausslegendre"
            ),
        ]
        for own, reference in zip(ours, (found.detach() for found in theirs), strict=True):
            largest = float(reference.abs().max())
            assert largest > 0
            assert float((own[word] - reference[0]).abs().max()) < 1e-6 * min(1.0, largest)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("method", explain_methods())
def test_every_method_explains_every_family(vlm: Vlm, lesson: Lesson, name: str, method: str) -> None:
    captioner = load(vlm, name, max_tokens=6)
    found = explain(captioner, lesson.images[2], method, caption=lesson.captions[2])
    assert found.caption == lesson.captions[2]
    assert np.isfinite(found.to_numpy()).all()
    if method != "occlusion":  # which may find that no covered cell changes the caption
        assert (found.to_numpy().sum(1) > 0).all()
        assert len(found.attribution.boxes) == len(captioner.image_tokens(lesson.images[2]).boxes)
    if method == "integrated_gradients":
        assert found.attribution.error is not None
        assert found.attribution.error < 0.01


def test_layers_and_heads_of_attention(vlm: Vlm, lesson: Lesson) -> None:
    """The mean is that of all layers and heads; rollout and relevance follow their equations."""
    captioner = load(vlm, "qwen2_5_vl")
    image, caption = lesson.images[0].resize((120, 90)), "a red dog"
    tokens = captioner.tokenize(caption)
    seen: ImageTokens = captioner.image_tokens(image)
    _, found = seen.attend(torch.tensor(tokens), lambda layer: layer)
    layers = [layer.weights[0] for layer in found]
    spans, p = captioner.word_spans(tokens), len(seen.prompt)

    def words(rows: torch.Tensor) -> np.ndarray:
        """(length, length) -> (w, k): the mean over a word's tokens, each read where it is predicted."""
        read = [rows[p - 1 + span.start : p - 1 + span.end].mean(0) for span in spans]
        return torch.stack(read)[:, seen.places].numpy()

    def attention(**options: int) -> np.ndarray:
        return explain(captioner, image, "attention", caption=caption, **options).to_numpy()

    assert attention(layer=2, head=3) == pytest.approx(words(layers[1][2]), abs=1e-6)
    assert attention(layer=-1) == pytest.approx(words(layers[1].mean(0)), abs=1e-6)
    assert attention() == pytest.approx(words(torch.stack(layers).mean((0, 1))), abs=1e-6)
    eye = torch.eye(len(layers[0][0]))
    rolled = (layers[1].mean(0) + eye) / 2 @ (layers[0].mean(0) + eye) / 2
    explained = explain(captioner, image, "rollout", caption=caption)
    assert explained.to_numpy() == pytest.approx(words(rolled), abs=1e-6)
    with pytest.raises(InputError, match="layer 3: this model has layers 1 to 2"):
        attention(layer=3)
    with pytest.raises(InputError, match="head 9: this model has heads 1 to 4"):
        attention(head=9)


def test_relevance_is_the_product_of_layers(vlm: Vlm, lesson: Lesson) -> None:
    """Chefer et al. 2021 with whole matrices: R = (I + A2)(I + A1), A = mean of (gradient x attention)+."""
    captioner = load(vlm, "smolvlm")
    tokens = captioner.tokenize("a red dog")
    seen = captioner.image_tokens(lesson.images[0])
    logits, found = seen.attend(torch.tensor(tokens), lambda layer: layer, gradients=True)
    layers = [layer.weights for layer in found]
    span = captioner.word_spans(tokens)[1]
    score = sum(logits[0, 0, place, tokens[place]] for place in range(span.start, span.end))
    relevance = torch.eye(layers[0].shape[-1])
    for weights, gradient in zip(layers, torch.autograd.grad(score, layers), strict=True):  # type: ignore[arg-type]
        relevance = relevance + (weights * gradient)[0].clamp(min=0).mean(0) @ relevance
    rows = relevance[seen.queries(len(tokens))[span.start : span.end]].mean(0)[seen.places]
    explained = explain(captioner, lesson.images[0], "attention_x_gradient", caption="a red dog").to_numpy()[1]
    assert explained == pytest.approx(rows.detach().numpy(), rel=1e-4)


def test_a_model_that_reads_more_than_its_tokens_is_refused(
    vlm: Vlm, lesson: Lesson, monkeypatch: pytest.MonkeyPatch
) -> None:
    captioner = load(vlm, "llava")
    own = ImageTokens.decode

    def other(self: ImageTokens, memory: torch.Tensor, tokens: torch.Tensor) -> Any:
        found = own(self, memory, tokens)
        return found._replace(logits=found.logits + 1)

    monkeypatch.setattr(ImageTokens, "decode", other)
    with pytest.raises(InputError, match="depend on more than its image tokens"):
        captioner.image_tokens(lesson.images[0])


@pytest.mark.parametrize("name", ["qwen2_5_vl", "smolvlm"])
def test_the_command_explains_and_grounds(vlm: Vlm, lesson: Lesson, tmp_path: Path, name: str) -> None:
    lesson.images[3].resize((160, 100)).save(tmp_path / "image.png")
    line = ["explain", tmp_path / "image.png", "--model", vlm(name), "--method", "attention", "--layer", "-1"]
    line += ["--caption", "a dog in a park", "--regions", "grid", "--out", tmp_path / "out", "--json"]
    done = CliRunner().invoke(app, list(map(str, line)))
    assert done.exit_code == 0, done.output
    found = orjson.loads(done.stdout)
    assert [word["word"] for word in found["words"]] == ["a", "dog", "in", "a", "park"]
    assert (tmp_path / "out" / "index.html").stat().st_size > 1000
