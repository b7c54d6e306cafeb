"""Attribution: which parts of an image the words of a caption come from.

`captrial.explain` (module `explain`) explains one caption of one image; `explain_features` does so from stored
features. Both return an `Explanation`, whose `Attribution` holds the scores.
`METHODS` is the registry of methods (`methods/`). `DatasetAttributor` runs a method over a data set. `sanity_checks`
tests attributions, and `page` draws them. Gradient methods share `gradients/`; `integrated_gradients/` holds the
quadrature.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.attribution.attribution import Attribution
    from captrial.attribution.dataset_attribution import CaptionAttributor, DatasetAttributor, PixelSource, WordWeights
    from captrial.attribution.explain import explain_features
    from captrial.attribution.explanation import Explanation
    from captrial.attribution.methods.registry import METHODS, AttributionMethod, AttributionSettings, attribute
    from captrial.attribution.page import ExplanationView, write_page
    from captrial.attribution.region_rules import REGION_RULES

__all__ = [
    "METHODS",
    "REGION_RULES",
    "Attribution",
    "AttributionMethod",
    "AttributionSettings",
    "CaptionAttributor",
    "DatasetAttributor",
    "Explanation",
    "ExplanationView",
    "PixelSource",
    "WordWeights",
    "attribute",
    "explain_features",
    "write_page",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "dataset_attribution": "CaptionAttributor DatasetAttributor PixelSource WordWeights",
        "explain": "explain_features",
        "attribution": "Attribution",
        "explanation": "Explanation",
        "methods.registry": "METHODS AttributionMethod AttributionSettings attribute",
        "page": "ExplanationView write_page",
        "region_rules": "REGION_RULES",
    },
)
