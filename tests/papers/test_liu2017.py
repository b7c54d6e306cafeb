"""Claims of Liu 2017 on measured values whose truth is known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from captrial.grounding.attention_correctness import FORCED, GENERATED, AttentionResult, PhraseScore
from captrial.papers.liu2017 import Liu2017, by_image, resampled_means
from captrial.papers.study_captioners import StudySplit
from captrial.records import ImageRef, Sample

IMAGES = 90
SIZES = (0.05, 0.3, 0.7)  # areas: small, medium, large


def result(name: str, gains: tuple[float, float, float], seed: int) -> AttentionResult:
    """Three phrases an image, one of each size; correctness is the area, a gain by size and noise."""
    rng = np.random.default_rng(seed)
    found = AttentionResult(name, "attention", dropped={FORCED: Counter(), GENERATED: Counter()})
    for setting in (FORCED, GENERATED):
        for image in range(IMAGES):
            for start, (area, gain) in enumerate(zip(SIZES, gains, strict=True)):
                value = float(np.clip(area + gain + rng.normal(0, 0.05), 0, 1))
                found.scores.append(
                    PhraseScore(
                        correctness=value,
                        pointing=1.0,
                        auc=value,
                        l1=value,
                        l2=value,
                        kl=value,
                        model=name,
                        setting=setting,
                        image=str(image),
                        caption=0,
                        text=f"word {start}",
                        start=start,
                        area=area,
                    )
                )
    found.captions = {str(image): "a dog runs" if image % 2 else "a cat sits" for image in range(IMAGES)}
    return found


def study(tmp_path: Path, *results: AttentionResult) -> Liu2017:
    samples = [Sample(ImageRef(str(image)), ("a dog runs", "a dog is running")) for image in range(IMAGES)]
    made = Liu2017([], StudySplit("test", samples), tmp_path)
    made.__dict__.update(results=list(results), forced=FORCED, generated=GENERATED)
    return made


def holding(claims: list[object]) -> dict[str, bool | None]:
    return {claim.text: claim.holds for claim in claims}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("gain", "holds"), [(0.1, True), (-0.1, False), (0.0, None)])
def test_supervision_is_judged_by_a_paired_interval(tmp_path: Path, gain: float, holds: bool | None) -> None:
    first = result("implicit", (0.1, 0.1, 0.1), 3)
    second = result("strong", (0.1 + gain,) * 3, 4)
    found = holding(study(tmp_path, first, second).correctness().claims)
    assert found["Implicit attention beats uniform (forced)"] is True
    assert found["Supervised attention beats implicit (generated, strong)"] is holds


@pytest.mark.parametrize(
    ("gains", "holds"), [((0.3, 0.1, 0.1), True), ((0.1, 0.1, 0.3), False), ((0.1, 0.1, 0.1), None)]
)
def test_small_regions_must_gain_more_than_both_others(
    tmp_path: Path, gains: tuple[float, float, float], holds: bool | None
) -> None:
    made = study(tmp_path, result("implicit", (0.0, 0.0, 0.0), 0), result("strong", gains, 1)).sizes()
    assert holding(made.claims)["Supervision adds most on small regions (forced, strong)"] is holds


def test_the_same_captions_improve_nothing(tmp_path: Path) -> None:
    both = result("implicit", (0.1, 0.1, 0.1), 0), result("strong", (0.1, 0.1, 0.1), 1)
    claim = study(tmp_path, *both).captioning().claims[0]
    assert claim.holds is None
    assert "undecided" in claim.seen
    both[1].captions = dict.fromkeys(both[1].captions, "a dog runs")  # half of the others were wrong
    assert study(tmp_path, *both).captioning().claims[0].holds is True


def test_means_over_resampled_images_leave_out_what_is_not_there() -> None:
    values = np.array([[1.0, np.nan], [3.0, 5.0], [np.nan, 7.0]])
    drawn, means = resampled_means(["a", "a", "b"], values, 0)
    assert means.tolist() == [2.0, 6.0]
    assert set(np.unique(drawn[:, 1]).round(3)) <= {5.0, 6.0, 7.0}
    assert by_image(result("x", (0.0, 0.0, 0.0), 0), FORCED, "area") == pytest.approx(
        {str(image): np.mean(SIZES) for image in range(IMAGES)}
    )
