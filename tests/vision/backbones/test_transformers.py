"""Any transformers vision backbone: elements, boxes, gradients, on complete tiny checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from captrial.errors import InputError, MismatchError, MissingExtraError
from captrial.vision.backbones.transformers import TransformersBackbone, clip
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.preprocess import Preprocess
from vision.small_models import BACKBONES, SIDE, STRETCHED, VIT, make_backbone, save_model

EXPECTED = {  # (class token, cells a side, width)
    "clip": (True, 4, 24),
    "clip_vision": (True, 4, 24),
    "siglip": (False, 4, 24),
    "vit": (True, 4, 24),
    "vit_classifier": (True, 4, 24),
    "deit": (True, 4, 24),  # its distillation token is left out
    "dinov2": (True, 4, 24),
    "dinov2_registers": (True, 4, 24),  # its four registers are left out
    "swin": (False, 4, 32),
    "convnext": (False, 2, 16),
    "resnet": (False, 2, 16),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    base = tmp_path_factory.mktemp("backbones")
    return {kind: make_backbone(kind, base / kind) for kind in BACKBONES}


@pytest.fixture(scope="module")
def load(folders: dict[str, str]) -> Callable[[str], TransformersBackbone]:
    return cache(lambda kind: TransformersBackbone(folders[kind]))


def noise(seed: int = 1, side: int = SIDE) -> torch.Tensor:
    return torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(seed))


def image(width: int = 90, height: int = 60) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8))


@pytest.mark.parametrize("kind", BACKBONES)
def test_elements_and_boxes(load: Callable[[str], TransformersBackbone], kind: str) -> None:
    has_class, side, width = EXPECTED[kind]
    backbone = load(kind)
    features = backbone.extract([image(), image(60, 90)])
    assert features.elements.shape == (2, has_class + side * side, width)
    assert (backbone.width, backbone.class_token) == (width, has_class)
    assert features.boxes is not None
    boxes = features.boxes[0]
    if has_class:
        assert boxes[0].tolist() == [0, 0, 1, 1]
    torch.testing.assert_close(boxes[-1], torch.tensor([1 - 1 / side, 1 - 1 / side, 1, 1]))
    torch.testing.assert_close(boxes[has_class + side], torch.tensor([0, 1, 1, 2]) / side)
    assert features.mask.all()
    assert not torch.equal(features.elements[0], features.elements[1])


@pytest.mark.parametrize("kind", BACKBONES)
def test_a_cell_is_moved_most_by_the_pixels_in_its_box(load: Callable[[str], TransformersBackbone], kind: str) -> None:
    """Gradients reach the pixels, and the boxes are where the elements look."""
    backbone = load(kind)
    pixels = noise().requires_grad_()
    elements = backbone.elements(pixels)
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    side = backbone.side
    step = SIDE // side
    # A ResNet's odd kernels with stride two are centred on the upper left corner of their cell, not on its middle.
    shifts = (0, 1) if kind == "resnet" else (0,)
    for row, column in np.ndindex(side, side):
        readout = torch.randn(backbone.width, generator=torch.Generator().manual_seed(row * side + column))
        target = elements[0, int(backbone.class_token) + row * side + column] @ readout
        (slope,) = torch.autograd.grad(target, pixels, retain_graph=True)
        energy = slope.square().sum((0, 1)).reshape(side, step, side, step).mean((1, 3))
        peak = np.unravel_index(int(energy.argmax()), (side, side))
        assert row - peak[0] in shifts
        assert column - peak[1] in shifts


@pytest.mark.parametrize("kind", ["clip", "swin", "resnet"])
def test_the_same_checkpoint_gives_the_same_features(folders: dict[str, str], kind: str) -> None:
    first, second = (TransformersBackbone(folders[kind]) for _ in range(2))
    assert torch.equal(first.elements(noise()), second.elements(noise()))
    assert first.fingerprint == second.fingerprint
    batch = torch.cat([noise(1), noise(2)])
    torch.testing.assert_close(first.elements(batch)[1:], first.elements(noise(2)), atol=1e-5, rtol=1e-4)


def test_clip_vit_b32_has_fifty_tokens_of_768(tmp_path: Path) -> None:
    """Cornia 2022's shape, at full width: class token and 49 patches of 32 pixels (one layer is enough)."""
    config = transformers.CLIPVisionConfig(num_hidden_layers=1, patch_size=32, image_size=224)
    settings = {
        "feature_extractor_type": "CLIPFeatureExtractor",  # as the published file has it
        "do_resize": True,
        "size": 224,
        "do_center_crop": True,
        "crop_size": 224,
        "resample": 3,
        "do_normalize": True,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    }
    backbone = clip(save_model(transformers.CLIPVisionModel(config), tmp_path, settings))
    features = backbone.extract([image(300, 200)])
    assert features.elements.shape == (1, 50, 768)
    assert backbone.preprocess == Preprocess(
        224, "crop", 224, tuple(settings["image_mean"]), tuple(settings["image_std"])
    )
    assert features.boxes is not None
    torch.testing.assert_close(features.boxes[0, 8], torch.tensor([0, 1, 1, 2]) / 7)


