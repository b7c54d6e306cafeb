"""`captrial features` as a user would type it, on a small toy world."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.errors import InputError
from captrial.toyworld import ToyWorldSettings, write_toyworld
from captrial.vision.features.feature_store import FeatureStore
from cli.commands import answer, run_captrial
from engines.example_jobs import write_images


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


# Features by workers, and of shards, Parquet files and lists of URLs --------------------------------------------------


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_images(tmp_path / "images", range(8, 20))


def test_features_of_two_images_of_one_name_are_refused(images: Path, tmp_path: Path) -> None:
    content = (images / "8.png").read_bytes()
    pq.write_table(pa.table({"id": ["x", "y", "x"], "bytes": [content] * 3}), tmp_path / "a.parquet")
    line = ["features", str(tmp_path / "a.parquet"), "--out", str(tmp_path / "store")]
    with pytest.raises(InputError, match="two images are called x,"):
        CliRunner().invoke(app, [*line, "--backbone", "efficientnet-lite0"], catch_exceptions=False)


@pytest.mark.slow
def test_features_by_workers_are_those_of_one_process(tmp_path: Path) -> None:
    write_toyworld(tmp_path / "world", ToyWorldSettings(9, size=64))
    line = [
        "features",
        str(tmp_path / "world"),
        "--backbone",
        "efficientnet-lite0",
        "--batch-size",
        "3",
        "--json",
        "--out",
    ]
    one = CliRunner().invoke(app, [*line, str(tmp_path / "one")])
    two = CliRunner().invoke(app, [*line, str(tmp_path / "two"), "--workers", "2"])
    assert (one.exit_code, two.exit_code) == (0, 0), two.output
    assert {**json.loads(one.stdout), "store": ""} == {**json.loads(two.stdout), "store": ""}
    stores = [FeatureStore(tmp_path / name) for name in ("one", "two")]
    assert list(stores[0]) == list(stores[1])
    assert stores[0].vision == stores[1].vision
    features = [store.get(list(store)) for store in stores]
    np.testing.assert_allclose(features[0].elements, features[1].elements, rtol=2e-3, atol=1e-3)  # float16
    assert not (tmp_path / "two" / "shards").exists()


def test_features_of_shards_parquet_and_urls(images: Path, tmp_path: Path) -> None:
    """Rows that are no files, one of them broken: the other images are in the store, and it says which is not."""
    files = [path for path in sorted(images.iterdir()) if path.stem in ("8", "9", "broken")]
    (tmp_path / "list.txt").write_text("\n".join(f"file://{path}" for path in files))
    pq.write_table(
        pa.table({"id": ["8", "9", "broken"], "bytes": [path.read_bytes() for path in files]}), tmp_path / "a.parquet"
    )
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for path in files:
            tar.add(path, path.name)
    for source in ("list.txt", "a.parquet", "a.tar"):
        out = tmp_path / f"{source}.store"
        done = CliRunner().invoke(
            app, ["features", str(tmp_path / source), "--out", str(out), "--backbone", "efficientnet-lite0", "--json"]
        )
        assert done.exit_code == 0, done.output
        facts = json.loads(done.stdout)
        assert (facts["images"], len(facts["refused"])) == (2, 1)
        assert "broken" in next(iter(facts["refused"]))
        assert len(list(FeatureStore(out))) == 2
