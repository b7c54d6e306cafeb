"""`captrial.explain`: our captioners, captioners that implement `Explainable`, and black boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import captrial
from attribution.small_captioners import BlackBox, Patches, bright_corner
from captrial.attribution.explain import _alternatives, _known, explain
from captrial.attribution.explanation import END, Alternative
from captrial.attribution.methods.registry import explain_methods
from captrial.captioners.protocols import Explainable, TokenLogits, VisualInput, WordSpan
from captrial.captioners.trained import TrainedCaptioner
from captrial.errors import InputError

IMAGE_TOKENS = {"rollout", "attention_x_gradient"}  # methods of one caption that follow a VLM's decoder


@pytest.mark.parametrize("method", [name for name in explain_methods() if name not in IMAGE_TOKENS])
def test_every_method_explains_the_models_own_caption(
    captioner: TrainedCaptioner, image: Image.Image, method: str
) -> None:
    found = captrial.explain(captioner, image, method=method, regions="none")
    if method != "occlusion":
        assert found.caption == captioner.caption([image])[0]
        assert found.log_probabilities is not None
        assert (found.log_probabilities < 0).all()
        assert len(found.alternatives) == len(found.words)
        for word, likely, others in zip(found.words, found.log_probabilities, found.alternatives, strict=True):
            assert 0 < sum(one.probability for one in others) < 1.0001
            assert [one.probability for one in others] == sorted((one.probability for one in others), reverse=True)
            same = [one.probability for one in others if one.word == word]
            assert same in ([], [pytest.approx(np.exp(likely), rel=1e-4)])
    assert found.attribution.grid is not None
    assert np.isfinite(found.to_numpy()).all()
    assert (found.to_numpy() >= 0).all()


@pytest.mark.parametrize("method", IMAGE_TOKENS)
def test_methods_of_image_tokens_are_refused_without_them(
    captioner: TrainedCaptioner, image: Image.Image, method: str
) -> None:
    with pytest.raises(InputError, match=f"{method} of one caption follows the image tokens of a VLM's decoder"):
        explain(captioner, image, method, caption="a dog")
    with pytest.raises(InputError, match="layer or head of attention can be chosen for VLMs only"):
        explain(captioner, image, "attention", caption="a dog", layer=1)


def test_pixels_through_the_backbone(captioner: TrainedCaptioner, image: Image.Image) -> None:
    over = explain(captioner, image, caption="a red dog", over="pixels").attribution
    assert over.grid == (24, 24)
    assert over.maps().shape == (3, 24, 24)
    assert over.error is not None
    assert over.error < 0.01
    features = explain(captioner, image, caption="a red dog").attribution
    assert features.grid == (3, 3)


def test_a_cropped_image_is_explained_where_the_crop_was(captioner: TrainedCaptioner, image: Image.Image) -> None:
    cropped = TrainedCaptioner(captioner.checkpoint, Patches("crop"))
    found = explain(cropped, image, "saliency", caption="a dog").attribution
    left, top, right, bottom = found.window
    assert (right - left) * 60 == pytest.approx((bottom - top) * 40)  # a square
    assert right - left < bottom - top < 1
    assert found.boxes.min(0)[:2] == pytest.approx([left, top])
    assert found.boxes.max(0)[2:] == pytest.approx([right, bottom])


def test_any_caption_and_a_contrast(captioner: TrainedCaptioner, image: Image.Image) -> None:
    plain = explain(captioner, image, caption="A man, a zeppelin.")
    assert plain.words == ("a", "man", "a", "zeppelin")  # unknown words keep their name
    lead = explain(captioner, image, caption="a man runs", contrast={"man": "dog"})
    assert lead.contrast == {"man": "dog"}
    single = explain(captioner, image, caption="a man runs")
    assert not np.allclose(lead.to_numpy()[1], single.to_numpy()[1])
    assert np.allclose(lead.to_numpy()[0], single.to_numpy()[0], rtol=0.05)
    with pytest.raises(InputError, match="'zeppelin' is not in the vocabulary"):
        explain(captioner, image, caption="a man runs", contrast={"man": "zeppelin"})
    with pytest.raises(InputError, match="'horse' is not a word of: a man runs"):
        explain(captioner, image, caption="a man runs", contrast={"horse": "dog"})
    with pytest.raises(InputError, match="nothing can be explained over 'features'; there are: elements, pixels"):
        explain(captioner, image, over="features")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no word 9 to contrast"):
        explain(captioner, image, caption="a man runs", contrast={9: "dog"})
    for method in ("attention", "occlusion"):
        with pytest.raises(InputError, match=f"{method} does not use scores, so it has no contrast"):
            explain(captioner, image, method, caption="a man runs", contrast={"man": "dog"})


def test_a_black_box_has_no_gradients() -> None:
    with pytest.raises(InputError, match=r"BlackBox gives captions but no gradients; use method='occlusion'"):
        explain(BlackBox(), bright_corner())
    with pytest.raises(InputError, match="no attribution method 'magic'"):
        explain(BlackBox(), bright_corner(), "magic")
    with pytest.raises(InputError, match="unexpected keyword argument 'stepz'"):
        explain(BlackBox(), bright_corner(), stepz=3)


class SubWords(nn.Module):
    """A captioner of another library: pixels in, pieces of words out (`run` + `ning`), no attention."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.eye, self.embed, self.head = nn.Linear(3 * 16, 8), nn.Embedding(10, 8), nn.Linear(8, 10)

    def visual_input(self, image: Image.Image) -> VisualInput:
        return VisualInput(torch.from_numpy(np.asarray(image.resize((4, 4))).copy()).permute(2, 0, 1) / 255.0)

    def encode(self, inputs: Tensor) -> Tensor:
        return torch.nn.functional.gelu(self.eye(inputs.flatten(1)))

    def decode(self, memory: Tensor, tokens: Tensor) -> TokenLogits:
        past = self.embed(tokens).cumsum(1) - self.embed(tokens)  # (n, t, d)
        return TokenLogits(self.head(torch.tanh(past.unsqueeze(0) + memory[:, None, None])))

    def generate(self, image: Image.Image) -> list[int]:
        return [1, 2, 3]

    def tokenize(self, caption: str) -> list[int]:
        return [{"dog": 1, "run": 2, "ning": 3, "cat": 4}[word] for word in caption.split()]

    def word_spans(self, tokens: Sequence[int]) -> list[WordSpan]:
        return [WordSpan("dog", 0, 1), WordSpan("running", 1, 3)]


