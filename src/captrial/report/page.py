"""From a template to one HTML page that needs nothing but itself."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render(template: str, **values: Any) -> str:
    """Fill a template of `captrial/report/templates`; everything is escaped unless it is marked as safe there."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("captrial.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["script_data"] = _script_data
    environment.globals["source"] = source
    return environment


def _script_data(text: str) -> Markup:
    """JSON that may stand inside a script element: nothing in it can end the element."""
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def source(name: str) -> Markup:
    """A style sheet or script of ours, as it stands inside the page."""
    loader = _environment().loader
    assert loader is not None
    return Markup(loader.get_source(_environment(), name)[0])
