"""`--set supervision=strong|weak`: targets from samples and a recipe, and a run that trains on them."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from captrial.captioners import create
from captrial.captioners.architectures.show_attend_tell import ShowAttendTell
from captrial.data import read_dataset
from captrial.data.sample_sizes import with_size
from captrial.errors import DatasetError, InputError
from captrial.language.vocabulary import Vocabulary
from captrial.records import Box, ImageRef, Phrase, Region, Sample
from captrial.toyworld import ToyWorld, ToyWorldSettings, write_toyworld
from captrial.training.attention_supervision import (
    Painter,
    label_by_head_nouns,
    make_linking,
    make_targets,
    noun_positions,
    paint,
    strong_targets,
    to_elements,
    weak_targets,
)
from captrial.training.data import CaptionData, tokenize_captions
from captrial.training.loop import Trainer
from captrial.training.recipe import Recipe
from captrial.training.run import REGIONS, TrainingData, train
from captrial.training.state import STATE
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.features.feature_store import FeatureWriter
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess
from grounding.study_world import official_coco

VISION = {"backbone": "made up", "preprocess": Preprocess().describe(), "width": 8}
SIDE = 4


class GridOfColours:
    """A 4 x 4 grid of random elements an image, always the same."""

    def get(self, image_ids: list[str]) -> Features:
        made = [np.random.default_rng(crc32(name.encode())).normal(size=(SIDE * SIDE, 8)) for name in image_ids]
        elements = torch.tensor(np.stack(made), dtype=torch.float32)
        boxes = grid_boxes(SIDE, SIDE).expand(len(elements), -1, -1)
        return Features(elements, torch.ones(elements.shape[:2], dtype=torch.bool), boxes)


def toy_images() -> list[Sample]:
    return [ToyWorld(size=64).sample("train", index) for index in range(6)]


@pytest.fixture(scope="module")
def world() -> list[Sample]:
    return toy_images()


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
    weak = Recipe(supervision="weak", links="own")
    own = make_linking(weak, captioner, words)
    assert own is not None
    found = own.matrix(["puppy", "teddy bear", "kitten"], ["dog", "bear", "kitten"])
    assert found == pytest.approx(np.array([[1, 0, 0], [0, 0.5**0.5, 0], [0, 0, 1]]), abs=1e-6)
    assert own.threshold == pytest.approx(1 / 3)
    assert make_linking(replace(weak, link_threshold=0.9), captioner, words).threshold == 0.9  # type: ignore[union-attr]
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
        make_linking(weak, None, words)
    with pytest.raises(InputError, match=r"table\+vectors, vectors, own"):
        make_linking(replace(weak, links="mine"), None, words)
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


def test_vectors_of_a_file_and_a_threshold_link_nouns(tmp_path: Path) -> None:
    """A boy is nearly a dog in these vectors: linked from 0.5 on, not from 0.9999."""
    vectors = tmp_path / "tiny.txt"
    rows = {"dog": "1 0 0", "boy": "0.99 0.05 0", "tree": "0 0 1", "sky": "0 1 0", "cup": "0.5 0.5 0.7"}
    vectors.write_text("".join(f"{word} {row}\n" for word, row in rows.items()))
    sample = Sample(ImageRef("1", width=8, height=8), ("a boy",), regions=(Region(Box(0, 0, 4, 4), "dog"),))
    words = Vocabulary.build([["a", "boy"]], 1)
    linked = []
    for threshold in (0.5, 0.9999):
        recipe = Recipe(supervision="weak", links="vectors", link_vectors=str(vectors), link_threshold=threshold)
        targets = make_targets("weak", [sample], VISION, make_linking(recipe, None, words))
        assert targets is not None
        linked.append(sorted(targets.maps(0, 0)))
    assert linked == [[1], []]
    with pytest.raises(InputError, match="are of weak supervision"):
        Recipe(link_threshold=0.4)
    with pytest.raises(InputError, match="choose one of them"):
        Recipe(supervision="weak", links="own", link_vectors="a.txt")


def test_phrases_become_boxes_with_their_head_nouns() -> None:
    """Weak supervision on Entities: the links to words are gone, an entity has the noun that most captions use."""
    people, ball = Region(Box(0, 0, 4, 8)), Region(Box(4, 4, 8, 8))
    captions = ("A group of dogs with a red ball.", "Dogs play.", "Some puppies and a ball.")
    phrases = (
        (Phrase("A group of dogs", 0, 4, (people,), "1"), Phrase("a red ball", 5, 8, (ball,), "2")),
        (Phrase("Dogs", 0, 1, (people,), "1"),),
        (Phrase("Some puppies", 0, 2, (people,), "1"), Phrase("a ball", 3, 5, (ball,), "2")),
    )
    made = Sample(ImageRef("1", width=8, height=8), captions, phrases=phrases)
    (labelled,) = label_by_head_nouns([made])
    assert [(region.label, region.box) for region in labelled.regions] == [("dog", people.box), ("ball", ball.box)]
    assert labelled.phrases == ()
    weak = make_targets("weak", [made], VISION)
    assert weak is not None
    assert sorted(weak.maps(0, 0)) == [3, 7]  # dogs and ball; "group" is no class here
    assert sorted(weak.maps(0, 2)) == [1, 4]  # puppies are found again by similarity


def test_masks_are_painted_when_asked_for() -> None:
    """Segmentations of COCO are decoded for the targets; without `masks` the box counts."""
    region = Region(Box(0, 0, 8, 8), "dog")
    extra = {"segmentations": ([[0.0, 0.0, 4.0, 0.0, 4.0, 8.0, 0.0, 8.0]],)}
    made = Sample(ImageRef("1", width=8, height=8), ("a dog",), regions=(region,), extra=extra)
    areas = []
    for masks in (False, True):
        targets = make_targets("weak", [made], VISION, masks=masks)
        assert targets is not None
        square = targets.maps(0, 0)[1]
        assert square is not None
        areas.append(float((square > 0).mean()))
    assert areas == pytest.approx([1.0, 0.5])


def test_masks_that_are_not_there_are_said() -> None:
    made = Sample(ImageRef("1", width=8, height=8), ("a dog",), regions=(Region(Box(0, 0, 8, 8), "dog"),))
    with pytest.raises(DatasetError, match="--set masks=true: no region of these images has a mask"):
        make_targets("weak", [made], VISION, masks=True)


def test_masks_of_official_files_are_painted(tmp_path: Path) -> None:
    """RLE compressed and as numbers, and polygons: every target is the mask that the toy world drew."""
    write_toyworld(tmp_path / "world", ToyWorldSettings(6, size=64, shares={"test": 1}))
    folder = official_coco(tmp_path, tmp_path / "coco")
    samples = read_dataset(folder, images=tmp_path / "world" / "images")
    painter = Painter(samples, Preprocess(), masks=True)
    drawn = [ToyWorld(size=64).sample("test", index) for index in range(6)]
    forms = set()
    for row, (read, made) in enumerate(zip(samples, drawn, strict=True)):
        for region, truth, form in zip(read.regions, made.regions, read.extra["segmentations"], strict=True):  # type: ignore[call-overload]
            square = painter.paint(row, [(region, 1.0)])
            assert square is not None
            assert truth.mask is not None
            centres = ((np.arange(224) + 0.5) * 64 / 224).astype(int)
            assert np.array_equal(square > 0, truth.mask[np.ix_(centres, centres)])
            forms.add("polygons" if isinstance(form, list) else type(form["counts"]).__name__)
    assert forms == {"polygons", "list", "str"}


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
    from captrial.toyworld import read_toyworld

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
    with pytest.raises(DatasetError, match="none of its ids is an image of the data"):
        run("other.json", "none")


# Supervised runs: killed, and by two ranks ------------------------------------------------------------------------

QUICK = {"epochs": "3", "batch": "3", "min_count": "1", "dropout": "0", "save_every": "0", "width": "32"}
RUN = """
import sys
from captrial.training.parallel import Ranks
from training.test_attention_supervision import train_here

