"""`captrial verify`: check the files of a folder that captrial wrote against their lengths and checksums."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import JsonFlag, console, print_json
from captrial.errors import InputError, MissingExtraError
from captrial.folders import FolderVerifier

# One `FolderVerifier` per kind of folder, `module:name`; to add a kind, write one in its package and add a line here.
VERIFIERS = (
    "captrial.data.pools.image_pool:POOL",
    "captrial.compete.competition:VERIFIER",
    "captrial.engines.shards:OUTPUT",
    "captrial.vision.features.feature_store:STORE",
    "captrial.training.run:RUN",
    "captrial.captioners.checkpoint:CHECKPOINT",
)


def verifiers() -> Iterator[FolderVerifier]:
    """The kinds of folders that can be verified; those that need torch come last."""
    for place in VERIFIERS:
        module, _, name = place.partition(":")
        try:
            yield getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtraError("Verifying folders of features, runs and checkpoints", "models") from None


def verify(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A competition, feature store, training run, checkpoint, output of workers, or image pool."
        ),
    ],
    json: JsonFlag = False,
) -> None:
    """Check every file of a folder against its length and checksum; exit code 1 if something is damaged."""
    verifier = next((one for one in verifiers() if one.recognise(folder)), None)
    if verifier is None:
        names = ", ".join(one.name for one in verifiers())
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
