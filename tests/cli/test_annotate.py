"""`captrial annotate`: serve, and without a browser invite, qualification, status, export, import, simulate."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from annotate.annotation_world import CAPTION, IMAGES, join, make_competition, submit_caption, use_settings
from captrial.annotate import accounts
from captrial.annotate.database.schema import judgements
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, write_settings
from captrial.annotate.simulate import SimulationSettings, simulate_experiment
from captrial.cli import main
from captrial.compete.competition import Competition


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_competition(tmp_path)


@pytest.fixture
def run(directory: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a verb on the competition and return what it printed."""

    def command(verb: str, *options: str, code: int = 0) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["annotate", verb, str(directory), *options])
        printed = capsys.readouterr()
        assert ended.value.code == code, printed.err
        return printed.out or printed.err

    return command


@pytest.fixture
def references(tmp_path: Path) -> Path:
    """Two captions of every image, and of one that nobody knows."""
    names = [*(f"p{n}.png" for n in range(IMAGES)), "elsewhere.png"]
    path = tmp_path / "references.json"
    path.write_text(json.dumps({name: [CAPTION, f"{CAPTION} near image {name}"] for name in names}))
    return path


def test_an_experiment_without_a_browser(directory: Path, run: Any, references: Path, tmp_path: Path) -> None:
    invited = json.loads(run("invite", "Ada Lovelace", "--json"))
    assert invited["path"].startswith("/join/")
    assert "imported" in run("import", str(references))
    status = json.loads(run("status", "--json"))
    assert status["statistics"]["refs"] == 2
    assert {part["round"] for part in status["progress"]} == {"write", "inspect"}
    assert {"items", "seconds", "stands_out"} <= set(status["people"][0])
    assert "accepted captions" in run("status")
    for form, part in (("coco", CAPTION), ("jsonl", CAPTION), ("csv", CAPTION), ("audit", "import")):
        run("export", str(tmp_path / "out"), "--format", form)
        assert part in (tmp_path / "out").read_text()
    assert "there is no export" in run("export", str(tmp_path / "out"), "--format", "pdf", code=2)


def test_a_folder_that_is_not_a_competition_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("serve", "status"):
        with pytest.raises(SystemExit, match="2"):
            main(["annotate", verb, str(tmp_path / "nowhere")])
        assert "is not a competition" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_names_are_exported_only_when_asked_for(directory: Path, run: Any, tmp_path: Path) -> None:
    service = AnnotationService(directory)
    person, _ = join(service, "Ada Lovelace", "annotator")
    submit_caption(service, person, service.next("write", person)["item"], CAPTION, "a-key-of-ada")
    service.close()
    out = tmp_path / "out.csv"
    for form in ("captions", "audit"):
        run("export", str(out), "--format", form)
        assert "Ada" not in out.read_text()
        run("export", str(out), "--format", form, "--names")
        assert "Ada Lovelace" in out.read_text()


def test_the_qualification_has_images_of_its_own(run: Any, tmp_path: Path, directory: Path) -> None:
    good = tmp_path / "good.json"
    good.write_text(json.dumps({"practice.png": [CAPTION]}))
    assert "1 images" in run("qualification", str(good))
    good.write_text(json.dumps({Competition.open(directory).selected_images()[0]: [CAPTION]}))
    assert "in the competition" in run("qualification", str(good), code=2)


@pytest.mark.slow
def test_simulated_people_finish_an_experiment(directory: Path, references: Path) -> None:
    """One image makes no sense to them and is replaced; captions about other images are found and discarded."""
    service = AnnotationService(directory)
    with service.store.change() as connection:
        write_settings(service.store, connection, AnnotationSettings(judges=1))
        service.refresh_images(connection)
    refused = service.competition.selected_images()[0]
    service.close()
    known = json.loads(references.read_text())
    del known[refused]
    known = {name: [f"{caption} in {name}" for caption in captions] for name, captions in known.items()}
    copy = directory.parent / "copy"
    outcome = simulate_experiment(directory, known, SimulationSettings(noise=0.2, seed=1), out=copy)
    competition = Competition.open(copy)
    assert outcome["replaced_images"] == 1
    assert refused not in competition.selected_images()
    assert outcome["discarded"] > 0
    assert outcome["min_refs"] >= 2
    assert len(competition.rank("cider").rows()) == 3
    again = AnnotationService(copy)
    with again.store.read() as connection:
        cast = connection.execute(select(judgements)).all()
        names = [person.name for person in accounts.all_people(connection)]
    again.close()
    assert len(cast) >= sum(len(part.images) for part in competition.selections().values())
    assert len(set(names)) == len(names) == outcome["people"]


