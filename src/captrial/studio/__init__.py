"""`captrial studio`: a local web page to caption and explain images, compare two captioners and open competitions."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captrial.studio.app import create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from captrial.studio import app

        return getattr(app, name)
    raise AttributeError(f"module 'captrial.studio' has no attribute {name!r}")