def test_any_captioner_that_implements_the_protocol(image: Image.Image) -> None:
    model = SubWords()
    assert isinstance(model, Explainable)
    found = explain(model, image)
    assert found.words == ("dog", "running")
    assert found.attribution.grid == (4, 4)
    assert found.attribution.error is not None
    assert found.attribution.error < 0.01
    assert explain(model, image, contrast={"dog": "cat"}).to_numpy().shape == (2, 16)
    with pytest.raises(InputError, match="reports no attention"):
        explain(model, image, "attention")


class _ByteLevel:
    """A byte-level tokeniser in small: a word in the middle of a text is another token than one at its beginning."""

    known = ("a", "dog", "cat", " dog", " cat", " a")

    def tokenize(self, caption: str) -> list[int]:
        first, *rest = caption.split(" ")
        return [self.known.index(first), *(self.known.index(f" {word}") for word in rest)]


def test_contrasted_words_keep_the_space_before_them() -> None:
    spans = [WordSpan("a", 0, 1), WordSpan("dog", 1, 2)]
    assert _known(_ByteLevel(), "cat", spans[:1]) == [4]  # type: ignore[arg-type]
    assert _known(_ByteLevel(), "cat", []) == [2]  # type: ignore[arg-type]


def test_alternatives_that_read_the_same_are_one() -> None:
    """Byte-level tokenisers have "a" with and without the space before it."""

    class Spaced:
        def tokenize(self, caption: str) -> list[int]:
            return []

        def word_spans(self, tokens: Sequence[int]) -> list[WordSpan]:
            return [WordSpan(text, 0, 1) for text in [["a", "dog", "a", ""][tokens[0]]] if text]

    found = _alternatives(Spaced(), [(0, 0.5), (1, 0.25), (2, 0.125), (3, 0.0625)])
    assert found == (Alternative("a", 0.625), Alternative("dog", 0.25), Alternative(END, 0.0625))
