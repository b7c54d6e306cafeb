"""Our preprocessing equals transformers' Pillow processors (the only ones that work without torchvision)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from captrial.errors import InputError
from captrial.vision.preprocess import Preprocess

NORMAL = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}


def photograph(width: int, height: int) -> Image.Image:
    rough = np.random.default_rng(3).integers(0, 255, (8, 8, 3), np.uint8)
    return Image.fromarray(rough).resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("size", [(320, 240), (240, 320), (251, 333), (224, 224)])
@pytest.mark.parametrize(
    "processor",
    [
        CLIPImageProcessorPil(),
        CLIPImageProcessorPil(size={"shortest_edge": 256}, crop_size=224),
        ViTImageProcessorPil(),
        ConvNextImageProcessorPil(size={"shortest_edge": 224}, crop_pct=0.875),
        ConvNextImageProcessorPil(size={"shortest_edge": 384}),
    ],
    ids=["clip", "dinov2", "vit", "convnext", "convnext-384"],
)
def test_same_pixels_as_the_reference(processor: Any, size: tuple[int, int]) -> None:
    image = photograph(*size)
    ours = Preprocess.from_processor(processor.to_dict(), "test")(image)
    theirs = torch.from_numpy(np.asarray(processor(image, return_tensors="np")["pixel_values"][0]))
    assert ours.shape == theirs.shape
    difference = (ours - theirs).abs()
    if processor.to_dict().get("do_center_crop") or "crop_pct" in processor.to_dict():
        # They round the resized sides and the crop to whole pixels: up to half a pixel of shift.
        assert difference.mean() < 0.02 * theirs.std()
    else:
        assert difference.max() < 1e-5


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"size": 224}, Preprocess(224, "stretch", 256)),
        ({"size": 224, "do_center_crop": True, "crop_size": 224}, Preprocess(224, "crop", 224)),
        ({"size": 224, "crop_pct": 0.875}, Preprocess(224, "crop", 256)),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.875}, Preprocess(384, "stretch", 256)),
        ({"size": {"height": 256, "width": 256}, "crop_pct": None}, Preprocess(256, "stretch", 256)),
        (
            {"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224}},
            Preprocess(224, "crop", 256),
        ),
    ],
)
def test_old_and_new_ways_to_write_sizes(settings: dict[str, Any], expected: Preprocess) -> None:
    found = Preprocess.from_processor({**settings, **NORMAL, "resample": 3}, "test")
    assert (found.size, found.mode, found.shorter) == (expected.size, expected.mode, expected.shorter)
    assert (found.mean, found.std, found.resample) == ((0.5,) * 3, (0.25,) * 3, "bicubic")


def test_other_rescaling_is_put_into_mean_and_deviation() -> None:
    settings = {"size": 8, "resample": 0, "rescale_factor": 1 / 127.5, "image_mean": [1] * 3, "image_std": [1] * 3}
    white = Image.new("RGB", (8, 8), "white")
    assert Preprocess.from_processor(settings, "test")(white).unique().tolist() == pytest.approx([1.0])  # 255/127.5 - 1
    plain = {"size": 8, "do_normalize": False, "do_rescale": False}
    assert Preprocess.from_processor(plain, "test")(white).unique().tolist() == pytest.approx([255.0])


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"size": {"height": 224, "width": 336}}, "only square images"),
        ({"size": {"shortest_edge": 224}}, "many shapes"),
        ({"do_resize": False}, "any size"),
        ({"size": {"height": 256, "width": 256}, "do_center_crop": True, "crop_size": 224}, "stretches and then crops"),
    ],
)
def test_what_cannot_be_a_square_is_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Preprocess.from_processor({**settings, **NORMAL}, "test")


def test_normalising_without_numbers_is_refused() -> None:
    with pytest.raises(InputError, match="no image_mean"):
        Preprocess.from_processor({"size": 224}, "test")


def test_descriptions_lead_back() -> None:
    for how in (Preprocess(), Preprocess(384, "crop", 400, resample="bilinear")):
        assert Preprocess.from_description(how.describe()) == how
    assert "resample" not in Preprocess().describe()  # stores made before there was a choice stay valid
    with pytest.raises(InputError, match="not a description"):
        Preprocess.from_description({"edge": 3})
    with pytest.raises(InputError, match="no resampling 'cubic'"):
        Preprocess(resample="cubic")
