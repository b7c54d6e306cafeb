"""Qwen2-VL and Qwen2.5-VL: the image is stretched to a multiple of the patches' sides, patches are merged in squares.

Tokens come row by row, whatever windows the vision tower attends in: it restores the order at its end.
"""

from __future__ import annotations

from typing import Any

from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.image_tokens.geometry import Floats, grid_boxes


def token_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """A grid as large as the image asks for."""
    _, rows, columns = inputs["image_grid_thw"][0].tolist()
    merged = model.config.vision_config.spatial_merge_size
    return grid_boxes(rows // merged, columns // merged)
