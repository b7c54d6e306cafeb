"""Image tokens of decoder-only VLMs: where they stand in the input, and which part of the image each of them shows.

`ImageTokens` is one image in front of a model: embeddings of its tokens, their boxes, teacher forcing and attention.
`LAYOUTS` is the registry of families; a new one is a function in `token_boxes` that computes boxes and one entry.
"""

from captrial.captioners.huggingface.image_tokens.layouts import LAYOUTS, TokenLayout, find_layout
from captrial.captioners.huggingface.image_tokens.tokens import ImageTokens

__all__ = ["LAYOUTS", "ImageTokens", "TokenLayout", "find_layout"]
