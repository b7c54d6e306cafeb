"""Explanations as one HTML page that needs nothing but itself: touch a word, see where the model looked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from captrial.explain.view import View, panel
from captrial.files import atomic_write
from captrial.version import __version__


def write_page(views: Sequence[View], path: Path | str, title: str = "What the captioner looked at") -> Path:
    """Write the page of some views, one below the other; returns its path."""
    path = Path(path)
    atomic_write(path, page(views, title))
    return path


def page(views: Sequence[View], title: str = "What the captioner looked at") -> str:
    """The page as text."""
    panels = orjson.dumps([panel(view) for view in views]).decode()
    template = _environment().get_template("explanation.html")
    return template.render(title=title, panels=_script_data(panels), version=__version__)


@cache
def _environment() -> Environment:
    environment = Environment(loader=PackageLoader("captrial.explain"), autoescape=True, undefined=StrictUndefined)
    environment.globals["source"] = source
    return environment


def source(name: str) -> Markup:
    """A style sheet or script of ours, to stand inside a page; the studio uses the same two."""
    loader = _environment().loader
    assert loader is not None
    return Markup(loader.get_source(_environment(), name)[0])


def _script_data(text: str) -> Markup:
    """JSON that may stand inside a script element: nothing in it can end the element."""
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
