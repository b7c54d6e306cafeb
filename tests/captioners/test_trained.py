"""A captioner trained on real images' features, used through the command line and in a competition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.attribution.explain import explain
from captrial.captioners import create
from captrial.captioners.batch_captioning import caption_to_file
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.loading import load_captioner
from captrial.captioners.trained import (
    TrainedCaptioner,
    extract_for,
    generate,
    usual_constraints,
    wants_graphs,
    with_graphs,
)
from captrial.cli.app import app
from captrial.decoding import greedy
from captrial.errors import DatasetError, InputError, MismatchError
from captrial.language.vocabulary import Vocabulary
from captrial.records import ImageRef, Sample
from captrial.toyworld import ToyWorld
from captrial.training.data import tokenize_captions
from captrial.training.run import TrainingData, train
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.backbones.vgg import VGG19, VGG19Convolutions
from captrial.vision.detectors.base import RegionBackbone, pack_regions, region_notes
from captrial.vision.detectors.noun_localiser import NounLocaliser
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.features.visual_features import Features
from captrial.vision.registry import load_backbone
from captrial.vision.scene_graphs import true_regions
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
    with pytest.raises(InputError, match=r"here.safetensors is not a weight file.*run\?backbone=NAME"):
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


@pytest.mark.parametrize("power", [0.0, 4.0])
def test_a_checkpoint_ranks_captions_by_its_own_length_power(power: float, tmp_path: Path) -> None:
    """Saved, loaded, and used wherever a caption is generated: captioning, explaining, a data set's captions."""
    torch.manual_seed(1)
    backbone = EfficientNetLite(0, 128)
    captioner = create(
        "transformer-small", words=len(VOCABULARY), features=backbone.width, width=16, heads=2, hidden=16
    ).eval()
    with torch.no_grad():  # words of equal weight: every caption is likely, and how long it is decides
        for parameter in captioner.parameters():
            parameter.mul_(0.05)
    Checkpoint(captioner, VOCABULARY, backbone.describe(), length_power=power).save_pretrained(tmp_path / "best")
    model = TrainedCaptioner.load(tmp_path)
    assert model.checkpoint.length_power == power
    image = Image.fromarray(ToyWorld(size=128).render("train", 0).pixels)
    memory = captioner.encode(backbone.extract([image]))
    wanted, other = (generate(captioner, VOCABULARY, memory, length_power=each)[0] for each in (power, 4.0 - power))
    assert (len(wanted) < len(other)) == (power == 0), "the test needs powers that change the caption"
    said = " ".join(VOCABULARY.decode(wanted))
    assert model.caption([image]) == [said]
    assert " ".join(explain(model, image, method="attention").words) == said
    with FeatureWriter(tmp_path / "store", backbone.describe()) as writer:
        writer.add(["0"], backbone.extract([image]))
    assert DatasetAttributor("a", model.checkpoint, FeatureStore(tmp_path / "store"), "attention").caption(["0"]) == [
        said
    ]


# Scene graphs: SGAE trained on labelled regions of the toy world with their true graphs -------------------------------


SIZES = {"width": "32", "dictionary": "20", "dropout": "0.0"}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> tuple[list, FeatureStore]:  # type: ignore[type-arg]
    """Images of the toy world; features of a thing are its mean colour and its place."""
    world, folder = ToyWorld(seed=0, size=64), tmp_path_factory.mktemp("store")
    shown = [image for index in range(30) if (image := world.render("train", index)).sample.regions]
    vision = {"backbone": "truth", "preprocess": {"size": 64}, "width": 7}
    with FeatureWriter(folder, vision) as writer:
        for image in shown:
            regions, relations = true_regions(image.sample)
            pixels = torch.from_numpy(image.pixels.copy()).float() / 255
            features = [
                torch.cat([pixels[int(r.box.y1) :, int(r.box.x1) :].mean((0, 1)), torch.tensor(r.box) / 64])
                for r in regions
            ]

            seen = [replace(region, feature=feature) for region, feature in zip(regions, features, strict=True)]
            notes = [{**region_notes([seen])[0], "relations": relations}]
            writer.add([image.sample.id], pack_regions([seen], [(64, 64)]), notes)
    return [image.sample for image in shown], FeatureStore(folder, vision)


