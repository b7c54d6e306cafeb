"""`captrial verify`: check the files of a folder that captrial wrote against their lengths and checksums."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import JsonFlag, console, print_json
from captrial.errors import InputError
from captrial.files import FolderVerifier

# One `FolderVerifier` per kind of folder, `module:name`; to add a kind, write one in its package and add a line here.
VERIFIERS = ("captrial.data.pools.image_pool:POOL",)


def verifiers() -> list[FolderVerifier]:
    """The kinds of folders that can be verified."""
    return [getattr(import_module(module), name) for module, _, name in (place.partition(":") for place in VERIFIERS)]


def verify(
    folder: Annotated[Path, typer.Argument(help="A folder that captrial wrote, e.g. an image pool.")],
    json: JsonFlag = False,
) -> None:
    """Check every file of a folder against its length and checksum; exit code 1 if something is damaged."""
    kinds = verifiers()
    verifier = next((one for one in kinds if one.recognise(folder)), None)
    if verifier is None:
        names = ", ".join(one.name for one in kinds)
        raise InputError(f"{folder}: is not a folder that can be verified; there are: {names}")
    found = verifier.verify(folder)
    if json:
        print_json({"folder": str(folder), "kind": found.kind, "files": found.files, "problems": found.problems})
    else:
        for problem in found.problems:
            console.print(problem, markup=False, highlight=False, soft_wrap=True)
        outcome = f"{len(found.problems)} problems" if found.problems else "undamaged"
        console.print(f"{folder}: {found.kind}, {found.files} files checked: {outcome}", soft_wrap=True, markup=False)
    if found.problems:
        raise typer.Exit(1)
