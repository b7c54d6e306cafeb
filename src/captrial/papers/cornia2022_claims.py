"""The claims of Cornia 2022 about captions, grounding and prediction time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from captrial.grounding.study import GroundingResult
from captrial.papers.claims import PaperClaim, all_hold, beyond, paired_claim, unpaired_claim
from captrial.papers.prediction_time import Timing
from captrial.papers.study_captioners import REGIONS, StudyCaptioner


def grounding_claims(
    results: Mapping[tuple[str, str], GroundingResult], method: str, seed: int = 0
) -> list[PaperClaim]:
    """Claims about Tables 2 to 4 at δ = 0, paired by image; `results` by features and model."""
    claims = []
    for features in dict.fromkeys(features for features, _ in results):
        plain = results.get((features, "Transformer"))
        for model in ("SMArT", "M2"):
            found = results.get((features, model))
            if plain is not None and found is not None:
                text = f"{model} is better grounded than the Transformer at δ = 0 ({features}, {method})"
                claims.append(paired_claim(text, found.scores(0), plain.scores(0), found.groups, seed))
    regions = [found for (features, _), found in results.items() if features == REGIONS]
    others = [found for (features, _), found in results.items() if features != REGIONS]
    if regions and others:
        text = f"Captioners on regions are better grounded than those on patches at δ = 0 ({method})"
        inside, outside = (_mean_scores(group) for group in (regions, others))
        claims.append(paired_claim(text, inside, outside, regions[0].groups, seed))
    return claims


def _mean_scores(results: Sequence[GroundingResult]) -> NDArray[np.float64]:
    """GroundingScore(0) of every image, the mean over captioners that have one."""
    values = np.stack([found.scores(0) for found in results])
    counts = (~np.isnan(values)).sum(0)
    return np.where(counts > 0, np.nansum(values, 0) / np.maximum(counts, 1), np.nan)


ROBOT_MARGIN = 0.02  # of GroundingScore, a fraction: a smaller drop is none


def robot_claims(
    robot: Mapping[tuple[str, str], GroundingResult], other: Mapping[tuple[str, str], GroundingResult], method: str
) -> list[PaperClaim]:
    """The claim that grounding does not drop on robot frames; frames of one sequence are resampled together."""
    return [
        unpaired_claim(
            f"{model} is as well grounded on the robot's frames as on test images at δ = 0 ({features}, {method})",
            (found.scores(0), found.groups),
            (other[features, model].scores(0), other[features, model].groups),
            ROBOT_MARGIN,
        )
        for (features, model), found in robot.items()
        if (features, model) in other
    ]


def caption_claims(
    found: Mapping[tuple[str, str, str], Mapping[str, NDArray[np.float64]]], images: Mapping[str, Sequence[str]]
) -> list[PaperClaim]:
    """Claims about Table 1: scores of every image by metric, by features, model and split; `images` by split."""
    claims = []
    for (features, model, split), own in found.items():
        plain = found.get((features, "Transformer", split))
        if model in ("SMArT", "M2") and plain is not None:
            text = f"{model} has better captions than the Transformer, {features}, {split} (CIDEr)"
            claims.append(paired_claim(text, own["cider"], plain["cider"], images[split]))
        regions = found.get((REGIONS, model, split))
        if features != REGIONS and regions is not None:
            text = f"{model} on {features} covers more objects than on regions, {split} (Coverage)"
            claims.append(paired_claim(text, own["coverage"], regions["coverage"], images[split]))
    return claims


def speed_claims(captioners: Sequence[StudyCaptioner], timings: Sequence[Timing], batch: int) -> list[PaperClaim]:
    """Claims about Fig. 2 (SMArT is fastest, M2 slowest), for all features that all three models use.

    Both differences are judged by Welch's 95% interval over the repeated batches.
    """
    claims = []
    spent = {timing.name: timing for timing in timings if timing.batch == batch}
    for features in dict.fromkeys(captioner.features for captioner in captioners):
        of = {captioner.model: spent[captioner.name] for captioner in captioners if captioner.features == features}
        if {"Transformer", "SMArT", "M2"} <= of.keys():
            seen = ", ".join(f"{name} {1e3 * of[name].mean:.0f} ms" for name in ("SMArT", "Transformer", "M2"))
            holds = all_hold([_slower(of["Transformer"], of["SMArT"]), _slower(of["M2"], of["Transformer"])])
            text = f"SMArT is the fastest and M2 the slowest ({features}, batch {batch})"
            claims.append(PaperClaim.decided(text, holds, seen))
    return claims


def _slower(first: Timing, second: Timing) -> bool | None:
    from scipy.stats import ttest_ind

    if min(len(first.seconds), len(second.seconds)) < 2:
        return None
    limits = ttest_ind(first.seconds, second.seconds, equal_var=False).confidence_interval(0.95)
    return beyond(float(limits.low), float(limits.high))
