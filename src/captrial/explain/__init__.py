"""Attribution, regions, grounding, attention correctness, drawing.

The room is its own way in: `captrial.explain(captioner, picture)` explains every word of a caption (see `explaining`).
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """A package that can be called."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from captrial.explain.explaining import explain

        return explain(*arguments, **options)


sys.modules[__name__].__class__ = _Room
