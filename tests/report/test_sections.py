"""A new section needs a function, a template fragment and one line in the list."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import DictLoader

from captrial.compete import Competition, SelectionSettings
from captrial.report import competition_page, sections
from captrial.report.charts import bars
from captrial.report.sections import ReportData, ReportSection, SectionContent
from compete import synthetic


def longest(data: ReportData) -> SectionContent:
    lengths = {model.name: model.mean_words for model in data.competition.manifest.models}
    chart = bars("lengths", "Words per caption", {"words": list(lengths.values())}, list(lengths), "words")
    return SectionContent({"longest": max(lengths, key=lengths.__getitem__)}, [chart])


def test_a_section_is_added_by_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fragment = (
        '{% from "macros.html" import chart %}<h2>Lengths</h2><p>{{ longest }}</p>{{ chart(charts.lengths, "x") }}'
    )
    loader = competition_page._TEMPLATES._loader
    monkeypatch.setattr(loader, "loaders", [*loader.loaders, DictLoader({"sections/lengths.html": fragment})])
    entries = (*sections.SECTIONS, ReportSection("lengths", "Lengths", longest))
    entries += (ReportSection("nothing", "Nothing", lambda _: None),)
    monkeypatch.setattr(competition_page, "SECTIONS", entries)
    files, references = synthetic.write_files(tmp_path, synthetic.captions(20, 2))
    competition = Competition.create(tmp_path / "c", files)
    competition.select(SelectionSettings(5, 5))
    labels = competition.labels(references)
    page = competition_page.write_competition_report(competition, labels, ["cider"], tmp_path / "out").read_text()
    assert '<a href="#lengths">Lengths</a>' in page
    assert '<section id="lengths">\n<h2>Lengths</h2>' in page
    assert (tmp_path / "out" / "figures" / "lengths.svg").is_file()
    assert (tmp_path / "out" / "figures" / "lengths.csv").is_file()
    assert "nothing" not in page


def test_every_section_has_a_fragment_and_a_title() -> None:
    folder = Path(sections.__file__).parent / "templates" / "sections"
    assert {path.stem for path in folder.glob("*.html")} == {section.key for section in sections.SECTIONS}
    assert all(section.title for section in sections.SECTIONS)
