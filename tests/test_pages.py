"""Every page in real Chromium, on a desktop and a phone, light and dark: see `page_checks`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

import captrial.demo
from annotate.annotation_world import join, make_competition, use_settings, write_everything
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings
from captrial.annotate.simulate import serving
from captrial.attribution.attribution import Attribution, tile
from captrial.attribution.explanation import Alternative, Explanation
from captrial.attribution.page import panel, write_page
from captrial.compete import Competition, SelectionSettings
from captrial.grounding.ground import GroundedExplanation
from captrial.grounding.score import CaptionGrounding, GroundedNoun, Verdict
from captrial.records import Box, Region
from captrial.report import write_competition_report
from captrial.studio.app import create_app
from captrial.web.server import run_in_thread
from chromium import chromium
from compete import synthetic
from page_checks import SCHEMES, WIDTHS, findings, looked_at

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]
PHOTO = Path(captrial.demo.__file__).parent / "photographs" / "astronaut.jpg"
LOOKS = [(width, scheme) for width in WIDTHS for scheme in SCHEMES]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def explanation() -> GroundedExplanation:
    """A caption of a photograph with a verdict of every kind that a page shows, alternatives, and a large error."""
    image = Image.open(PHOTO).convert("RGB")
    words = ("a", "woman", "in", "a", "helmet", "holds", "a", "flag")
    scores = np.random.default_rng(0).random((len(words), 49))
    regions = (Region(Box(90, 10, 400, 400), "woman", 0.9), Region(Box(0, 0, 120, 330), "flag", 0.8))
    nouns = (
        GroundedNoun(1, "woman", (0.9, 0.9), Verdict.GROUNDED),
        GroundedNoun(4, "helmet", (0.1,) * 5, Verdict.NOT_IN_IMAGE),
        GroundedNoun(7, "flag", (0.2,) * 8, Verdict.NOT_LOOKED_AT),
    )
    errors = np.array([0.002] * 7 + [1.03])
    attribution = Attribution(words, scores, tile(7, 7), "integrated_gradients", grid=(7, 7), errors=errors)
    likely = tuple((Alternative(word, 0.6), Alternative("person", 0.2), Alternative("(end)", 0.004)) for word in words)
    found = Explanation(attribution, "ort", image, alternatives=likely)
    grounding = CaptionGrounding(words, ("woman",) * len(words), nouns)
    return GroundedExplanation(found, regions, grounding, "class table; tau_g 0.95; 2 region labels")


def test_explanation(browser: Browser, tmp_path: Path) -> None:
    page = write_page([explanation().view()], tmp_path / "page.html")
    found = []
    for width, scheme in LOOKS:
        with looked_at(browser, width, scheme) as tab:
            tab.goto(page.as_uri())
            assert "large numerical error: “flag” 103%" in tab.inner_text(".warning")
            tab.locator(".word").nth(4).click()
            assert "not in the image: no helmet was found in the image" in tab.inner_text(".verdict")
            assert "person\n20%" in tab.inner_text(".bars").replace("\n\n", "\n")
            assert not tab.get_by_text("GroundingScore").first.is_visible()  # under "Details"
            tab.locator("summary").click()
            found += findings(tab, "explanation")
    assert found == []


def test_report(browser: Browser, tmp_path: Path) -> None:
    files, references = synthetic.write_files(tmp_path, synthetic.captions(60, 3))
    (tmp_path / "images").mkdir()
    for number in range(60):
        Image.new("RGB", (64, 48), (number * 4, 100, 200)).save(tmp_path / "images" / f"{number}.jpg")
    competition = Competition.create(tmp_path / "c", files, images=tmp_path / "images")
    competition.select(SelectionSettings(10, 10))
    page = write_competition_report(competition, competition.labels(references), ["cider"], tmp_path / "out")
    found = []
    for width, scheme in LOOKS:
        with looked_at(browser, width, scheme) as tab:
            tab.goto(page.as_uri())
            assert "captioners by CIDEr, on the images where captions differ most" in tab.inner_text("header")
            if scheme == "dark":  # no white card on a dark page
                assert tab.evaluate("getComputedStyle(document.querySelector('.chart')).backgroundColor") != WHITE
            if width == 390:
                table = tab.locator("#ranking .table").first
                assert table.evaluate("part => part.scrollWidth <= part.clientWidth")  # nothing to scroll sideways
            found += findings(tab, "report")
    assert found == []


WHITE = "rgb(255, 255, 255)"


def test_studio(browser: Browser) -> None:
    data = panel(explanation().view())
    found = []
    with run_in_thread(create_app([], [])) as address:
        for width, scheme in LOOKS:
            with looked_at(browser, width, scheme) as tab:
                tab.goto(address)
                tab.evaluate("data => document.getElementById('panels').append(explanationPanel(data))", data)
                found += findings(tab, "studio")
    assert found == []


def test_annotation(browser: Browser, tmp_path: Path) -> None:
    found = []
    with serving(make_competition(tmp_path, k=2)) as (base, service):
        use_settings(service, AnnotationSettings(judges=1))
        write_everything(service, 2)
        people = {
            "write": join(service, "Ada", "annotator")[1],
            "inspect": join(service, "Ben", "inspector")[1],
            "judge": join(service, "Cleo", "inspector")[1],
            "lead": join(service, "Lea", "lead")[1],
        }
        for name, token in people.items():
            if name == "inspect":
                write_everything(service, 1)  # the captions that were missing until now
            for width, scheme in LOOKS:
                with looked_at(browser, width, scheme) as tab:
                    tab.goto(f"{base}/join/{token}")
                    tab.goto(f"{base}/{name}")
                    _ready(tab, name)
                    found += findings(tab, name)
    assert found == []


def _ready(tab: Page, name: str) -> None:
    if name == "lead":
        tab.locator("#invite [name=name]").fill("Dora")
        tab.get_by_role("button", name="Invite").click()
        tab.locator("#invited img.qr").wait_for()
        tab.locator("#people tbody tr").first.wait_for()
        assert tab.locator("#invited button").inner_text() == "Copy"
    else:
        tab.wait_for_function("() => document.getElementById('image').complete && document.getElementById('image').src")


def test_a_hinted_caption_is_sent_by_a_second_tap(browser: Browser, tmp_path: Path) -> None:
    with serving(make_competition(tmp_path, k=2)) as (base, service):
        token = join(service, "Ada", "annotator")[1]
        with looked_at(browser, 390, "light") as tab:
            tab.goto(f"{base}/join/{token}")
            tab.wait_for_url("**/write")
            tab.wait_for_function("() => document.getElementById('image').src")
            tab.locator("#text").fill("There is a dog")
            tab.locator("#submit").click()
            tab.get_by_text("Submit all the same").wait_for()
            assert _captions(service) == 0
            tab.locator("#submit").click()
            tab.wait_for_function("() => !document.getElementById('text').value")
            assert _captions(service) == 1
            tab.locator("#text").fill("A brown dog runs over the green grass of a park")
            with tab.expect_response("**/api/write"):  # nothing to say against it: one tap
                tab.locator("#submit").click()


def _captions(service: AnnotationService) -> int:
    return int(next(part.done for part in service.report()["progress"] if part.round == "write"))


def test_the_image_stays_above_the_keyboard_of_a_phone(browser: Browser, tmp_path: Path) -> None:
    with serving(make_competition(tmp_path, k=1)) as (base, service):
        token = join(service, "Ada", "annotator")[1]
        with looked_at(browser, 390, "light") as tab:
            tab.goto(f"{base}/join/{token}")
            tab.wait_for_url("**/write")
            tab.wait_for_function("() => document.getElementById('image').complete")
            tab.set_viewport_size({"width": 390, "height": 400})  # what a keyboard leaves
            tab.locator("#text").scroll_into_view_if_needed()
            tab.wait_for_timeout(100)
            for part in ("#image", "#text"):
                box = tab.locator(part).bounding_box()
                assert box is not None
                assert box["y"] >= 0
                assert box["y"] + min(box["height"], 60) <= 400


def test_a_missing_image_is_said_and_not_shown_as_a_broken_icon(browser: Browser, tmp_path: Path) -> None:
    directory = make_competition(tmp_path, k=2)
    with serving(directory) as (base, service):
        images = list((tmp_path / "source" / "images").iterdir())
        for image in images:
            image.unlink()
        token = join(service, "Ada", "annotator")[1]
        context = browser.new_context()
        tab = context.new_page()
        tab.goto(f"{base}/join/{token}")
        tab.locator("#no-image").wait_for()
        assert tab.locator("#image").is_hidden()
        context.close()
