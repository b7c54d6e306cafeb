"""The commands on a VLM: caption, explain, ground, attend, the studio and a competition."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from captioners.huggingface.tiny_checkpoints import Lesson
from captioners.huggingface.tiny_vlms import VLMS
from captrial.errors import InputError
from captrial.grounding.score import Grounder
from captrial.studio.image_explainer import ImageExplainer
from captrial.studio.tasks import StudioTask
from captrial.toyworld import ToyWorldSettings, write_toyworld
from grounding.study_world import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # PaliGemma's processor
]
Vlm = Callable[..., Path]
OTHERS = [pytest.param(name, marks=pytest.mark.full) for name in VLMS if name != "qwen2_5_vl"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_toyworld(folder, ToyWorldSettings(3, size=64, shares={"test": 1}))
    return folder


@pytest.mark.parametrize("name", ["qwen2_5_vl", *OTHERS])
def test_ground_and_attend(vlm: Vlm, world: Path, tmp_path: Path, name: str) -> None:
    """Several methods and captioners; a run that was killed continues with the image it was killed in."""
    models = f"{vlm(name)}?max_tokens=16,m2"
    methods = ["--methods", "attention,attention_x_gradient", "--device", "cpu"]
    arguments = ["ground", "--data", world, "--models", models.split(",")[0], *methods, "--out", tmp_path, "--json"]
    document = orjson.loads(run(*arguments))
    assert [row["section"] for row in document["grounding"]["rows"]] == ["image tokens or pixels"]
    (kept,) = (tmp_path / "nouns").glob("*-attention.jsonl")
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:2]) + lines[2][:20])
    assert orjson.loads(run(*arguments)) == document
    assert sorted(kept.read_bytes().splitlines()) == sorted(line.rstrip() for line in lines)
    forced = ["--captions", "forced-classes", "--limit", "2", "--examples", "1", "--methods", "saliency"]
    found = run("attend", "--data", world, "--models", models, *forced, "--out", tmp_path / "attend", "--json")
    assert len(next(iter(orjson.loads(found).values()))["rows"]) >= 2


@pytest.mark.parametrize("name", ["qwen2_5_vl", *OTHERS])
def test_captions_of_a_folder_continue(vlm: Vlm, world: Path, tmp_path: Path, name: str) -> None:
    """Finished parts are kept, a missing one is made again, the same."""
    line = [
        "caption",
        world / "images",
        "--model",
        f"{vlm(name)}?max_tokens=6",
        "--out",
        tmp_path,
    ]
    run(*line)
    (part,) = tmp_path.rglob("*.parquet")
    written, captions = part.stat().st_mtime_ns, pq.read_table(part).column("caption").to_pylist()
    assert len(captions) == 3
    assert all(captions)
    run(*line)
    assert part.stat().st_mtime_ns == written
    part.unlink()
    run(*line)
    assert pq.read_table(part).column("caption").to_pylist() == captions


def test_what_does_not_suit_a_vlm_is_refused(vlm: Vlm, world: Path, tmp_path: Path) -> None:
    arguments = ["ground", "--data", world, "--models", vlm("qwen2_5_vl", False), "--methods", "attention"]
    for option, message in ((["--workers", "2"], "reads images"), (["--features", world], "reads images")):
        with pytest.raises(InputError, match=message):
            run(*arguments, "--out", tmp_path / "no", *option)
    with pytest.raises(InputError, match="explain it by occlusion"):
        run("ground", "--data", world, "--models", "http://127.0.0.1:9/v1#m", "--out", tmp_path / "no")


def test_attention_x_gradient_needs_image_tokens(world: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="follows the image tokens of a VLM, which m2 does not have"):
        run("ground", "--data", world, "--models", "m2", "--methods", "attention_x_gradient", "--out", tmp_path)


def test_explain_shows_what_needed_no_image(vlm: Vlm, lesson: Lesson, tmp_path: Path) -> None:
    for number, image in enumerate(lesson.images[:3]):
        (tmp_path / "others").mkdir(exist_ok=True)
        image.save(tmp_path / "others" / f"{number}.png")
    image = tmp_path / "others" / "0.png"
    line = [
        "explain",
        image,
        "--model",
        vlm("llava"),
        "--method",
        "saliency",
        "--regions",
        "grid",
        "--dtype",
        "float32",
    ]
    line += ["--dtype", "float32", "--device", "cpu", "--without-context", "--json", "--out"]
    blank = orjson.loads(run(*line, tmp_path / "blank"))
    assert all(0 <= word["language_share"] <= 1 for word in blank["words"])
    foreign = orjson.loads(run(*line, tmp_path / "foreign", "--prior", tmp_path / "others"))
    assert foreign["words"][0]["language_share"] >= 1 / 3  # its own image is among the three
    off = orjson.loads(run(*line, tmp_path / "off", "--prior", "off"))
    assert {word["language_share"] for word in off["words"]} == {None}
    page = (tmp_path / "blank" / "index.html").read_text()
    assert "needed no image" in page
    with pytest.raises(InputError, match="give blank, off, or a folder with images"):
        run(*line, tmp_path / "no", "--prior", tmp_path / "nothing")


def test_the_studio_and_a_competition(
    vlm: Vlm, world: Path, lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(vlm("llava"))

    class NoRegions:
        name, labels = "none", ("dog",)

        def detect(self, images: Any) -> list[list[Any]]:
            return [[] for _ in images]

    explainer = ImageExplainer([source])
    monkeypatch.setattr(explainer, "_detection", (NoRegions(), Grounder(["dog"])))
    name = explainer.names[-1]
    task, content = StudioTask(1, explainer.count_steps([name])), io.BytesIO()
    lesson.images[0].save(content, "PNG")
    explainer.run(task, content.getvalue(), "image.png", [name], "attention")
    words = task.results[-1]["words"]
    assert " ".join(word["text"] for word in words) == lesson.captions[0]
    assert all(word["prior"] is not None for word in words)
    captioners = ["--captioner", f"a={source}?max_tokens=8", "--captioner", f"b={vlm('blip-2')}?max_tokens=8"]
    run("compete", "new", tmp_path / "trial", *captioners, "--images", world / "images")
    assert len((tmp_path / "trial.captions" / "b.jsonl").read_bytes().splitlines()) == 3
