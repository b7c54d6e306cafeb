"""HTML pages from the templates of a package."""

from __future__ import annotations

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


class Templates:
    """The folder `templates` of one or more packages; values are escaped unless a template marks them as safe.

    A template or source that the first package lacks is taken from the next.
    """

    def __init__(self, *packages: str, trim: bool = False) -> None:
        self._loader = ChoiceLoader([PackageLoader(package) for package in packages])
        self._environment = Environment(
            loader=self._loader, autoescape=True, undefined=StrictUndefined, trim_blocks=trim, lstrip_blocks=trim
        )
        self._environment.filters["script_data"] = script_data
        self._environment.globals["source"] = self.source

    def render(self, template: str, **values: Any) -> str:
        """Fill a template."""
        return self._environment.get_template(template).render(**values)

    def source(self, name: str) -> Markup:
        """The text of a style sheet or script, to be inlined in a page."""
        return Markup(self._loader.get_source(self._environment, name)[0])


def script_data(text: str) -> Markup:
    """JSON for a script element, escaped so that nothing in it can end the element."""
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
