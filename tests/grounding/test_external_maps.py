"""`captrial attend --maps`: maps written by another program, measured as our own are."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch

import captrial
from attribution.toyworld_captioner import ToyFeatures, toy_checkpoint, toy_samples
from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.attribution.word_maps import bilinear
from captrial.captioners.checkpoint import Checkpoint
from captrial.errors import DatasetError, InputError
from captrial.grounding.attention_correctness import FORCED, GENERATED, AttentionResult, measure_attention
from captrial.grounding.external_maps import MapAttributor
from captrial.grounding.phrases import reference_phrases
from captrial.language.tokenizer import tokenize_all
from captrial.records import Box, ImageRef, Phrase, Region, Sample
from captrial.toyworld import read_toyworld
from captrial.vision.features.visual_features import Features
from grounding.study_world import run, write_study_world

PROGRAM = Path(__file__).with_name("numpy_show_attend_tell.py")
MEASURES = ("area", "correctness", "pointing", "auc", "l1", "l2", "kl")


def plain_arrays(folder: Path, samples: list[Sample]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The maps that our own path measures as plain arrays by key, and the captions."""
    attributor = DatasetAttributor("one", toy_checkpoint(), ToyFeatures(), beam=1)
    ids = [sample.id for sample in samples]
    captions = dict(zip(ids, attributor.caption(ids), strict=True))
    references = [[text.split() for text in tokenize_all(list(sample.captions))] for sample in samples]
    own = [[text.split()] for text in tokenize_all(list(captions.values()))]
    arrays = {}
    # In the batches of `measure_attention`: the captioner computes in float32, whose last digits depend on the batch.
    for sample, forced, generated in zip(
        samples, attributor.attribute(ids, references), attributor.attribute(ids, own), strict=True
    ):
        keys = [*(f"{sample.id}#{number}" for number in range(len(forced))), sample.id]
        for key, found in zip(keys, [*forced, *generated], strict=True):
            assert found.grid is not None
            arrays[key] = found.weights.reshape(-1, *found.grid)
    (folder / "captions.json").write_bytes(orjson.dumps(captions))
    return arrays, captions


def own_path(samples: list[Sample]) -> AttentionResult:
    attributor = DatasetAttributor("one", toy_checkpoint(), ToyFeatures(), beam=1)
    return measure_attention(attributor, samples, [FORCED, GENERATED])


@pytest.mark.parametrize("form", ["npz", "folder", "scaled", "enlarged"])
def test_arrays_are_measured_as_our_own_path(form: str, tmp_path: Path) -> None:
    """Equal to 1e-9 in every measure of every phrase, from one file or a folder, at any scale and resolution."""
    samples = toy_samples()[:6]
    arrays, _ = plain_arrays(tmp_path, samples)
    if form == "scaled":
        arrays = {key: 1000 * maps for key, maps in arrays.items()}
    if form == "enlarged":  # as a program would write that paints its maps at the size of the square
        enlarge = bilinear(next(iter(arrays.values())).shape[1], 224)
        arrays = {key: enlarge @ maps @ enlarge.T for key, maps in arrays.items()}
    path = tmp_path / ("maps" if form == "folder" else "maps.npz")
    if form == "folder":
        path.mkdir()
        for key, maps in arrays.items():
            np.save(path / f"{key}.npy", maps)
    else:
        np.savez(path, **arrays)
    found = measure_attention(MapAttributor(path, samples, tmp_path / "captions.json"), samples, [FORCED, GENERATED])
    own = own_path(samples)
    assert len(found.scores) == len(own.scores) > 20
    for one, other in zip(found.scores, own.scores, strict=True):
        assert (one.image, one.caption, one.text, one.start) == (other.image, other.caption, other.text, other.start)
        for name in MEASURES:
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-9, rel=1e-9)


class DoubleFeatures(ToyFeatures):
    """The random features in double precision, in which two programs agree to more digits than are compared."""

    def get(self, image_ids: Sequence[str]) -> Features:
        found = super().get(image_ids)
        return Features(found.elements.double(), found.mask, found.boxes)


class Quoting(DatasetAttributor):
    """A captioner whose own captions are given: untrained ones name nothing that a reference names."""

    quotes: dict[str, str]

    def caption(self, image_ids: Sequence[str]) -> list[str]:
        return [self.quotes[image] for image in image_ids]


def sharp_checkpoint() -> Checkpoint:
    """The toy captioner in double precision, with attention that is not nearly uniform."""
    made = copy.deepcopy(toy_checkpoint())
    made.captioner.double()
    with torch.no_grad():
        made.captioner.attention.weight.mul_(30)  # type: ignore[union-attr, operator]
    return made


