"""`captrial annotate` without a browser: invite, qualification, status, export, import, simulate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from annotate.world import IMAGES, SENTENCE, join
from captrial.annotate import accounts
from captrial.annotate.database.schema import judgements
from captrial.annotate.service import Room
from captrial.annotate.settings import Settings, write_settings
from captrial.annotate.simulate import simulate_experiment
from captrial.cli import main
from captrial.compete.competition import Competition


@pytest.fixture
def run(directory: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a verb on the competition and return what it printed."""

    def command(verb: str, *options: str, code: int = 0) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["annotate", verb, str(directory), *options])
        said = capsys.readouterr()
        assert ended.value.code == code, said.err
        return said.out or said.err

    return command


@pytest.fixture
def references(tmp_path: Path) -> Path:
    """Two captions of every image, and of one that nobody knows."""
    names = [*(f"p{n}.png" for n in range(IMAGES)), "elsewhere.png"]
    path = tmp_path / "references.json"
    path.write_text(json.dumps({name: [SENTENCE, f"{SENTENCE} near image {name}"] for name in names}))
    return path


def test_an_experiment_without_a_browser(directory: Path, run: Any, references: Path, tmp_path: Path) -> None:
    invited = json.loads(run("invite", "Ada Lovelace", "--json"))
    assert invited["path"].startswith("/join/")
    assert "took" in run("import", str(references))
    status = json.loads(run("status", "--json"))
    assert status["statistics"]["refs"] == 2
    assert {part["round"] for part in status["progress"]} == {"write", "inspect"}
    assert {"items", "seconds", "stands_out"} <= set(status["people"][0])
    assert "sentences that stand" in run("status")
    for form, part in (("coco", SENTENCE), ("jsonl", SENTENCE), ("csv", SENTENCE), ("audit", "import")):
        run("export", str(tmp_path / "out"), "--as", form)
        assert part in (tmp_path / "out").read_text()
    assert "no export" in run("export", str(tmp_path / "out"), "--as", "pdf", code=2)


def test_a_folder_that_is_no_competition_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("serve", "status"):
        with pytest.raises(SystemExit, match="2"):
            main(["annotate", verb, str(tmp_path / "nowhere")])
        assert "is not a competition" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_names_are_exported_only_when_asked_for(directory: Path, run: Any, tmp_path: Path) -> None:
    room = Room(directory)
    person, _ = join(room, "Ada Lovelace", "annotator")
    room.write(person, room.next("write", person)["item"], SENTENCE, "a-key-of-ada")
    room.close()
    out = tmp_path / "out.csv"
    for form in ("sentences", "audit"):
        run("export", str(out), "--as", form)
        assert "Ada" not in out.read_text()
        run("export", str(out), "--as", form, "--names")
        assert "Ada Lovelace" in out.read_text()


def test_the_qualification_has_images_of_its_own(run: Any, tmp_path: Path, directory: Path) -> None:
    good = tmp_path / "good.json"
    good.write_text(json.dumps({"practice.png": [SENTENCE]}))
    assert "1 images" in run("qualification", str(good))
    good.write_text(json.dumps({Competition.open(directory).selected_images()[0]: [SENTENCE]}))
    assert "in the competition" in run("qualification", str(good), code=2)


@pytest.mark.slow
def test_simulated_people_finish_an_experiment(directory: Path, references: Path) -> None:
    """One image makes no sense to them and is replaced; sentences about other images are found and discarded."""
    room = Room(directory)
    with room.store.change() as connection:
        write_settings(room.store, connection, Settings(judges=1))
        room.refresh_images(connection)
    refused = room.competition.selected_images()[0]
    room.close()
    known = json.loads(references.read_text())
    del known[refused]
    known = {name: [f"{caption} in {name}" for caption in captions] for name, captions in known.items()}
    outcome = simulate_experiment(directory, known, noise=0.2, seed=1)
    competition = Competition.open(directory)
    assert outcome["replaced_images"] == 1
    assert refused not in competition.selected_images()
    assert outcome["discarded"] > 0
    assert outcome["min_refs"] >= 2
    assert len(competition.rank("cider").rows()) == 3
    again = Room(directory)
    with again.store.read() as connection:
        cast = connection.execute(select(judgements)).all()
        names = [person.name for person in accounts.everybody(connection)]
    again.close()
    assert len(cast) >= sum(len(part.images) for part in competition.selections().values())
    assert len(set(names)) == len(names) == outcome["people"]
