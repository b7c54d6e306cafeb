"""The page of an explanation, in a real browser, and the figures: what is drawn is what was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from captrial.attribution.elements import tile
from captrial.attribution.explanation import Attribution, Explanation
from captrial.attribution.maps import heat
from captrial.attribution.page import ExplanationView, page, panel, save_figure, words_figure, write_page
from captrial.grounding.ground import GroundedExplanation, ground_explanation
from captrial.grounding.score import (
    CaptionGrounding,
    GroundedNoun,
    Grounder,
    Verdict,
)
from captrial.records import Box, Region
from chromium import chromium

WORDS = ("a", "man", "with", "a", "dog")


def view(words: tuple[str, ...] = WORDS, **changes: object) -> ExplanationView:
    """The attribution of word i is in cell i of a grid of 2 x 3, in an image of 90 x 60."""
    scores = np.eye(len(words), 6)
    regions = [Region(Box(30, 0, 60, 30), "person", 0.9), Region(Box(30, 30, 60, 60), "dog", 0.8)]
    nouns = (
        GroundedNoun(1, "man", (0.9, 0.9), Verdict.GROUNDED),
        GroundedNoun(4, "dog", (0.1,) * 5, Verdict.HALLUCINATED),
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


def test_a_map_is_bright_where_its_word_looked() -> None:
    maps = view().maps(90)
    assert maps.shape == (5, 60, 90)
    for word in range(5):
        row, column = divmod(word, 3)
        cells = maps[word].reshape(2, 30, 3, 30).mean((1, 3))
        assert np.unravel_index(cells.argmax(), cells.shape) == (row, column)


def test_regions_paint_their_boxes_and_what_was_cropped_away_stays_dark() -> None:
    boxes = np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1]])
    assert heat(Attribution(("dog",), np.array([[0.0, 1.0]]), boxes, "attention"), 2, 4)[0, 0].tolist() == [0, 0, 1, 1]
    window = (0.25, 0.0, 0.75, 1.0)
    seen = Attribution(("dog",), np.array([[1.0, 0.0]]), tile(1, 2, window), "attention", grid=(1, 2), window=window)
    painted = heat(seen, 4, 8)[0]
    assert painted[:, :2].max() == painted[:, 6:].max() == 0
    assert painted[:, 2:4].min() > painted[:, 4:6].max()


def test_a_panel_names_the_regions_and_verdicts_of_each_word() -> None:
    data = panel(view())
    assert data["words"][1]["verdict"] == "grounded"
    assert data["words"][4]["verdict"] == "hallucinated"
    assert data["regions"][data["words"][1]["top"][0]["region"]]["label"] == "person"
    assert data["words"][0]["verdict"] is None
    assert [entry["delta"] for entry in data["grounding"]] == ["0", "1", "3", "5", "∞"]


def test_a_contrast_is_said() -> None:
    said = Explanation(view().attribution, image=view().image, contrast={"dog": "cat"})
    assert said.view().notes == ("“dog” is explained by its lead over “cat”",)
    assert ground_explanation(said, [], Grounder([])).view().notes[0] == said.view().notes[0]


def test_verdicts_stand_at_the_captioners_own_words() -> None:
    """A VLM says commas and "man's" as words; our tokens have none and two for them."""
    words = ("a", "man's", "dog", ",", "near", "a", "cat", ".")
    cells = np.array([0, 0, 0, 1, 0, 0, 1, 0])  # it looks at the left half, but at the comma and "cat"
    said = Explanation(
        Attribution(words, np.eye(2)[cells], tile(1, 2), "saliency", grid=(1, 2)), image=Image.new("RGB", (90, 60))
    )
    regions = [Region(Box(0, 0, 45, 60), "dog"), Region(Box(45, 0, 90, 60), "cat")]
    found = ground_explanation(said, regions, Grounder(["dog", "cat", "person"], threshold=0.9))
    verdicts = {words[place]: found.verdict(place) for place in range(len(words)) if found.verdict(place)}
    assert verdicts == {"man's": Verdict.HALLUCINATED, "dog": Verdict.GROUNDED, "cat": Verdict.GROUNDED}


def test_what_the_captioner_did_not_see_grounds_nothing() -> None:
    window = (0.25, 0.0, 0.75, 1.0)
    scores = Attribution(("dog",), np.zeros((1, 2)), tile(1, 2, window), "saliency", grid=(1, 2), window=window)
    said = Explanation(scores, image=Image.new("RGB", (100, 100)))
    grounder = Grounder(["dog", "cat"], threshold=0.9)
    away, there = Region(Box(0, 0, 20, 100), "dog"), Region(Box(50, 0, 70, 100), "cat")
    assert ground_explanation(said, [away, there], grounder).verdict(0) is Verdict.HALLUCINATED
    alone = ground_explanation(said, [away], grounder)
    assert alone.verdict(0) is None
    assert alone.grounding.problem == "the image has no region with a label"


def test_a_class_token_is_not_painted_over_the_image() -> None:
    boxes = np.concatenate([[[0, 0, 1, 1]], tile(2, 2)])
    found = Attribution(("dog",), np.array([[9.0, 0, 0, 0, 1]]), boxes, "saliency", np.array([[9.0, 0, 0, 0, 1]]))
    seen = Explanation(found, image=Image.new("RGB", (60, 60))).view()
    assert seen.attribution.grid == (2, 2)
    (painted,) = seen.maps(60)
    assert painted[50, 50] > 0.9 > 0.1 > painted[10, 10]


def test_nothing_to_look_at_is_said_and_not_drawn() -> None:
    nothing = Attribution(("dog",), np.zeros((1, 0)), np.zeros((0, 4)), "saliency")
    empty = view(("dog",), attribution=nothing, regions=[], grounding=CaptionGrounding(("dog",), (), ()))
    assert panel(empty)["problem"] == "the image has no region with a label"
    assert "no region" in page([empty])
    words_figure(empty)


def test_a_figure_is_written_in_the_format_of_its_suffix(tmp_path: Path) -> None:
    assert save_figure(words_figure(view()), tmp_path / "words.png").read_bytes()[:4] == b"\x89PNG"
    assert save_figure(words_figure(view()), tmp_path / "words.pdf").read_bytes()[:4] == b"%PDF"


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
        assert opened.text_content("svg text") == "dog"
        opened.keyboard.press("Tab")
        opened.focus("button:has-text('dog')")
        opened.keyboard.press("ArrowLeft")
        assert opened.get_attribute("button[aria-pressed=true]", "class") == "word"
        assert "hallucinated" in opened.inner_text(".legend")
        assert "<img" in opened.inner_text("h2")  # a captioner's name is text, never markup
    assert problems == []
