"""`captrial annotate`: serve the annotation pages, invite people, export and import, simulate."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.compete_options import print_next_step
from captrial.cli.output import JsonFlag, console, console_err, print_json, print_table
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.annotate.service import Room

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
        raise InputError(f"--host {host} lets other machines in; if that is meant, add --allow-remote")
    import gc
    import sys

    import uvicorn

    from captrial.annotate.web.app import create_app

    application = create_app(directory, database, secure=https)
    if host not in LOCAL and not https:
        console_err.print("[yellow]without HTTPS anybody on the way can read what people send[/]: see docs/annotate.md")
    application.state.context.prepare_images()
    token = _first_lead(application.state.context.room)
    if token:
        console.print("The lead's link, shown only once:", _address(host, port, f"/join/{token}"), soft_wrap=True)
    console.print(f"Serving on {_address(host, port, '/')} (Ctrl+C stops; nothing is lost)", soft_wrap=True)
    # a transaction gives the interpreter's lock away at every statement and should not wait 5 ms to get it back
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()  # what is loaded now stays: looking through it for garbage would stop everybody
    uvicorn.run(
        application,
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        proxy_headers=https,
        timeout_keep_alive=75,  # people think longer than uvicorn's 5 seconds
    )


@app.command()
def invite(
    directory: Directory,
    name: Annotated[str, typer.Argument(help="Name, for the lead's eyes only.")],
    role: Annotated[str, typer.Option(help="annotator, inspector or lead.")] = "annotator",
    database: Database = None,
    json: JsonFlag = False,
) -> None:
    """Invite somebody without a browser; prints the path of their link."""
    from captrial.annotate import accounts

    with closing(_room(directory, database)) as room, room.store.change() as connection:
        person, token = accounts.invite(room.store, connection, name, role)
    if json:
        print_json({"id": person.id, "name": person.name, "role": person.role, "path": f"/join/{token}"})
    else:
        console.print(f"/join/{token}", soft_wrap=True)


@app.command()
def qualification(
    directory: Directory,
    references: Annotated[Path, typer.Argument(help="Images with known good captions, in any form of references.")],
    database: Database = None,
) -> None:
    """Set the images of the qualification; they must not be in the competition."""
    from captrial.annotate.rounds.qualification import set_images
    from captrial.data import read_references

    with closing(_room(directory, database)) as room:
        good = read_references(references)
        with room.store.change() as connection:
            set_images(room.store, connection, good)
    console.print(f"{len(good)} images in the qualification")


@app.command()
def status(directory: Directory, database: Database = None, json: JsonFlag = False) -> None:
    """How far the annotation is."""
    from captrial.annotate.overview import progress, speeds, statistics
    from captrial.annotate.settings import read_settings

    with closing(_room(directory, database)) as room, room.store.read() as connection:
        settings = read_settings(room.store, connection)
        rounds, facts = progress(connection, settings), statistics(connection, settings)
        accounts = speeds(connection)
    if json:
        print_json({"progress": rounds, "statistics": facts, "people": accounts})
        return
    rows = [(part.round, part.done, part.wanted, part.hours_left) for part in rounds]
    print_table(f"annotation of {directory}", ["round", "done", "wanted", "hours left"], rows)
    print_table("sentences that stand", ["", ""], [(name.replace("_", " "), value) for name, value in facts.items()])
    columns = ["id", "role", "items", "seconds", "discarded", "stands_out"]
    titles = [name.replace("_", " ") for name in columns]
    print_table("people", titles, [[person[name] for name in columns] for person in accounts])


@app.command("export")
def export_(
    directory: Directory,
    out: Annotated[Path, typer.Argument(help="File to write.")],
    form: Annotated[str, typer.Option("--as", help="coco, jsonl, csv, sentences or audit.")] = "coco",
    names: Annotated[bool, typer.Option("--names", help="People's names instead of their numbers.")] = False,
    database: Database = None,
) -> None:
    """Write the references, all sentences with their votes, or the audit log."""
    from captrial.annotate.export import export
    from captrial.annotate.settings import read_settings
    from captrial.files import atomic_write

    with closing(_room(directory, database)) as room, room.store.change() as connection:
        content, _ = export(connection, read_settings(room.store, connection), form, names)
        room.store.note(connection, None, "export", f"{form} with names" if names else form)
    atomic_write(out, content)
    console.print(f"wrote {out}", soft_wrap=True, markup=False)


@app.command("import")
def import_(
    directory: Directory,
    references: Annotated[Path, typer.Argument(help="References written elsewhere, in any form.")],
    database: Database = None,
) -> None:
    """Take sentences that were written elsewhere as if people had written and accepted them here."""
    from captrial.annotate.caption_import import import_references
    from captrial.data import read_references

    with closing(_room(directory, database)) as room:
        taken, unknown = import_references(room, read_references(references))
    console.print(f"took {taken} sentences" + (f"; {unknown} images are not in this competition" if unknown else ""))


@app.command()
def simulate(
    directory: Directory,
    references: Annotated[Path, typer.Argument(help="What simulated people know: references, in any form.")],
    people: Annotated[int, typer.Option(min=1, help="Annotators; as many inspectors are added.")] = 3,
    noise: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of sentences that are about another image.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Another seed, other people.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Play a whole experiment with simulated people over the real HTTP API, on a server of its own."""
    from captrial.annotate.simulate import simulate_experiment
    from captrial.data import read_references

    outcome = simulate_experiment(directory, read_references(references), crew=people, noise=noise, seed=seed)
    if json:
        print_json(outcome)
        return
    print_table("simulated experiment", ["", ""], [(key.replace("_", " "), value) for key, value in outcome.items()])
    print_next_step(f"captrial compete rank {directory}", "rank by what they wrote")


def _room(directory: Path, database: str | None) -> Room:
    from captrial.annotate.service import Room

    return Room(directory, database=database)


def _address(host: str, port: int, path: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{path}"


def _first_lead(room: Room) -> str | None:
    """The token of a lead, where there is none yet."""
    from captrial.annotate import accounts

    with room.store.change() as connection:
        if any(person.role == "lead" for person in accounts.everybody(connection)):
            return None
        return accounts.invite(room.store, connection, "lead", "lead")[1]
