"""Detectors of labelled regions, one a file; `captrial.vision.registry` lists them.

`Detector` is the contract, `Detection` a region with its label and score, and `RegionBackbone` turns the regions of a
detector into visual elements.
"""

from captrial.vision.detectors.base import Detection, Detector, GridDetector, RegionBackbone

__all__ = ["Detection", "Detector", "GridDetector", "RegionBackbone"]
