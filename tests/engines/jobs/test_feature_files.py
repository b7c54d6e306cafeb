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
from engines.example_jobs import write_images


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_images(tmp_path / "images", range(8, 20))


def test_features_of_two_images_of_one_name_are_refused(images: Path, tmp_path: Path) -> None:
    content = (images / "8.png").read_bytes()
    pq.write_table(pa.table({"id": ["x", "y", "x"], "bytes": [content] * 3}), tmp_path / "a.parquet")
    line = ["features", str(tmp_path / "a.parquet"), "--out", str(tmp_path / "store")]
    with pytest.raises(InputError, match="two images are called x,"):
        CliRunner().invoke(app, [*line, "--backbone", "efficientnet-lite0"], catch_exceptions=False)


@pytest.mark.parametrize("name", ["hf:{}", "onnx:{}?threshold=0.1+efficientnet-lite2", "localiser+hf:{}?stage=stage3"])
def test_files_that_a_backbone_is_read_from_are_noticed(tmp_path: Path, name: str) -> None:
    from captrial.engines.jobs.extract_features import _files

    file = tmp_path / "weights"
    file.write_bytes(b"one")
    before = _files(name.format(file))
    file.write_bytes(b"other")
    assert before != _files(name.format(file))
    assert _files("efficientnet-lite2") == _files("hf:microsoft/resnet-50") == {}


@pytest.mark.slow
def test_features_by_workers_are_those_of_one_process(tmp_path: Path) -> None:
    from captrial.vision.features.feature_store import FeatureStore

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
    from captrial.vision.features.feature_store import FeatureStore

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
