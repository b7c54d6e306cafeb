"""Attribution: which parts of an image the words of a caption come from.

`captrial.explain` (module `explain`) explains one caption of one image; `explain_features` does so from stored
features. Both return an `Explanation`, whose `Attribution` holds the scores.
`METHODS` is the registry of methods (`methods/`). `DatasetAttributor` runs a method over a data set. `sanity_checks`
tests attributions, and `page` draws them. Gradient methods share `gradients/`; `integrated_gradients/` holds the
quadrature.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captrial.attribution.dataset_attribution import (
        CaptionAttributor,
        DatasetAttributor,
        PixelSource,
        WordWeights,
    )
    from captrial.attribution.explain import explain_features
    from captrial.attribution.explanation import Attribution, Explanation
    from captrial.attribution.methods.registry import METHODS, AttributionMethod, AttributionSettings, attribute
    from captrial.attribution.page import ExplanationView, write_page

__all__ = [
    "METHODS",
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
_FROM = {  # imported when first used: the registry needs no torch
    "METHODS": "methods.registry",
    "Attribution": "explanation",
    "AttributionMethod": "methods.registry",
    "AttributionSettings": "methods.registry",
    "CaptionAttributor": "dataset_attribution",
    "DatasetAttributor": "dataset_attribution",
    "Explanation": "explanation",
    "ExplanationView": "page",
    "PixelSource": "dataset_attribution",
    "WordWeights": "dataset_attribution",
    "attribute": "methods.registry",
    "explain_features": "explain",
    "write_page": "page",
}


def __getattr__(name: str) -> Any:
    if name in _FROM:
        from importlib import import_module

        return getattr(import_module(f"captrial.attribution.{_FROM[name]}"), name)
    raise AttributeError(f"module 'captrial.attribution' has no attribute {name!r}")