def test_maps_of_another_program_are_measured_as_our_own(tmp_path: Path) -> None:
    """A captioner's maps computed and written by a program that knows only numpy: 1e-9 in every measure.

    It is given weights, features and texts as plain files; `captrial attend --maps` measures what it writes.
    """
    world = write_study_world(tmp_path)
    samples = read_toyworld(world / "world")
    checkpoint, features = sharp_checkpoint(), DoubleFeatures()
    attributor = Quoting("one", checkpoint, features)
    attributor.quotes = {one.id: " and ".join(tokenize_all(list(one.captions[:2]))) for one in samples}
    own = measure_attention(attributor, samples, [FORCED, GENERATED])
    state = checkpoint.captioner.state_dict()
    np.savez(tmp_path / "weights.npz", **{name: values.numpy() for name, values in state.items()})
    np.savez(tmp_path / "features.npz", **{one.id: features.get([one.id]).elements[0].numpy() for one in samples})
    (tmp_path / "words.json").write_bytes(orjson.dumps(checkpoint.vocabulary.words))
    references = {f"{one.id}#{number}": text for one in samples for number, text in enumerate(one.captions)}
    (tmp_path / "captions.json").write_bytes(orjson.dumps({**references, **own.captions}))
    (tmp_path / "own.json").write_bytes(orjson.dumps(own.captions))
    subprocess.run([sys.executable, "-I", PROGRAM, tmp_path], check=True)
    options = ["--maps", tmp_path / "maps.npz", "--map-captions", tmp_path / "own.json", "--examples", "0"]
    run("attend", "--data", world / "world", *options, "--out", tmp_path / "out")
    found = AttentionResult.read(tmp_path / "out" / "scores" / "maps.json")
    assert len(found.scores) == len(own.scores) > 20
    assert {score.setting for score in found.scores} == {FORCED, GENERATED}
    assert np.std([score.correctness - score.area for score in own.scores]) > 0.02  # the maps are not all uniform
    for one, other in zip(found.scores, own.scores, strict=True):
        assert (one.image, one.caption, one.text, one.start) == (other.image, other.caption, other.text, other.start)
        for name in MEASURES:
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-9, rel=1e-9)


def test_the_public_function_gives_the_score_of_a_phrase(tmp_path: Path) -> None:
    """`captrial.attention_correctness` on the same arrays: 1e-9 from the table's value."""
    samples = toy_samples()[:6]
    arrays, _ = plain_arrays(tmp_path, samples)
    phrases = {
        (sample.id, number, phrase.start): (sample, phrase)
        for sample in samples
        for number, own in enumerate(reference_phrases(sample))
        for phrase in own
    }
    checked = 0
    for score in own_path(samples).scores:
        if score.setting == FORCED:
            sample, phrase = phrases[score.image, score.caption, score.start]
            maps = arrays[f"{score.image}#{score.caption}"][phrase.start : phrase.end]
            size = (sample.image.width or 0, sample.image.height or 0)
            boxes = [region.box for region in phrase.regions]
            assert captrial.attention_correctness(maps, boxes, size) == pytest.approx(score.correctness, abs=1e-9)
            checked += 1
    assert checked > 10


def test_the_public_function_refuses_what_it_cannot_measure() -> None:
    flat = np.ones((7, 7))
    assert captrial.attention_correctness(flat, [(0, 0, 320, 480)], (640, 480)) == pytest.approx(0.5)
    with pytest.raises(InputError, match=r"this one is \(7,\)"):
        captrial.attention_correctness(np.ones(7), [(0, 0, 1, 1)], (640, 480))
    with pytest.raises(InputError, match="at least 0"):
        captrial.attention_correctness(-flat, [(0, 0, 1, 1)], (640, 480))
    with pytest.raises(InputError, match="none of the 1 boxes"):
        captrial.attention_correctness(flat, [(700, 0, 800, 10)], (640, 480))
    with pytest.raises(DatasetError, match="four numbers, found 3"):
        captrial.attention_correctness(flat, [(0, 0, 1)], (640, 480))


def test_wrong_maps_are_refused_with_their_key(tmp_path: Path) -> None:
    region = Region(Box(0, 0, 5, 5))
    sample = Sample(ImageRef("a.jpg", width=10, height=10), ("A dog.",), phrases=((Phrase("A dog", 0, 2, (region,)),),))

    def measure(**arrays: np.ndarray) -> None:
        np.savez(tmp_path / "maps.npz", **arrays)
        measure_attention(MapAttributor(tmp_path / "maps.npz", [sample]), [sample], [FORCED])

    measure(**{"a.jpg#0": np.ones((2, 3, 3))})
    with pytest.raises(DatasetError, match=r"a.jpg#0 has 3 maps for the 2 words of 'a dog'"):
        measure(**{"a.jpg#0": np.ones((3, 3, 3))})
    with pytest.raises(DatasetError, match=r"a.jpg#0 must be \(words, rows, columns\)"):
        measure(**{"a.jpg#0": np.ones((2, 9))})
    with pytest.raises(DatasetError, match=r"no array a.jpg#0 for 'a dog'"):
        measure(other=np.ones((2, 3, 3)))
    with pytest.raises(InputError, match=r"give a \.npz file"):
        MapAttributor(tmp_path / "none.npz", [sample])
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"is not a readable \.npz file"):
        MapAttributor(tmp_path / "broken.npz", [sample])
    with pytest.raises(InputError, match="--map-captions FILE"):
        MapAttributor(tmp_path / "maps.npz", [sample]).check([GENERATED])


def test_equal_captions_have_their_own_maps(tmp_path: Path) -> None:
    """A model's own caption that equals a reference is measured by its own map, a reference by the reference's."""
    sample = Sample(ImageRef("a", None, 8, 8), ("a dog runs", "a cat", "a dog runs"))
    maps = {key: np.full((3, 1, 1), value) for key, value in (("a#0", 1.0), ("a#2", 2.0), ("a", 3.0))}
    np.savez(tmp_path / "maps.npz", **maps, **{"a#1": np.ones((2, 1, 1))})
    (tmp_path / "own.json").write_bytes(orjson.dumps({"a": "a dog runs"}))
    attributor = MapAttributor(tmp_path / "maps.npz", [sample], tmp_path / "own.json")
    words = ["a", "dog", "runs"]
    assert attributor.attribute(["a"], [[words]])[0][0].weights[0, 0] == 3
    forced = attributor.attribute(["a"], [[words, ["a", "cat"], words]])[0]
    assert [one.weights[0, 0] for one in forced] == [1, 1, 2]