def test_tokens_are_those_of_the_whole_model(folders: dict[str, str]) -> None:
    """The vision tower alone, loaded from a CLIP with text, says what it says inside the whole."""
    whole, _ = transformers.CLIPModel.from_pretrained(folders["clip"], output_loading_info=True)
    expected = whole.eval().vision_model(noise()).last_hidden_state
    assert torch.equal(TransformersBackbone(folders["clip"]).elements(noise()), expected)


def test_class_token_can_be_left_out(folders: dict[str, str]) -> None:
    whole = TransformersBackbone(folders["vit"])
    patches = TransformersBackbone(folders["vit"], class_token=False)
    assert torch.equal(patches.elements(noise()), whole.elements(noise())[:, 1:])
    assert len(patches.cells()) == 16
    assert patches.fingerprint != whole.fingerprint


def test_earlier_stage_has_finer_cells(folders: dict[str, str]) -> None:
    backbone = TransformersBackbone(folders["resnet"], stage="stage2")
    assert backbone.elements(noise()).shape == (1, 64, 8)
    assert len(backbone.cells()) == 64
    with pytest.raises(InputError, match=r"no stage 'stage9'; it has: stem, stage1"):
        TransformersBackbone(folders["resnet"], stage="stage9")


def test_larger_images_have_more_patches_and_no_box_beyond_the_last(folders: dict[str, str]) -> None:
    backbone = TransformersBackbone(folders["vit"], Preprocess(100))  # six whole patches of 16 pixels are 96
    assert backbone.elements(noise(side=100)).shape == (1, 37, 24)
    torch.testing.assert_close(backbone.cells()[-1], torch.tensor([0.8, 0.8, 0.96, 0.96]))


def test_weights_are_never_made_up(tmp_path: Path, folders: dict[str, str]) -> None:
    """A classifier without a pooler is complete for us; one without a layer is not."""
    TransformersBackbone(folders["vit_classifier"])
    folder = Path(make_backbone("vit", tmp_path))
    weights = load_file(folder / "model.safetensors")
    lost = next(name for name in weights if "1" in name and "norm" in name and name.endswith("weight"))
    save_file({name: value for name, value in weights.items() if name != lost}, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"lacks 1 weights that its features need .* random numbers"):
        TransformersBackbone(str(folder))


def test_pickles_are_loaded_only_on_request(tmp_path: Path) -> None:
    folder = Path(make_backbone("vit", tmp_path))
    expected = TransformersBackbone(str(folder))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"cannot be loaded with transformers: .*model.safetensors"):
        TransformersBackbone(str(folder))
    assert TransformersBackbone(str(folder), pickle=True).fingerprint == expected.fingerprint


def test_errors_name_what_is_missing(tmp_path: Path, folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="nowhere: no such folder"):
        TransformersBackbone("./nowhere")
    with pytest.raises(InputError, match="not a CLIP model; name it hf:"):
        clip(folders["vit"])
    folder = Path(make_backbone("vit", tmp_path))
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(InputError, match=r"no preprocessor_config\.json"):
        TransformersBackbone(str(folder))
    assert TransformersBackbone(str(folder), Preprocess(SIDE)).width == 24
    (folder / "config.json").write_text(json.dumps({"model_type": "nonsense"}))
    with pytest.raises(InputError, match="cannot be loaded with transformers"):
        TransformersBackbone(str(folder), Preprocess(SIDE))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'captrial\[hf\]'"):
        TransformersBackbone(folders["vit"])


def test_stores_refuse_other_weights_and_other_preprocessing(tmp_path: Path, folders: dict[str, str]) -> None:
    backbone = TransformersBackbone(folders["vit"])
    with FeatureWriter(tmp_path / "store", backbone.describe()) as writer:
        writer.add(["a"], backbone.extract([image()]))
    moved = Path(folders["vit"]).rename(tmp_path / "moved")
    folders["vit"] = str(moved)
    again = TransformersBackbone(str(moved))
    stored = FeatureStore(tmp_path / "store", again.describe()).get(["a"])  # another place is no other backbone
    torch.testing.assert_close(stored.elements, again.extract([image()]).elements, atol=2e-3, rtol=2e-3)
    with pytest.raises(MismatchError, match="preprocess"):
        FeatureStore(tmp_path / "store", TransformersBackbone(str(moved), Preprocess(SIDE)).describe())
    torch.manual_seed(7)
    other = save_model(transformers.ViTModel(transformers.ViTConfig(**VIT)), tmp_path / "other", STRETCHED)
    with pytest.raises(MismatchError, match="weights"):
        FeatureStore(tmp_path / "store", TransformersBackbone(other).describe())


@pytest.mark.slow
def test_by_name_from_the_hubs_cache(tmp_path: Path) -> None:
    """What a download leaves in the cache is found by name, and a revision by `name@revision`, without a network."""
    repository = tmp_path / "models--someone--tiny"
    for revision, kind in (("main", "vit"), ("convolutions", "resnet")):
        commit = revision[0] * 40
        make_backbone(kind, repository / "snapshots" / commit)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / revision).write_text(commit)
    code = (
        "from captrial.vision.registry import load_backbone\n"
        "for name in ('hf:someone/tiny', 'hf:someone/tiny@convolutions?size=64', 'hf:someone/absent'):\n"
        "    print(load_backbone(name).name)\n"
    )
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["hf:vit", "hf:resnet"], done.stderr
    assert "InputError: someone/absent cannot be loaded with transformers: We couldn't connect" in done.stderr
