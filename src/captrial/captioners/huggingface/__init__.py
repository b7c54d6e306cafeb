"""Captioners and VLMs of the transformers library.

`load_transformers(source, HfOptions(...))` loads one by folder or by its name on the hub; `FAMILIES` lists the kinds of
models and how they are used. Names are imported when first used: importing the package needs neither torch nor
transformers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captrial.captioners.huggingface.adapter import HfCaptioner, HfOptions
    from captrial.captioners.huggingface.families import FAMILIES, Family, find_family, load_transformers

__all__ = ["FAMILIES", "Family", "HfCaptioner", "HfOptions", "find_family", "load_transformers"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in __all__:
        module = "adapter" if name.startswith("Hf") else "families"
        return getattr(import_module(f"captrial.captioners.huggingface.{module}"), name)
    raise AttributeError(f"module 'captrial.captioners.huggingface' has no attribute {name!r}")
