"""SmolVLM, Idefics3 and InternVL: an image is stretched to whole tiles, and a thumbnail of all of it follows them.

Pixel shuffle makes one token of a square of patches; tokens come row by row in each tile, tiles row by row. An image
of one tile has no thumbnail.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.image_tokens.geometry import Floats, tile_boxes


def idefics3_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """SmolVLM and Idefics3: the image processor tells rows and columns; none for an image that is not split."""
    found = processor.image_processor([[image]], return_row_col_info=True, return_tensors="pt")
    return _boxes(int(found["rows"][0][0]), int(found["cols"][0][0]), _places(model, inputs))


def internvl_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """InternVL: the number of tiles in the input, in the rows and columns closest to the image's aspect ratio."""
    if len(inputs["pixel_values"]) == 1:
        return _boxes(0, 0, _places(model, inputs))
    tiling: Any = import_module("transformers.models.got_ocr2.image_processing_pil_got_ocr2")
    settings = processor.image_processor
    side, tiles = (settings.size["height"], settings.size["width"]), (settings.min_patches, settings.max_patches)
    columns, rows = tiling.get_optimal_tiled_canvas((image.height, image.width), side, *tiles)
    return _boxes(rows, columns, _places(model, inputs))


def _places(model: Any, inputs: dict[str, Tensor]) -> int:
    return int((inputs["input_ids"] == model.config.image_token_id).sum())


def _boxes(rows: int, columns: int, places: int) -> Floats:
    """Boxes of the tokens of all tiles and the thumbnail; only the latter for an image of one tile."""
    tokens = places // (rows * columns + 1)
    whole = tile_boxes(1, 1, tokens)
    return np.concatenate([tile_boxes(rows, columns, tokens), whole]) if rows else whole
