"""Which part of a picture an image processor lets through: what is cropped away cannot be explained."""

from __future__ import annotations

from typing import Any

from captrial.captioners.explainable import WHOLE

Window = tuple[float, float, float, float]


def visible_window(image_processor: Any, size: tuple[int, int]) -> Window:
    """The part (x1, y1, x2, y2), relative to a picture of `size` (width, height), that the model sees.

    A stretched picture is seen whole; a centre crop cuts the longer side; padding makes the window larger than the
    picture, with corners outside [0, 1].
    """
    width, height = size
    if getattr(image_processor, "do_pad", None) and getattr(image_processor, "do_resize", False):
        side = max(width, height)
        return _centred(side / width, side / height)
    if not getattr(image_processor, "do_center_crop", None):
        return WHOLE
    scale = _scale(image_processor.size, width, height) if getattr(image_processor, "do_resize", False) else (1.0, 1.0)
    crop = image_processor.crop_size
    return _centred(_side(crop, "width") / (width * scale[0]), _side(crop, "height") / (height * scale[1]))


def _scale(size: Any, width: int, height: int) -> tuple[float, float]:
    """By how much both sides are resized."""
    shortest = _side(size, "shortest_edge")
    if shortest:
        return (shortest / min(width, height),) * 2
    return _side(size, "width") / width, _side(size, "height") / height


def _side(size: Any, name: str) -> int:
    told = size.get(name) if hasattr(size, "get") else getattr(size, name, None)
    return int(told or 0)


def _centred(across: float, down: float) -> Window:
    """A window of those relative sides around the middle."""
    return (0.5 - across / 2, 0.5 - down / 2, 0.5 + across / 2, 0.5 + down / 2)
