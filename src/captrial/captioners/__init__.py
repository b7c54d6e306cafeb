"""One file an architecture, behind one contract (see `base.py`); `create` and `Checkpoint` are the way in.

Names are imported when first used, so that endpoints and caption files need no torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captrial.captioners.base import Captioner, CaptionerConfig, TeacherForced
    from captrial.captioners.checkpoint import Checkpoint
    from captrial.captioners.loading import load_captioner
    from captrial.captioners.registry import ARCHITECTURES, PRESETS, build, create

__all__ = [
    "ARCHITECTURES",
    "PRESETS",
    "Captioner",
    "CaptionerConfig",
    "Checkpoint",
    "TeacherForced",
    "build",
    "create",
    "load_captioner",
]
_FROM = {
    "ARCHITECTURES": "registry",
    "PRESETS": "registry",
    "Captioner": "base",
    "CaptionerConfig": "base",
    "Checkpoint": "checkpoint",
    "TeacherForced": "base",
    "build": "registry",
    "create": "registry",
    "load_captioner": "loading",
}


def __getattr__(name: str) -> Any:
    if name in _FROM:
        from importlib import import_module

        return getattr(import_module(f"captrial.captioners.{_FROM[name]}"), name)
    raise AttributeError(f"module 'captrial.captioners' has no attribute {name!r}")
