"""Transformers adapters on complete local checkpoints that were fine-tuned until they know 20 toy images by heart."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from captioners.huggingface.tiny_checkpoints import Lesson
from captrial.attribution.explain import explain
from captrial.captioners.huggingface import (
    FAMILIES,
    Family,
    HfCaptioner,
    HfOptions,
    families,
    find_family,
    load_transformers,
)
from captrial.captioners.huggingface.families import Blip
from captrial.captioners.huggingface.processors import visible_window
from captrial.captioners.loading import load_captioner, read_options, split_source
from captrial.captioners.protocols import Explainable, WordSpan
from captrial.cli.app import app
from captrial.errors import InputError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # PaliGemma's processor
]
Tiny = Callable[[str], Path]
TRAINED = ["blip", "git", "vit_gpt2", "llava"]
SIZES = [(64, 64), (120, 40), (200, 200), (50, 90)]


def load(tiny: Tiny, name: str, **options: Any) -> HfCaptioner:
    return load_transformers(str(tiny(name)), HfOptions(**options))


@pytest.mark.parametrize("name", TRAINED)
def test_reproduces_its_captions_word_for_word(tiny: Tiny, lesson: Lesson, name: str) -> None:
    """Greedy and by beam, all together, in batches of three, and alone: neighbours in a batch do not matter."""
    assert load(tiny, name).caption(lesson.images) == lesson.captions
    assert load(tiny, name, beam=1, batch=3).caption(lesson.images) == lesson.captions
    alone = load(tiny, name, beam=2, batch=1)
    assert alone.caption(lesson.images[:5]) == lesson.captions[:5]
    assert "torchvision" not in sys.modules
    assert type(alone.image_processor).__name__.endswith("Pil")


@pytest.mark.parametrize("name", ["qwen2_vl", "smolvlm", "paligemma", "llava"])
def test_images_of_all_sizes_share_a_batch(tiny: Tiny, lesson: Lesson, name: str) -> None:
    """Where size decides how many tokens an image has, prompts differ in length and are padded on the left."""
    images = [image.resize(size) for image, size in zip(lesson.images, SIZES, strict=False)]
    captioner = load(tiny, name, max_tokens=6)
    together = captioner._generate(images)
    assert together == [captioner.generate(image) for image in images]
    assert all(together)
    assert captioner.tokenizer.padding_side == "left"


def test_a_batch_that_does_not_fit_is_halved(tiny: Tiny, lesson: Lesson, monkeypatch: pytest.MonkeyPatch) -> None:
    captioner, tried = load(tiny, "git", beam=1, batch=8), []
    generate, room = captioner._generate_together, 2

    def within(images: Sequence[Image.Image]) -> list[list[int]]:
        tried.append(len(images))
        if len(images) > room:
            raise torch.OutOfMemoryError
        return generate(images)

    monkeypatch.setattr(captioner, "_generate_together", within)
    assert captioner.caption(lesson.images[:5]) == lesson.captions[:5]
    assert tried == [5, 2, 2, 1]
    room = 0
    with pytest.raises(InputError, match="too small for one image"):
        captioner.caption(lesson.images[:1])


@pytest.mark.parametrize("name", TRAINED)
def test_forced_words_are_the_generated_ones(tiny: Tiny, lesson: Lesson, name: str) -> None:
    """Position i of the explainable path scores token i: its best words are what greedy decoding says."""
    captioner = load(tiny, name, beam=1)
    assert isinstance(captioner, Explainable)
    said = [captioner.generate(image) for image in lesson.images[:3]]
    seen = torch.stack([captioner.visual_input(image).inputs for image in lesson.images[:3]])
    length = max(map(len, said))
    tokens = torch.tensor([row + [row[-1]] * (length - len(row)) for row in said])
    logits = captioner.decode(captioner.encode(seen), tokens).logits
    assert logits.shape[:3] == (3, 3, length)
    for image, row in enumerate(said):
        assert logits[image, image].argmax(-1)[: len(row)].tolist() == row
    one = captioner.decode(captioner.encode(seen[1:2]), tokens[2:]).logits
    assert torch.allclose(one[0, 0], logits[1, 2], atol=1e-4)  # neither neighbours nor other sentences matter


@pytest.mark.parametrize("name", TRAINED)
def test_gradients_reach_the_pixels(tiny: Tiny, lesson: Lesson, name: str) -> None:
    """The gradient of a word's score agrees with finite differences of the pixels, along it and across."""
    captioner = load(tiny, name, dtype="float64")  # parts of some models compute in float32 all the same
    tokens = torch.tensor([captioner.tokenize(lesson.captions[4])])
    place = tokens.shape[1] // 2

    def score(pixels: torch.Tensor) -> torch.Tensor:
        return captioner.decode(captioner.encode(pixels), tokens).logits[0, 0, place, tokens[0, place]]

    pixels = captioner.visual_input(lesson.images[4]).inputs[None].requires_grad_()
    (gradient,) = torch.autograd.grad(score(pixels), pixels)
    size = float(gradient.norm())
    assert size > 0
    across = torch.randn(pixels.shape, dtype=pixels.dtype, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for direction in (gradient / size, across / across.norm()):
            change = float(score(pixels + 1e-2 * direction) - score(pixels - 1e-2 * direction)) / 2e-2
            assert float((gradient * direction).sum()) == pytest.approx(change, abs=3e-3 * size)


@pytest.mark.parametrize("name", TRAINED)
def test_every_word_is_explained_in_one_call(tiny: Tiny, lesson: Lesson, name: str) -> None:
    captioner = load(tiny, name)
    found = explain(captioner, lesson.images[0], tolerance=0.02)
    assert found.caption == lesson.captions[0]
    assert found.attribution.error is not None
    assert found.attribution.error < 0.02
    assert found.attribution.grid is not None
    assert (found.to_numpy().sum(1) > 0).all()


@pytest.mark.parametrize("name", TRAINED)
def test_words_are_merged(tiny: Tiny, lesson: Lesson, name: str) -> None:
    captioner = load(tiny, name)
    for caption in lesson.captions:
        tokens = captioner.tokenize(caption)
        words = captioner.word_spans(tokens)
        assert [word.text for word in words] == caption.split()
        assert [word.start for word in words] == [0, *(word.end for word in words[:-1])]
        assert words[-1].end == len(tokens)
    assert any(
        len(captioner.word_spans(captioner.tokenize(text))) < len(captioner.tokenize(text)) for text in lesson.captions
    )


def test_words_of_bytes_and_signs(tiny: Tiny) -> None:
    """Letters of several byte tokens, apostrophes, hyphens and punctuation."""
    captioner = load(tiny, "vit_gpt2")
    words = captioner.word_spans(captioner.tokenize("a café, the dog's re-run 🐶."))
    assert [word.text for word in words] == ["a", "café", ",", "the", "dog's", "re-run", "🐶", "."]
    assert all(a.end <= b.start for a, b in itertools.pairwise(words))
    special = captioner.tokenizer.eos_token_id
    dog = captioner.tokenize("dog")
    assert captioner.word_spans([special, *dog, special]) == [WordSpan("dog", 1, 1 + len(dog))]
    assert captioner.word_spans([]) == []


def test_a_prompt_is_continued_not_repeated(tiny: Tiny, lesson: Lesson) -> None:
    first = lesson.captions[0].split()[0]
    rest = lesson.captions[0].removeprefix(f"{first} ")
    for name in ("blip", "git"):
        assert load(tiny, name, prompt=first, beam=1).caption(lesson.images[:1]) == [rest]
    assert load(tiny, "vit_gpt2", prompt=first, beam=1).caption(lesson.images[:1]) == [rest]


def test_what_is_cropped_away_is_outside_the_window(tiny: Tiny) -> None:
    cropping = load(tiny, "git")
    assert visible_window(cropping.image_processor, (200, 100)) == (0.25, 0.0, 0.75, 1.0)
    assert visible_window(cropping.image_processor, (100, 300)) == pytest.approx((0.0, 1 / 3, 1.0, 2 / 3))
    assert load(tiny, "blip").visual_input(Image.new("RGB", (200, 100))).window == (0.0, 0.0, 1.0, 1.0)
    wide = Image.new("RGB", (200, 100), "black")
    wide.paste("white", (0, 0, 50, 100))  # only what is cropped away
    plain = cropping.visual_input(Image.new("RGB", (200, 100), "black"))
    assert torch.allclose(
        cropping.visual_input(wide).inputs[..., 4:], plain.inputs[..., 4:]
    )  # up to the resampling's edge


def test_images_in_pieces_are_not_explained(tiny: Tiny, lesson: Lesson) -> None:
    for name in ("qwen2_vl", "smolvlm"):
        with pytest.raises(InputError, match="one tensor of fixed size"):
            load(tiny, name).visual_input(lesson.images[0])
    pali = load(tiny, "paligemma", max_tokens=4)
    said = torch.tensor([pali.generate(lesson.images[0])])
    logits = pali.decode(pali.encode(pali.visual_input(lesson.images[0]).inputs[None]), said).logits
    assert torch.equal(logits[0].argmax(-1), said)


def test_caption_command_and_competition(tiny: Tiny, lesson: Lesson, tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for number, image in enumerate(lesson.images[:4]):
        image.save(images / f"{number}.png")
    run = CliRunner()
    said = run.invoke(app, ["caption", str(images / "2.png"), "--model", str(tiny("git")), "--beam", "2", "--json"])
    assert said.exit_code == 0, said.output
    assert list(orjson.loads(said.stdout).values()) == [lesson.captions[2]]
    captioners = ["--captioner", f"git={tiny('git')}?beam=1&batch=2", "--captioner", f"chat={tiny('llava')}"]
    made = run.invoke(app, ["compete", "new", str(tmp_path / "c"), *captioners, "--images", str(images)])
    assert made.exit_code == 0, made.output
    lines = [orjson.loads(line) for line in (tmp_path / "c.captions" / "chat.jsonl").read_bytes().splitlines()]
    assert [line["caption"] for line in lines] == lesson.captions[:4]


def test_only_safetensors_unless_allowed(tiny: Tiny, lesson: Lesson, tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    shutil.copytree(tiny("git"), folder)
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"only pytorch_model.bin.*--allow-pickle"):
        load_captioner(str(folder))
    trusted = load_captioner(f"{folder}?allow_pickle=yes")
    assert trusted.caption(lesson.images[:1]) == lesson.captions[:1]
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match="nor any other file of weights"):
        load_captioner(str(folder))


def test_code_of_a_checkpoint_is_not_run_unless_allowed(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    shutil.copytree(tiny("git"), folder)
    config = orjson.loads((folder / "config.json").read_bytes())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (folder / "config.json").write_bytes(orjson.dumps(config))
    (folder / "own.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n")
    with pytest.raises(InputError, match="--trust-remote-code"):
        load_captioner(str(folder))
    assert not list(folder.rglob("ran"))


def test_errors_tell_why_a_checkpoint_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load_captioner(str(tmp_path / "nowhere"))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(InputError, match="bert model does not caption"):
        load_captioner(str(tmp_path))
    with pytest.raises(InputError, match="no option 'beams'"):
        load_captioner(f"{tmp_path}?beams=3")
    with pytest.raises(InputError, match="cannot be 'many'"):
        load_captioner(f"{tmp_path}?beam=many")
    with pytest.raises(InputError, match="device 'moon'"):
        HfOptions(device="moon").torch_device()
    with pytest.raises(InputError, match="dtype 'int8'"):
        HfOptions(dtype="int8").torch_dtype()


def test_options_behind_a_source() -> None:
    assert split_source("http://h/v1?x=1#m?prompt=Say%20it.") == ("http://h/v1?x=1#m", {"prompt": "Say it."})
    assert split_source("a/b") == ("a/b", {})
    assert read_options("a", {"beam": "3", "trust_remote_code": "no"}, {"beam": int, "trust_remote_code": bool}) == {
        "beam": 3,
        "trust_remote_code": False,
    }


def test_names_come_from_the_cache_or_the_error_names_the_network(tiny: Tiny, lesson: Lesson, tmp_path: Path) -> None:
    """A name in the cache works without a network; one that is not there gives the way out."""
    cached = tmp_path / "hub" / "models--me--tiny"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    shutil.copytree(tiny("git"), cached / "snapshots" / ("0" * 40))
    lesson.images[0].save(tmp_path / "0.png")
    nowhere = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")}
    nowhere |= {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1"}

    def caption(name: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "captrial", "caption", str(tmp_path / "0.png"), "--model", name, "--json"]
        return subprocess.run(line, env=nowhere, capture_output=True, text=True, timeout=200)

    known = caption("me/tiny")
    assert known.returncode == 0, known.stderr
    assert list(orjson.loads(known.stdout).values()) == [lesson.captions[0]]
    unknown = caption("me/other")
    assert unknown.returncode == 2
    assert "hf download me/other --local-dir DIR" in " ".join(unknown.stderr.split())
    assert "offline mode is on" in " ".join(unknown.stderr.split())
    assert "Traceback" not in unknown.stderr


def test_a_new_family_is_one_entry(tiny: Tiny, lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class and its entry: its checkpoints caption on the command line, and their words are explained."""

    class Capitals(Blip):
        """BLIP in capitals."""

        def caption(self, images: Sequence[Image.Image]) -> list[str]:
            return [text.upper() for text in super().caption(images)]

    entry = Family("capitals", "BLIP in capitals", Capitals, ("blip",))
    monkeypatch.setattr(families, "FAMILIES", [entry, *FAMILIES])
    assert find_family("blip") is entry
    assert isinstance(load(tiny, "blip"), Explainable)
    lesson.images[0].save(tmp_path / "a.png")
    line = ["caption", str(tmp_path / "a.png"), "--model", str(tiny("blip")), "--json"]
    done = CliRunner().invoke(app, line, catch_exceptions=False)
    assert list(orjson.loads(done.stdout).values()) == [lesson.captions[0].upper()]
