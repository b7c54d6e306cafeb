"""`captrial verify`: check the files of a folder that captrial wrote against their lengths and checksums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import JsonFlag, console, print_json
from captrial.errors import InputError, MissingExtraError
from captrial.folders import FolderVerifier, VerifiedFolder

# One `FolderVerifier` per kind of folder, `module:name`; to add a kind, write one in its package and add a line here.
VERIFIERS = (
    "captrial.data.pools.image_pool:POOL",
    "captrial.compete.competition:VERIFIER",
    "captrial.engines.shards:OUTPUT",
    "captrial.vision.features.feature_store:STORE",
    "captrial.training.run:RUN",
    "captrial.captioners.checkpoint:CHECKPOINT",
)
# What may be inside such a folder: verdicts of machines and annotations in a competition.
PARTS = ("captrial.judges.machine_verdicts:VERDICTS", "captrial.annotate.competition_sync:DATABASE_VERIFIER")


def verifiers(places: Sequence[str] = VERIFIERS) -> Iterator[FolderVerifier]:
    """The kinds of folders that can be verified; those that need torch come last."""
    for place in places:
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
    found = _verify(folder)
    kind, files = found[0].kind, sum(one.files for one in found)
    problems = list(dict.fromkeys(problem for one in found for problem in one.problems))
    if json:
        print_json({"folder": str(folder), "kind": kind, "files": files, "problems": problems})
    else:
        for problem in problems:
            console.print(problem, markup=False, highlight=False, soft_wrap=True)
        outcome = f"{len(problems)} problems" if problems else "undamaged"
        console.print(f"{folder}: {kind}, {files} files checked: {outcome}", soft_wrap=True, markup=False)
    if problems:
        raise typer.Exit(1)


def _verify(folder: Path) -> list[VerifiedFolder]:
    """The findings of the folder's own verifier and of those of its parts."""
    kind = next((one for one in verifiers() if one.recognise(folder)), None)
    if kind is None:
        names = ", ".join(one.name for one in verifiers())
        raise InputError(f"{folder}: is not a folder that can be verified; there are: {names}")
    parts = [one for one in verifiers(PARTS) if one.recognise(folder)]
    return [one.verify(folder) for one in (kind, *parts)]
