"""What `import captrial` gives: six names, light until they are used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

import captrial
from captrial.errors import ImageError, InputError

HEAVY = ("torch", "numpy", "PIL", "spacy", "pyarrow", "fastapi", "typer")


class Namer:
    """A captioner of somebody else: it says how wide an image is, and remembers how many it was given at once."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        self.batches.append(len(images))
        return [f"{image.width} wide" for image in images]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "red.png"
    Image.new("RGB", (70, 50), "red").save(path)
    return path


def test_importing_it_imports_nothing_else() -> None:
    code = f"import captrial, sys; print([name for name in {HEAVY} if name in sys.modules], dir(captrial))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.startswith("[]")
    for name in ("load", "caption", "score", "explain", "ground", "Competition"):
        assert f"'{name}'" in found.stdout


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_waiting_threads_spin_shortly_unless_the_user_chose(given: dict[str, str], expected: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}}
    code = "import captrial, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    found = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **given}, capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == expected


def test_every_promised_name_is_there_and_documented() -> None:
    for name in set(captrial.__all__) - {"__version__"}:
        assert getattr(captrial, name).__doc__
        assert callable(getattr(captrial, name))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        captrial.nonsense  # noqa: B018


def test_without_torch_it_scores_competes_and_says_what_is_missing() -> None:
    code = """
import sys; sys.modules["torch"] = None
import captrial
print(captrial.score({"1": "a dog"}, {"1": ["a dog"]}, metrics=["bleu"]).to_dict()["system"]["bleu_1"])
print(captrial.Competition.__name__, captrial.load("http://127.0.0.1:9/v1#some").__class__.__name__)
try: captrial.load()
except captrial.errors.MissingExtraError as error: print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    first, second, third = found.stdout.splitlines()
    assert float(first) == pytest.approx(1)
    assert second == "Competition EndpointCaptioner"
    assert "pip install 'captrial[models]'" in third


def test_one_image_gives_a_sentence_and_several_a_list(image: Path) -> None:
    namer = Namer()
    assert captrial.caption(image, namer) == "70 wide"
    assert captrial.caption(str(image), namer) == "70 wide"
    assert captrial.caption(image.read_bytes(), namer) == "70 wide"
    assert captrial.caption(Image.new("RGB", (3, 3)), namer) == "3 wide"
    assert captrial.caption([], namer) == []
    namer.batches.clear()
    assert captrial.caption((image for _ in range(5)), namer, batch=2) == ["70 wide"] * 5
    assert namer.batches == [2, 2, 1]


def test_what_cannot_be_done_is_said(image: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="beam belongs to loading"):
        captrial.caption(image, Namer(), beam=3)
    with pytest.raises(InputError, match="batch=0: at least one image"):
        captrial.caption([image], Namer(), batch=0)
    with pytest.raises(ImageError, match=r"none\.png"):
        captrial.caption([tmp_path / "none.png"], Namer())
    with pytest.raises(InputError, match="no option 'nonsense'"):
        captrial.load("transformer", nonsense=1)


@pytest.mark.slow
def test_the_shipped_captioner_is_loaded_once_and_explained(image: Path) -> None:
    from captrial.captioners.loading import _load_shipped
    from captrial.captioners.registry import DEFAULT_CAPTIONER

    _load_shipped.cache_clear()
    said = captrial.caption(image, beam=2)
    assert captrial.caption([image], DEFAULT_CAPTIONER, beam=2) == [said]
    assert _load_shipped.cache_info().misses == 1
    captioner = captrial.load(beam=2)
    explanation = captrial.explain(captioner, image, method="saliency")
    assert explanation.caption == said == captrial.caption(image, captioner)
    assert explanation.to_numpy().shape[0] == len(said.split())
    grounded = captrial.ground(captioner, image, method="saliency", regions="localiser")
    assert grounded.caption == said
    assert [noun.verdict for noun in grounded.nouns] == [grounded.verdict(noun.position) for noun in grounded.nouns]
