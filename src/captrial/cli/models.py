"""`captrial models`: the architectures that can be trained, shipped captioners, and published checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import JsonFlag, print_json, print_table

COLUMNS = ("features", "decoder", "encoder_attention", "decoder_attention")

app = typer.Typer(
    help="List architectures and presets for `captrial train`, and shipped captioners for `captrial caption`.",
    invoke_without_command=True,
)


@app.callback()
def models(context: typer.Context, json: JsonFlag = False) -> None:
    """List architectures and presets for `captrial train`, and shipped captioners for `captrial caption`."""
    if context.invoked_subcommand is not None:
        return
    from captrial.captioners.registry import ARCHITECTURES, DEFAULT_CAPTIONER, presets_of, shipped_notes

    notes = shipped_notes()
    if json:
        entries = {
            name: {key: getattr(entry, key) for key in ("title", *COLUMNS)} for name, entry in ARCHITECTURES.items()
        }
        presets = {name: presets_of(name) for name in ARCHITECTURES}
        print_json({"architectures": entries, "presets": presets, "shipped": notes, "default": DEFAULT_CAPTIONER})
        return
    print_table(
        "Architectures",
        ["architecture", "features", "decoder", "attention, encoder", "attention, decoder", "presets"],
        [
            (entry.title, *(getattr(entry, key) for key in COLUMNS), ", ".join(presets_of(name)))
            for name, entry in ARCHITECTURES.items()
        ],
        ["captrial train PRESET --data ... trains one"],
    )
    rows = [
        (f"{name} (default)" if name == DEFAULT_CAPTIONER else name, note.get("data", ""), note.get("scores", ""))
        for name, note in notes.items()
    ]
    print_table("Shipped captioners", ["name", "trained on", "scores"], rows, ["captrial caption IMAGE --model NAME"])


@app.command("import")
def import_(
    kind: Annotated[str, typer.Argument(help="m2, ort, aoa, x_lan, att2in, top_down or transformer.")],
    file: Annotated[Path, typer.Argument(help="The published weights: .pth or .safetensors.")],
    vocabulary: Annotated[
        Path, typer.Option(help="Its words: cocotalk.json, infos_*.pkl, vocab.pkl, or a text file with one a line.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the checkpoint.")],
    features: Annotated[
        Path | None, typer.Option(help="Feature store (`captrial features`) that it will be used with.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="What weights cannot tell, e.g. heads=8.")
    ] = None,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read files that hold more than tensors; they may run code.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Make a checkpoint of the published weights of another project (docs/captioners.md)."""
    from captrial.captioners.published import import_checkpoint, read_options
    from captrial.vision.features.feature_store import FeatureStore

    made = import_checkpoint(
        kind,
        file,
        vocabulary,
        options=read_options(settings or ()),
        vision=None if features is None else FeatureStore(features).vision,
        allow_pickle=allow_pickle,
    )
    made.save_pretrained(out)
    parameters, words = made.captioner.count_parameters(), len(made.vocabulary)
    if json:
        print_json({"out": str(out), "parameters": parameters, "words": words})
        return
    needs = "" if features is not None else "; it has no features yet: import it with --features STORE to ground it"
    print_table(
        f"{kind} in {out}", ["parameters", "words"], [(f"{parameters:,}", f"{words:,}")], [made.notes["data"] + needs]
    )
