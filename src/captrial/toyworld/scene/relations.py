"""Spatial relations of objects, from their visible boxes, beside the interactions of the scene."""

from __future__ import annotations

from collections.abc import Mapping

from captrial.records import Box
from captrial.toyworld.scene.layout import Scene

Relation = tuple[int, str, int]

TOGETHER = frozenset({"riding", "holding", "sitting on", "sleeping on", "lying on", "on", "under"})
"""Predicates of objects that touch: no spatial relation is added for such pairs."""

SUPPORTED = TOGETHER - {"holding", "under"}
"""Predicates whose subject is supported by the other object."""


def overlap_x(a: Box, b: Box) -> float:
    """The share of the narrower width that both cover, 0 where they are side by side."""
    common = min(a.x2, b.x2) - max(a.x1, b.x1)
    return max(common, 0.0) / min(a.x2 - a.x1, b.x2 - b.x1)


def is_left_of(a: Box, b: Box) -> bool:
    """Whether the centre of `a` is left of all of `b`, and all of `a` left of the centre of `b`."""
    return (a.x1 + a.x2) / 2 < b.x1 and a.x2 < (b.x1 + b.x2) / 2


def is_above(a: Box, b: Box) -> bool:
    """Whether all of `a` is higher than `b`, and over it."""
    return a.y2 <= b.y1 and overlap_x(a, b) >= 0.3


def is_next_to(a: Box, b: Box, size: float) -> bool:
    """Whether the two are side by side on the same ground, with a small gap."""
    gap = max(a.x1 - b.x2, b.x1 - a.x2)
    narrow = min(a.x2 - a.x1, b.x2 - b.x1)
    return -0.25 * narrow <= gap <= 0.1 * size and abs(a.y2 - b.y2) <= 0.06 * size


def is_behind(a: Box, b: Box, size: float) -> bool:
    """Whether `a` is farther away in about the same direction."""
    return overlap_x(a, b) >= 0.3 and b.y2 - a.y2 >= 0.05 * size


def relations(scene: Scene, boxes: Mapping[int, Box], size: int) -> tuple[Relation, ...]:
    """All relations among objects that have a box: interactions first, then spatial relations."""
    interactions = [link for link in scene.links if link[0] in boxes and link[2] in boxes]
    touching = {frozenset((a, b)) for a, predicate, b in scene.links if predicate in TOGETHER}
    spatial: list[Relation] = []
    for a in boxes:
        for b in boxes:
            if a != b and frozenset((a, b)) not in touching:
                spatial += [(a, predicate, b) for predicate in _between(scene, a, b, boxes, size)]
    return (*interactions, *spatial)


def _between(scene: Scene, a: int, b: int, boxes: Mapping[int, Box], size: int) -> list[str]:
    one, two = boxes[a], boxes[b]
    grounded = on_ground(scene, a) and on_ground(scene, b)
    found = []
    if grounded and is_next_to(one, two, size):
        found.append("next to")
    if is_left_of(one, two):
        found.append("left of")
    if is_left_of(two, one):
        found.append("right of")
    if is_above(one, two) and in_the_air(scene, a):
        found.append("above")
    if is_above(two, one) and in_the_air(scene, b):
        found.append("below")
    if grounded and is_behind(one, two, size):
        found.append("behind")
    if grounded and is_behind(two, one, size):
        found.append("in front of")
    return found


def on_ground(scene: Scene, index: int) -> bool:
    """Whether an object stands on the ground: not in the air, not on or held by another object."""
    return scene.objects[index].lift < 0.02 and not _carried(scene, index)


def in_the_air(scene: Scene, index: int) -> bool:
    """Whether an object flies or hangs without support."""
    return scene.objects[index].lift >= 0.02 and not _carried(scene, index)


def _carried(scene: Scene, index: int) -> bool:
    return any(
        (a == index and predicate in SUPPORTED) or (b == index and predicate == "holding")
        for a, predicate, b in scene.links
    )
