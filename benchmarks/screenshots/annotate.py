"""Screenshots of the annotation pages: `python -m benchmarks.screenshots.annotate OUT [--only NAME ...]`.

A competition of three invented captioners on rendered images of the toy world, half annotated by invented people. Every
page on a desktop and on a phone, light and dark.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path
from typing import Any

import orjson
from PIL import Image
from playwright.sync_api import Browser, Page

from captrial.annotate.accounts import Person
from captrial.annotate.rounds.inspect import VoteForm
from captrial.annotate.rounds.qualification import set_images
from captrial.annotate.rounds.write import CaptionForm
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, write_settings
from captrial.annotate.simulate import serving
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import SelectionSettings
from captrial.toyworld import ToyWorld
from tests.annotate.annotation_world import join
from tests.chromium import chromium

IMAGES, QUALIFICATION = 40, 2
SCREENS = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
NAMES = ["Ada", "Ben", "Chloe", "Dmitri"]
Captions = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", help="names such as write-phone-dark")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        directory, truth = make_competition(Path(folder))
        with serving(directory) as (base, service), chromium() as browser:
            links = annotate(service, truth)
            for screen in SCREENS:
                for scheme in ("light", "dark"):
                    visit(browser, base, links, screen, scheme, arguments)


def make_competition(folder: Path) -> tuple[Path, Captions]:
    """Three models whose captions are about another image in 10 %, 40 % and 90 % of the cases."""
    world, images, truth = ToyWorld(seed=7, size=384), folder / "images", dict[str, list[str]]()
    images.mkdir()
    for index in range(IMAGES + QUALIFICATION):
        image = world.render("test", index)
        Image.fromarray(image.pixels).save(images / f"{index}.png")
        truth[f"{index}.png"] = list(image.sample.captions)
    generator, files = random.Random(0), {}
    known = list(truth)[:IMAGES]
    for model, wrong in (("careful", 0.1), ("hasty", 0.4), ("dreamer", 0.9)):
        chosen = [truth[generator.choice(known) if generator.random() < wrong else name][0] for name in known]
        files[model] = folder / f"{model}.json"
        records = [{"image_id": name, "caption": text} for name, text in zip(known, chosen, strict=True)]
        files[model].write_bytes(orjson.dumps(records))
    competition = Competition.create(folder / "competition", files, images=images)
    competition.select(SelectionSettings(12, 6))
    return folder / "competition", truth


def annotate(service: AnnotationService, truth: Captions) -> dict[str, str]:
    """Let people do some of the work; returns links of those whose pages are shown."""
    with service.store.change() as connection:
        write_settings(service.store, connection, AnnotationSettings(judges=1))
        service.refresh_images(connection)
        set_images(service.store, connection, {name: truth[name] for name in list(truth)[IMAGES:]})
    generator = random.Random(1)
    writers = [join(service, name, "annotator") for name in NAMES]
    inspectors = [join(service, name, "inspector") for name in ("Emre", "Fatima", "Gus")]
    lead = join(service, "Lea", "lead")
    for writer, _ in writers[:3]:
        _write(service, writer, truth, generator, 18)
    for inspector, _ in inspectors:
        _inspect(service, inspector, truth, 30)
    newcomer = join(service, "Hana", "annotator", ready=False)
    return {"write": writers[3][1], "inspect": inspectors[0][1], "lead": lead[1], "new": newcomer[1]}


def _write(service: AnnotationService, writer: Person, truth: Captions, generator: random.Random, most: int) -> None:
    following = service.next("write", writer)
    while following["item"] is not None and most:
        name = service.image_id(following["item"]) or ""
        right = generator.random() > 0.1
        text = generator.choice(truth[name] if right else next(iter(truth.values())))
        form = CaptionForm(item=following["item"], text=text, key=f"{generator.getrandbits(128):032x}")
        following = service.submit("write", writer, form)["next"]
        most -= 1


def _inspect(service: AnnotationService, inspector: Person, truth: Captions, most: int) -> None:
    following = service.next("inspect", inspector)
    while following["item"] is not None and most:
        right = following["caption"] in truth[service.image_id(following["image"]) or ""]
        form = VoteForm(item=following["item"], right=right, key=f"vote-{inspector.id}-{most:06d}")
        following, most = service.submit("inspect", inspector, form)["next"], most - 1


def visit(browser: Browser, base: str, links: dict[str, str], screen: str, scheme: str, arguments: Any) -> None:
    """Every page, on one kind of screen."""

    def shoot(page: Page, name: str) -> None:
        full = f"{name}-{screen}-{scheme}"
        if not arguments.only or full in arguments.only:
            page.wait_for_load_state("networkidle")
            page.screenshot(path=arguments.out / f"{full}.png", full_page=name == "lead" or screen == "phone")

    def sign_in(who: str) -> Page:
        options: dict[str, Any] = {"viewport": SCREENS[screen], "color_scheme": scheme, "has_touch": screen == "phone"}
        page = browser.new_context(**options).new_page()
        page.goto(f"{base}/join/{links[who]}")
        return page

    page = sign_in("new")
    shoot(page, "consent")
    page = sign_in("write")
    page.goto(f"{base}/write")
    page.locator("#image[src]").wait_for()
    page.locator("#text").fill("There is a view of Paris")
    page.locator("#hints li").first.wait_for()
    shoot(page, "write")
    page.locator("#text").fill("")
    page.get_by_text("draft saved").wait_for()
    page.goto(f"{base}/judge")
    page.locator("#image[src]").wait_for()
    shoot(page, "judge")
    page.goto(f"{base}/write")
    page.locator("#keys-button").click(force=True) if screen == "desktop" else None
    shoot(page, "keys") if screen == "desktop" else None
    page = sign_in("inspect")
    page.goto(f"{base}/inspect")
    page.locator("#image[src]").wait_for()
    shoot(page, "inspect")
    page = sign_in("lead")
    page.locator("#ranking table").wait_for(timeout=120_000)
    shoot(page, "lead")


if __name__ == "__main__":
    main()
