"""LLaVA, PaliGemma, Gemma 3 and Florence-2: every image becomes one square and a fixed grid of tokens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from captrial.captioners.huggingface.image_tokens.geometry import Floats, grid_boxes, square_side
from captrial.captioners.huggingface.processors import visible_window
from captrial.errors import InputError


def token_boxes(model: Any, processor: Any, image: Image.Image, inputs: dict[str, Tensor]) -> Floats:
    """The grid over what the processor leaves of the image; a class token in front of it shows all of that."""
    if len(inputs["pixel_values"]) > 1:
        raise InputError(
            f"a {model.config.model_type} model: its processor crops the image into several (pan and scan); turn that "
            "off in its preprocessor_config.json to explain by image tokens"
        )
    tokens = int((inputs["input_ids"] == model.config.image_token_id).sum())
    window = visible_window(processor.image_processor, image.size)
    class_token = math.isqrt(tokens) ** 2 != tokens  # Florence-2; LLaVA with vision_feature_select_strategy "full"
    side = square_side(tokens - class_token)
    grid = grid_boxes(side, side, window)
    return np.concatenate([np.array([window]), grid]) if class_token else grid