train_here(sys.argv[1], sys.argv[2])
Ranks.from_environment().leave()
"""


def train_here(out: Path | str, supervision: str, **options: str) -> None:
    torch.set_num_threads(1)
    images = toy_images()
    data = TrainingData(images, images[:2], GridOfColours(), VISION)  # type: ignore[arg-type]
    train("show_attend_tell-small", data, out, {**QUICK, "supervision": supervision, **options})


def losses(run: Path) -> np.ndarray:
    """Loss, attention loss and validation CIDEr of every epoch."""
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return np.array([[float(row[name]) for name in ("loss", "attention_loss", "cider")] for row in rows])


class KilledError(Exception):
    """Stands for a kill: training stops at once."""


@pytest.mark.parametrize("supervision", ["strong", "weak"])
@pytest.mark.parametrize("steps", [1, 4])
def test_a_killed_supervised_run_continues_to_the_same_weights(
    supervision: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, which is seeded by the step; the second kill is in the second epoch."""
    train_here(tmp_path / "whole", supervision, dropout="0.5")
    real, count = Trainer._step, 0

    def killed(self: Trainer, *arguments: object) -> object:
        nonlocal count
        count += 1
        if count > steps:
            raise KilledError
        return real(self, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", killed)
        with pytest.raises(KilledError):
            train_here(tmp_path / "killed", supervision, dropout="0.5")
    train_here(tmp_path / "killed", supervision, dropout="0.5")
    whole, continued = (load_file(tmp_path / name / STATE) for name in ("whole", "killed"))
    assert [name for name in whole if not torch.equal(whole[name], continued[name])] == []
    assert losses(tmp_path / "whole")[-1, 1] > 0
    np.testing.assert_array_equal(losses(tmp_path / "whole")[2], losses(tmp_path / "killed")[2])


@pytest.mark.slow
@pytest.mark.parametrize("supervision", ["strong", "weak"])
def test_two_ranks_train_a_supervised_captioner_as_one(supervision: str, tmp_path: Path) -> None:
    """The attention term is a mean over all words, as cross-entropy is, so ranks weigh both alike."""
    script = tmp_path / "run.py"
    script.write_text(RUN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ":".join(path for path in sys.path if path)}
    command = [*torchrun, str(script), str(tmp_path / "two"), supervision]
    pair = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    train_here(tmp_path / "one", supervision)
    assert pair.wait(300) == 0
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=1e-4, atol=1e-6)
    one, two = (load_file(tmp_path / name / STATE) for name in ("one", "two"))
    free = "model/captioner.attention.bias"  # softmax ignores it: its gradient is rounding alone, which Adam enlarges
    for name in (name for name in one if name.startswith("model/") and name != free):
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-4)


