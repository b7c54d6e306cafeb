"""`captrial caption`: what a captioner says about some images, or about millions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.engine_options import EngineName, RayAddress, Workers, chosen_engine, wants_engine
from captrial.cli.output import JsonFlag, print_json, print_table
from captrial.errors import InputError

CAPTION_FILES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")


def caption(
    images: Annotated[
        list[Path], typer.Argument(help="Image files; or a folder, .tar shards, .parquet files, a .txt of URLs.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="A shipped captioner, a run folder, a transformers captioner or VLM (folder, or owner/model), or an "
            "endpoint (http://host/v1#model). Options behind a ?: owner/model?max_tokens=40&dtype=bfloat16."
        ),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Width of the beam search; 5, and 1 for chat models.", show_default=False)
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="What to ask a VLM or an endpoint.", show_default=False)] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run Python files that come with a transformers checkpoint.")
    ] = False,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read transformers weights that are not safetensors.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write a caption file: .json, .jsonl, .csv, .parquet; or a folder of Parquet shards."),
    ] = None,
    engine: EngineName = "local",
    workers: Workers = None,
    ray_address: RayAddress = None,
    in_flight: Annotated[
        int | None, typer.Option(min=1, help="Requests at once to an endpoint, a worker; 8.", show_default=False)
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Caption images; without --model by a small captioner that comes with the package.

    captrial caption photos/ --out captions/ --workers 4
    """
    from captrial.captioners.loading import is_address, load_captioner, with_options
    from captrial.captioners.registry import DEFAULT_CAPTIONER

    for path in images:  # before a model is loaded, which takes seconds
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
    trust = {"trust_remote_code": trust_remote_code or None, "allow_pickle": allow_pickle or None}
    source = with_options(model or DEFAULT_CAPTIONER, prompt=prompt, **trust)
    if wants_engine(engine, workers) or any(_is_many(path) for path in images):
        _caption_many(images, source, beam, out, in_flight, (engine, workers, ray_address), json)
        return
    from captrial.captioners.loading import caption as say
    from captrial.data import write_captions

    said = say(images, load_captioner(source, beam, concurrency=in_flight if is_address(source) else None))
    captions = {str(path): text for path, text in zip(images, said, strict=True)}
    if out:
        write_captions(out, captions)
    if json:
        print_json(captions)
    else:
        print_table("captions", ["image", "caption"], captions.items())


def _is_many(path: Path) -> bool:
    """Whether a path is something that holds images."""
    return path.is_dir() or path.suffix.lower() in (".tar", ".tgz", ".gz", ".parquet", ".txt", ".urls")


def _caption_many(
    images: Sequence[Path],
    model: str,
    beam: int | None,
    out: Path | None,
    in_flight: int | None,
    engine: tuple[str, int | None, str | None],
    json: bool,
) -> None:
    from captrial.data import write_captions
    from captrial.engines.jobs.caption import CaptionSettings, caption_all, captions_by_id

    if out is None:
        raise InputError("say where the captions of so many images should go: --out FOLDER, or --out FILE.jsonl")
    one_file = out.suffix in CAPTION_FILES
    shards = out.with_name(f"{out.name}.parts") if one_file else out
    outcome = caption_all(images, shards, CaptionSettings(model, beam, in_flight), chosen_engine(*engine))
    if one_file:
        write_captions(out, captions_by_id(shards))
    facts = {
        "captions": str(out),
        "images": outcome.rows,
        "unreadable": outcome.errors,
        "parts": outcome.parts,
        "reused": outcome.skipped,
        "seconds": outcome.seconds,
    }
    if json:
        print_json(facts)
    else:
        print_table(f"captions by {model}", ["", "value"], facts.items())
