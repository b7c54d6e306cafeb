"""Token-to-box maps against planted pixels, in the model itself with the attention of its vision tower switched off.

Without attention a token depends on its own patches only, so the tokens whose embeddings change when pixels change are
those that show these pixels, through the processor's resizing, tiles, windows, merges and pixel shuffle.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from captioners.huggingface.tiny_vlms import VLMS, keep_places_apart
from captrial.captioners.huggingface import HfOptions, load_transformers
from captrial.captioners.huggingface.image_tokens import LAYOUTS, ImageTokens, find_layout
from captrial.errors import InputError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # PaliGemma's processor
]
Vlm = Callable[..., Path]
# Sizes that are not resized on the way to the patches, so that a token's box is exact to the pixel.
QWEN, TILES, CANVAS = [(84, 56), (56, 140)], [(192, 64), (128, 192)], [(64, 64), (128, 64), (128, 32)]
EXACT = {
    "qwen2_5_vl": [*QWEN, (168, 84)],
    "qwen2_vl": QWEN,
    "qwen3_vl": QWEN,
    "smolvlm": [*TILES, (192, 192)],
    "idefics3": TILES[:1],
    "internvl": [(192, 64), (64, 128), (128, 128)],
    "llava": [(64, 64), (128, 64), (64, 96)],
    "llava_next": CANVAS,
    "llava_onevision": CANVAS,
    **{name: [(64, 64)] for name in ("blip-2", "instructblip", "gemma3", "paligemma", "florence2")},
}
RESIZED = [(100, 61), (47, 150), (301, 200)]
# Tokens of an image that was resized once more: the thumbnail behind the tiles, the base grid before the canvas.
RESIZED_AGAIN = {
    **dict.fromkeys(("smolvlm", "idefics3", "internvl"), slice(-4, None)),
    **dict.fromkeys(("llava_next", "llava_onevision"), slice(0, 16)),
}


def without_vision_attention(vlm: Vlm, name: str) -> Any:
    captioner = load_transformers(str(vlm(name, trained=False)), HfOptions())
    keep_places_apart(captioner.model)
    return captioner


def changed(captioner: Any, before: ImageTokens, image: Image.Image) -> NDArray[np.bool_]:
    """Which image tokens enter the decoder differently from `before`."""
    after = captioner.image_tokens(image)
    assert torch.equal(after.boxes, before.boxes)
    difference = (after.embeddings - before.embeddings).abs().amax(1)
    return np.asarray(difference > 1e-5 * float(before.embeddings.abs().max()))


def noise(size: tuple[int, int], seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8))


def overlaps(boxes: NDArray[np.float64], box: NDArray[np.float64], more: float = 0.0) -> NDArray[np.bool_]:
    """Which boxes, grown by `more` on all sides, have an area in common with `box`."""
    low, high = np.maximum(boxes[:, :2] - more, box[:2]), np.minimum(boxes[:, 2:] + more, box[2:])
    return np.asarray((high - low > 1e-9).all(1))


def of_places(boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which tokens show a part of the image, not all of it: a class token has no place of its own."""
    return np.asarray(np.prod(np.clip(boxes[:, 2:], 0, 1) - np.clip(boxes[:, :2], 0, 1), 1) < 0.999)


@pytest.mark.parametrize(("name", "size"), [(name, size) for name in VLMS for size in EXACT[name]])
def test_exactly_the_tokens_of_a_box_change_with_its_pixels(vlm: Vlm, name: str, size: tuple[int, int]) -> None:
    captioner = without_vision_attention(vlm, name)
    image, other = noise(size, 0), noise(size, 1)
    before = captioner.image_tokens(image)
    boxes = before.boxes.numpy()
    exact = of_places(boxes)
    again = np.zeros(len(boxes), bool)
    if size != (64, 64):  # which no processor here resizes
        again[RESIZED_AGAIN.get(name, slice(0))] = True
    exact &= ~again
    assert exact.sum() > 1
    for token in np.flatnonzero(exact):
        pixels = np.round(boxes[token] * (*size, *size)).astype(int)
        assert boxes[token] * (*size, *size) == pytest.approx(pixels)  # a box of whole pixels
        planted = image.copy()
        planted.paste(other.crop(tuple(pixels)), tuple(pixels[:2]))
        found = changed(captioner, before, planted)
        same = exact & (np.abs(boxes - boxes[token]).max(1) < 1e-9)  # the base grid of LLaVA-NeXT may repeat a token
        assert (found[exact] == same[exact]).all()
        assert (found[again] >= overlaps(boxes[again], boxes[token])).all()
        assert (found[again] <= overlaps(boxes[again], boxes[token], 6 / 64)).all()


@pytest.mark.parametrize(("name", "size"), [(name, size) for name in VLMS for size in RESIZED])
def test_resized_images_change_where_the_boxes_say(vlm: Vlm, name: str, size: tuple[int, int]) -> None:
    """Up to the reach of the resampling filter, whatever the aspect ratio; one token in three is tried."""
    captioner = without_vision_attention(vlm, name)
    image, other = noise(size, 0), noise(size, 1)
    before = captioner.image_tokens(image)
    boxes = before.boxes.numpy()
    near, own = 6 / min(*size, 56), of_places(boxes)
    for token in np.flatnonzero(own)[::3]:
        x1, y1, x2, y2 = np.round(np.clip(boxes[token], 0, 1) * (*size, *size)).astype(int).tolist()
        planted = image.copy()
        planted.paste(other.crop((x1, y1, x2, y2)), (x1, y1))
        found = changed(captioner, before, planted)
        box = np.array([x1, y1, x2, y2]) / (*size, *size)
        assert found[token]
        assert (found <= overlaps(boxes, box, near))[own].all()
        assert (found >= overlaps(boxes, box, -0.02))[own].all()


def test_every_family_has_a_layout_and_others_say_what_to_do() -> None:
    named = [name for layout in LAYOUTS for name in layout.model_types]
    assert len(named) == len(set(named))
    assert {find_layout(name).title for name in VLMS} <= {layout.title for layout in LAYOUTS}
    assert all(
        callable(layout.function("boxes")) and callable(layout.function("tokens")) and layout.description
        for layout in LAYOUTS
    )
    with pytest.raises(InputError, match=r"a blip-9 model: .*over='pixels' or method='occlusion'"):
        find_layout("blip-9")
