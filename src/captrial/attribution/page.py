"""Explanations as one HTML page that needs nothing but itself: touch a word, see where the model looked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from captrial.attribution.view import View, panel
from captrial.files import atomic_write
from captrial.html import Templates
from captrial.version import __version__

_templates = Templates("captrial.attribution")
source = _templates.source  # other pages show panels with the same style sheet and script


def write_page(views: Sequence[View], path: Path | str, title: str = "What the captioner looked at") -> Path:
    """Write the page of some views, one below the other; returns its path."""
    path = Path(path)
    atomic_write(path, page(views, title))
    return path


def page(views: Sequence[View], title: str = "What the captioner looked at") -> str:
    """The page as text."""
    panels = orjson.dumps([panel(view) for view in views]).decode()
    return _templates.render("explanation.html", title=title, panels=panels, version=__version__)
