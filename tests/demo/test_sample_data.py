from __future__ import annotations

import json
from pathlib import Path

import pytest

import captrial
from captrial.data import image_size
from captrial.demo import ExampleSettings, write_sample
from captrial.errors import InputError

SMALL = ExampleSettings(images=60, size=48, judged=20)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sample") / "try"
    write_sample(out, SMALL)
    return out


def test_what_is_written(sample: Path) -> None:
    assert image_size(sample / "photo.jpg") == (480, 480)
    assert len(list((sample / "images").iterdir())) == 60
    captions = {path.stem: json.loads(path.read_bytes()) for path in sample.glob("*.json")}
    assert set(captions) == {"references", "mine", "theirs", "newcomer"}
    assert {frozenset(of) for of in captions.values()} == {frozenset(captions["references"])}
    assert all(texts and all(texts) for texts in captions["references"].values())
    assert len((sample / "battles.csv").read_text().splitlines()) == 21


def test_the_right_ranking_comes_out(sample: Path) -> None:
    files = {name: json.loads((sample / f"{name}.json").read_bytes()) for name in ("newcomer", "mine", "theirs")}
    table = captrial.score(files, json.loads((sample / "references.json").read_bytes()), metrics=["cider"])
    scores = [table.to_dict()[name]["cider"] or 0.0 for name in files]
    assert scores == sorted(scores, reverse=True)


def test_the_same_again_and_never_over_other_files(sample: Path, tmp_path: Path) -> None:
    write_sample(tmp_path / "again", SMALL)
    for name in ("mine.json", "battles.csv", "images/007.png"):
        assert (tmp_path / "again" / name).read_bytes() == (sample / name).read_bytes()
    with pytest.raises(InputError, match=r"photo\.jpg exists; choose a new folder"):
        write_sample(sample, SMALL)
