"""captrial puts image captioners on trial: rank them on your images, explain every word, measure grounding.

captrial.load(source)                    a captioner: shipped, trained, from the hub, or behind an endpoint
captrial.caption(images, model)          captions of one or many images
captrial.explain(captioner, image)       what every word of a caption is attributed to, and a verdict on every noun
captrial.ground(captioner, images)       the same for one image or several
captrial.attention_correctness(map, boxes, image_size)    the share of any model's map inside boxes
captrial.score(captions, references)     BLEU, METEOR, ROUGE-L, CIDEr, SPICE ... without Java
captrial.Competition                     which of several captioners is best on your images, with few labels
captrial.rank_preferences(judgements)    the same from judgements between two captions (or answers) each
"""

import os
from typing import TYPE_CHECKING, Any

from captrial.version import __version__

# torch's OpenMP threads (libgomp) spin for 3 ms while they wait for each other; on a busy machine that keeps away the
# thread they wait for. 0.1 ms costs nothing on a quiet one (benchmarks/speed/busy_machine.py). Read when torch loads.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

if TYPE_CHECKING:
    from captrial.captioners.loading import caption
    from captrial.captioners.loading import load_captioner as load
    from captrial.compete import Competition, rank_preferences
    from captrial.grounding.attention_correctness import attention_correctness
    from captrial.grounding.ground import explain, ground
    from captrial.metrics import ScoreTable, score

__all__ = [
    "Competition",
    "ScoreTable",
    "__version__",
    "attention_correctness",
    "caption",
    "explain",
    "ground",
    "load",
    "rank_preferences",
    "score",
]
_FROM = {  # imported when first used: `import captrial` is instant and needs no torch
    "Competition": "captrial.compete",
    "ScoreTable": "captrial.metrics",
    "attention_correctness": "captrial.grounding.attention_correctness",
    "caption": "captrial.captioners.loading",
    "explain": "captrial.grounding.ground",
    "ground": "captrial.grounding.ground",
    "load": "captrial.captioners.loading",
    "rank_preferences": "captrial.compete",
    "score": "captrial.metrics",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _FROM:
        return getattr(import_module(_FROM[name]), "load_captioner" if name == "load" else name)
    raise AttributeError(f"module 'captrial' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
