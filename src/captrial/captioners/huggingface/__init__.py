"""Captioners and VLMs of the transformers library.

`load_transformers(source, HfOptions(...))` loads one by folder or by its name on the hub; `FAMILIES` lists the kinds of
models and how they are used. Names are imported when first used: importing the package needs neither torch nor
transformers.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.captioners.huggingface.adapter import HfCaptioner, HfOptions
    from captrial.captioners.huggingface.families import FAMILIES, Family, find_family, load_transformers

__all__ = ["FAMILIES", "Family", "HfCaptioner", "HfOptions", "find_family", "load_transformers"]

__getattr__ = lazy_exports(
    __name__,
    {
        "adapter": "HfCaptioner HfOptions",
        "families": "FAMILIES Family find_family load_transformers",
    },
)
