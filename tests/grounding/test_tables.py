"""Tables as CSV, LaTeX and JSON, and bootstrap intervals."""

from __future__ import annotations

import numpy as np

from captrial.grounding.tables import Estimate, Table, escape, estimate


def test_intervals_resample_images() -> None:
    """Ten equal values of one image are one observation: the interval knows no better than from one an image."""
    once = estimate(["a", "b", "c"], np.array([[0.0], [1.0], [2.0]]))[0]
    often = estimate(["a"] * 10 + ["b"] * 10 + ["c"] * 10, np.repeat([[0.0], [1.0], [2.0]], 10, axis=0))[0]
    assert (once.value, once.low, once.high) == (often.value, often.low, often.high)
    assert often.count == 30
    nothing = estimate(["a"], np.array([[np.nan]]))[0]
    assert nothing == Estimate(None, None, None, 0)
    assert nothing.show() == "–"
    alone, both = estimate(["a", "a", "b"], np.array([[0.2, 0.2], [0.4, 0.4], [np.nan, 0.6]]))
    assert (alone.low, alone.high, alone.show()) == (None, None, "0.300 ±–")  # all of one image
    assert both.low is not None
    assert estimate([], np.zeros((0, 2))) == [nothing, nothing]


def test_tables_are_written_in_all_forms() -> None:
    cells = (Estimate(0.5, 0.4, 0.6, 7), None)
    table = Table(
        "t",
        "T",
        ("model", "δ=0", "δ=∞"),
        (("a_b & c", *cells),),
        ("a note",),
        (("", 1), ("saliency", 2)),
        {0: "grid"},
        100,
        1,
    )
    assert list(table.shown()) == [["grid", "", ""], ["a_b & c", "50.0 ±10.0", "–"]]
    assert table.headings() == ["model", "saliency δ=0", "saliency δ=∞"]
    assert table.to_csv().splitlines() == [
        "section,model,saliency δ=0,saliency δ=0 low,saliency δ=0 high,saliency δ=∞", "grid,a_b & c,0.5,0.4,0.6,",
    ]  # fmt: skip
    latex = table.to_latex()
    assert r"\multicolumn{2}{c}{saliency} \\" in latex
    assert r"a\_b \& c & 50.0 $\pm$10.0 & -- \\" in latex
    assert escape("x^2") == r"x\textasciicircum{}2"
    assert table.to_dict()["rows"] == [
        {"section": "grid", "model": "a_b & c", "saliency δ=0": {"value": 0.5, "low": 0.4, "high": 0.6, "count": 7},
         "saliency δ=∞": None}
    ]  # fmt: skip


def test_wide_tables_are_shown_group_by_group() -> None:
    groups = (("", 1), ("saliency", 2), ("attention", 1))
    table = Table("t", "T", ("model", "δ=0", "δ=1", "δ=0"), (("m", 1, 2, 3),), ("note",), groups)
    first, second = table.parts()
    assert (first.title, first.columns, first.rows, first.notes) == (
        "T: saliency",
        ("model", "δ=0", "δ=1"),
        (("m", 1, 2),),
        (),
    )
    assert (second.title, second.columns, second.rows, second.notes) == (
        "T: attention",
        ("model", "δ=0"),
        (("m", 3),),
        ("note",),
    )
    assert first.parts() == [first]
