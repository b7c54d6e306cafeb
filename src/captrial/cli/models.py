"""`captrial models`: the architectures that can be trained, and the captioners that come with the package."""

from __future__ import annotations

from captrial.cli.output import JsonFlag, print_json, print_table

COLUMNS = ("features", "decoder", "encoder_attention", "decoder_attention")


def models(json: JsonFlag = False) -> None:
    """List architectures and presets for `captrial train`, and shipped captioners for `captrial caption`."""
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
