"""`--set supervision=strong|weak`: targets from samples and a recipe, and a run that trains on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from captrial.captioners import create
from captrial.captioners.architectures.show_attend_tell import ShowAttendTell
from captrial.data.images import with_size
from captrial.errors import DatasetError, InputError
from captrial.language.vocabulary import Vocabulary
from captrial.records import Box, ImageRef, Phrase, Region, Sample
from captrial.toyworld import ToyWorld
from captrial.training.attention_supervision import make_linking, make_targets, noun_positions
from captrial.training.data import CaptionData, tokenize_captions
from captrial.training.run import TrainingData, train
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess

VISION = {"backbone": "made up", "preprocess": Preprocess().describe(), "width": 8}
SIDE = 4


class GridOfColours:
    """A 4 x 4 grid of random elements an image, always the same."""

    def get(self, image_ids: list[str]) -> Features:
        made = [np.random.default_rng(abs(hash(name)) % 2**32).normal(size=(SIDE * SIDE, 8)) for name in image_ids]
        elements = torch.tensor(np.stack(made), dtype=torch.float32)
        boxes = grid_boxes(SIDE, SIDE).expand(len(elements), -1, -1)
        return Features(elements, torch.ones(elements.shape[:2], dtype=torch.bool), boxes)


@pytest.fixture(scope="module")
def world() -> list[Sample]:
    return [ToyWorld(size=64).sample("train", index) for index in range(6)]


def first_batch(samples: list[Sample]) -> tuple[object, Vocabulary]:
    words = Vocabulary.build((caption for captions in tokenize_captions(samples) for caption in captions), 1)
    data = CaptionData(samples, words, GridOfColours())  # type: ignore[arg-type]
    return data.batch(np.arange(len(samples)), np.random.default_rng(0)), words


@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_targets_are_distributions_on_the_words_of_things(kind: str, world: list[Sample]) -> None:
    batch, words = first_batch(world)
    targets = make_targets(kind, world, VISION)
    assert targets is not None
    shares = targets(batch)  # type: ignore[arg-type]
    sums = shares.sum(-1)
    assert torch.all((sums - 1).abs().lt(1e-5) | sums.eq(0))
    assert torch.equal(shares, targets(batch))  # type: ignore[arg-type]
    dog = words["dog"]
    said = batch.targets == dog  # type: ignore[attr-defined]
    assert said.any()
    assert torch.all(sums[said] > 0.99)
    assert not sums[batch.targets == words["and"]].any()  # type: ignore[attr-defined]


def test_strong_follows_the_phrase_and_weak_the_class() -> None:
    left, right = Region(Box(0, 0, 32, 64), "dog"), Region(Box(32, 0, 64, 64), "dog")
    phrases = ((Phrase("a puppy", 0, 2, (left,)),),)
    made = Sample(ImageRef("1", width=64, height=64), ("A puppy, alone.",), "train", (left, right), phrases)
    batch, _ = first_batch([made])
    strong, weak = make_targets("strong", [made], VISION), make_targets("weak", [made], VISION)
    assert strong is not None
    assert weak is not None
    half = torch.tensor([0.125, 0.125, 0, 0] * 4)
    assert torch.allclose(strong(batch)[0, 0, 0], half)  # type: ignore[arg-type]
    assert torch.allclose(strong(batch)[0, 0, 1], half)  # type: ignore[arg-type]
    assert not weak(batch)[0, 0, 0].any()  # type: ignore[arg-type]
    assert torch.allclose(weak(batch)[0, 0, 1], torch.full((16,), 1 / 16))  # type: ignore[arg-type]


def test_own_word_vectors_link_nouns_and_classes(world: list[Sample], tmp_path: Path) -> None:
    """Liu 2017: E of the captioner that a run goes on from; here one whose puppies are dogs and nothing else."""
    words = Vocabulary.build([["puppy", "dog", "teddy", "bear"]], 1)
    captioner = create("show_attend_tell-small", words=len(words), features=8, embedding=4)
    assert isinstance(captioner, ShowAttendTell)
    with torch.no_grad():
        captioner.words.weight[[words[name] for name in ("puppy", "dog", "teddy", "bear")]] = torch.tensor(
            [[1.0, 0, 0, 0], [2.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0]]
        )
    own = make_linking("own", captioner, words)
    assert own.sim("puppy", "dog") == pytest.approx(1)
    assert own.sim("teddy bear", "bear") == pytest.approx(0.5**0.5)
    assert own.sim("kitten", "dog") == own.sim("puppy", "teddy bear") == 0
    assert own.sim("kitten", "kitten") == 1
    assert own.threshold == pytest.approx(1 / 3)
    sample = Sample(
        ImageRef("1", width=8, height=8),
        ("a puppy",),
        regions=(Region(Box(0, 0, 4, 4), "dog"), Region(Box(4, 4, 8, 8), "bear")),
    )
    targets = make_targets("weak", [sample], VISION, own)
    assert targets is not None
    batch = CaptionData([sample], words, GridOfColours(), captions=1).batch(np.array([0]), np.random.default_rng(0))  # type: ignore[arg-type]
    looked = targets(batch)[0, 0, 1].view(SIDE, SIDE)  # "puppy"
    assert float(looked[:2, :2].sum()) == pytest.approx(1)
    with pytest.raises(InputError, match="--from RUN"):
        make_linking("own", None, words)
    with pytest.raises(InputError, match=r"table\+vectors, vectors, own"):
        make_linking("mine", None, words)
    options = {"epochs": "1", "batch": "3", "min_count": "1"}
    train("show_attend_tell-small", TrainingData(world, world[:2], GridOfColours(), VISION), tmp_path / "a", options)  # type: ignore[arg-type]
    options |= {"supervision": "weak", "links": "own"}
    train(
        "show_attend_tell-small",
        TrainingData(world, world[:2], GridOfColours(), VISION),
        tmp_path / "b",
        options,
        start=tmp_path / "a",
    )
    assert "attention_loss" in (tmp_path / "b" / "metrics.csv").read_text()


def test_names_of_several_words_count_as_one() -> None:
    made = Sample(ImageRef("1", width=8, height=8), ("A teddy bear on the beach.",))
    assert noun_positions([made]) == [[[(1, "teddy bear"), (2, "teddy bear"), (5, "beach")]]]


def test_data_without_supervision_is_refused(tmp_path: Path) -> None:
    bare = Sample(ImageRef("1", width=8, height=8), ("A dog.",))
    with pytest.raises(DatasetError, match="supervision=strong needs phrases"):
        make_targets("strong", [bare], VISION)
    with pytest.raises(DatasetError, match="supervision=weak needs regions"):
        make_targets("weak", [bare], VISION)
    with pytest.raises(InputError, match="implicit, strong, weak"):
        make_targets("forced", [bare], VISION)
    with pytest.raises(InputError, match="no description of their preprocessing"):
        make_targets("weak", [bare], {})
    with pytest.raises(DatasetError, match="image 1: neither its size"):
        with_size(replace(bare, image=ImageRef("1")))
    assert make_targets("implicit", [bare], VISION) is None


@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_a_run_learns_the_supervised_attention(kind: str, world: list[Sample], tmp_path: Path) -> None:
    options = {"supervision": kind, "epochs": "2", "batch": "3", "min_count": "1", "warmup": "1"}
    train("show_attend_tell-small", TrainingData(world, world[:2], GridOfColours(), VISION), tmp_path, options)  # type: ignore[arg-type]
    header, *rows = (tmp_path / "metrics.csv").read_text().splitlines()
    losses = [float(row.split(",")[header.split(",").index("attention_loss")]) for row in rows]
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_boxes_of_a_file_supervise_from_the_command_line(tmp_path: Path) -> None:
    """A toy world trained weakly on boxes that are only in a file, with its own features; wrong ids are refused."""
    import orjson
    from typer.testing import CliRunner

    from captrial.cli.app import app
    from captrial.toyworld import ToyWorldSettings, read_toyworld, write_toyworld
    from captrial.vision.features.feature_store import FeatureWriter

    write_toyworld(tmp_path / "world", ToyWorldSettings(12, size=64, shares={"train": 5, "val": 1}))
    made = read_toyworld(tmp_path / "world")
    names = [sample.id for sample in made]
    with FeatureWriter(tmp_path / "features", VISION) as writer:
        writer.add(names, GridOfColours().get(names))
    rows = {sample.id: [[*region.box, region.label] for region in sample.regions] for sample in made}
    (tmp_path / "boxes.json").write_bytes(orjson.dumps(rows))
    (tmp_path / "other.json").write_bytes(orjson.dumps({"nobody": [[0, 0, 1, 1, "dog"]]}))

    def run(boxes: str, out: str) -> object:
        options = ["epochs=2", "batch=5", "min_count=1", "warmup=1", "supervision=weak"]
        arguments = [
            "train",
            "show_attend_tell-small",
            "--data",
            tmp_path / "world" / "dataset.json",
            "--out",
            tmp_path / out,
        ]
        arguments += ["--features", tmp_path / "features", "--boxes", tmp_path / boxes, "--json"]
        chosen = [part for option in options for part in ("--set", option)]
        return CliRunner().invoke(app, [*map(str, arguments), *chosen], catch_exceptions=False)

    done = run("boxes.json", "run")
    assert done.exit_code == 0, done.output  # type: ignore[attr-defined]
    header, *lines = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    column = header.split(",").index("attention_loss")
    assert float(lines[-1].split(",")[column]) < float(lines[0].split(",")[column])
    with pytest.raises(DatasetError, match="none of its ids is a training image"):
        run("other.json", "none")