def serve(directory: Path, *options: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    import uvicorn

    started: list[dict[str, object]] = []

    def run(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        (listening,) = sockets
        started.append({"host": listening.getsockname()[0], "proxy_headers": server.config.proxy_headers})
        application: Any = server.config.app
        application.state.context.close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    with pytest.raises(SystemExit) as ended:
        main(["annotate", "serve", str(directory), "--port", "0", *options])
    return started if not ended.value.code else []


def test_other_machines_need_allow_remote(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not serve(directory, "--host", "0.0.0.0", monkeypatch=monkeypatch)
    assert "--allow-remote" in capsys.readouterr().err
    assert not (directory / "annotations.sqlite").exists()
    started = serve(directory, monkeypatch=monkeypatch)
    assert started[0]["host"] == "127.0.0.1"
    assert "HTTPS" not in capsys.readouterr().err


def test_remote_needs_accounts_and_warns_without_tls(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(directory, "--host", "0.0.0.0", "--allow-remote", monkeypatch=monkeypatch)
    printed = capsys.readouterr()
    assert "HTTPS" in printed.err
    assert "/join/" in printed.out  # the first account, which everything else needs
    started = serve(directory, "--host", "0.0.0.0", "--allow-remote", "--https", monkeypatch=monkeypatch)
    assert started[0]["proxy_headers"] is True
    assert "HTTPS" not in capsys.readouterr().err


@pytest.mark.slow
def test_simulated_people_never_touch_what_people_did(directory: Path, references: Path, run: Any) -> None:
    """They played on the real database, discarded a person's caption, and were invited without end."""
    service = AnnotationService(directory)
    use_settings(service, AnnotationSettings(writers=1, inspectors=1, discards=1, min_captions=1))
    person, _ = join(service, "Ada", "annotator")
    submit_caption(service, person, service.next("write", person)["item"], "nothing of this is true", "a-key-of-ada")
    service.close()
    before = {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}
    found = json.loads(run("simulate", str(references), "--noise", "1", "--people", "1", "--json"))
    assert found["discarded"] > 0  # in the copy
    assert found["people"] <= 22
    assert found["unfinished"] > 0  # with nothing but mistakes it would never end
    assert {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()} == before


def test_a_simulation_needs_a_selection_and_a_new_folder(
    directory: Path, references: Path, run: Any, tmp_path: Path
) -> None:
    assert "choose a new folder" in run("simulate", str(references), "--out", str(tmp_path), code=2)
    for path in (directory / "selection").glob("*.json"):
        path.unlink()
    assert "compete select" in run("simulate", str(references), code=2)


def test_a_taken_port_is_refused_before_anything_is_made(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not serve(directory, "--port", str(taken.getsockname()[1]), monkeypatch=monkeypatch)
    printed = capsys.readouterr()
    assert "cannot be used" in printed.err
    assert "Serving on" not in printed.out
    assert not (directory / "annotations.sqlite").exists()


def test_serving_before_selecting_says_what_to_do(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (directory / "selection").glob("*.json"):
        path.unlink()
    assert not serve(directory, monkeypatch=monkeypatch)
    assert f"captrial compete select {directory}" in capsys.readouterr().err


def test_missing_images_and_too_few_people_are_reported(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], run: Any
) -> None:
    images = directory.parent / "source" / "images"
    selected = Competition.open(directory).selected_images()
    (images / selected[0]).unlink()
    assert serve(directory, monkeypatch=monkeypatch)
    printed = capsys.readouterr().err
    assert f"1 of the {len(selected)} images to annotate are missing ({selected[0]})" in printed
    assert "needs 3 inspectors or annotators besides the writer, you have 0" in printed
    assert "needs 3 annotators, you have 0" in run("status")
    images.rename(images.with_name("moved"))
    assert not serve(directory, monkeypatch=monkeypatch)
    assert "there is no image to show" in capsys.readouterr().err
    assert serve(directory, "--images", str(images.with_name("moved")), monkeypatch=monkeypatch)
