"""`captrial models`: the architectures that can be trained, and the captioners that come with the package."""

from __future__ import annotations

from captrial.cli.output import JsonFlag, print_json, print_table


def models(json: JsonFlag = False) -> None:
    """List architectures and presets for `captrial train`, and shipped captioners for `captrial caption`."""
    import orjson

    from captrial.captioners.registry import ARCHITECTURES, DEFAULT_CAPTIONER, PRESETS, shipped_captioners

    presets = {
        name: [preset for preset, entry in PRESETS.items() if entry.architecture == name] for name in ARCHITECTURES
    }
    notes = {
        name: orjson.loads((path / "config.json").read_bytes())["notes"] for name, path in shipped_captioners().items()
    }
    if json:
        told = {name: {key: value for key, value in vars(ARCHITECTURES[name]).items() if key != "captioner"}
                for name in ARCHITECTURES}  # fmt: skip
        print_json({"architectures": told, "presets": presets, "shipped": notes, "default": DEFAULT_CAPTIONER})
        return
    print_table(
        "Architectures",
        ["architecture", "looks at", "speaks with", "attention, encoder", "attention, decoder", "presets"],
        [
            (entry.title, entry.features, entry.decoder, entry.encoder_attention, entry.decoder_attention, chosen)
            for name, entry in ARCHITECTURES.items()
            for chosen in [", ".join(presets[name])]
        ],
        ["captrial train PRESET --data ... trains one"],
    )
    rows = [
        (f"{name} (default)" if name == DEFAULT_CAPTIONER else name, note.get("data", ""), note.get("scores", ""))
        for name, note in notes.items()
    ]
    print_table("Shipped captioners", ["name", "trained on", "scores"], rows, ["captrial caption IMAGE --model NAME"])
