"""Robot sequences are coherent from frame to frame."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from captrial.records import Box, Sample
from captrial.toyworld import FRAMES, ToyWorld
from captrial.toyworld.scene.robot import HEIGHTS, LIGHTS
from toyworld.sample_world import SIZE


def test_robot_sequences_are_coherent(samples: dict[str, list[Sample]]) -> None:
    """From frame to frame the same things move a little, and grow as the camera drives towards them."""
    frames = samples["robot"]
    names = {str(sample.extra["sequence"]) for sample in frames}
    assert names == {"room000-day-low", "room000-night-low", "room000-day-middle"}
    moved, shared, steps, growth = 0, 0, 0, []
    world = ToyWorld(seed=3, size=SIZE)
    for step, (before, after) in enumerate(pairwise(frames)):
        if before.extra["sequence"] != after.extra["sequence"]:
            continue
        steps += 1
        first, second = (dict(zip(s.extra["tracks"], s.regions, strict=True)) for s in (before, after))  # type: ignore[arg-type]
        common = [
            track for track in set(first) & set(second) if _inside(first[track].box) and _inside(second[track].box)
        ]
        shared += bool(set(first) & set(second))
        for track in common:
            a, b = first[track].box, second[track].box
            assert first[track].label == second[track].label
            assert abs(a.x1 - b.x1) < 0.2 * SIZE
            assert abs(a.y1 - b.y1) < 0.12 * SIZE
            moved += a != b
        scales = [{t.track: t.scale for t in world.scene("robot", index).objects} for index in (step, step + 1)]
        growth += [scales[1][track] / scales[0][track] for track in set(scales[0]) & set(scales[1])]
    assert steps == 3 * (FRAMES - 1)
    assert shared == steps
    assert moved > steps
    assert min(growth) > 0.9  # the way leads forward; only turning takes things a little farther off
    assert np.mean(growth) > 1.01


def _inside(box: Box) -> bool:
    return box.x1 > 1 and box.y1 > 1 and box.x2 < SIZE - 1 and box.y2 < SIZE - 1


def test_robot_has_day_and_night_and_three_heights() -> None:
    world = ToyWorld(seed=3, size=96)
    scenes = [world.sample("robot", sequence * FRAMES) for sequence in range(6)]
    assert {sample.extra["light"] for sample in scenes} == set(LIGHTS)
    assert {sample.extra["camera"]["height"] for sample in scenes} == set(HEIGHTS.values())  # type: ignore[index]
    day, night = (world.render("robot", sequence * FRAMES) for sequence in (0, 1))
    assert day.sample.regions == night.sample.regions  # the same room and way
    assert night.pixels.mean() < 0.7 * day.pixels.mean()
