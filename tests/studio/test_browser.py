"""The studio in a real browser: an image dropped, two captioners compared, words pointed at, bad images refused."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from skimage import data

from captrial.captioners.registry import DEFAULT_CAPTIONER
from captrial.compete import Competition, SelectionSettings
from captrial.studio.app import create_app
from captrial.web.server import run_in_thread
from chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]
PHOTO = Path(data.__file__).parent / "motorcycle_left.png"
PATIENCE = 180_000  # milliseconds: models are loaded, on a machine that may be busy
DROP = """([name, content]) => {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name));
  const dropped = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
  document.getElementById("drop").dispatchEvent(dropped);
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_in_thread(create_app([], [make_competition(tmp_path_factory.mktemp("studio"))])) as found:
        yield found


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    troubles: list[str] = []
    with chromium() as browser:
        tab = browser.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.goto(address)
        tab.locator("#method").select_option("saliency")
        yield tab
    assert troubles == []


def make_competition(folder: Path) -> Path:
    """Two captioners on eight images, labelled."""
    (folder / "images").mkdir()
    names = [f"{number}.png" for number in range(8)]
    for number, name in enumerate(names):
        Image.new("RGB", (40, 30), (30 * number, 90, 160)).save(folder / "images" / name)
    files = {}
    for model, animal in (("dogs", "dog"), ("cats", "cat")):
        files[model] = folder / f"{model}.json"
        files[model].write_text(json.dumps({name: f"a {animal} at place {name[0]}" for name in names}))
    competition = Competition.create(folder / "trial", files, images=folder / "images")
    competition.select(SelectionSettings(6, 2))
    lines = [json.dumps({"id": name, "captions": [f"a dog is at place {name[0]}"]}) for name in names]
    (folder / "trial" / "references.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "trial"


def drop(page: Page, name: str, content: bytes) -> None:
    page.evaluate(DROP, [name, base64.b64encode(content).decode()])


def refusal(page: Page) -> str:
    page.locator("#problem").wait_for(state="visible")
    assert page.locator("#work").is_hidden()
    return page.locator("#problem").text_content() or ""


def bomb(side: int) -> bytes:
    """The head of a PNG of so many pixels a side: some hundred bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def test_two_captioners_are_compared_word_by_word(page: Page) -> None:
    page.locator("#second").select_option("show_attend_tell")
    drop(page, "<b>motorcycle</b>.png", PHOTO.read_bytes())
    page.locator("#preview").wait_for(state="visible")
    page.locator(".pair .panel").nth(1).wait_for()
    page.locator("#work").wait_for(state="hidden")
    assert page.locator("#chosen").text_content() == "<b>motorcycle</b>.png"
    left, right = page.locator(".pair .panel").all()
    assert (left.locator("h2").text_content() or "").startswith(f"{DEFAULT_CAPTIONER} ·")
    assert (right.locator("h2").text_content() or "").startswith("show_attend_tell ·")
    assert left.bounding_box()["y"] == right.bounding_box()["y"]  # type: ignore[index]
    words = left.locator(".word")
    noun = words.filter(has=page.locator(".mark")).first  # one with a verdict
    noun.hover()
    said = (noun.evaluate("word => word.firstChild.textContent") or "").strip()
    assert left.locator("img.map").get_attribute("alt") == f"map of the word {said}"
    assert (noun.get_attribute("title") or "").split(":")[0] in left.locator(".legend").inner_text()
    assert f"“{said}”" in left.locator(".side").inner_text()
    words.nth(0).hover()  # both begin with "a": it is shown in both
    for panel in (left, right):
        assert panel.locator("img.map").get_attribute("alt") == "map of the word a"


def test_bad_images_are_refused_in_one_sentence_and_a_good_one_goes_on(page: Page, tmp_path: Path) -> None:
    drop(page, "broken.jpg", PHOTO.read_bytes()[:5000])
    assert "broken.jpg: is truncated or damaged" in refusal(page)
    drop(page, "notes.png", b"these are notes, not an image")
    assert "notes.png: is" in refusal(page)
    assert "not a JPEG, PNG" in refusal(page)
    drop(page, "bomb.png", bomb(60_000))
    page.get_by_text("60000 x 60000 pixels, over the limit").wait_for()
    huge = tmp_path / "huge.png"
    with huge.open("wb") as file:
        file.truncate(33 << 20)
    page.locator("#file").set_input_files(huge)
    assert refusal(page) == "huge.png has 33 MB; at most 32 MB are allowed. Please choose a smaller file."
    page.locator("#file").set_input_files(PHOTO)
    page.locator("#panels .panel").wait_for()
    assert page.locator("#problem").is_hidden()


def test_a_competition_opens_its_ranking_and_gallery(page: Page, address: str) -> None:
    page.get_by_role("button", name="trial").click()
    page.wait_for_url(f"{address}/competition/0/index.html")
    assert "dogs comes first" in (page.locator("header").text_content() or "")
    page.locator("#cards .card img").first.wait_for()
    page.goto(page.locator("figure a").first.evaluate("link => link.href"))  # the figure as a file of its own
    assert page.locator("svg").count() > 0
