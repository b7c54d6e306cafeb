"""Images into visual elements: backbones, detectors, and features on disk.

| name | what it is |
| --- | --- |
| `load_backbone`, `load_detector`, `load_features` | any of them by its name |
| `BACKBONES`, `DETECTORS`, `FEATURE_FORMATS` | the registry: what there is, and what it needs |
| `Backbone`, `Detector`, `Detection`, `RegionBackbone` | the contracts; regions as visual elements |
| `Features`, `FeatureSource`, `FeatureStore` | visual elements of a batch, of images by id, and on disk |
| `Preprocess` | from an image to the square that a backbone reads |

Sub-packages: `backbones`, `detectors`, `features`. `boxes` has box arithmetic, `scene_graphs` relations between
regions, `hub_checkpoints` the loading of transformers checkpoints. Names are imported when first used: importing the
package does not import torch.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.vision.backbones.base import Backbone
    from captrial.vision.detectors.base import Detection, Detector, RegionBackbone
    from captrial.vision.features.feature_store import FeatureStore
    from captrial.vision.features.visual_features import Features, FeatureSource
    from captrial.vision.preprocess import Preprocess
    from captrial.vision.registry import (
        BACKBONES,
        DETECTORS,
        FEATURE_FORMATS,
        load_backbone,
        load_detector,
        load_features,
    )

__all__ = [
    "BACKBONES",
    "DETECTORS",
    "FEATURE_FORMATS",
    "Backbone",
    "Detection",
    "Detector",
    "FeatureSource",
    "FeatureStore",
    "Features",
    "Preprocess",
    "RegionBackbone",
    "load_backbone",
    "load_detector",
    "load_features",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "backbones.base": "Backbone",
        "detectors.base": "Detection Detector RegionBackbone",
        "features.feature_store": "FeatureStore",
        "features.visual_features": "Features FeatureSource",
        "preprocess": "Preprocess",
        "registry": "BACKBONES DETECTORS FEATURE_FORMATS load_backbone load_detector load_features",
    },
)
