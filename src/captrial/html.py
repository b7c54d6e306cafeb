"""HTML pages from Jinja templates, with everything escaped by default."""

from __future__ import annotations

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


class Templates:
    """The folders `templates` of some packages; a template is taken from the first package that has it.

    Values are escaped unless a template marks them as safe; an undefined value is an error.
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
        """The text of a style sheet or script in the folders, to be inlined in a page."""
        return Markup(self._loader.get_source(self._environment, name)[0])


def script_data(text: str) -> Markup:
    """JSON for the inside of a script element, escaped so that nothing in it can end the element."""
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
