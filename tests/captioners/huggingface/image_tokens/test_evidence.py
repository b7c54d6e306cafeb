"""Maps of trained checkpoints point at planted evidence: the study of docs/vlm.md once more, with fewer images."""

from __future__ import annotations

from pathlib import Path

import pytest

from captrial.attribution.methods.registry import gradient_methods
from studies.vlm_evidence import COLOURS, measure, results, sizes_of, summary, train

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # PaliGemma's processor
]


@pytest.mark.parametrize("name", results("apart"))
def test_maps_point_at_planted_evidence(name: str, tmp_path: Path) -> None:
    captioner = train(name, tmp_path, "apart")
    found = summary(name, [measure(captioner, size, 6, 1) for size in sizes_of(name)])
    assert found["right"] >= 0.9 * found["images"]
    for method in gradient_methods():
        hits, count = found["pointing"][method]
        assert hits >= 0.95 * count, method
    assert all(mean > 0 for gains in found["gains"].values() for mean, _ in gains)
    for word, (share, _) in enumerate(found["shares"]):
        assert share < 0.15 if word in COLOURS else share > 0.9, word
