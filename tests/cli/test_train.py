"""`captrial train`, then `caption` and `explain` with what it trained, on a small toy world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captrial.cli.app import main
from captrial.vision.features.feature_store import FeatureWriter
from captrial.vision.registry import load_backbone
from cli.commands import answer, run_captrial

TINY = ["--set", "width=32", "--set", "heads=2", "--set", "hidden=32", "--set", "min_count=1"]


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
        [
            "explain",
            image,
            "--model",
            str(after),
            "--method",
            "saliency",
            "--regions",
            "none",
            "--figure",
            "--out",
            str(out),
        ],
    )
    assert explained["caption"] == said[image]
    assert {path.name for path in out.iterdir()} == {
        "index.html",
        "words.png",
        "explanation.npz",
        "checksums.json",
    }


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


def test_options_that_are_no_pairs_are_refused(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "m2-small", "--data", str(world), "--set", "epochs"])
    assert "--set epochs: write KEY=VALUE" in capsys.readouterr().err


def test_a_backbone_must_be_the_one_of_the_store(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FeatureWriter(tmp_path / "store", load_backbone("efficientnet-lite0").describe()):
        pass  # made, and nothing in it
    line = [
        "train",
        "m2-small",
        "--data",
        str(world),
        "--features",
        str(tmp_path / "store"),
        "--out",
        str(tmp_path / "run"),
    ]
    for backbone, why in (
        (["--backbone", "efficientnet-lite0?size=64"], "holds features with preprocess"),
        (["--backbone", "efficientnet-lite0"], "has no features of"),
        ([], "has no features of"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*line, *backbone])
        assert ended.value.code == 2
        assert why in " ".join(capsys.readouterr().err.split())
