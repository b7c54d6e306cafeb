"""`captrial caption`: caption some images, or millions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.engine_options import DeviceOption, DtypeOption, EngineName, EngineOptions, RayAddress, Workers
from captrial.cli.output import JsonFlag, OverwriteFlag, print_json, print_table, print_warning
from captrial.errors import InputError
from captrial.files import check_writable, refuse_overwrite

if TYPE_CHECKING:
    from captrial.engines.engine import Engine
    from captrial.engines.jobs.caption import CaptionSettings

CAPTION_FILES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
FEW = 16  # image files that are captioned at once; an interruption loses them
SHOWN = 5  # images that could not be captioned


def caption(
    images: Annotated[
        list[Path], typer.Argument(help="Image files; or a folder, .tar shards, .parquet files, a .txt of URLs.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="A shipped captioner, a run folder, a transformers captioner or VLM (folder, or owner/model), or an "
            "endpoint (http://host/v1#model). Options follow a ?: owner/model?max_tokens=40&dtype=bfloat16."
        ),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Width of the beam search; 5, and 1 for chat models.", show_default=False)
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="The prompt of a VLM or an endpoint.", show_default=False)] = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
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
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="Concurrent requests to an endpoint, per worker; 8.", show_default=False),
    ] = None,
    overwrite: OverwriteFlag = False,
    json: JsonFlag = False,
) -> None:
    """Caption images; without --model by a small captioner that comes with the package.

    captrial caption photos/ --out captions/ --workers 4
    """
    from captrial.captioners.batch_captioning import caption_each
    from captrial.captioners.loading import is_address, load_captioner, split_source, with_options
    from captrial.captioners.registry import DEFAULT_CAPTIONER

    several = any(_holds_images(path) for path in images) or (out is not None and len(images) > FEW)
    options = EngineOptions(engine, workers, ray_address)
    in_parts = options.several or several  # an interrupted run continues
    _check_paths(images, out, in_parts, overwrite)  # before a model is loaded, which takes seconds
    if out and model and out.is_file() and out.resolve().is_relative_to(Path(split_source(model)[0]).resolve()):
        raise InputError(f"{out}: belongs to the captioner ({model}); choose another output")
    trust = {"trust_remote_code": trust_remote_code or None, "allow_pickle": allow_pickle or None}
    source = with_options(model or DEFAULT_CAPTIONER, prompt=prompt, device=device, dtype=dtype, **trust)
    if in_parts:
        from captrial.engines.jobs.caption import CaptionSettings

        settings = CaptionSettings(source, beam, concurrency)
        _caption_many(images, settings, out, options.make(), json)
        return
    captioner = load_captioner(source, beam, concurrency=concurrency if is_address(source) else None)
    captions, problems = caption_each(captioner, images)
    if out and captions:
        from captrial.data import write_captions

        write_captions(out, captions, overwrite=overwrite)
    if json:
        print_json(captions)
    elif captions:
        print_table("captions", ["image", "caption"], captions.items())
    if problems:
        raise InputError("\n".join([*problems, *([f"the other {len(captions)} are captioned"] if captions else [])]))


def _check_paths(images: Sequence[Path], out: Path | None, in_parts: bool, overwrite: bool) -> None:
    """Refuse images that are not there and outputs that cannot be written."""
    for path in images:
        if re.match(r"https?:/", str(path)):  # `Path` makes one slash of two
            raise InputError(f"{path}: download the image, or write addresses into a .txt file, one per line")
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
    if out is None:
        return
    if out.suffix not in CAPTION_FILES and (out.suffix or not in_parts) and not out.is_dir():
        folder = ", or a folder without a suffix" if in_parts else ""
        raise InputError(f"{out}: captions are written as {', '.join(CAPTION_FILES)}{folder}; choose one of these")
    if out.suffix in CAPTION_FILES:
        refuse_overwrite(out, inputs=images, overwrite=overwrite)
    check_writable(out)


def _holds_images(path: Path) -> bool:
    """Whether a path is a folder or a file with several images in it."""
    return path.is_dir() or path.suffix.lower() in (".tar", ".tgz", ".gz", ".parquet", ".txt", ".urls")


def _caption_many(
    images: Sequence[Path], settings: CaptionSettings, out: Path | None, engine: Engine, json: bool
) -> None:
    from captrial.data import write_captions
    from captrial.engines.jobs.caption import caption_all, captions_by_id, failures_of

    if out is None:
        raise InputError("add --out FILE.jsonl (or --out FOLDER) for the captions of several images")
    one_file = out.suffix in CAPTION_FILES
    shards = out.with_name(f"{out.name}.parts") if one_file else out
    result = caption_all(images, shards, settings, engine)
    if one_file:
        write_captions(out, captions_by_id(shards), overwrite=True)  # checked before
    facts = {
        "captions": str(out),
        "images": result.rows,
        "unreadable": result.errors,
        "parts": result.parts,
        "reused": result.skipped,
        "seconds": result.seconds,
    }
    if json:
        print_json(facts)
        return
    titles = {"parts": "parts written", "reused": "parts done before"}
    print_table(f"captions by {settings.model}", ["", "value"], [(titles.get(k, k), v) for k, v in facts.items()])
    for name, why in islice(failures_of(shards), SHOWN):
        print_warning(f"no caption of {name}: {why.removeprefix(f'{name}: ')}")
    if result.errors > SHOWN:
        print_warning(f"and {result.errors - SHOWN} more; they are in {shards} with the reason in the column error")
