"""`captrial annotate`: serve the annotation pages, invite people, export and import, simulate."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.options import print_next_step
from captrial.cli.output import JsonFlag, console, console_err, print_json, print_table
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
) -> None:
    """Serve the pages; prints the lead's link the first time."""
    if host not in LOCAL and not allow_remote:
        raise InputError(f"--host {host} lets other machines in; if you want that, add --allow-remote")
    from captrial.annotate.web.app import create_app, run

    application = create_app(directory, database, secure=https)
    if host not in LOCAL and not https:
        console_err.print("[yellow]without HTTPS the network can read what people send[/]: see docs/annotate.md")
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    link = application.state.context.service.invite_first_lead()
    if link:
        console.print("The lead's link, shown only once:", address + link, soft_wrap=True)
    console.print(f"Serving on {address}/ (Ctrl+C stops; nothing is lost)", soft_wrap=True)
    run(application, host, port, https)


@app.command()
def invite(
    directory: Directory,
    name: Annotated[str, typer.Argument(help="Name, which only the lead sees.")],
    role: Annotated[str, typer.Option(help="annotator, inspector or lead.")] = "annotator",
    database: Database = None,
    json: JsonFlag = False,
) -> None:
    """Invite a person without a browser; prints the path of their link."""
    with closing(_service(directory, database)) as service:
        person, path = service.invite(name, role)
    if json:
        print_json({"id": person.id, "name": person.name, "role": person.role, "path": path})
    else:
        console.print(path, soft_wrap=True)


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
    with closing(_service(directory, database)) as service:
        found = service.report()
    if json:
        print_json(found)
        return
    rows = [(part.round, part.done, part.wanted, part.hours_left) for part in found["progress"]]
    print_table(f"annotation of {directory}", ["round", "done", "wanted", "hours left"], rows)
    facts = [(name.replace("_", " "), value) for name, value in found["statistics"].items()]
    print_table("accepted captions", ["", ""], facts)
    columns = ["id", "role", "items", "seconds", "discarded", "stands_out"]
    titles = [name.replace("_", " ") for name in columns]
    print_table("people", titles, [[person[name] for name in columns] for person in found["people"]])


@app.command("export")
def export_(
    directory: Directory,
    out: Annotated[Path, typer.Argument(help="File to write.")],
    form: Annotated[str, typer.Option("--as", help="coco, jsonl, csv, captions or audit.")] = "coco",
    names: Annotated[bool, typer.Option("--names", help="People's names instead of their numbers.")] = False,
    database: Database = None,
) -> None:
    """Write the references, all captions with their votes, or the audit log."""
    from captrial.files import atomic_write

    with closing(_service(directory, database)) as service:
        content, _ = service.export(form, names)
    atomic_write(out, content)
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
        stored, unknown = service.import_references(read_references(references))
    skipped = f"; {unknown} images are not in this competition" if unknown else ""
    console.print(f"imported {stored} captions{skipped}")


@app.command()
def simulate(
    directory: Directory,
    references: Annotated[Path, typer.Argument(help="What the simulated people know: references, in any form.")],
    people: Annotated[int, typer.Option(min=1, help="Annotators; as many inspectors are added.")] = 3,
    noise: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of captions that are about another image.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the simulated people.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Run a whole experiment with simulated people over the real HTTP API, on a server of its own."""
    from captrial.annotate.simulate import simulate_experiment
    from captrial.data import read_references

    found = simulate_experiment(directory, read_references(references), people=people, noise=noise, seed=seed)
    if json:
        print_json(found)
        return
    print_table("simulated experiment", ["", ""], [(key.replace("_", " "), value) for key, value in found.items()])
    print_next_step(f"captrial compete rank {directory}", "rank by their captions")


def _service(directory: Path, database: str | None) -> AnnotationService:
    from captrial.annotate.service import AnnotationService

    return AnnotationService(directory, database=database)
