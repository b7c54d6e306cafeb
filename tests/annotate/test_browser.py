"""The whole experiment in a real browser, by keyboard: invite, qualify, write, refuse, undo, inspect, export, rank."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from annotate.annotation_world import CAPTION, join, make_competition
from captrial.annotate import accounts, live_ranking
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, write_settings
from captrial.annotate.simulate import serving
from captrial.cli import main
from captrial.compete.competition import Competition
from captrial.compete.storage.manifest import SelectionSettings
from chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]
PATIENCE = 240_000  # milliseconds; a busy machine is no failure
ATTACK = "<img src=x onerror=alert(4)><svg onload=alert(5)>"
SCREEN = """() => ["image", "caption", "finished"].map((id) => document.getElementById(id))
    .map((part) => part && [part.getAttribute("src"), part.hidden, part.id === "caption" && part.textContent])
    .join()"""  # what is to be seen, as one text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


class Desk:
    """Somebody at a browser of their own; whatever goes wrong there is written down."""

    def __init__(self, browser: Browser, address: str) -> None:
        self.context: BrowserContext = browser.new_context(accept_downloads=True)
        self.context.set_default_timeout(PATIENCE)
        self.page: Page = self.context.new_page()
        self.troubles: list[str] = []
        self.page.on("console", lambda said: self.troubles.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: dialog.accept())
        self.page.goto(address)

    def press(self, keys: str, path: str) -> None:
        """Press keys and wait for the answer they ask for."""
        before = self.page.evaluate(SCREEN)
        with self.page.expect_response(f"**{path}"):
            self.page.keyboard.press(keys)
        self.page.wait_for_function(f"before => ({SCREEN})() !== before", arg=before)

    @property
    def item(self) -> int | None:
        """The number of the image on the screen."""
        self.page.wait_for_function(
            "() => document.querySelector('.task').hidden || document.getElementById('image').getAttribute('src')"
        )
        if self.page.locator(".task").is_hidden():
            return None
        return int((self.page.locator("#image").get_attribute("src") or "").rpartition("/")[2])


def prepare(folder: Path) -> tuple[Path, Path]:
    """A competition, and known good captions of two more images."""
    directory = make_competition(folder, k=2, reserve=4)
    for name in ("q0", "q1"):
        Image.new("RGB", (80, 60), (90, 160, 60)).save(folder / "source" / "images" / f"{name}.png")
    good = folder / "good.json"
    good.write_text(json.dumps({f"{name}.png": [CAPTION] for name in ("q0", "q1")}))
    return directory, good


def qualify(desk: Desk) -> None:
    """Agree and practise, by keyboard."""
    page = desk.page
    page.wait_for_url("**/consent")
    page.locator("#agree").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/qualification")
    for text in ("A brown horse is standing in a large green field", "A horse stands near a tree in a green field"):
        assert desk.item is not None
        page.locator("#text").fill(text)
        page.keyboard.press("Control+Enter")
        page.locator("#feedback[open]").wait_for()  # the parser is loaded at the first caption
        assert page.locator("#feedback-title").text_content() == "Well done"
        with page.expect_response("**/api/qualification"):  # the next image
            page.keyboard.press("Enter")
        page.locator("#feedback[open]").wait_for(state="detached")
        page.wait_for_function("() => !document.getElementById('text')?.value")
    page.wait_for_url("**/write")


def write(desk: Desk, name: str, refused: int | None = None) -> int:
    """Describe images until none is left; returns how many."""
    count = 0
    desk.page.goto(desk.page.url)
    while (item := desk.item) is not None:
        if item == refused:
            desk.press("Alt+x", "/api/refuse")
            continue
        desk.page.keyboard.type(f"A horse that {name} saw in image {item} stands in a field")
        desk.press("Control+Enter", "/api/write")
        count += 1
    return count


def submit_hinted(desk: Desk) -> None:
    """A caption with hints is sent by the second press."""
    desk.page.keyboard.press("Control+Enter")
    desk.page.get_by_text("Submit all the same").wait_for()
    desk.press("Control+Enter", "/api/write")


def draft_and_undo(desk: Desk) -> None:
    """A draft survives a reload; a caption comes back."""
    page, item = desk.page, desk.item
    page.keyboard.type("There is half")
    page.get_by_text("draft saved").wait_for()
    assert page.locator("#hints li").count() == 2  # too short, and "There is"
    page.keyboard.type(" a horse")
    page.reload()  # within the moment before the next draft is saved
    assert desk.item == item
    page.wait_for_function("() => document.getElementById('text').value === 'There is half a horse'")
    submit_hinted(desk)
    assert desk.item != item
    desk.press("Alt+u", "/api/undo/write")
    assert desk.item == item
    assert page.locator("#text").input_value() == "There is half a horse"
    page.locator("#text").fill("")
    page.get_by_text("draft saved").wait_for()


def inspect(desk: Desk, doubtful: bool) -> int:
    """Vote until nothing is left; somebody doubtful calls one caption wrong, with a reason."""
    count = 0
    while desk.item is not None:
        if count == 1 and doubtful:
            desk.page.keyboard.press("e")
            desk.page.keyboard.type("names something that is not there")
            desk.press("Enter", "/api/vote")
        else:
            desk.press("r", "/api/vote")
        if count == 0:
            desk.press("u", "/api/undo/inspect")
            desk.press("r", "/api/vote")
        count += 1
    return count


def test_a_whole_experiment_by_keyboard(tmp_path: Path, browser: Browser, capsys: pytest.CaptureFixture[str]) -> None:
    directory, good = prepare(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        main(["annotate", "qualification", str(directory), str(good)])
    with serving(directory) as (base, service):
        lead = Desk(browser, f"{base}/join/{_lead(service)}")
        lead.page.wait_for_url("**/lead")
        links = [_invite(lead, role, number) for role in ("annotator", "inspector") for number in range(3)]
        writers = [Desk(browser, link) for link in links[:3]]
        for writer in writers:
            qualify(writer)
        draft_and_undo(writers[0])
        refused = writers[0].item
        before = set(service.competition.selected_images())
        written = 0
        for _ in range(2):  # the replacement arrives when some have finished
            for number, writer in enumerate(writers):
                written += write(writer, f"writer{number}", refused if number < 2 else None)
        after = set(service.competition.selected_images())
        assert service.image_id(refused or 0) not in after
        assert len(after - before) >= 1
        inspectors = [Desk(browser, link) for link in links[3:]]
        for desk in inspectors:
            desk.page.wait_for_url("**/consent")
            desk.page.locator("#agree").click()
            desk.page.wait_for_url("**/inspect")
        votes = [inspect(desk, doubtful=number == 0) for number, desk in enumerate(inspectors)]
        assert votes == [3 * len(after)] * 3
        assert written >= 3 * len(after)
        _export(lead, len(after))
        service.write_files()
        troubles = [trouble for desk in (lead, *writers, *inspectors) for trouble in desk.troubles]
        assert not troubles
        for desk in (lead, *writers, *inspectors):
            desk.context.close()
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        main(["compete", "rank", str(directory), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert len(found["ranking"]) == 3


def test_attacks_stay_text_in_a_real_browser(tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captions, captions, reasons, models, people and files are named to run a script; no page runs it."""
    # the test above sees the process of its own
    monkeypatch.setattr(
        live_ranking, "_in_subprocess", lambda of, metric: live_ranking.live_ranking(Competition.open(of), metric)
    )
    name = "<img src=x onerror=alert(1)>.png"
    images, files = tmp_path / "images", {}
    images.mkdir()
    Image.new("RGB", (80, 60), (200, 90, 20)).save(images / name)
    for model in ("<script>alert(2)</script>", "<b onmouseover=alert(3)>"):
        files[model] = tmp_path / f"{len(files)}.json"
        files[model].write_text(json.dumps([{"image_id": name, "caption": f"{ATTACK} number {len(files)}"}]))
    Competition.create(tmp_path / "trial", files, images=images).select(SelectionSettings(1, 0))
    with serving(tmp_path / "trial") as (base, service):
        with service.store.change() as connection:
            chosen = AnnotationSettings(writers=1, inspectors=1, discards=1, min_captions=1, judges=2, consent=ATTACK)
            write_settings(service.store, connection, chosen)
            service.refresh_images(connection)
        roles = ("annotator", "inspector", "lead")
        desks = {role: Desk(browser, f"{base}/join/{join(service, ATTACK[:80], role)[1]}") for role in roles}
        fired: list[str] = []
        for desk in desks.values():
            desk.page.on("dialog", lambda dialog: fired.append(dialog.message))
        writer, inspector, lead = (desks[role].page for role in roles)
        for page, path in ((writer, "consent"), (writer, "judge"), (inspector, "judge"), (writer, "write")):
            page.goto(f"{base}/{path}")
            page.wait_for_load_state("networkidle")
        writer.locator("#text").fill(f"{ATTACK} and so on")
        desks["annotator"].press("Control+Enter", "/api/write")
        inspector.goto(f"{base}/inspect")
        inspector.wait_for_function("() => document.getElementById('caption').textContent.includes('onerror')")
        inspector.locator("#reason").fill(ATTACK)
        desks["inspector"].press("Enter", "/api/vote")
        service.import_references({name: [f"{ATTACK} once more"]})
        lead.goto(f"{base}/lead")
        lead.locator("#ranking table").wait_for()
        assert "<script>alert(2)</script>" in (lead.locator("#ranking").text_content() or "")
        assert lead.locator("#people tbody tr").count() >= 3
        for page in (writer, inspector, lead):
            assert page.locator("main img[src='x'], main b, main svg, script:not([src])").count() == 0
        assert not fired
        assert not [trouble for desk in desks.values() for trouble in desk.troubles]
        for desk in desks.values():
            desk.context.close()


def _lead(service: AnnotationService) -> str:
    with service.store.change() as connection:
        return accounts.invite(service.store, connection, "lead", "lead")[1]


def _invite(lead: Desk, role: str, number: int) -> str:
    """Fill in the form; the link is shown once."""
    lead.page.locator("#invite [name=role]").select_option(role)
    lead.page.locator("#invite [name=name]").fill(f"{role} {number} <b>")
    lead.page.keyboard.press("Enter")
    lead.page.get_by_text(f"Send this link to {role} {number} <b>").wait_for()
    return lead.page.locator("#invited code").text_content() or ""


def _export(lead: Desk, images: int) -> None:
    page = lead.page
    page.reload()
    page.get_by_text(f"Votes on captions: {9 * images} of {9 * images}").wait_for()
    page.locator("#ranking table").wait_for()
    assert ": CIDEr " in (page.locator("#ranking").text_content() or "")  # the registry's title of the metric
    with page.expect_download() as download:
        page.get_by_text("References (COCO JSON)").click()
    content = json.loads(Path(download.value.path()).read_bytes())
    assert len(content["images"]) == images
    assert len(content["annotations"]) == 3 * images
