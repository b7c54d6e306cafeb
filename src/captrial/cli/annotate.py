"""`captrial annotate`: serve the annotation pages, invite people, export and import, simulate."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.output import (
    JsonFlag,
    OverwriteFlag,
    console,
    console_err,
    print_json,
    print_next_step,
    print_table,
    print_warning,
)
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.annotate.service import AnnotationService

app = typer.Typer(help="Have people write and check reference captions.", no_args_is_help=True)
Directory = Annotated[Path, typer.Argument(help="The competition's directory.")]
Database = Annotated[
    str | None, typer.Option(help="postgresql://... instead of the directory's own SQLite file.", metavar="URL")
]
LOCAL = ("127.0.0.1", "localhost", "::1")


@app.command()
def serve(
    directory: Directory,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8765,
    database: Database = None,
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Let other machines in.")] = False,
    https: Annotated[
        bool, typer.Option("--https", help="A proxy in front serves HTTPS: cookies for HTTPS only.")
    ] = False,
    host_name: Annotated[
        list[str] | None,
        typer.Option("--host-name", help="A name under which people reach the server; may be repeated."),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="The folder of the images, if not that of the competition.")
    ] = None,
) -> None:
    """Serve the pages; prints the lead's link the first time."""
    if host not in LOCAL and not allow_remote:
        raise InputError(f"--host {host} lets other machines in; if you want that, add --allow-remote")
    from captrial.annotate.competition_sync import require_selection
    from captrial.annotate.web.app import create_app, run
    from captrial.annotate.web.links import base_url, qr_text
    from captrial.compete import Competition
    from captrial.web.server import listen

    require_selection(Competition.open(directory))
    hosts = {"localhost", host.lower(), *(one.lower() for one in host_name or []), *_machine_names(host)}
    with listen(port, "127.0.0.1" if host == "localhost" else host) as listening:  # before anything is made
        application = create_app(directory, database, secure=https, hosts=hosts, images=images)
        if host not in LOCAL and not https:
            console_err.print("[yellow]without HTTPS the network can read what people send[/]: see docs/annotate.md")
        try:
            for note in application.state.context.notes():
                print_warning(note)
        except InputError:
            application.state.context.close()
            raise
        service = application.state.context.service
        address = base_url((host_name or [host])[0], listening.getsockname()[1], https)
        service.remember_address(address)
        link = service.invite_first_lead()
        if link:
            console.print("The lead's link, shown only once:", address + link, soft_wrap=True)
            if host not in LOCAL and console.is_terminal:
                console.print(qr_text(address + link), highlight=False, markup=False)
        console.print(f"Serving on {address}/ (Ctrl+C stops; nothing is lost)", soft_wrap=True)
        if host in LOCAL:
            console.print(
                "Only this computer can open it; for phones and colleagues in your network: --host 0.0.0.0 "
                "--allow-remote",
                style="dim",
                soft_wrap=True,
            )
        run(application, listening, https)


def _machine_names(host: str) -> set[str]:
    """The names of this machine, where other machines are let in."""
    import socket

    return set() if host in LOCAL else {socket.gethostname().lower(), socket.getfqdn().lower()}


@app.command()
def invite(
    directory: Directory,
    name: Annotated[str, typer.Argument(help="Name, which only the lead sees.")],
    role: Annotated[str, typer.Option(help="annotator, inspector or lead.")] = "annotator",
    address: Annotated[
        str | None, typer.Option(help="Where people reach the server. \\[default: where it was served last]")
    ] = None,
    database: Database = None,
    json: JsonFlag = False,
) -> None:
    """Invite a person without a browser; prints their link."""
    with closing(_service(directory, database)) as service:
        base = (address or service.last_address() or "http://127.0.0.1:8765").rstrip("/")
        person, path = service.invite(name, role)
    if json:
        link = {"path": path, "link": base + path}
        print_json({"id": person.id, "name": person.name, "role": person.role, **link})
    else:
        console.print(base + path, soft_wrap=True, highlight=False, markup=False)


@app.command()
def settings(
    directory: Directory,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=NUMBER]...", help="What to change, e.g. writers=0 judges=2.", show_default=False),
    ] = None,
    database: Database = None,
    json: JsonFlag = False,
) -> None:
    """Show or change how many people do what; writers=0 judges=2 is an annotation by preferences alone."""
    from captrial.annotate.settings import parse_changes

    with closing(_service(directory, database, read_only=not changes)) as service:
        if changes:
            service.change_settings(parse_changes(changes))
        found = service.settings()
    if json:
        print_json({name: value for name, _, value in found.numbers()})
        return
    print_table(f"settings of {directory}", ["name", "", "value"], found.numbers())


