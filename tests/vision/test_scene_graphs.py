"""Scene graphs: what places say, words as ids, graphs from stores and from the toy world's truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from captrial.errors import DatasetError
from captrial.records import ImageRef, Sample
from captrial.toyworld import ToyWorld
from captrial.vision.boxes import relative_boxes
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.features.visual_features import Features, stack_features
from captrial.vision.scene_graphs import GraphSource, ImageGraph, add_graphs, spatial_relations, true_regions

WORDS = {"dog": 4, "red": 5, "on": 6, "near": 7, "ball": 8, "in": 9, "left": 10}


def features(count: int, boxes: list[list[float]] | None = None) -> Features:
    places = torch.tensor([boxes]) if boxes else torch.rand(1, count, 4).sort(-1).values
    return Features(torch.randn(1, count, 3), torch.ones(1, count, dtype=torch.bool), places)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0.4, 0.1, 0.6, 0.5], [0.2, 0.5, 0.8, 0.9], (0, "on", 1)),
        ([0.2, 0.5, 0.8, 0.9], [0.4, 0.1, 0.6, 0.5], (1, "on", 0)),
        ([0.4, 0.0, 0.6, 0.2], [0.3, 0.6, 0.7, 0.9], (0, "above", 1)),
        ([0.4, 0.4, 0.6, 0.6], [0.1, 0.1, 0.9, 0.9], (0, "in", 1)),
        ([0.1, 0.2, 0.5, 0.6], [0.2, 0.3, 0.7, 0.9], (0, "behind", 1)),
        ([0.1, 0.4, 0.3, 0.8], [0.4, 0.4, 0.6, 0.8], (0, "near", 1)),
    ],
)
def test_relations_follow_from_positions(
    first: list[float], second: list[float], expected: tuple[int, str, int]
) -> None:
    assert spatial_relations([first, second]) == (expected,)


def test_no_relation_between_two_names_of_one_thing_or_far_apart() -> None:
    assert spatial_relations([[0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.52]]) == ()
    assert spatial_relations([[0.0, 0.4, 0.1, 0.6], [0.8, 0.4, 0.9, 0.6]]) == ()
    assert spatial_relations([]) == ()


box = st.tuples(*[st.floats(0, 0.8)] * 2, *[st.floats(0.05, 0.2)] * 2).map(
    lambda part: [part[0], part[1], part[0] + part[2], part[1] + part[3]]
)


@given(st.lists(box, max_size=8), st.integers(1, 3))
def test_one_relation_a_pair_and_few_a_subject(boxes: list[list[float]], most: int) -> None:
    found = spatial_relations(boxes, most)
    pairs = [frozenset((subject, thing)) for subject, _, thing in found]
    assert len(pairs) == len(set(pairs))
    assert all(len(pair) == 2 for pair in pairs)
    assert all(sum(subject == number for subject, _, _ in found) <= most for number in range(len(boxes)))


def test_unknown_words_are_left_out_and_rows_padded() -> None:
    both = stack_features([features(2), features(3)])
    graphs = [
        ImageGraph(((0, "on", 1), (1, "chasing", 0)), (("dog", "red"), ("ball",))),
        ImageGraph(((0, "left of", 2),), (("zebra",), (), ("ball", "shiny"))),
    ]
    found = add_graphs(both, graphs, WORDS.get)
    assert found.relations is not None
    assert found.attributes is not None
    assert found.relations.tolist() == [[[0, 1, 6]], [[0, 2, 10]]]
    assert found.attributes.tolist() == [[[4, 5], [8, -1], [-1, -1]], [[-1, -1], [-1, -1], [8, -1]]]


def store_of(folder: Path, notes: list[dict[str, Any]]) -> FeatureStore:
    vision = {"backbone": "test", "preprocess": {"size": 4}, "width": 3}
    with FeatureWriter(folder, vision) as writer:
        for number, note in enumerate(notes):
            writer.add([str(number)], features(2, [[0.4, 0.1, 0.6, 0.5], [0.2, 0.5, 0.8, 0.9]]), [note])
    return FeatureStore(folder, vision)


def test_a_store_gives_graphs(tmp_path: Path) -> None:
    told = {"labels": ["dog", None], "attributes": [["red"], []], "relations": [[1, "near", 0]]}
    store = store_of(tmp_path, [{"labels": ["dog", "ball"], "attributes": [["red"], []]}, told])
    found = GraphSource(store, WORDS.get).get(["0", "1"])
    assert found.relations is not None
    assert found.attributes is not None
    assert found.relations.tolist() == [[[0, 1, 6]], [[1, 0, 7]]]
    assert found.attributes.tolist() == [[[4, 5], [8, -1]], [[4, 5], [-1, -1]]]


def test_a_grid_store_has_no_graph(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="are not labelled regions"):
        GraphSource(store_of(tmp_path, [{}]), WORDS.get).get(["0"])


def test_scene_graphs_of_the_toy_world() -> None:
    world = ToyWorld(seed=0, size=64)
    sample = next(s for s in (world.sample("train", n) for n in range(20)) if len(s.extra["scene_graph"]["relations"]))  # type: ignore[index]
    regions, relations = true_regions(sample)
    graph = sample.extra["scene_graph"]
    assert isinstance(graph, dict)
    assert len(regions) == len(sample.regions)
    first = graph["objects"][0]
    assert regions[first["id"]].label == first["noun"]
    assert regions[first["id"]].attributes[0] == first["attributes"][0]
    assert relations == graph["relations"]
    assert relative_boxes(regions, (64, 64)).max() <= 1
    with pytest.raises(DatasetError, match="no scene graph"):
        true_regions(Sample(ImageRef("x")))
