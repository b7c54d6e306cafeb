"""SmolVLM and Idefics3: a large image is stretched to whole tiles, and a thumbnail of all of it follows the tiles.

Pixel shuffle makes one token of a square of patches; tokens come row by row in each tile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.image_tokens.geometry import Floats, square_side, tile_boxes


def token_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """Tiles row by row, then the thumbnail; only the latter for an image of one tile."""
    found = processor.image_processor([[image]], return_row_col_info=True, return_tensors="pt")
    rows, columns = int(found["rows"][0][0]), int(found["cols"][0][0])
    places = int((inputs["input_ids"] == model.config.image_token_id).sum())
    tokens = places // (rows * columns + 1)
    square_side(tokens)
    whole = tile_boxes(1, 1, tokens)
    return np.concatenate([tile_boxes(rows, columns, tokens), whole]) if rows else whole
