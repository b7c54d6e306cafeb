"""SGAE trained on a store of labelled regions of the toy world with their true graphs, and asked about new images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from captrial.captioners.registry import create
from captrial.captioners.trained import extract_for, wants_graphs, with_graphs
from captrial.errors import DatasetError, InputError
from captrial.language.vocabulary import Vocabulary
from captrial.toyworld import ToyWorld
from captrial.training.data import tokenize_captions
from captrial.training.run import TrainingData, train
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.detectors.base import RegionBackbone, pack_regions, region_notes
from captrial.vision.detectors.noun_localiser import NounLocaliser
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.features.visual_features import Features
from captrial.vision.scene_graphs import true_regions

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
    with pytest.raises(DatasetError, match="no labelled regions"):
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
