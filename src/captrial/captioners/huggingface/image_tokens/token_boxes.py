"""Which part of the image each image token shows, where the tokens of an image stand in grids: a function a layout.

Each takes `(model, processor, image, inputs)` and returns one relative box for every image token (see `layouts`).
BLIP-2 and InstructBLIP, whose tokens stand in no grid, have a module of their own (`q_former`).
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.processors import visible_window
from captrial.captioners.protocols import WHOLE
from captrial.errors import InputError

Floats = NDArray[np.float64]
NOWHERE = np.full((1, 4), np.nan)  # the box of a token that shows no part of the image
SHRUNK_FROM = 1.1  # times as many tokens a side as are allowed


def grid_boxes(rows: int, columns: int, window: tuple[float, float, float, float] = WHOLE) -> Floats:
    """Boxes (rows x columns, 4) of the cells that tile `window`, row by row."""
    left, top, right, bottom = window
    x, y = np.linspace(left, right, columns + 1), np.linspace(top, bottom, rows + 1)
    y1, x1 = np.meshgrid(y[:-1], x[:-1], indexing="ij")
    y2, x2 = np.meshgrid(y[1:], x[1:], indexing="ij")
    return np.stack([x1, y1, x2, y2], -1).reshape(-1, 4)


def tile_boxes(rows: int, columns: int, tokens: int) -> Floats:
    """Boxes of tiles that cut the image into rows and columns, each in a square grid of `tokens` tokens."""
    side = square_side(tokens)
    return np.concatenate([grid_boxes(side, side, tuple(tile)) for tile in grid_boxes(rows, columns)])


def square_side(tokens: int) -> int:
    """The side of a square grid of so many tokens."""
    side = math.isqrt(tokens)
    if side * side != tokens:
        raise InputError(f"{tokens} image tokens are no square grid: the layout of this checkpoint is not known")
    return side


def count_tokens(model: Any, inputs: dict[str, Tensor]) -> int:
    """The image tokens in the input."""
    return int((inputs["input_ids"] == model.config.image_token_id).sum())


def fixed_grid_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """LLaVA, PaliGemma, Gemma 3 and Florence-2: every image becomes one square and a fixed grid of tokens.

    The grid is over what the processor leaves of the image; a class token in front of it shows all of that.
    """
    if len(inputs["pixel_values"]) > 1:
        raise InputError(
            f"a {model.config.model_type} model: its processor crops the image into several (pan and scan); turn that "
            "off in its preprocessor_config.json to explain by image tokens"
        )
    tokens = count_tokens(model, inputs)
    window = visible_window(processor.image_processor, image.size)
    class_token = math.isqrt(tokens) ** 2 != tokens  # Florence-2; LLaVA with vision_feature_select_strategy "full"
    side = square_side(tokens - class_token)
    grid = grid_boxes(side, side, window)
    return np.concatenate([np.array([window]), grid]) if class_token else grid


def qwen_vl_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """Qwen2-VL to Qwen3-VL: the image is stretched to a multiple of the patches' sides, patches are merged in squares.

    Tokens come row by row, whatever windows the vision tower attends in: it restores the order at its end.
    """
    _, rows, columns = inputs["image_grid_thw"][0].tolist()
    merged = model.config.vision_config.spatial_merge_size
    return grid_boxes(rows // merged, columns // merged)


# Tiles, then a thumbnail: SmolVLM, Idefics3 and InternVL stretch an image to whole tiles, and pixel shuffle makes one
# token of a square of patches. Tokens come row by row in each tile, tiles row by row. An image of one tile has no
# thumbnail.


def idefics3_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """SmolVLM and Idefics3: the image processor tells rows and columns; none for an image that is not split."""
    found = processor.image_processor([[image]], return_row_col_info=True, return_tensors="pt")
    return _tiles_and_thumbnail(int(found["rows"][0][0]), int(found["cols"][0][0]), count_tokens(model, inputs))


def internvl_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """InternVL: the number of tiles in the input, in the rows and columns closest to the image's aspect ratio."""
    if len(inputs["pixel_values"]) == 1:
        return _tiles_and_thumbnail(0, 0, count_tokens(model, inputs))
    tiling: Any = import_module("transformers.models.got_ocr2.image_processing_pil_got_ocr2")
    settings = processor.image_processor
    side, tiles = (settings.size["height"], settings.size["width"]), (settings.min_patches, settings.max_patches)
    columns, rows = tiling.get_optimal_tiled_canvas((image.height, image.width), side, *tiles)
    return _tiles_and_thumbnail(rows, columns, count_tokens(model, inputs))


def _tiles_and_thumbnail(rows: int, columns: int, places: int) -> Floats:
    """Boxes of the tokens of all tiles and the thumbnail; only the latter for an image of one tile."""
    tokens = places // (rows * columns + 1)
    whole = tile_boxes(1, 1, tokens)
    return np.concatenate([tile_boxes(rows, columns, tokens), whole]) if rows else whole


def any_resolution_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """LLaVA-NeXT and LLaVA-OneVision: the stretched image, then the image at its own aspect ratio in tiles.

    The second is fitted into a canvas of whole tiles, in the middle of black borders. Rows of tokens that lie in the
    borders are left out again, and a token that ends the line, and shows nothing, follows each row. LLaVA-OneVision
    shrinks the grid of tokens of a large canvas.
    """
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
