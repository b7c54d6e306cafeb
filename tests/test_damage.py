"""Damaged folders are noticed, by every reader and by `captrial verify`; hostile and changed inputs are, too."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from captrial.attribution.methods.registry import AttributionSettings
from captrial.captioners.batch_captioning import caption_to_file
from captrial.captioners.checkpoint import LENGTH_POWER, Checkpoint
from captrial.captioners.endpoint import EndpointCaptioner
from captrial.cli.app import app
from captrial.compete import Competition, SelectionSettings
from captrial.errors import CaptrialError, DamagedError, InputError
from captrial.folders import CHECKSUMS
from captrial.records import ImageRef, Sample
from captrial.training.feature_extraction import extract
from captrial.training.recipe import Recipe
from captrial.vision.backbones.vgg import restore_vgg
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from hostile_endpoint import hostile_endpoint
from kills import MeanColours
from stored_inputs import CHECKPOINT, COMPETITION, OUTPUT, RUN, STORE, VISION, Files, features, read_competition

FOLDERS: dict[str, tuple[Callable[[], Files], tuple[str, ...]]] = {
    "competition": (
        COMPETITION,
        ("competition.json", "pool.parquet", "captions/1.parquet", "selection/0-1.json", "selection/captions.parquet"),
    ),
    "feature store": (STORE, ("store.json", "elements.f16", "boxes.f16", "index.jsonl")),
    "training run": (
        RUN,
        ("run.json", "state.safetensors", "best/model.safetensors", "best/config.json", "best/vocabulary.json"),
    ),
    "checkpoint": (CHECKPOINT, ("config.json", "model.safetensors", "vocabulary.json")),
    "output of a job": (OUTPUT, ("run.json", "part-000000.parquet", "part-000001.parquet")),
}
CASES = [(kind, name) for kind, (_, names) in FOLDERS.items() for name in names]


def write(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def verify(folder: Path) -> tuple[int, dict[str, object]]:
    result = CliRunner().invoke(app, ["verify", str(folder), "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("kind", FOLDERS)
def test_undamaged_folders_pass(kind: str, tmp_path: Path) -> None:
    code, told = verify(write(tmp_path, FOLDERS[kind][0]()))
    assert (code, told["kind"], told["problems"]) == (0, kind, [])


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.parametrize("damage", ["cut", "bit", "longer"])
def test_every_kind_of_damage_is_reported(kind: str, name: str, damage: str, tmp_path: Path) -> None:
    files = FOLDERS[kind][0]()
    content = files[name]
    half = len(content) // 2
    changed = {
        "cut": content[:half],
        "bit": content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :],
        "longer": content + b"\0" * 7 + b"\n",
    }[damage]
    if kind == "feature store" and (damage, name[-3:]) in {("longer", "f16"), ("cut", "onl")}:
        pytest.skip("a killed extraction leaves the same; the next one continues from there")
    code, told = verify(write(tmp_path, {**files, name: changed}))
    assert code == 1
    assert any("damaged: " in problem for problem in told["problems"])  # type: ignore[attr-defined]


def test_a_store_that_was_cut_is_not_filled_with_zeros(tmp_path: Path) -> None:
    write(tmp_path, {**STORE(), "elements.f16": STORE()["elements.f16"][:6]})
    for use in (lambda: FeatureStore(tmp_path), lambda: FeatureWriter(tmp_path, VISION)):
        with pytest.raises(DamagedError, match=r"has 6 bytes, the index lists 24"):
            use()
    assert (tmp_path / "elements.f16").stat().st_size == 6


def test_features_of_another_image_are_noticed_when_they_are_read(tmp_path: Path) -> None:
    content = STORE()["elements.f16"]
    write(tmp_path, {**STORE(), "elements.f16": content[12:] + b"\0" * 12})
    with pytest.raises(DamagedError, match="do not match their checksum"):
        FeatureStore(tmp_path).get(["b"])


def test_commands_on_a_damaged_competition(tmp_path: Path) -> None:
    write(tmp_path, {**COMPETITION(), "captions/0.parquet": COMPETITION()["captions/1.parquet"]})
    (tmp_path / "selection" / "captions.parquet").unlink()
    with pytest.raises(DamagedError):
        read_competition(tmp_path)
    with pytest.raises(DamagedError):
        Competition.open(tmp_path).select(SelectionSettings(2, 2), again=True)


# Changed images ----------------------------------------------------------------------------------------------------


def colour(path: Path, name: str) -> None:
    Image.new("RGB", (8, 8), name).save(path)


def test_features_of_a_changed_image_are_extracted_again(tmp_path: Path) -> None:
    samples = [Sample(ImageRef(name, tmp_path / f"{name}.png"), ()) for name in "ab"]
    for sample in samples:
        colour(sample.image.path or Path(), "black")
    assert extract(samples, MeanColours(), tmp_path / "store").extracted == 2  # type: ignore[arg-type]
    colour(tmp_path / "a.png", "white")
    (tmp_path / "b.png").touch()  # another time, the same content
    outcome = extract(samples, MeanColours(), tmp_path / "store")  # type: ignore[arg-type]
    assert (outcome.images, outcome.extracted) == (2, 1)
    store = FeatureStore(tmp_path / "store")
    assert [float(store.get([name]).elements.mean()) for name in "ab"] == [1, 0]
    assert extract(samples, MeanColours(), tmp_path / "store").extracted == 0  # type: ignore[arg-type]


class Brightness:
    def caption(self, images: list[Image.Image]) -> list[str]:
        return [str(image.getpixel((0, 0))) for image in images]


def test_a_changed_image_is_captioned_again(tmp_path: Path) -> None:
    images = [ImageRef(name, tmp_path / f"{name}.png") for name in "ab"]
    for image in images:
        colour(image.path or Path(), "black")
    caption_to_file(Brightness(), images, tmp_path / "c.jsonl")  # type: ignore[arg-type]
    colour(tmp_path / "a.png", "white")
    caption_to_file(Brightness(), images, tmp_path / "c.jsonl")  # type: ignore[arg-type]
    lines = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert {line["id"]: line["caption"] for line in lines} == {"a": "(255, 255, 255)", "b": "(0, 0, 0)"}
    assert len(lines) == 2


# Hostile inputs ----------------------------------------------------------------------------------------------------


def answering(content: bytes, **headers: str) -> AbstractContextManager[str]:
    """The address of a server that sends this content to every request."""
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return hostile_endpoint(f"HTTP/1.0 200 OK\r\n{head}\r\n".encode() + content)


def answer(content: object, usage: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}], "usage": usage}).encode()


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (answer("a " * 40_000_000, None), {}),
        (gzip.compress(answer("a " * 40_000_000, None)), {"Content_Encoding": "gzip"}),
        (b"\x1f\x8b damaged", {"Content_Encoding": "gzip"}),
        (answer("a dog", None), {"Content_Encoding": "br"}),
        (answer("word " * 2000, None), {}),
    ],
    ids=["large", "gzip bomb", "damaged gzip", "unknown encoding", "long caption"],
)
def test_answers_that_are_too_large_are_one_image_s_error(content: bytes, headers: dict[str, str]) -> None:
    with answering(content, **headers) as base:
        (found,) = EndpointCaptioner(base, "m", tries=1).try_caption([Image.new("RGB", (8, 8))])
    assert isinstance(found, InputError)


@pytest.mark.parametrize(
    "usage", ["many", [1], {"prompt_tokens": "x"}, {"prompt_tokens": [3]}, {"prompt_tokens": -4}, 7]
)
def test_counts_of_tokens_of_another_type_count_as_none(usage: object) -> None:
    with answering(gzip.compress(answer("a dog", usage)), Content_Encoding="gzip") as base:
        captioner = EndpointCaptioner(base, "m", tries=1)
        assert captioner.caption([Image.new("RGB", (8, 8))]) == ["a dog"]
    assert captioner.usage.prompt_tokens == 0


def test_messages_about_an_endpoint_hold_no_password() -> None:
    with pytest.raises(CaptrialError) as caught:
        EndpointCaptioner("http://me:secret@127.0.0.1:9/v1", "m", tries=1).caption([Image.new("RGB", (8, 8))])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", [10**6, 10**9, 10**12])
@pytest.mark.parametrize("option", ["width", "hidden", "words", "encoder_layers"])
def test_sizes_of_a_checkpoint_are_checked_before_memory_is_allocated(
    option: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, CHECKPOINT())
    (tmp_path / CHECKSUMS).unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    config["options"][option] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"more than its weights have|does not fit the sizes"):
        Checkpoint.from_pretrained(tmp_path)


@pytest.mark.parametrize("power", ["1", None, -1, 1e9, [1]])
def test_a_length_power_that_is_none_is_refused(power: object, tmp_path: Path) -> None:
    write(tmp_path, CHECKPOINT())
    (tmp_path / CHECKSUMS).unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "length_power": power}))
    with pytest.raises(InputError, match="length_power"):
        Checkpoint.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({key: config[key] for key in config if key != "length_power"}))
    assert Checkpoint.from_pretrained(tmp_path).length_power == LENGTH_POWER  # of an earlier version


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    write(tmp_path, CHECKPOINT())
    (tmp_path / CHECKSUMS).unlink()
    weights = load_file(tmp_path / "model.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=name):
        Checkpoint.from_pretrained(tmp_path)


def test_a_description_cannot_name_a_pickle(tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(b"x")
    with pytest.raises(InputError, match=r"only \.safetensors"):
        restore_vgg({"source": str(tmp_path / "w.pth"), "preprocess": {}})


@pytest.mark.parametrize(
    "options", [{"scheduled_sampling": 5.0}, {"smoothing": 1.5}, {"rate": float("inf")}, {"decay": float("nan")}]
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        Recipe(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("tolerance", [float("nan"), 0.0, -1.0, float("inf")])
def test_a_tolerance_that_makes_no_sense_is_refused(tolerance: float) -> None:
    with pytest.raises(InputError, match="tolerance"):
        AttributionSettings(tolerance=tolerance)


def test_extracted_features_have_sums(tmp_path: Path) -> None:
    with FeatureWriter(tmp_path, VISION) as writer:
        writer.add(["a"], features())
    assert json.loads((tmp_path / "index.jsonl").read_text())["sum"]


def test_the_studio_notices_a_model_that_was_added(tmp_path: Path) -> None:
    from captrial.studio.app import _is_fresh

    directory = write(tmp_path / "c", COMPETITION())
    for path in directory.rglob("*"):
        os.utime(path, (1, 1))
    (directory / "report").mkdir()
    (directory / "report" / "index.html").write_text("the ranking so far")
    assert _is_fresh(directory / "report")
    os.utime(directory / "report" / "index.html", (2, 2))
    rows = [{"image_id": number, "caption": "a dog"} for number in range(12)]
    (tmp_path / "late.json").write_text(json.dumps(rows))
    Competition.open(directory).add_model("late", tmp_path / "late.json")
    assert not _is_fresh(directory / "report")
