"""LLaVA-NeXT and LLaVA-OneVision: the stretched image, then the image at its own aspect ratio in tiles.

The second is fitted into a canvas of whole tiles, in the middle of black borders. Rows of tokens that lie in the
borders are left out again, and a token that ends the line follows each row. LLaVA-OneVision shrinks the grid of
tokens of a large canvas.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.image_tokens.geometry import NOWHERE, Floats, grid_boxes

SHRUNK_FROM = 1.1  # times as many tokens a side as are allowed


def token_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """The base grid over the whole image, then the rows of the canvas, each with a line end that shows nothing."""
    config = model.config
    vision = config.vision_config
    side = vision.image_size // vision.patch_size
    anyres: Any = import_module("transformers.models.llava_next.modeling_llava_next")
    size = (image.height, image.width)
    tiles = anyres.get_anyres_image_grid_shape(size, config.image_grid_pinpoints, vision.image_size)
    cells = [count * side for count in tiles]  # rows, columns of the canvas in tokens
    pixels = [count * vision.image_size for count in tiles]
    spans = _spans(size, cells, pixels)
    rows, columns = (last - first for first, last, _, _ in spans)
    (_, _, top, bottom), (_, _, left, right) = spans
    most = str(getattr(config, "vision_aspect_ratio", "")).removeprefix("anyres_max_")
    if most.isdecimal() and (ratio := math.sqrt(rows * columns / (int(most) * side**2))) > SHRUNK_FROM:
        rows, columns = int(rows // ratio), int(columns // ratio)
    grid = grid_boxes(rows, columns, (left, top, right, bottom)).reshape(rows, columns, 4)
    lines = np.concatenate([grid, np.broadcast_to(NOWHERE, (rows, 1, 4))], 1)
    return np.concatenate([grid_boxes(side, side), lines.reshape(-1, 4)])


def _spans(size: tuple[int, int], cells: list[int], pixels: list[int]) -> list[tuple[int, int, float, float]]:
    """Down and across: the first and last token that are kept, and their outer edges relative to the image.

    Only one side has borders. Their width in tokens is rounded down, so that outer tokens may lie partly outside.
    """
    scale = min(whole / side for whole, side in zip(pixels, size, strict=True))
    found = []
    for length, count, whole in zip(size, cells, pixels, strict=True):
        fitted = min(math.ceil(length * scale), whole)  # pixels of the resized image on the canvas
        offset = (whole - fitted) // 2
        border = (count - int(round(length * scale * count / whole, 7))) // 2  # tokens on each side
        edges = [(token * whole / count - offset) / fitted for token in (border, count - border)]
        found.append((border, count - border, edges[0], edges[1]))
    return found
