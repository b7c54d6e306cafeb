"""docs/results.md: the part of a paper is replaced from its folder, that of others stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from captrial.grounding.tables import Table
from captrial.papers.experiments import ExperimentOutput, load_papers
from captrial.papers.reproduction import reproduce
from studies import results_page

PAGE = """# Results
<!-- paper wan -->
old, of Wan 2022
<!-- end paper wan -->

<!-- paper liu -->
of Liu 2017
<!-- end paper liu -->
"""


def make_reproduction(folder: Path, value: str) -> None:
    """A finished folder with one table, as `captrial papers wan` leaves it."""

    def table() -> ExperimentOutput:
        return ExperimentOutput(tables=[Table("ranking", "Here", ("model", "CIDEr"), (("first", value),))])

    paper, command = load_papers()["wan"], f"captrial papers wan --data FOLDER --out {folder}"
    functions = {experiment.key: ExperimentOutput for experiment in paper.experiments} | {"figure-9": table}
    reproduce(paper, functions, folder, {"data": value}, command=command)


def test_the_part_of_one_paper_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "results.md").write_text(PAGE)
    for name, value in (("one", "12.3"), ("two", "45.6")):
        make_reproduction(tmp_path / name, value)
    arguments = [str(tmp_path / "one"), "--out", str(tmp_path), "--instead", f"{tmp_path}=results"]
    results_page.main(arguments)
    page = (tmp_path / "results.md").read_text()
    assert "old, of Wan 2022" not in page
    assert "| first | 12.3 |" in page
    assert "--out results/one" in page
    assert str(tmp_path) not in page
    assert page.endswith(PAGE[PAGE.index("<!-- paper liu -->") :])
    assert page.index("| experiment | what | here |") < page.index("### Fig. 2")
    results_page.main(arguments)
    assert (tmp_path / "results.md").read_text() == page

    results_page.main([str(tmp_path / "one"), str(tmp_path / "two"), "--out", str(tmp_path)])
    both = (tmp_path / "results.md").read_text()
    assert both.index("| first | 12.3 |") < both.index("| first | 45.6 |")


def test_a_page_without_the_marks_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "results.md").write_text("# Results\n")
    make_reproduction(tmp_path / "one", "1")
    with pytest.raises(SystemExit, match="put the marks back"):
        results_page.main([str(tmp_path / "one"), "--out", str(tmp_path)])
    assert (tmp_path / "results.md").read_text() == "# Results\n"
