"""Backbones: networks that turn images into visual elements, one a file; `captrial.vision.registry` lists them.

`Backbone` is the contract: `elements`, `cells`, `extract` and `describe`.
"""

from captrial.vision.backbones.base import Backbone, grid_boxes

__all__ = ["Backbone", "grid_boxes"]
