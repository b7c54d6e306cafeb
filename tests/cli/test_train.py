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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["transformr-small"], "did you mean 'transformer-small'?"),
        (["m2-small", "--set", "epoch=3"], "did you mean 'epochs'?"),
        (["m2-small", "--from", "orrt"], "did you mean 'ort'?"),
        (["m2-small", "--device", "cuda:9"], "device 'cuda:9' cannot be used here"),
    ],
)
def test_mistyped_names_are_answered_before_any_work(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["train", *arguments, "--data", str(tmp_path / "missing.json"), "--out", str(tmp_path / "run")])
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_shipped_captioner_is_tuned_on_a_table(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data are a CSV file; the backbone, the vocabulary and the sizes are those of the shipped captioner."""
    rows = [f"{path.name},a red box on the grass" for path in sorted(world.rglob("*.png"))[:8]]
    table = tmp_path / "mine.csv"
    table.write_text("\n".join(["file_name,caption", *rows]))
    images = next(world.rglob("*.png")).parent
    line = ["train", "transformer-small", "--data", str(table), "--images", str(images), "--from", "transformer"]
    options = ["--epochs", "1", "--batch-size", "4", "--limit", "5", "--device", "cpu", "--out", str(tmp_path / "run")]
    found = answer(capsys, [*line, *options])
    assert (found["epochs"], found["empty_captions"]) == (1, 0)
    settings = json.loads((tmp_path / "run" / "run.json").read_bytes())
    assert (settings["recipe"]["batch"], settings["recipe"]["device"]) == (4, "cpu")
