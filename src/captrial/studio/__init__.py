"""`captrial studio`: a local web page to caption and explain images, compare two captioners and open competitions."""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.studio.app import create_app

__all__ = ["create_app"]

__getattr__ = lazy_exports(
    __name__,
    {
        "app": "create_app",
    },
)
