"""The page of an explanation, also in a browser, and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib import colormaps
from PIL import Image

from captrial.attribution.attribution import Attribution, tile
from captrial.attribution.explanation import Explanation
from captrial.attribution.page import ExplanationView, coloured, page, panel, save_figure, words_figure, write_page
from captrial.grounding.ground import GroundedExplanation, ground_explanation
from captrial.grounding.score import CaptionGrounding, GroundedNoun, Grounder, Verdict
from captrial.records import Box, Region
from chromium import chromium

WORDS = ("a", "man", "with", "a", "dog")


def view(words: tuple[str, ...] = WORDS, **changes: object) -> ExplanationView:
    """The attribution of word i is in cell i of a grid of 2 x 3, in an image of 90 x 60."""
    scores = np.eye(len(words), 6)
    regions = [Region(Box(30, 0, 60, 30), "person", 0.9), Region(Box(30, 30, 60, 60), "dog", 0.8)]
    nouns = (
        GroundedNoun(1, "man", (0.9, 0.9), Verdict.GROUNDED),
        GroundedNoun(4, "dog", (0.1,) * 5, Verdict.NOT_IN_IMAGE),
    )
    settings: dict[str, object] = {
        "image": Image.new("RGB", (90, 60), "white"),
        "attribution": Attribution(words, scores, tile(2, 3), "saliency", grid=(2, 3)),
        "regions": regions,
        "grounding": CaptionGrounding(words, ("person",) * len(words), nouns),
        "captioner": "<img src=x onerror=alert(1)>",
        **changes,
    }
    said = Explanation(settings["attribution"], str(settings["captioner"]), settings["image"])  # type: ignore[arg-type]
    return GroundedExplanation(said, tuple(settings["regions"]), settings["grounding"], "").view()  # type: ignore[arg-type]


def test_a_map_is_bright_at_the_element_of_its_word() -> None:
    maps = view().maps(90)
    assert maps.shape == (5, 60, 90)
    for word in range(5):
        row, column = divmod(word, 3)
        cells = maps[word].reshape(2, 30, 3, 30).mean((1, 3))
        assert np.unravel_index(cells.argmax(), cells.shape) == (row, column)


def test_a_panel_names_the_regions_and_verdicts_of_each_word() -> None:
    data = panel(view())
    assert data["words"][1]["verdict"] == "grounded"
    assert data["words"][4]["verdict"] == "not in the image"
    assert data["regions"][data["words"][1]["top"][0]["region"]]["label"] == "person"
    assert data["words"][0]["verdict"] is None
    assert [entry["delta"] for entry in data["grounding"]] == ["0", "1", "3", "5", "∞"]


def test_a_contrast_is_a_note() -> None:
    said = Explanation(view().attribution, image=view().image, contrast={"dog": "cat"})
    assert said.view().notes == ("“dog” is explained by its lead over “cat”",)
    assert ground_explanation(said, [], Grounder([])).view().notes[0] == said.view().notes[0]


def test_a_class_token_is_not_painted_over_the_image() -> None:
    boxes = np.concatenate([[[0, 0, 1, 1]], tile(2, 2)])
    found = Attribution(("dog",), np.array([[9.0, 0, 0, 0, 1]]), boxes, "saliency", np.array([[9.0, 0, 0, 0, 1]]))
    seen = Explanation(found, image=Image.new("RGB", (60, 60))).view()
    assert seen.attribution.grid == (2, 2)
    (painted,) = seen.maps(60)
    assert painted[50, 50] > 0.9 > 0.1 > painted[10, 10]


def test_an_image_without_elements_says_so() -> None:
    nothing = Attribution(("dog",), np.zeros((1, 0)), np.zeros((0, 4)), "saliency")
    empty = view(("dog",), attribution=nothing, regions=[], grounding=CaptionGrounding(("dog",), (), ()))
    assert panel(empty)["problem"] == "the image has no region with a label"
    assert "no region" in page([empty])
    words_figure(empty)


def test_the_colours_of_maps_are_those_of_matplotlib() -> None:
    values = np.linspace(0, 1, 1001).reshape(7, 143)
    expected = colormaps["inferno"](0.15 + 0.85 * values)
    expected[..., 3] = 0.12 + 0.7 * values
    assert np.array_equal(np.asarray(coloured(values)), (255 * expected).astype(np.uint8))


def test_a_figure_is_written_in_the_format_of_its_suffix(tmp_path: Path) -> None:
    assert save_figure(words_figure(view()), tmp_path / "words.png").read_bytes()[:4] == b"\x89PNG"
    assert save_figure(words_figure(view()), tmp_path / "words.pdf").read_bytes()[:4] == b"%PDF"


@pytest.mark.needs("chromium")
@pytest.mark.slow
def test_what_was_not_looked_at_is_drawn_where_it_was_found(tmp_path: Path) -> None:
    words = ("a", "man", "and", "a", "cat")
    cells = np.array([2, 2, 0, 1, 2])  # all above the lower half, but "and"
    regions = [
        Region(Box(0, 0, 30, 30), "tree", 0.9),
        Region(Box(30, 30, 60, 60), "man", 0.6),
        Region(Box(2, 0, 30, 30), "woman", 0.8),
        Region(Box(60, 0, 90, 30), "dog", 0.7),
    ]
    attribution = Attribution(words, np.eye(6)[cells], tile(2, 3), "saliency", grid=(2, 3))
    said = Explanation(attribution, "ort", Image.new("RGB", (90, 60)))
    grounder = Grounder(["tree", "man", "woman", "dog", "cat"], threshold=0.9)
    found = ground_explanation(said, regions, grounder)
    assert [noun.verdict for noun in found.nouns] == [Verdict.NOT_LOOKED_AT, Verdict.NOT_IN_IMAGE]
    assert found.found == {1: 2}  # the best region of a person, whatever word for people it has
    assert [word["found"] for word in panel(found.view())["words"]] == [None, 2, None, None, None]
    with chromium() as browser:
        opened = browser.new_page()
        opened.goto(write_page([found.view()], tmp_path / "page.html").as_uri())
        assert "(dashed: woman, detector's score 0.80)" in opened.inner_text(".verdict")
        texts = opened.locator("svg text")
        assert texts.all_text_contents() == ["1 dog", "2 tree", "3 man", "woman"]
        assert opened.get_attribute("svg rect.missed", "x") == "2"
        y, size = ([float(texts.nth(one).get_attribute(name) or 0) for one in (1, 3)] for name in ("y", "font-size"))
        assert abs(y[0] - y[1]) >= size[0] == size[1]  # one label below the other, though the boxes coincide


@pytest.mark.needs("chromium")
@pytest.mark.slow
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    path = write_page([view()], tmp_path / "page.html")
    assert path.stat().st_size < 5_000_000
    with chromium() as browser:
        opened = browser.new_page()
        problems: list[str] = []
        opened.on("console", lambda message: problems.append(message.text))
        opened.on("pageerror", lambda error: problems.append(str(error)))
        opened.goto(path.as_uri())
        assert opened.get_attribute("button[aria-pressed=true] .mark", "aria-label")  # it opens at a noun
        opened.locator(".word").first.hover()
        first = opened.get_attribute("img.map", "src")
        opened.hover("button:has-text('dog')")
        assert opened.get_attribute("img.map", "alt") == "map of the word dog"
        assert opened.get_attribute("img.map", "src") != first
        assert opened.text_content("svg text") == "1 dog"
        assert "✗ not in the image: no dog was found in the image" in opened.inner_text(".verdict")
        assert opened.inner_text(".side li").startswith("dog, detector's score 0.80")
        assert opened.locator("svg rect.missed").count() == 0
        opened.keyboard.press("Tab")
        opened.focus("button:has-text('dog')")
        opened.keyboard.press("ArrowLeft")
        assert opened.get_attribute("button[aria-pressed=true]", "class") == "word"
        assert opened.inner_text(".verdict") == "no noun, so no verdict"
        assert "not in the image" in opened.inner_text(".legend")
        assert "<img" in opened.inner_text("h2")  # a captioner's name is text, never markup
    assert problems == []