DETECT = """
import os, sys
from pathlib import Path
from captrial.cli.app import app
from captrial.grounding import regions

log, stop, real = Path(sys.argv[1]), int(sys.argv[2]), regions.detect_nouns

def logged(detector, image):
    done = log.read_text().count("\\n") if log.exists() else 0
    if done == stop:
        os._exit(9)
    with log.open("a") as file:
        file.write(os.environ.get("RANK", "0") + "\\n")
    return real(detector, image)

regions.detect_nouns = logged
app(sys.argv[3:])
"""


def detecting_run(folder: Path, out: str, ranks: int, stop: int = -1) -> int:
    """`captrial train --regions localiser` by so many processes; it ends by itself before detection `stop`."""
    script = folder / "detect.py"
    script.write_text(DETECT)
    options = ["epochs=2", "batch=4", "min_count=1", "warmup=1", "supervision=weak", "dropout=0", "save_every=0"]
    arguments = ["train", "show_attend_tell-small", "--data", folder / "world", "--out", folder / out]
    arguments += ["--features", folder / "features", "--regions", "localiser", "--json"]
    arguments += [part for option in options for part in ("--set", option)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *torchrun, script, folder / f"{out}.log", str(stop), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ":".join(path for path in sys.path if path)}
    return subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False).returncode


@pytest.mark.slow
def test_one_rank_detects_for_all_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    """Two ranks detect every training image once, the first alone, and train as one process does.

    The first try ends in the middle of detection; the next one continues there, in the same folder.
    """
    write_toyworld(tmp_path / "world", ToyWorldSettings(8, size=64, shares={"train": 6, "val": 2}))
    names = [sample.id for sample in read_dataset(tmp_path / "world")]
    with FeatureWriter(tmp_path / "features", VISION) as writer:
        writer.add(names, GridOfColours().get(names))
    assert detecting_run(tmp_path, "two", ranks=2, stop=4) != 0
    assert detecting_run(tmp_path, "two", ranks=2) == 0
    assert (tmp_path / "two.log").read_text().split() == ["0"] * 6
    assert detecting_run(tmp_path, "one", ranks=1) == 0
    regions = [(tmp_path / out / REGIONS).read_bytes() for out in ("one", "two")]
    assert regions[0] == regions[1]
    assert regions[0].count(b"\n") == 1 + 6
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=1e-4, atol=1e-6)


