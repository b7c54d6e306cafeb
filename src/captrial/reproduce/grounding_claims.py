"""What 000 says of its tables and figures, held against the numbers here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from captrial.explain.grounding_study import Grounded
from captrial.reproduce.results import Claim
from captrial.reproduce.subjects import REGIONS, Subject
from captrial.reproduce.timing import Timing


def better_grounded(start: Mapping[tuple[str, str], float], method: str) -> list[Claim]:
    """Of Tables 2 to 4: `start` is GroundingScore(0) by features and model."""
    claims = []
    plain, memory = start.get((REGIONS, "Transformer")), start.get((REGIONS, "SMArT"))
    if plain is not None and memory is not None:
        text = f"With regions SMArT is better grounded than the Transformer at δ = 0 ({method})"
        claims.append(Claim(text, memory > plain, f"{100 * memory:.1f} against {100 * plain:.1f}"))
    regions = [value for (features, _), value in start.items() if features == REGIONS]
    others = [value for (features, _), value in start.items() if features != REGIONS]
    if regions and others:
        text = f"Captioners on patches are less grounded than those on regions at δ = 0 ({method})"
        inside, outside = float(np.mean(regions)), float(np.mean(others))
        claims.append(Claim(text, outside < inside, f"{100 * outside:.1f} against {100 * inside:.1f}"))
    return claims


def better_captions(ciders: Mapping[tuple[str, str, str], float]) -> list[Claim]:
    """Of CIDEr by features, model and split."""
    claims = []
    for (features, model, split), value in ciders.items():
        plain = ciders.get((features, "Transformer", split))
        if model in ("SMArT", "M2") and plain is not None:
            text = f"{model} has better captions than the Transformer, {features}, {split} (CIDEr)"
            claims.append(Claim(text, value > plain, f"{100 * value:.1f} against {100 * plain:.1f}"))
    return claims


def slower(subjects: Sequence[Subject], timings: Sequence[Timing], batch: int) -> list[Claim]:
    """SMArT fastest, M2 slowest: for every kind of features on which all three are there."""
    claims = []
    spent = {timing.name: timing.mean for timing in timings if timing.batch == batch}
    for features in dict.fromkeys(subject.features for subject in subjects):
        of = {subject.model: spent[subject.name] for subject in subjects if subject.features == features}
        if {"Transformer", "SMArT", "M2"} <= of.keys():
            seen = ", ".join(f"{name} {1e3 * of[name]:.0f} ms" for name in ("SMArT", "Transformer", "M2"))
            holds = of["SMArT"] < of["Transformer"] < of["M2"]
            claims.append(Claim(f"SMArT is the fastest and M2 the slowest ({features}, batch {batch})", holds, seen))
    return claims


def at_zero(found: Grounded) -> float:
    """GroundingScore(0), a fraction."""
    scores = found.scores(0)
    there = scores[~np.isnan(scores)]
    return float(there.mean()) if len(there) else 0.0
