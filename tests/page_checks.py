"""What every page must keep in a real browser: no console error, nothing sticks out sideways, axe-core is content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDTHS = {1280: 900, 390: 844}  # of a desktop and a phone: height of the window
SCHEMES = ("light", "dark")
SERIOUS = ("serious", "critical")  # impacts of axe-core's findings that fail a test


@cache
def axe_core() -> str:
    """The script of axe-core, as the development dependency brings it."""
    return (files("axe_playwright_python") / "axe.min.js").read_text()


@contextmanager
def looked_at(browser: Browser, width: int, scheme: str, cookies: list[Any] | None = None) -> Iterator[Page]:
    """A page of some width and colour scheme; what it writes to the console fails at the end."""
    problems: list[str] = []
    context = browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]},
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
    )
    context.set_default_timeout(120_000)
    if cookies:
        context.add_cookies(cookies)
    page = context.new_page()
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert problems == []


def findings(page: Page, name: str) -> list[str]:
    """What is wrong with the page as it is now, in words; a screenshot is kept in `CAPTRIAL_SCREENSHOTS`."""
    size = page.viewport_size
    assert size is not None
    scheme = "dark" if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
    place = f"{name}, {size['width']} pixels, {scheme}"
    if folder := os.environ.get("CAPTRIAL_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}-{size['width']}-{scheme}.png", full_page=True)
    wide = page.evaluate("document.documentElement.scrollWidth")
    found = [f"{place}: the page is {wide} pixels wide"] if wide > size["width"] else []
    page.evaluate(axe_core())  # not as a script element, which the policy of our servers forbids
    report = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    for violation in report["violations"]:
        if violation["impact"] in SERIOUS:
            where = "; ".join(node["html"][:120] for node in violation["nodes"][:3])
            found.append(f"{place}: {violation['id']} ({violation['help']}): {where}")
    return found
