"""captrial puts image captioners on trial: rank them on your images, explain every word, measure grounding.

captrial.load(source)                    a captioner: shipped, trained, from the hub, or behind an endpoint
captrial.caption(images, model)          captions of one or many images
captrial.explain(captioner, image)       what every word of a caption is attributed to
captrial.ground(captioner, image)        the same, with a verdict on every noun
captrial.score(captions, references)     BLEU, METEOR, ROUGE-L, CIDEr, SPICE ... without Java
captrial.Competition                     which of several captioners is best on your images, with few labels
"""

from typing import TYPE_CHECKING, Any

from captrial.version import __version__

if TYPE_CHECKING:
    from captrial.attribution.explain import explain
    from captrial.captioners.loading import caption
    from captrial.captioners.loading import load_captioner as load
    from captrial.compete import Competition
    from captrial.grounding.ground import ground
    from captrial.metrics import ScoreTable, score

__all__ = ["Competition", "ScoreTable", "__version__", "caption", "explain", "ground", "load", "score"]
_FROM = {  # imported when first used: `import captrial` is instant and needs no torch
    "Competition": "captrial.compete",
    "ScoreTable": "captrial.metrics",
    "caption": "captrial.captioners.loading",
    "explain": "captrial.attribution.explain",
    "ground": "captrial.grounding.ground",
    "load": "captrial.captioners.loading",
    "score": "captrial.metrics",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _FROM:
        return getattr(import_module(_FROM[name]), "load_captioner" if name == "load" else name)
    raise AttributeError(f"module 'captrial' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
