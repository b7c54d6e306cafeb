"""`captrial models` lists what can be trained and what is shipped."""

from __future__ import annotations

import pytest

from cli.commands import answer

# Wan 2022 Table 1: object level is "regions", self-attention in a decoder is "multi-head".
TABLE_1 = [
    ("x_lan", "regions", "LSTM", "X-linear", "X-linear"),
    ("m2", "regions", "Transformer", "self", "multi-head"),
    ("aoa", "regions", "LSTM", "self", "multi-head"),
    ("ort", "regions", "Transformer", "self", "multi-head"),
    ("sgae", "regions", "LSTM", "graph", "soft"),
    ("top_down", "regions", "LSTM", "–", "soft"),
    ("disc", "regions", "LSTM", "–", "soft"),
    ("stack_cap", "grid", "LSTM", "–", "soft"),
    ("att2in", "grid", "LSTM", "–", "soft"),
]


def test_models_lists_all_architectures(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, ["models"])
    assert len(found["presets"]) == 12
    assert "m2-small" in found["presets"]["m2"]
    for name, features, language, encoder, decoder in TABLE_1:
        told = found["architectures"][name]
        assert features in told["features"]
        assert language == told["decoder"]
        assert encoder in told["encoder_attention"]
        assert decoder in told["decoder_attention"]
