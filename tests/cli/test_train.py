"""`features`, `train`, `models`, `caption` and `explain` as a user would type them, on a small toy world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captrial.cli.app import main
from captrial.errors import DatasetError
from captrial.records import ImageRef, Sample
from captrial.toyworld import ToyWorldSettings, write_toyworld
from captrial.training.data import split_samples
from captrial.vision.features.feature_store import FeatureWriter
from captrial.vision.registry import load_backbone

TINY = ["--set", "width=32", "--set", "heads=2", "--set", "hidden=32", "--set", "min_count=1"]

# Wan 2022 Table 1, in our words: object level is regions, self-attention in a decoder is what looks with several heads.
TABLE_1 = [
    ("x_lan", "regions", "LSTM", "X-linear", "X-linear"),
    ("m2", "regions", "Transformer", "self", "multi-head"),
    ("aoa", "regions", "LSTM", "self", "multi-head"),
    ("ort", "regions", "Transformer", "self", "multi-head"),
    ("sgae", "regions", "LSTM", "graph", "soft"),
    ("top_down", "regions", "LSTM", "–", "soft"),
    ("disc", "regions", "LSTM", "–", "soft"),
    ("stack_cap", "grid", "LSTM", "–", "soft"),
    ("att2in", "grid", "LSTM", "–", "soft"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train") / "world"
    write_toyworld(folder, ToyWorldSettings(30, size=64, shares={"train": 2, "val": 1}))
    return folder


@pytest.fixture(scope="module")
def store(world: Path) -> Path:
    folder = world.parent / "features"
    run_captrial(["features", str(world), "--out", str(folder), "--backbone", "efficientnet-lite0"])
    return folder


def run_captrial(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> dict[str, object]:
    capsys.readouterr()
    run_captrial([*arguments, "--json"])
    answered: dict[str, object] = json.loads(capsys.readouterr().out)
    return answered


@pytest.mark.slow
def test_an_extraction_is_not_repeated(world: Path, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = answer(capsys, ["features", str(world), "--out", str(store), "--backbone", "efficientnet-lite0"])
    assert (again["images"], again["extracted"], again["refused"]) == (30, 0, {})


@pytest.mark.slow
def test_a_broken_image_is_reported_and_the_rest_extracted(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "good.png").write_bytes(next(world.rglob("*.png")).read_bytes())
    (folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    outcome = answer(
        capsys, ["features", str(folder), "--out", str(tmp_path / "store"), "--backbone", "efficientnet-lite0"]
    )
    assert outcome["extracted"] == 1
    assert list(outcome["refused"]) == ["bad.png"]  # type: ignore[call-overload]


@pytest.mark.slow
def test_of_many_broken_images_a_few_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    run_captrial(["features", str(folder), "--out", str(tmp_path / "store"), "--backbone", "efficientnet-lite0"])
    told = capsys.readouterr().err
    assert "ImageProblem" not in told
    assert "4.png" in told
    assert "5.png" not in told
    assert "and 3 more" in told


@pytest.mark.slow
def test_train_continue_and_caption(world: Path, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, after = world.parent / "run", world.parent / "after"
    train = ["train", "transformer-small", "--data", str(world), "--features", str(store)]
    first = answer(capsys, [*train, "--out", str(run), "--set", "epochs=2", *TINY])
    assert first["epochs"] == 2
    assert (run / "metrics.png").exists() or list(run.glob("metrics.*g"))
    second = answer(
        capsys, [*train, "--out", str(after), "--from", str(run), "--set", "epochs=0", "--set", "scst_epochs=1"]
    )
    assert second["epochs"] == 1
    assert second["parameters"] == first["parameters"]
    image = str(next(world.rglob("*.png")))
    said = answer(capsys, ["caption", image, "--model", str(after)])
    assert list(said) == [image]
    out = world.parent / "explained"
    explained = answer(
        capsys,
        ["explain", image, "--model", str(after), "--method", "saliency", "--regions", "none", "--out", str(out)],
    )
    assert explained["caption"] == said[image]
    assert {path.name for path in out.iterdir()} == {"index.html", "words.png", "explanation.npz"}


@pytest.mark.slow
def test_sgae_learns_from_the_graphs_of_the_toy_world(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ["--backbone", "truth+efficientnet-lite0", "--out", str(tmp_path / "truth")]
    assert answer(capsys, ["features", str(world), *found])["images"] == 30
    (entry, *_) = (tmp_path / "truth" / "index.jsonl").read_text().splitlines()
    assert {"labels", "attributes", "relations"} <= json.loads(entry).keys()
    sizes = ["width=24", "dictionary=20", "min_count=1", "epochs=1", "sentence_epochs=1", "dictionary_epochs=1"]
    chosen = [part for option in sizes for part in ("--set", option)]
    run = ["--features", str(tmp_path / "truth"), "--out", str(tmp_path / "run")]
    run_captrial(["train", "sgae-small", "--data", str(world), *run, *chosen])
    with pytest.raises(SystemExit):
        main(["caption", str(next((world / "images").rglob("*.png"))), "--model", str(tmp_path / "run")])
    assert "it cannot be run on new images here" in capsys.readouterr().err


def test_models_lists_all_architectures(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, ["models"])
    assert len(found["presets"]) == 12
    assert "m2-small" in found["presets"]["m2"]
    for name, features, language, encoder, decoder in TABLE_1:
        told = found["architectures"][name]
        assert features in told["features"]
        assert language == told["decoder"]
        assert encoder in told["encoder_attention"]
        assert decoder in told["decoder_attention"]


def test_options_that_are_no_pairs_are_refused(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "m2-small", "--data", str(world), "--set", "epochs"])
    assert "--set epochs: write KEY=VALUE" in capsys.readouterr().err


def test_a_backbone_must_be_the_one_of_the_store(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FeatureWriter(tmp_path / "store", load_backbone("efficientnet-lite0").describe()):
        pass  # made, and nothing in it
    line = ["train", "m2-small", "--data", str(world), "--features", str(tmp_path / "store"), "--out", str(tmp_path)]
    for backbone, why in (
        (["--backbone", "efficientnet-lite0?size=64"], "holds features with preprocess"),
        (["--backbone", "efficientnet-lite0"], "has no features of"),
        ([], "has no features of"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*line, *backbone])
        assert ended.value.code == 2
        assert why in " ".join(capsys.readouterr().err.split())


def test_every_tenth_image_validates_where_no_split_does() -> None:
    samples = [Sample(ImageRef(str(number)), ("a dog",)) for number in range(20)]
    training, validation = split_samples(samples)
    assert [sample.id for sample in validation] == ["0", "10"]
    assert len(training) == 18
    with pytest.raises(DatasetError, match="nothing to learn"):
        split_samples([Sample(ImageRef("1"), ("a dog",), split="test")])
