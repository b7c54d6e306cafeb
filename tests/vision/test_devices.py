"""Networks and what they look at are on one device: `meta` stands in for a GPU, which no test machine has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from captrial.captioners import create
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.loading import load_captioner
from captrial.captioners.trained import TrainedCaptioner
from captrial.cli.app import main
from captrial.engines.jobs.extract_features import FeatureJob
from captrial.errors import InputError
from captrial.language.vocabulary import Vocabulary
from captrial.training import feature_extraction
from captrial.vision import devices
from captrial.vision.backbones.base import Backbone
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.detectors.noun_localiser import NounLocaliser
from captrial.vision.devices import best_device, find_device, keep_freed_memory
from captrial.vision.registry import load_detector

ELSEWHERE = torch.device("meta")


def places(network: nn.Module) -> set[str]:
    return {tensor.device.type for tensor in network.state_dict().values()}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose best device is not the CPU."""
    for module in (devices, feature_extraction):
        monkeypatch.setattr(module, "best_device", lambda: ELSEWHERE)


def test_the_best_device_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert find_device() == best_device() == torch.device(device)
    with pytest.raises(InputError, match="device 'moon' cannot be used here"):
        find_device("moon")


@pytest.mark.skipif(not keep_freed_memory(), reason="a setting of glibc, not of every version")
def test_freed_memory_is_used_again() -> None:
    """A large tensor that is made again and again: the system gives its pages a few times, not every time."""
    code = """
import resource, torch
from captrial.vision.devices import keep_freed_memory
assert keep_freed_memory()
for _ in range(40):
    torch.ones(16 << 20)  # 64 MiB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 20 * 16384  # the pages of half of them


def test_images_go_to_the_network() -> None:
    backbone = EfficientNetLite(0, 64).to(ELSEWHERE)
    seen = backbone.extract([Image.new("RGB", (30, 20))])
    assert seen.boxes is not None
    assert {seen.elements.device, seen.mask.device, seen.boxes.device} == {ELSEWHERE}


def test_a_captioner_and_its_backbone_are_on_the_best_device(tmp_path: Path, elsewhere: None) -> None:
    words = Vocabulary.build([["a", "dog"]], min_count=1)
    captioner = create("att2in-small", words=len(words), features=1280, width=16, attention=8)
    Checkpoint(captioner, words, EfficientNetLite(0, 64).describe()).save_pretrained(tmp_path)
    loaded = load_captioner(str(tmp_path))
    assert isinstance(loaded, TrainedCaptioner)
    assert loaded.model is loaded.checkpoint.captioner  # nothing is packed there
    assert places(loaded.model) == places(loaded.backbone) == {"meta"}
    with pytest.raises(InputError, match="int8 weights are packed for the CPU: add device=cpu"):
        load_captioner(f"{tmp_path}?precision=int8&device=meta")
    packed = load_captioner(f"{tmp_path}?precision=int8")  # asks for the CPU
    assert len(packed.caption([Image.new("RGB", (30, 20))])) == 1


def test_features_are_extracted_on_the_best_device(
    tmp_path: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "0.png")
    seen: list[set[str]] = []

    def look(backbone: Backbone, images: list[Image.Image]) -> object:
        seen.append(places(backbone))
        return backbone.to_empty(device="cpu").extract(images), []

    monkeypatch.setattr(feature_extraction, "extract_batch", look)
    name = "efficientnet-lite0?size=64"
    with pytest.raises(SystemExit):
        main(["features", str(tmp_path), "--out", str(tmp_path / "store"), "--backbone", name])
    assert seen == [{"meta"}]
    assert places(FeatureJob(name).backbone) == {"meta"}


def test_the_localiser_searches_on_the_cpu() -> None:
    """Cells go to where its head is, from a store, too; its maps are fetched back, which from `meta` is impossible."""
    localiser = load_detector("localiser?finer=no")
    assert isinstance(localiser, NounLocaliser)
    seen = localiser.grid.extract([Image.new("RGB", (30, 20))])
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta"):
        localiser.to(ELSEWHERE).maps(seen)
