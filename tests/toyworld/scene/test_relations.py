"""Relations hold for the boxes, and scene graphs refer to regions."""

from __future__ import annotations

from collections import Counter

from captrial.records import Sample
from captrial.toyworld.scene.relations import is_above, is_behind, is_left_of, is_next_to, overlap_x
from toyworld.sample_world import SIZE, graph


def test_relations_hold_geometrically(every: list[Sample]) -> None:
    checks = {
        "left of": is_left_of,
        "right of": lambda a, b: is_left_of(b, a),
        "above": is_above,
        "below": lambda a, b: is_above(b, a),
        "behind": lambda a, b: is_behind(a, b, SIZE),
        "in front of": lambda a, b: is_behind(b, a, SIZE),
        "next to": lambda a, b: is_next_to(a, b, SIZE),
        "on": lambda a, b: overlap_x(a, b) > 0.3 and a.y1 < b.y1 + 2 and b.y1 - 2 <= a.y2 <= b.y2,
        "riding": lambda a, b: overlap_x(a, b) > 0.5 and a.y1 + a.y2 < b.y1 + b.y2 and b.y1 < a.y2 <= b.y2,
        "sitting on": lambda a, b: overlap_x(a, b) > 0.5 and a.y2 > b.y1,
        "sleeping on": lambda a, b: overlap_x(a, b) > 0.5 and b.y1 < a.y2 < b.y2,
        "lying on": lambda a, b: overlap_x(a, b) > 0.5 and b.y1 < a.y2 < b.y2,
        "holding": lambda a, b: abs(a.x1 + a.x2 - b.x1 - b.x2) / 2 < (a.x2 - a.x1 + b.x2 - b.x1) / 2 + 2,
        "under": lambda a, b: overlap_x(a, b) > 0.3 and a.y1 + a.y2 > b.y1 + b.y2,
        "flying": lambda a, b: b.y2 < a.y2,
        "walking": lambda a, b: max(a.x1 - b.x2, b.x1 - a.x2) < 0.3 * SIZE,
        "chasing": lambda a, b: is_left_of(a, b) or is_left_of(b, a),
        "playing with": lambda a, b: max(a.x1 - b.x2, b.x1 - a.x2) < 0.3 * SIZE,
    }
    seen: Counter[str] = Counter()
    for sample in every:
        for first, predicate, second in graph(sample)["relations"]:
            a, b = sample.regions[first].box, sample.regions[second].box
            assert checks[predicate](a, b), (sample.id, predicate, a, b)
            seen[predicate] += 1
    assert set(seen) == set(checks)


def test_scene_graphs_refer_to_regions(every: list[Sample]) -> None:
    for sample in every:
        for item in graph(sample)["objects"]:
            assert sample.regions[item["id"]].label == item["label"]
            assert item["attributes"]
        known = {item["id"] for item in graph(sample)["objects"]}
        assert {number for first, _, second in graph(sample)["relations"] for number in (first, second)} <= known
