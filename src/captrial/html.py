"""HTML from the templates of a room, and what of ours may stand inside it."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


class Templates:
    """The folder `templates` of a package; everything is escaped unless it is marked as safe there."""

    def __init__(self, package: str, trim: bool = False) -> None:
        self._loader = PackageLoader(package)
        self._environment = Environment(
            loader=self._loader, autoescape=True, undefined=StrictUndefined, trim_blocks=trim, lstrip_blocks=trim
        )
        self._environment.filters["script_data"] = script_data
        self._environment.globals["source"] = self.source

    def render(self, template: str, **values: Any) -> str:
        """Fill a template."""
        return self._environment.get_template(template).render(**values)

    def source(self, name: str) -> Markup:
        """A style sheet or script of ours, as it stands inside a page."""
        return Markup(self._loader.get_source(self._environment, name)[0])


def script_data(text: str) -> Markup:
    """JSON that may stand inside a script element: nothing in it can end the element."""
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
