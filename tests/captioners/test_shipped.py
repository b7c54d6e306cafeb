"""The captioners that come with the package: they are there, small, described, and describe photographs."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
import torch
from safetensors.torch import load_file

from captrial.captioners.checkpoint import CONFIG, WEIGHTS
from captrial.captioners.loading import load_captioner
from captrial.captioners.registry import DEFAULT_CAPTIONER, shipped_captioners
from captrial.data.images import open_image
from captrial.errors import InputError

LARGEST = 55_000_000  # bytes, all together
RESULTS = Path(__file__).resolve().parents[2] / "studies" / "results"
SCORES = {"BLEU-4": "bleu_4", "METEOR": "meteor", "CIDEr": "cider", "SPICE": "spice"}  # in a card and in a result


def test_they_are_small() -> None:
    assert DEFAULT_CAPTIONER in shipped_captioners()
    files = [path for folder in shipped_captioners().values() for path in folder.iterdir()]
    assert sum(path.stat().st_size for path in files) < LARGEST


@pytest.mark.parametrize("name", shipped_captioners())
def test_their_weights_are_of_half_precision(name: str) -> None:
    weights = load_file(shipped_captioners()[name] / WEIGHTS)
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    assert all(weight.isfinite().all() for weight in weights.values())


@pytest.mark.parametrize("name", shipped_captioners())
def test_their_cards_have_data_scores_licence_and_limits(name: str) -> None:
    card = (shipped_captioners()[name] / "README.md").read_text()
    assert "| training data | Flickr8k: 6 000 photographs" in card
    for heading in ("Scores", "Licence", "Limits"):
        said = card.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        assert len(said.split()) > 10, heading


@pytest.mark.parametrize("name", shipped_captioners())
def test_their_scores_are_those_of_the_experiment(name: str) -> None:
    notes = orjson.loads((shipped_captioners()[name] / CONFIG).read_bytes())["notes"]
    study, _, run = ("flickr8k/" * ("/" not in notes["experiment"]) + notes["experiment"]).partition("/")
    kept = RESULTS / study / run / "run.json" if study == "paper_runs" else RESULTS / study / f"{run}.json"
    document = orjson.loads(kept.read_bytes())
    measured = document.get("scores", document)
    measured = measured.get("flickr8k", measured)
    chosen = RESULTS / "length_power" / f"{name}.json"
    if chosen.exists():  # the same weights, decoded with the power that validation preferred
        found = orjson.loads(chosen.read_bytes())
        validation = found["validation_cider"]
        assert str(found["chosen"]) == max(validation, key=lambda power: validation[power])
        assert found["chosen"] == orjson.loads((shipped_captioners()[name] / CONFIG).read_bytes())["length_power"]
        measured = found["test"][str(found["chosen"])]
    expected = {title: f"{100 * measured[key]:.1f}" for title, key in SCORES.items()}
    card = (shipped_captioners()[name] / "README.md").read_text()
    titles, _, scores = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table_of_scores(card))
    assert dict(zip(titles, scores, strict=True)) == expected
    command = {
        "flickr8k": "studies.flickr8k",
        "paper_runs": "studies.paper_runs run",
        "attend": "studies.attend_entities train --only",
    }[study]
    assert f"{command} {run}`" in card
    assert notes["scores"] == f"Flickr8k test: CIDEr {expected['CIDEr']}, BLEU-4 {expected['BLEU-4']}"


def table_of_scores(card: str) -> list[str]:
    """Its three lines: titles, rule, scores."""
    below = card.partition("## Scores\n")[2].splitlines()
    return [line for line in below if line.startswith("|")][:3]


def test_a_folder_at_home_is_one_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="mine is not a checkpoint"):
        load_captioner("~/mine")


@pytest.mark.parametrize(
    "source", ["http://h/v1#m?concurrency=0", "http://h/v1#m?timeout=nan", f"{DEFAULT_CAPTIONER}?beam=-1"]
)
def test_options_that_are_no_amount_are_refused(source: str) -> None:
    """No requests at once would wait for ever."""
    with pytest.raises(InputError, match=r"option \w+ cannot be"):
        load_captioner(source)


def test_no_images_and_no_address() -> None:
    assert load_captioner(DEFAULT_CAPTIONER).caption([]) == []
    with pytest.raises(InputError, match="is not an address"):
        load_captioner("http://h:x/v1#m")


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_captioners())
def test_they_describe_photographs(name: str) -> None:
    from skimage import data

    motorcycle = Path(data.__file__).parent / "motorcycle_left.png"
    (said,) = load_captioner(name).caption([open_image(motorcycle)])
    assert {"motorcycle", "motorbike", "bike", "bicycle"} & set(said.split())
