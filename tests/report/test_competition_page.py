"""The page of a competition: self-contained, whole, harmless whatever captions hold, and alive in a real browser."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from captrial.compete import Competition, SelectionSettings
from captrial.errors import InputError, StateError
from captrial.report.competition_page import write_competition_report
from chromium import chromium
from compete import synthetic

NASTY = "</script><img src=x onerror=\"document.title='hacked'\"> a dog & 'cat'"


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    texts = synthetic.captions(60, 3)
    texts["model1"]["3"] = texts["model2"]["4"] = NASTY
    texts["model2"]["5"] = "a dog dog dog sits"
    files, references = synthetic.write_files(folder, texts)
    (folder / "images").mkdir()
    for number in range(60):
        Image.new("RGB", (64, 48), (number * 4, 100, 200)).save(folder / "images" / f"{number}.jpg")
    (folder / "images" / "7.jpg").write_bytes(b"not an image")
    competition = Competition.create(folder / "c", {"a<b>": files["model0"], **files}, images=folder / "images")
    competition.select(SelectionSettings(10, 10))
    external = folder / "external.json"
    external.write_text(json.dumps({"model0": {"cider": 1.2, "rouge_l": 0.5}, "model1": {"cider": 1.3}}))
    labels = competition.labels(references)
    return write_competition_report(competition, labels, ["cider", "rouge_l"], folder / "out", external)


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in {"src", "href", "xlink:href"} and value:
                self.found.append(value)
            if name == "id" and value:
                self.ids.append(value)


def test_needs_nothing_but_itself(page: Path) -> None:
    links = Links()
    links.feed(page.read_text())
    outside = [link for link in links.found if not link.startswith(("#", "data:", "figures/"))]
    assert outside == []
    assert "@import" not in page.read_text()
    assert len(links.ids) == len(set(links.ids))
    assert all((page.parent / link).is_file() for link in links.found if link.startswith("figures/"))
    assert {link[1:] for link in links.found if link.startswith("#") and len(link) < 15} <= set(links.ids)


def test_every_figure_has_an_svg_and_a_table(page: Path) -> None:
    figures = page.parent / "figures"
    names = {path.stem for path in figures.glob("*.svg")}
    assert names == {path.stem for path in figures.glob("*.csv")}
    wanted = {
        "ranking_cider",
        "dominance_cider",
        "beats_cider",
        "stability",
        "outcomes",
        "repetition",
        "external_cider",
    }
    assert wanted < names
    with (figures / "dominance_cider.csv").open() as stream:
        rows = list(csv.reader(stream))
    assert len(rows) == 5
    assert (page.parent / "tables" / "ranking_rouge_l.csv").is_file()


def test_same_input_same_bytes(page: Path) -> None:
    competition = Competition.open(page.parent.parent / "c")
    labels = competition.labels(page.parent.parent / "references.json")
    before = {path.name: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}
    write_competition_report(
        competition, labels, ["cider", "rouge_l"], page.parent, page.parent.parent / "external.json"
    )
    assert {path.name: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()} == before


def test_captions_cannot_break_out(page: Path) -> None:
    text = page.read_text()
    assert NASTY not in text
    data = re.search(r'<script type="application/json" id="gallery-data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    gallery = json.loads(data[1])
    assert gallery["models"][0] == "a<b>"
    assert any(NASTY in image["captions"] for image in gallery["images"].values())


def test_nothing_to_report_is_said(tmp_path: Path) -> None:
    files, _ = synthetic.write_files(tmp_path, synthetic.captions(20, 2))
    competition = Competition.create(tmp_path / "c", files)
    competition.select(SelectionSettings(3, 3))
    with pytest.raises(StateError, match="no selected image has a reference"):
        write_competition_report(competition, competition.labels(), ["cider"], tmp_path / "out")
    (tmp_path / "table.json").write_text("[]")
    with pytest.raises(InputError, match="not a table of scores"):
        write_competition_report(
            competition,
            competition.labels(tmp_path / "references.json"),
            ["cider"],
            tmp_path / "out",
            tmp_path / "table.json",
        )


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_in_a_real_browser(page: Path) -> None:
    problems: list[str] = []
    with chromium() as browser:
        for width in (1280, 390):
            tab = browser.new_page(viewport={"width": width, "height": 844})
            tab.on("console", lambda message: problems.append(message.text))
            tab.on("pageerror", lambda error: problems.append(str(error)))
            tab.goto(page.as_uri())
            assert tab.locator("#count").inner_text() == "10 comparisons on 10 images"
            assert tab.locator(".card").count() == 10
            assert tab.evaluate("document.documentElement.scrollWidth") == width  # nothing sticks out sideways
            tab.select_option("#pair", "all")
            assert tab.locator("#count").inner_text().startswith("60 comparisons")
            assert tab.locator(".card").count() == 24
            tab.click("#more")
            assert tab.locator(".card").count() == 48
            tab.select_option("#winner", "first")
            assert tab.locator(".card .card-caption:first-child.won").count() == tab.locator(".card").count() > 0
            tab.select_option("#winner", "any")
            tab.fill("#search", "onerror")
            assert tab.locator(".card").count() > 0
            assert "hacked" not in tab.title()
            assert tab.locator(".card img[src='x']").count() == 0
            assert problems == []
            tab.close()
