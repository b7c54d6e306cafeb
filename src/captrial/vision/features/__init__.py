"""Visual elements of images: in memory (`Features`), on disk (`FeatureStore`), and made by another program.

`precomputed` has what the formats `tsv`, `hdf5` and `npz` share, and copies them into a store.
"""

from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.features.precomputed import PrecomputedFeatures, import_features
from captrial.vision.features.visual_features import Features, FeatureSource, stack_features

__all__ = [
    "FeatureSource",
    "FeatureStore",
    "FeatureWriter",
    "Features",
    "PrecomputedFeatures",
    "import_features",
    "stack_features",
]