@app.command()
def qualification(
    directory: Directory,
    references: Annotated[Path, typer.Argument(help="Images with known good captions, in any form of references.")],
    database: Database = None,
) -> None:
    """Set the images of the qualification; they must not be in the competition."""
    from captrial.annotate.rounds.qualification import set_images
    from captrial.data import read_references

    with closing(_service(directory, database)) as service:
        good = read_references(references)
        with service.store.change() as connection:
            set_images(service.store, connection, good)
    console.print(f"{len(good)} images in the qualification")


@app.command()
def status(directory: Directory, database: Database = None, json: JsonFlag = False) -> None:
    """Show the progress of the annotation."""
    with closing(_service(directory, database, read_only=True)) as service:
        found = service.report()
    if json:
        print_json(found)
        return
    rows = [(part.round, part.done, part.wanted, part.hours_left) for part in found["progress"]]
    columns = ["round", "done", "wanted", "hours left"]
    print_table(f"annotation of {directory}", columns, rows, found["missing_people"])
    facts = [(name.replace("_", " "), value) for name, value in found["statistics"].items()]
    print_table("accepted captions", ["", ""], facts)
    columns = ["id", "role", "items", "seconds", "discarded", "stands_out"]
    titles = [name.replace("_", " ") for name in columns]
    print_table("people", titles, [[person[name] for name in columns] for person in found["people"]])


@app.command("export")
def export_(
    directory: Directory,
    out: Annotated[Path, typer.Argument(help="File to write.")],
    form: Annotated[str, typer.Option("--format", help="coco, jsonl, csv, captions or audit.")] = "coco",
    names: Annotated[bool, typer.Option("--names", help="People's names instead of their numbers.")] = False,
    database: Database = None,
    overwrite: OverwriteFlag = False,
) -> None:
    """Write the references, all captions with their votes, or the audit log."""
    from captrial.annotate.database.transactions import DATABASE
    from captrial.compete.storage.labels import LABEL_FILES
    from captrial.compete.storage.manifest import MANIFEST
    from captrial.files import output_path, refuse_overwrite

    kept = [directory / name for name in (DATABASE, MANIFEST, *LABEL_FILES)]
    refuse_overwrite(out, inputs=kept, overwrite=overwrite)
    with closing(_service(directory, database, read_only=True)) as service:
        content, _ = service.export(form, names)
    with output_path(out, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)
    console.print(f"wrote {out}", soft_wrap=True, markup=False)


@app.command("import")
def import_(
    directory: Directory,
    references: Annotated[Path, typer.Argument(help="References from another source, in any form.")],
    database: Database = None,
) -> None:
    """Import references as if people had written and accepted them here."""
    from captrial.data import read_references

    with closing(_service(directory, database)) as service:
        found = service.import_references(read_references(references))
    skipped = f"; {found.unknown} images are not in this competition" if found.unknown else ""
    console.print(f"imported {found.stored} captions{skipped}")
    if found.matched:
        print_warning(f"{references.name}: {found.matched}")


@app.command()
def simulate(
    directory: Directory,
    references: Annotated[Path, typer.Argument(help="What the simulated people know: references, in any form.")],
    people: Annotated[int, typer.Option(min=1, help="Annotators; as many inspectors are added.")] = 3,
    noise: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of captions that are about another image.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the simulated people.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="New folder for the copy that they worked on. \\[default: not kept]")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Run a whole experiment with simulated people over the real HTTP API, on a copy of the competition."""
    from captrial.annotate.simulate import SimulationSettings, simulate_experiment
    from captrial.data import read_references

    settings = SimulationSettings(people, noise, seed)
    found = simulate_experiment(directory, read_references(references), settings, out=out)
    if json:
        print_json(found)
        return
    ranking = found.pop("ranking")
    print_table("simulated experiment", ["", ""], [(key.replace("_", " "), value) for key, value in found.items()])
    columns = ["rank", "model", "score", "rank_low", "rank_high"]
    rows = [[row[name] for name in columns] for row in ranking]
    print_table("ranking by their captions", [name.replace("_", " ") for name in columns], rows)
    if out is not None:
        print_next_step(f"captrial compete report {out}", "see the result of the copy")


def _service(directory: Path, database: str | None, read_only: bool = False) -> AnnotationService:
    from captrial.annotate.service import AnnotationService

    return AnnotationService(directory, database=database, read_only=read_only)
