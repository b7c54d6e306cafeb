"""`captrial.explain`: one call for our captioners, for any that keeps the protocol, and for black boxes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from typer.testing import CliRunner

import captrial
from captrial.attribution.explain import explain, explain_features
from captrial.attribution.explanation import Attribution, Explanation
from captrial.attribution.methods.occlusion import occlude
from captrial.attribution.methods.registry import attribute, explain_methods
from captrial.attribution.sanity_checks import (
    agreement,
    deletion_insertion,
    random_order,
    randomised,
)
from captrial.attribution.subject import from_features
from captrial.captioners import Checkpoint
from captrial.captioners.protocols import Explainable, TokenLogits, VisualInput, WordSpan
from captrial.captioners.trained import TrainedCaptioner
from captrial.cli.app import app
from captrial.errors import InputError
from captrial.language.vocabulary import Vocabulary
from captrial.vision.backbones.base import Backbone, grid_boxes
from captrial.vision.preprocess import Preprocess
from explain.small import SIZE, WORDS, make_features, subject_of, targets_of, tiny

KNOWN = ("a", "man", "dog", "cat", "runs", "on", "grass", "red", "the", "ball", "sits", "two")


class Patches(Backbone):
    """A small convolution, a ReLU6: 3 x 3 cells."""

    name, width = "patches", SIZE

    def __init__(self, mode: str = "stretch") -> None:
        super().__init__()
        torch.manual_seed(3)
        self.preprocess = Preprocess(24, mode, 32)  # type: ignore[arg-type]
        self.network = nn.Sequential(nn.Conv2d(3, SIZE, 8, 8), nn.ReLU6(inplace=True))
        self.requires_grad_(False).eval()

    def elements(self, pixels: Tensor) -> Tensor:
        cells: Tensor = self.network(pixels)
        return cells.flatten(2).transpose(1, 2)

    def cells(self) -> Tensor:
        return grid_boxes(3, 3)


@pytest.fixture
def captioner() -> TrainedCaptioner:
    vocabulary = Vocabulary((*KNOWN, *(f"word{number}" for number in range(WORDS - 4 - len(KNOWN)))))
    return TrainedCaptioner(Checkpoint(tiny("transformer").float(), vocabulary), Patches(), beam=2, max_words=6)


@pytest.fixture
def image() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8))


@pytest.mark.parametrize("method", explain_methods())
def test_every_method_explains_the_models_own_caption(
    captioner: TrainedCaptioner, image: Image.Image, method: str
) -> None:
    found = captrial.explain(captioner, image, method=method)
    if method != "occlusion":
        assert found.caption == captioner.caption([image])[0]
        assert found.log_probabilities is not None
        assert (found.log_probabilities < 0).all()
    assert found.attribution.grid is not None
    assert np.isfinite(found.to_numpy()).all()
    assert (found.to_numpy() >= 0).all()


def test_pixels_through_the_backbone(captioner: TrainedCaptioner, image: Image.Image) -> None:
    over = explain(captioner, image, words="a red dog", over="pixels").attribution
    assert over.grid == (24, 24)
    assert over.maps().shape == (3, 24, 24)
    assert over.error is not None
    assert over.error < 0.01
    features = explain(captioner, image, words="a red dog").attribution
    assert features.grid == (3, 3)


def test_a_cropped_image_is_explained_where_the_crop_was(captioner: TrainedCaptioner, image: Image.Image) -> None:
    cropped = TrainedCaptioner(captioner.checkpoint, Patches("crop"))
    found = explain(cropped, image, "saliency", words="a dog").attribution
    left, top, right, bottom = found.window
    assert (right - left) * 60 == pytest.approx((bottom - top) * 40)  # a square
    assert right - left < bottom - top < 1
    assert found.boxes.min(0)[:2] == pytest.approx([left, top])
    assert found.boxes.max(0)[2:] == pytest.approx([right, bottom])


def test_any_sentence_and_a_contrast(captioner: TrainedCaptioner, image: Image.Image) -> None:
    plain = explain(captioner, image, words="A man, a zeppelin.")
    assert plain.words == ("a", "man", "a", "zeppelin")  # unknown words keep their name
    lead = explain(captioner, image, words="a man runs", contrast={"man": "dog"})
    assert lead.contrast == {"man": "dog"}
    single = explain(captioner, image, words="a man runs")
    assert not np.allclose(lead.to_numpy()[1], single.to_numpy()[1])
    assert np.allclose(lead.to_numpy()[0], single.to_numpy()[0], rtol=0.05)
    with pytest.raises(InputError, match="'zeppelin' is not in the vocabulary"):
        explain(captioner, image, words="a man runs", contrast={"man": "zeppelin"})
    with pytest.raises(InputError, match="'horse' is not a word of: a man runs"):
        explain(captioner, image, words="a man runs", contrast={"horse": "dog"})
    with pytest.raises(InputError, match="nothing can be explained over 'elements'; there are: features, pixels"):
        explain(captioner, image, over="elements")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no word 9 to contrast"):
        explain(captioner, image, words="a man runs", contrast={9: "dog"})
    for method in ("attention", "occlusion"):
        with pytest.raises(InputError, match=f"{method} does not use scores, so it has no contrast"):
            explain(captioner, image, method, words="a man runs", contrast={"man": "dog"})


def test_features_alone_and_saving(captioner: TrainedCaptioner, image: Image.Image, tmp_path: Path) -> None:
    found = explain_features(captioner.checkpoint, captioner.backbone.extract([image]), words="two red cats")
    path = found.save(tmp_path / "numbers.npz")
    again = Explanation.load(path)
    assert again.words == ("two", "red", "cats")
    for name in ("scores", "boxes", "signed", "changes", "errors"):
        assert np.array_equal(getattr(again.attribution, name), getattr(found.attribution, name))
    assert (again.attribution.grid, again.attribution.steps) == (found.attribution.grid, found.attribution.steps)
    with pytest.raises(InputError, match="made from features"):
        found.save(tmp_path / "page.html")
    with pytest.raises(InputError, match=r"saved as \.html, \.npz or \.json"):
        found.save(tmp_path / "page.docx")
    np.save(tmp_path / "array.npy", np.zeros(3))
    for content in (b"no", b"", path.read_bytes()[:-40], (tmp_path / "array.npy").read_bytes()):
        (tmp_path / "broken.npz").write_bytes(content)
        with pytest.raises(InputError, match="not a saved explanation"):
            Explanation.load(tmp_path / "broken.npz")


def test_a_page_a_figure_and_json(captioner: TrainedCaptioner, image: Image.Image, tmp_path: Path) -> None:
    found = explain(captioner, image, "saliency", words="a dog")
    assert "<html" in found.save(tmp_path / "page.html").read_text()
    assert '"words":["a","dog"]' in found.save(tmp_path / "page.json").read_text()
    assert len(found.show().axes) >= 3
    assert found.top(0) == int(found.to_numpy()[0].argmax())


class BlackBox:
    """Says *dog* while the upper left of the image is bright, and nothing else."""

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        corners = [np.asarray(image.crop((0, 0, 10, 10))).mean() for image in images]
        return ["two dogs run" if corner > 200 else "a man runs" for corner in corners]


def bright_corner() -> Image.Image:
    image = Image.new("RGB", (50, 50))
    image.paste((255, 255, 255), (0, 0, 10, 10))
    return image


def test_regions_of_a_grid_from_the_command_line(
    captioner: TrainedCaptioner, image: Image.Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("captrial.captioners.loading.load_captioner", lambda *_: captioner)
    image.save(tmp_path / "image.png")
    arguments = ["explain", tmp_path / "image.png", "--words", "a dog", "--method", "saliency", "--regions", "grid"]
    done = CliRunner().invoke(app, [*map(str, arguments), "--out", str(tmp_path / "out"), "--json"])
    assert orjson.loads(done.stdout)["problem"] == "the image has no region with a label"
    written = (tmp_path / "out" / "index.html").read_text()
    (panel,) = orjson.loads(written.split('id="data">')[1].split("</script>")[0])
    assert len(panel["regions"]) == 49
    assert [len(word["top"]) for word in panel["words"]] == [3, 3]


def test_what_cannot_be_asked_is_said_before_anything_is_loaded(tmp_path: Path) -> None:
    for option, value, sentence in (
        ("--regions", "nonsense", "there are localiser, onnx:FILE, detr:MODEL, grid, none"),
        ("--method", "nonsense", "no attribution method 'nonsense'; there are: integrated_gradients"),
        ("--over", "nonsense", "nothing can be explained over 'nonsense'"),
        ("--contrast", "cat", "write WORD=OTHER"),
    ):
        with pytest.raises(InputError, match=sentence):
            CliRunner().invoke(app, ["explain", str(tmp_path / "no.png"), option, value], catch_exceptions=False)


def test_occlusion_needs_captions_only() -> None:
    found = occlude(BlackBox(), bright_corner())
    assert found.words == ("two", "dogs", "run")
    assert found.maps()[1].ravel().tolist() == [1] + [0] * 24  # the dog is in the first of 25 cells
    assert not found.scores[2].any()  # it runs in any case: the lemma is the same
    named = explain(BlackBox(), bright_corner(), "occlusion", words="a dog sleeps", boxes=np.array([[0, 0, 0.2, 0.2]]))
    assert named.to_numpy()[:, 0].tolist() == [0, 1, 0]  # what it never said cannot be lost
    blurred = occlude(BlackBox(), bright_corner(), covers=("mean", "grey", "blur"))
    assert blurred.scores[1, 0] == 1
    with pytest.raises(InputError, match="no cover 'paint'"):
        occlude(BlackBox(), bright_corner(), covers=("paint",))


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


def test_any_captioner_that_keeps_the_protocol(image: Image.Image) -> None:
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


def test_deletion_and_insertion_end_where_they_must() -> None:
    subject, targets = subject_of("transformer"), targets_of()
    found = attribute(subject, targets)
    curves = deletion_insertion(subject, targets, found.scores, points=8, rows=5)
    ends = torch.stack([torch.zeros_like(subject.inputs), subject.inputs])
    logits = subject.forward(ends, targets.tokens).logits[:, 0].softmax(-1)
    blank, whole = logits[:, torch.arange(6), targets.tokens[0]].detach().numpy()
    assert curves.deletion[:, 0] == pytest.approx(whole)
    assert curves.deletion[:, -1] == pytest.approx(blank)
    assert curves.insertion[:, 0] == pytest.approx(blank)
    assert curves.insertion[:, -1] == pytest.approx(whole)
    one = subject.inputs.clone()
    one[found.scores[2].argmax()] = 0
    left = subject.forward(one.unsqueeze(0), targets.tokens).logits[0, 0, 2].softmax(-1)[targets.tokens[0, 2]].detach()
    assert curves.deletion[2, 1] == pytest.approx(left.item())  # the highest score goes first
    deletion, insertion = curves.areas()
    assert deletion.shape == insertion.shape == (6,)
    assert random_order(found).shape == found.scores.shape


def test_random_weights_change_the_map_and_not_the_model() -> None:
    captioner = tiny("transformer")
    before = {name: tensor.clone() for name, tensor in captioner.state_dict().items()}
    found = attribute(from_features(captioner, make_features()), targets_of())
    twin = attribute(from_features(randomised(captioner), make_features()), targets_of())  # type: ignore[arg-type]
    assert agreement(found, found) == pytest.approx(np.ones(6))
    assert agreement(found, twin).mean() < 0.7
    assert all(torch.equal(before[name], tensor) for name, tensor in captioner.state_dict().items())
    flat = Attribution(("a",), np.zeros((1, 3)), np.zeros((3, 4)), "none")
    assert agreement(flat, flat).tolist() == [0.0]


def test_an_attribution_must_fit_its_boxes() -> None:
    with pytest.raises(InputError, match=r"scores are \(1, 2\) for 1 words and 3 boxes"):
        Attribution(("a",), np.zeros((1, 2)), np.zeros((3, 4)), "none")
    with pytest.raises(InputError, match="a grid of 2 x 2 cells has not 3 boxes"):
        Attribution(("a",), np.zeros((1, 3)), np.zeros((3, 4)), "none", grid=(2, 2))
    found = Attribution(("a", "b"), np.ones((2, 3)), np.zeros((3, 4)), "none", errors=np.array([0.1, 0.2]))
    assert found.error == 0.2
    assert len(found.select(slice(0, 1))) == 1
    with pytest.raises(InputError, match="not of a grid"):
        found.maps()
