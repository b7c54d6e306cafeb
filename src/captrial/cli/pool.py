"""`captrial pool`: collect the images of a competition into a pool, and show a pool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.output import JsonFlag, OverwriteFlag, print_json, print_table

if TYPE_CHECKING:
    from captrial.data.pools import ImagePool

app = typer.Typer(help="Collect images into a pool without duplicates, and show a pool.", no_args_is_help=True)


@app.command()
def build(
    out: Annotated[Path, typer.Argument(help="Folder of the pool; an existing pool is continued.")],
    sources: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="[NAME=]SRC",
            help="A folder (sub-folders are classes), a tar shard, or a list of URLs; may be repeated.",
        ),
    ],
    max_pixels: Annotated[
        int, typer.Option(min=1, max=10**12, help="Limit of pixels; larger images are refused before they are decoded.")
    ] = 89_478_485,
    near_distance: Annotated[
        int,
        typer.Option(min=-1, max=64, help="Bits of 64 by which near duplicates may differ; -1: exact duplicates only."),
    ] = 10,
    workers: Annotated[
        int, typer.Option(min=0, max=1024, help="Threads; 0: one per core. The pool is the same for any number.")
    ] = 0,
    unpack: Annotated[bool, typer.Option("--unpack", help="Also write the images of shards as files.")] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Parallel downloads.")] = 16,
    retries: Annotated[int, typer.Option(min=0, max=100, help="Further attempts after a failed download.")] = 3,
    max_bytes: Annotated[int, typer.Option(min=1, max=256 << 20, help="Refuse larger downloads.")] = 32 << 20,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Let URLs reach this machine and its private network.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Collect images from folders, tar shards and URL lists; list and leave out duplicates and unreadable images."""
    from captrial.data.pools import DownloadSettings, PoolSettings, build_pool

    settings = PoolSettings(
        max_pixels=max_pixels,
        near_duplicate_distance=None if near_distance < 0 else near_distance,
        workers=workers or None,
        unpack=unpack,
        downloads=DownloadSettings(concurrency, retries, max_bytes=max_bytes, allow_private=allow_private),
    )
    pool = build_pool(sources, out, settings)
    if json:
        print_json(pool.summary)
    else:
        _print_summary(pool)


@app.command()
def show(
    pool: Annotated[Path, typer.Argument(help="Folder of the pool.")],
    left_out: Annotated[bool, typer.Option("--left-out", help="List the images that were left out, and why.")] = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the class distribution to this .svg, .png or .pdf file.")
    ] = None,
    overwrite: OverwriteFlag = False,
    json: JsonFlag = False,
) -> None:
    """Show a pool: its classes, the images left out and why, and the class distribution as a figure."""
    from captrial.data.pools import ImagePool, draw_classes

    loaded = ImagePool.load(pool)
    if figure is not None:
        draw_classes(loaded.classes(), figure, overwrite=overwrite)
    if json:
        print_json({**loaded.summary, **({"left_out_images": loaded.left_out()} if left_out else {})})
    elif left_out:
        rows = [(entry.id, entry.status, entry.reason) for entry in loaded.left_out()]
        print_table(f"left out of {pool}", ["image", "status", "reason"], rows)
    else:
        total = max(len(loaded), 1)
        rows_of_classes = [(name, count, 100 * count / total) for name, count in loaded.classes().items()]
        print_table(f"classes of {pool}", ["class", "images", "%"], rows_of_classes)
        _print_summary(loaded)


def _print_summary(pool: ImagePool) -> None:
    summary = pool.summary
    ignored = ", ".join(f"{count} {suffix}" for suffix, count in summary["ignored_files"].items())
    print_table(
        f"pool {pool.directory}",
        ["", "images"],
        [("found", summary["found"]), *summary["left_out"].items(), ("in the pool", summary["images"])],
        [f"ignored files that are not images: {ignored}"] if ignored else [],
    )
