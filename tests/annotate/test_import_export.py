"""Exports, and references that are imported."""

from __future__ import annotations

import pytest

from annotate.annotation_world import CAPTION, inspect_everything, join, new_key, submit_caption, write_everything
from captrial.annotate.import_export import export
from captrial.annotate.progress_report import annotator_statistics, progress, statistics
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import read_settings
from captrial.compete.competition import Competition
from captrial.errors import InputError


def test_overview_and_exports(service: AnnotationService) -> None:
    write_everything(service)
    inspect_everything(service)
    with service.store.read() as connection:
        settings = read_settings(service.store, connection)
        assert all(part.done == part.wanted for part in progress(connection, settings))
        facts = statistics(connection, settings)
        assert facts["refs"] == 3
        assert facts["vote_agreement"] == 1.0
        assert len(annotator_statistics(connection)) == 6
        for form in ("coco", "jsonl", "csv", "captions", "audit"):
            content, name = export(connection, settings, form)
            assert content
            assert name
            assert b"writer 0" not in content  # people are numbers
        with pytest.raises(InputError, match="there is no export"):
            export(connection, settings, "pdf")


def test_import_counts_as_accepted(service: AnnotationService) -> None:
    wanted = {image: [CAPTION, f"{CAPTION} indeed"] for image in service.competition.selected_images()}
    found = service.import_references({**wanted, "elsewhere": [CAPTION]})
    assert (found.stored, found.unknown, found.matched) == (2 * len(wanted), 1, "")
    assert service.import_references(wanted).stored == 0
    image = next(iter(wanted))
    assert (
        service.import_references({image: [f"{CAPTION} at last"]}).stored == 1
    )  # by somebody who has not described it
    wanted[image].append(f"{CAPTION} at last")
    assert Competition.open(service.directory).labels().references == {p: sorted(c, key=len) for p, c in wanted.items()}


def test_ids_of_another_spelling_are_imported_and_reported(service: AnnotationService) -> None:
    first, second, *_ = service.competition.selected_images()
    found = service.import_references({f"/data/photos/{first}": [CAPTION], second.removesuffix(".png"): [CAPTION]})
    assert (found.stored, found.unknown) == (2, 0)
    assert "matched by file name" in found.matched
    service.write_files()
    assert set(Competition.open(service.directory).labels().references) == {first, second}


def test_formulas_are_harmless_in_exports(service: AnnotationService) -> None:
    person = join(service, "ann", "annotator")[0]
    submit_caption(
        service,
        person,
        service.next("write", person)["item"],
        "=HYPERLINK(1) is what this caption says to you",
        new_key(),
    )
    with service.store.read() as connection:
        content, _ = export(connection, read_settings(service.store, connection), "captions")
    assert b"'=HYPERLINK" in content
