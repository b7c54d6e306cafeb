"""captrial puts image captioners on trial: rank them on your pictures, explain every word, measure where they look."""

from captrial.version import __version__

__all__ = ["__version__"]
