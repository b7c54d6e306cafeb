"""A captioner trained on real images' features, used through the command line and in a competition."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

from captrial.captioners import create
from captrial.captioners.batch_captioning import caption_to_file
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.loading import load_captioner
from captrial.captioners.trained import TrainedCaptioner, generate, usual_constraints
from captrial.cli.app import app
from captrial.decoding import greedy
from captrial.errors import InputError, MismatchError
from captrial.language.vocabulary import Vocabulary
from captrial.records import ImageRef, Sample
from captrial.toyworld import ToyWorld
from captrial.training.run import TrainingData, train
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.backbones.vgg import VGG19, VGG19Convolutions
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.features.visual_features import Features
from captrial.vision.registry import load_backbone
from decoding.bigram_model import Bigrams

IMAGES = 6
VOCABULARY = Vocabulary(("a", "dog", "runs", "on", "grass", "fast"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toy images, and two captioners that have learnt to say one sentence about each."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "images").mkdir()
    backbone = EfficientNetLite(0, 128)
    samples = []
    with FeatureWriter(folder / "features", backbone.describe()) as writer:
        for number in range(IMAGES):
            toy = ToyWorld(size=128).render("train", number)
            image = Image.fromarray(toy.pixels)
            image.save(folder / "images" / f"{number}.png")
            writer.add([f"{number}.png"], backbone.extract([image]))
            samples.append(Sample(ImageRef(f"{number}.png"), toy.sample.captions[:1]))
    store = FeatureStore(folder / "features", backbone.describe())
    options = {"epochs": "60", "min_count": "1", "batch": "6", "captions": "1", "rate": "3e-3", "warmup": "5"}
    quick = {**options, "smoothing": "0", "dropout": "0", "patience": "60", "width": "64"}
    for name, preset, more in (
        ("a", "transformer-small", {"hidden": "64", "heads": "4", "embed_dropout": "0"}),
        ("b", "att2in-small", {"attention": "32", "epochs": "5"}),
    ):
        train(preset, TrainingData(samples, samples, store, backbone.describe()), folder / name, {**quick, **more})
    return folder


@pytest.mark.slow
def test_captions_are_those_of_training(world: Path) -> None:
    captioner = TrainedCaptioner.load(world / "a")
    opened = [Image.open(world / "images" / f"{number}.png") for number in range(IMAGES)]
    said = captioner.caption(opened)
    truth = [ToyWorld(size=128).sample("train", number).captions[0] for number in range(IMAGES)]
    assert sum(a == b.lower().replace(",", "").rstrip(".") for a, b in zip(said, truth, strict=True)) >= IMAGES - 1


@pytest.mark.slow
def test_caption_command(world: Path, tmp_path: Path) -> None:
    image = str(world / "images" / "0.png")
    result = CliRunner().invoke(app, ["caption", image, "--model", str(world / "a"), "--json"])
    assert result.exit_code == 0
    assert list(orjson.loads(result.stdout)) == [image]


@pytest.mark.slow
def test_captioners_compete(world: Path, tmp_path: Path) -> None:
    """`--captioner` captions the pool first; the ranking shows what that cost."""
    directory = tmp_path / "competition"
    captioners = ["--captioner", f"a={world / 'a'}", "--captioner", f"b={world / 'b'}"]
    run = CliRunner()
    made = run.invoke(app, ["compete", "new", str(directory), *captioners, "--images", str(world / "images")])
    assert made.exit_code == 0, made.output
    assert run.invoke(app, ["compete", "select", str(directory), "--k", "4"]).exit_code == 0
    truth = {f"{n}.png": list(ToyWorld(size=128).sample("train", n).captions) for n in range(IMAGES)}
    (tmp_path / "refs.json").write_bytes(orjson.dumps(truth))
    line = ["compete", "rank", str(directory), "--references", str(tmp_path / "refs.json"), "--json"]
    ranked = run.invoke(app, line)
    assert ranked.exit_code == 0, ranked.output
    found = orjson.loads(ranked.stdout)
    assert found["ranking"][0]["model"] == "a"
    assert found["costs"]["a"]["images"] == IMAGES
    assert found["costs"]["a"]["seconds"] > 0


class Counting:
    """A captioner that counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def caption(self, images: list[Image.Image]) -> list[str]:
        self.asked += len(images)
        return ["a thing"] * len(images)


def test_running_resumes_and_survives_bad_images(tmp_path: Path) -> None:
    images = []
    for number in range(5):
        path = tmp_path / f"{number}.png"
        Image.new("RGB", (8, 8)).save(path)
        images.append(ImageRef(str(number), path))
    (tmp_path / "3.png").write_bytes(b"not an image")
    out = tmp_path / "said.jsonl"
    captioner = Counting()
    caption_to_file(captioner, images[:2], out, batch=1)
    with out.open("ab") as file:
        file.write(b'{"id": "2", "capt')  # killed in the middle of a line
    cost = caption_to_file(captioner, images, out, batch=2)
    assert captioner.asked == 4
    assert (cost.images, cost.unreadable) == (4, 1)
    assert [orjson.loads(line)["id"] for line in out.read_bytes().splitlines()] == ["0", "1", "2", "4"]
    assert "3" in (tmp_path / "said.errors.jsonl").read_text()


def test_backbones_by_description() -> None:
    backbone = EfficientNetLite(0, 128, "crop")
    again = load_backbone(orjson.loads(orjson.dumps(backbone.describe())))
    assert again.describe() == backbone.describe()
    with pytest.raises(InputError, match="cannot be loaded"):
        load_backbone({"backbone": "random"})
    seen = again.extract([Image.new("RGB", (64, 48))])
    assert isinstance(seen, Features)
    assert seen.elements.shape == (1, 16, 1280)


def test_a_backbone_that_has_moved_can_be_named(tmp_path: Path) -> None:
    """The weights of its backbone were moved: `?backbone=` finds them, and other weights are refused."""
    torch.manual_seed(0)
    for name in ("here", "other"):
        save_file(VGG19Convolutions().state_dict(), tmp_path / f"{name}.safetensors")
    vision = VGG19(tmp_path / "here.safetensors").describe()
    words = Vocabulary.build([["a", "dog"]], min_count=1)
    captioner = create("att2in-small", words=len(words), features=512, width=16, attention=8)
    Checkpoint(captioner, words, vision).save_pretrained(tmp_path / "run")
    (tmp_path / "here.safetensors").rename(tmp_path / "there.safetensors")
    with pytest.raises(InputError, match=r"here.safetensors is no weight file.*run\?backbone=NAME"):
        load_captioner(f"{tmp_path}/run")
    found = load_captioner(f"{tmp_path}/run?backbone=vgg19:{tmp_path}/there.safetensors")
    assert isinstance(found, TrainedCaptioner)
    assert found.backbone.describe()["source"] == str(tmp_path / "there.safetensors")
    with pytest.raises(MismatchError, match="another weights"):
        load_captioner(f"{tmp_path}/run?backbone=vgg19:{tmp_path}/other.safetensors")


def test_a_beam_of_one_is_greedy() -> None:
    """With a reward for length, a beam of one went on where greedy ends."""
    model = Bigrams(50, words=len(VOCABULARY))
    found = greedy(model, model.memory, max_words=8, constraints=usual_constraints(VOCABULARY))
    assert generate(model, VOCABULARY, model.memory, beam=1, max_words=8) == found.best()
