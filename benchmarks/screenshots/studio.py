"""Screenshots of the studio in Chromium: a photograph of scikit-image, two captioners, desktop and phone.

python -m benchmarks.screenshots.studio [--out docs/images] [--second NAME] [--photo motorcycle_left.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser
from skimage import data

from captrial.studio.app import create_app
from captrial.web.server import run_in_thread
from tests.chromium import chromium

SCREENS = {"desktop": (1200, 1000), "phone": (390, 844)}
TIMEOUT = 240_000  # milliseconds


def take_screenshots(browser: Browser, address: str, device: str, arguments: argparse.Namespace) -> None:
    """Choose, wait, point at the first noun with a verdict."""
    width, height = SCREENS[device]
    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=arguments.scheme)
    tab.set_default_timeout(TIMEOUT)
    tab.goto(address)
    if arguments.empty:
        tab.screenshot(path=arguments.out / f"studio-empty-{device}.png")
    tab.locator("#second").select_option(arguments.second)
    tab.locator("#file").set_input_files(Path(data.__file__).parent / arguments.photo)
    tab.locator(".pair .panel").nth(1).wait_for()
    tab.locator("#work").wait_for(state="hidden")
    tab.locator(".word:has(.mark)").last.hover()
    tab.evaluate("scrollTo(0, 0)")
    path = arguments.out / f"studio-{device}.png"
    tab.screenshot(path=path, full_page=device == "phone")
    Image.open(path).convert("P", palette=Image.Palette.ADAPTIVE, colors=224).save(path, optimize=True)
    tab.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--second", default="show_attend_tell", help="a captioner to compare with the default")
    parser.add_argument("--photo", default="motorcycle_left.png", help="a photograph of scikit-image")
    parser.add_argument("--scheme", default="light", choices=["light", "dark"])
    parser.add_argument("--empty", action="store_true", help="also the page before an image is chosen")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with run_in_thread(create_app([arguments.second])) as address, chromium() as browser:
        for device in SCREENS:
            take_screenshots(browser, address, device, arguments)


if __name__ == "__main__":
    main()