@pytest.mark.slow
def test_sgae_trains_on_regions_with_relations(toy: tuple, tmp_path: Path) -> None:  # type: ignore[type-arg]
    samples, store = toy
    options = {
        **SIZES,
        "epochs": "2",
        "sentence_epochs": "1",
        "dictionary_epochs": "1",
        "min_count": "1",
        "batch": "10",
    }
    best = train("sgae-small", TrainingData(samples, samples[:5], store, store.vision), tmp_path / "run", options)
    assert wants_graphs(best.captioner)
    features = with_graphs(best.captioner, best.vocabulary, store).get([samples[0].id])
    assert features.relations is not None
    assert features.attributes is not None
    assert bool((features.attributes >= 0).any())


def test_graphs_change_the_captions_of_sgae(toy: tuple) -> None:  # type: ignore[type-arg]
    samples, store = toy
    vocabulary = Vocabulary.build((c for captions in tokenize_captions(samples) for c in captions), 1)
    torch.manual_seed(0)
    sizes = {"width": 32, "attention": 16, "dictionary": 20, "dropout": 0.0}
    captioner = create("sgae-small", words=len(vocabulary), features=7, **sizes).eval()
    related = next(s for s in samples if s.extra["scene_graph"]["relations"])
    features = with_graphs(captioner, vocabulary, store).get([related.id])
    assert features.relations is not None

    without = replace(features, relations=torch.full_like(features.relations, -1))
    tokens = torch.tensor([[[1, 5, 6]]])
    assert not torch.allclose(captioner(features, tokens).logits, captioner(without, tokens).logits)
    plain = create("sgae-small", words=len(vocabulary), features=7, relations=False, **sizes)
    assert with_graphs(plain, vocabulary, store) is store


def test_a_grid_is_refused_with_the_way_out(tmp_path: Path) -> None:
    vocabulary = Vocabulary.build([["a", "dog"]], 1)
    captioner = create("sgae-small", words=len(vocabulary), features=1280, width=32, attention=16, dictionary=20)
    with pytest.raises(InputError, match="gives no labelled regions"):
        extract_for(captioner, vocabulary, EfficientNetLite(0, 64), [Image.new("RGB", (64, 64))])
    with FeatureWriter(tmp_path, {"backbone": "x", "width": 2}) as writer:
        writer.add(["a"], Features(torch.ones(1, 2, 2), torch.ones(1, 2, dtype=torch.bool), torch.rand(1, 2, 4)))
    with pytest.raises(DatasetError, match="are not labelled regions"):
        with_graphs(captioner, vocabulary, FeatureStore(tmp_path)).get(["a"])


@pytest.mark.slow
def test_new_images_bring_their_graphs() -> None:
    """A captioner on the localiser's regions sees labels, adjectives and relations of an image it was never given."""
    grid = EfficientNetLite(0, 64)
    torch.manual_seed(0)
    localiser = NounLocaliser(["dog", "ball"], ["red"], grid)
    vocabulary = Vocabulary.build([["a", "red", "dog", "on", "in", "near", "behind", "above", "ball"]], 1)
    captioner = create("sgae-small", words=len(vocabulary), features=1280, width=32, attention=16, dictionary=20)
    image = Image.fromarray(ToyWorld(seed=0, size=64).render("train", 0).pixels)
    features = extract_for(captioner, vocabulary, RegionBackbone(localiser, most=6), [image])
    assert features.attributes is not None
    assert set(features.attributes.flatten().tolist()) <= {-1, vocabulary["dog"], vocabulary["ball"], vocabulary["red"]}
    assert bool((features.attributes >= 0).any())
    assert captioner.eval().encode(features).mean.isfinite().all()