# Target maps: painted, cropped, averaged, normalised ------------------------------------------------------------------


GRID = grid_boxes(2, 2).double().numpy()


def sample(*regions: Region) -> Sample:
    return Sample(ImageRef("1", width=200, height=100), ("a dog runs",), regions=regions)


def test_area_averaging_on_a_grid() -> None:
    """The left half of the image, seen whole: both left cells, equally."""
    square = paint([(Region(Box(0, 0, 100, 100)), 1.0)], sample(), Preprocess())
    assert square is not None
    assert to_elements(square, GRID).tolist() == pytest.approx([0.5, 0, 0.5, 0])


def test_boxes_move_with_the_crop() -> None:
    """The centre crop of a 200 x 100 image keeps x from 56 to 144 (87.5 of 256/224)."""
    crop = Preprocess(224, "crop", 256)
    assert paint([(Region(Box(0, 0, 50, 100)), 1.0)], sample(), crop) is None  # cropped away: no target
    square = paint([(Region(Box(0, 0, 100, 100)), 1.0)], sample(), crop)
    assert square is not None
    assert to_elements(square, GRID).tolist() == pytest.approx([0.5, 0, 0.5, 0])
    moved = crop.move_box(Box(56.25, 6.25, 143.75, 93.75), 200, 100)
    assert moved == pytest.approx(Box(0, 0, 1, 1))
    assert crop.to_image(Box(0, 0, 1, 1), 200, 100) == pytest.approx(Box(56.25, 6.25, 143.75, 93.75))


def test_overlaps_take_the_maximum() -> None:
    regions = [(Region(Box(0, 0, 200, 100)), 0.5), (Region(Box(0, 0, 100, 50)), 1.0)]
    square = paint(regions, sample(), Preprocess())
    assert square is not None
    assert to_elements(square, GRID).tolist() == pytest.approx([0.4, 0.2, 0.2, 0.2])


def test_masks_are_used_where_there_are_some() -> None:
    mask = np.zeros((100, 200), dtype=bool)
    mask[50:, 100:] = True
    square = paint([(Region(Box(0, 0, 200, 100), mask=mask), 1.0)], sample(), Preprocess())
    assert square is not None
    assert to_elements(square, GRID).tolist() == pytest.approx([0, 0, 0, 1])


def test_regions_without_overlap_fall_back_to_the_nearest_box() -> None:
    square = np.zeros((224, 224))
    square[0:4, 0:4] = 1
    boxes = np.array([[0.5, 0.5, 1, 1], [0.1, 0.1, 0.4, 0.4]])
    assert to_elements(square, boxes).tolist() == [0, 1]
    assert to_elements(None, GRID).tolist() == [0.25] * 4


def test_an_image_without_elements_has_no_shares() -> None:
    for square in (np.ones((224, 224)), None):
        assert to_elements(square, np.zeros((0, 4))).tolist() == []


def test_strong_targets_follow_phrases() -> None:
    region = Region(Box(0, 0, 100, 100), "dog")
    phrases = ((Phrase("a dog", 0, 2, (region,)),),)
    made = Sample(ImageRef("1", width=200, height=100), ("a dog runs",), regions=(region,), phrases=phrases)
    found = strong_targets(Painter([made], Preprocess())).maps(0, 0)
    assert sorted(found) == [0, 1]


def test_weak_targets_link_nouns_to_classes() -> None:
    made = sample(Region(Box(0, 0, 100, 100), "dog"), Region(Box(100, 0, 200, 100), "car"))
    similar = {("puppy", "dog"): 0.9, ("puppy", "car"): 0.1}
    targets = weak_targets(
        Painter([made], Preprocess()),
        [[[(1, "puppy"), (3, "beach"), (5, "idea")]]],
        lambda word, name: similar.get((word, name), 0.0),
        0.5,
        frozenset({"beach"}),
    )
    found = targets.maps(0, 0)
    assert sorted(found) == [1, 3]
    assert found[3] is None
    assert to_elements(found[1], GRID).tolist() == pytest.approx([0.5, 0, 0.5, 0])


def test_scene_words_have_uniform_targets() -> None:
    made = sample(Region(Box(0, 0, 100, 100), "spoon"))
    targets = weak_targets(
        Painter([made], Preprocess()), [[[(1, "kitchen")]]], lambda *_: 0.9, 0.5, frozenset({"kitchen"})
    )
    assert targets.maps(0, 0) == {1: None}
