"""`captrial gate`: a check for continuous integration: are the new captions worse than the old ones?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from captrial.cli.output import ClipOption, ObjectsOption, ReferencesOption, ReferencesSplit, print_warning
from captrial.errors import InputError

EXIT_CODES = {"not worse": 0, "worse": 1, "undecided": 3}


def gate(
    old: Annotated[Path, typer.Argument(help="Captions of the version that is in use.")],
    new: Annotated[Path, typer.Argument(help="Captions of the version that should replace it, of the same images.")],
    references: ReferencesOption,
    metric: Annotated[str, typer.Option("--metric", help="A metric or one of its columns (score --list-metrics).")] = (
        "cider"
    ),
    fail_if_worse: Annotated[
        float, typer.Option("--fail-if-worse", help="A loss up to this is accepted; 0.01 is one CIDEr point.")
    ] = 0.01,
    risk: Annotated[float, typer.Option("--risk", help="Accepted risk of a wrong answer, either way.")] = 0.05,
    split: ReferencesSplit = None,
    objects: ObjectsOption = None,
    images: Annotated[Path | None, typer.Option("--images", help="Folder of images, for CLIPScore.")] = None,
    clip: ClipOption = None,
    encoder: Annotated[str | None, typer.Option("--encoder", help="Sentence encoder of semantic, facts, words.")] = (
        None
    ),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the resampling behind the bounds.")] = 0,
) -> None:
    """Print one line of JSON; exit code 0: not worse, 1: worse, 3: undecided at this risk, 2: bad input.

    captrial gate old.json new.json --references refs.json --fail-if-worse 0.01
    """
    from captrial.metrics.registry import MetricOptions
    from captrial.metrics.score_inputs import ScoreFiles, read_inputs
    from captrial.metrics.scoring import score
    from captrial.metrics.significance import GateSettings, check_not_worse

    settings = GateSettings(fail_if_worse, risk, seed=seed)
    files = ScoreFiles({"old": old, "new": new}, references, split, objects=objects, images=images, same_images=True)
    inputs = read_inputs(files, print_warning)
    options = MetricOptions(objects=inputs.objects, images=inputs.images, clip=clip, encoder=encoder)
    table = score(inputs.captions, inputs.references, [metric], **vars(options))
    family = table.metrics[0].name
    column = family if family in table.columns else table.columns[0]
    if len(table.columns) > 1 and column != family:
        raise InputError(f"--metric {metric}: name one of its columns, {', '.join(table.columns)}")
    better = table.better(column)
    if better is None:
        raise InputError(f"--metric {column}: describes captions and does not judge them; choose another")
    result = check_not_worse({name: table.states[name][family] for name in ("old", "new")}, column, settings, better)
    changed = sum(text != inputs.captions["old"][image] for image, text in inputs.captions["new"].items())
    typer.echo(orjson.dumps({**result.to_json(), "changed": changed}).decode())
    raise typer.Exit(EXIT_CODES[result.verdict])
