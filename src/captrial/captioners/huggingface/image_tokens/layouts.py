"""The registry of token layouts: which part of the image each image token of a family shows.

A layout's function `boxes(model, processor, image, inputs)` returns one relative box (x1, y1, x2, y2) for every image
token, in the order of the input; NaN for a token that shows no part of the image (the end of a row of tiles). Boxes of
padding or of what was cropped away may lie outside [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from captrial.errors import InputError

_HERE = "captrial.captioners.huggingface.image_tokens"


@dataclass(frozen=True)
class TokenLayout:
    """How a family turns an image into tokens."""

    title: str
    description: str
    model_types: tuple[str, ...]  # of `config.json`
    boxes: str | Callable[..., Any]  # `module:function`
    beside: tuple[str, ...] = ()  # inputs, one row an image, that the model needs beside token ids and masks
    tokens: str | Callable[..., Any] = f"{_HERE}.tokens:ImageTokens"  # how they enter the language model

    def function(self, kind: Literal["boxes", "tokens"]) -> Callable[..., Any]:
        """The function of the boxes, or the class of the tokens, imported."""
        found: str | Callable[..., Any] = getattr(self, kind)
        if not isinstance(found, str):
            return found
        module, _, name = found.partition(":")
        return getattr(import_module(module), name)  # type: ignore[no-any-return]


LAYOUTS = [
    TokenLayout(
        "Qwen-VL",
        "the stretched image in packed patches, 2 x 2 of them merged into a token",
        ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"),
        f"{_HERE}.token_boxes:qwen_vl_boxes",
        beside=("image_grid_thw",),
    ),
    TokenLayout(
        "SmolVLM and Idefics3",
        "rows of tiles, then a thumbnail of the image; pixel-shuffled patches of each",
        ("smolvlm", "idefics3"),
        f"{_HERE}.token_boxes:idefics3_boxes",
    ),
    TokenLayout(
        "LLaVA, PaliGemma and Gemma 3",
        "one square of the image, stretched or cropped, in a fixed grid",
        ("llava", "vipllava", "paligemma", "gemma3"),
        f"{_HERE}.token_boxes:fixed_grid_boxes",
    ),
    TokenLayout(
        "LLaVA-NeXT and LLaVA-OneVision",
        "the stretched image in a grid, then tiles of the image at its own aspect ratio, row by row with line ends",
        ("llava_next", "llava_onevision"),
        f"{_HERE}.token_boxes:any_resolution_boxes",
    ),
    TokenLayout(
        "InternVL",
        "rows of tiles of the stretched image, then a thumbnail; pixel-shuffled patches of each",
        ("internvl",),
        f"{_HERE}.token_boxes:internvl_boxes",
    ),
    TokenLayout(
        "BLIP-2 and InstructBLIP",
        "the patches of the stretched image, which a Q-Former reads and writes tokens from",
        ("blip-2", "instructblip"),
        f"{_HERE}.q_former:patch_boxes",
        beside=("pixel_values", "qformer_input_ids", "qformer_attention_mask"),
        tokens=f"{_HERE}.q_former:QFormerTokens",
    ),
    TokenLayout(
        "Florence-2",
        "a token of the whole stretched image, then its cells row by row, read by an encoder",
        ("florence2",),
        f"{_HERE}.token_boxes:fixed_grid_boxes",
    ),
]


def find_layout(model_type: str) -> TokenLayout:
    """The layout of a model type; an `InputError` that names the families if there is none."""
    for layout in LAYOUTS:
        if model_type in layout.model_types:
            return layout
    known = ", ".join(name for layout in LAYOUTS for name in layout.model_types)
    raise InputError(
        f"a {model_type} model: which part of the image its tokens show is not known; use over='pixels' or "
        f"method='occlusion'. Image tokens are known of: {known}"
    )
