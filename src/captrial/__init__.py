"""captrial puts image captioners on trial: rank them on your pictures, explain every word, measure where they look."""

from typing import TYPE_CHECKING, Any

from captrial.version import __version__

if TYPE_CHECKING:
    from captrial.explain.explaining import explain
    from captrial.metrics import ScoreTable, score

__all__ = ["ScoreTable", "__version__", "explain", "score"]
_FROM = {"ScoreTable": "captrial.metrics", "score": "captrial.metrics"}  # imported when first used: `captrial` is light


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "explain":
        return import_module("captrial.explain")  # a room that can be called
    if name in _FROM:
        return getattr(import_module(_FROM[name]), name)
    raise AttributeError(f"module 'captrial' has no attribute {name!r}")
