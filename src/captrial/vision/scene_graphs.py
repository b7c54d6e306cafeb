"""Scene graphs of images for captioners that read them (SGAE): regions as objects, with attributes and relations.

A graph comes from the data set (the toy world's scene graphs: `true_regions`) or from detections: labels name the
objects, adjectives describe them, and relations follow from the positions of boxes. In `Features` words are ids of the
captioner's vocabulary, so graphs are joined to features where the vocabulary is known (`GraphSource`, `add_graphs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from captrial.errors import DatasetError
from captrial.records import Sample
from captrial.vision.boxes import areas, common_areas, common_sides, iou_matrix
from captrial.vision.detectors.base import Detection
from captrial.vision.features.visual_features import Features

Relation = tuple[int, str, int]  # subject, predicate, object: numbers of regions
Lookup = Callable[[str], int | None]  # a word's id; None where the vocabulary does not have it

MOST_RELATIONS = 3  # of one region as subject: the nearest ones


class ImageGraph(NamedTuple):
    """Relations between regions, and the words of each: its label first, then its adjectives."""

    relations: tuple[Relation, ...]
    words: tuple[tuple[str, ...], ...]


def spatial_relations(boxes: ArrayLike, most: int = MOST_RELATIONS) -> tuple[Relation, ...]:
    """Relations from the positions of relative boxes (k, 4): in, on, above, behind, near.

    At most one relation a pair, and `most` a subject, nearest first. Boxes that are nearly the same (two names of one
    object) have no relation, nor have boxes far apart.

    >>> spatial_relations([[0.4, 0.1, 0.6, 0.5], [0.2, 0.5, 0.8, 0.9]])  # a rider and what he sits on
    ((0, 'on', 1),)
    """
    corners = np.asarray(boxes, np.float64).reshape(-1, 4)
    predicates = _predicates(corners)
    centres = (corners[:, :2] + corners[:, 2:]) / 2
    far = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
    found: list[Relation] = []
    for subject in range(len(corners)):
        others = [other for other in np.argsort(far[subject], kind="stable").tolist() if predicates[subject, other]]
        found += [(subject, str(predicates[subject, other]), other) for other in others[:most]]
    return tuple(found)


def _predicates(corners: NDArray[np.float64]) -> NDArray[np.str_]:
    """The predicate of every ordered pair (k, k), empty where there is none."""
    x1, y1, x2, y2 = corners.T
    size = areas(corners)
    across, down = np.moveaxis(common_sides(corners, corners), -1, 0)
    common = common_areas(corners, corners)
    beneath = across >= 0.3 * np.minimum.outer(x2 - x1, x2 - x1)  # one stands over the other
    higher = (y1 + y2)[:, None] < (y1 + y2)[None]
    shallow = down <= 0.25 * np.minimum.outer(y2 - y1, y2 - y1)
    inside = (common >= 0.85 * size[:, None]) & (size[:, None] <= 0.7 * size[None])
    on = beneath & higher & shallow & (down >= -0.05)
    above = beneath & higher & (down < -0.05)
    behind = beneath & ~shallow & (y2[:, None] + 0.05 <= y2[None])
    ordered = np.arange(len(corners))[:, None] < np.arange(len(corners))[None]
    near = ordered & (np.minimum(across, down) >= -0.15)
    result = np.select([inside, inside.T, on, on.T, above, above.T, behind, behind.T, near],
                       ["in", "", "on", "", "above", "", "behind", "", "near"], "")  # fmt: skip
    result[(iou_matrix(corners, corners) > 0.6) | np.eye(len(corners), dtype=bool)] = ""
    return np.asarray(result)


def add_graphs(features: Features, graphs: Sequence[ImageGraph], lookup: Lookup) -> Features:
    """The same features with relations and attributes as word ids; words the vocabulary does not have are left out.

    The label of a region is the first of its attributes. Of a predicate the first word counts ("next to": next), as in
    the graphs of sentences.
    """
    relations, attributes = [], []
    for graph in graphs:
        known = [(subject, lookup(predicate.split()[0]), thing) for subject, predicate, thing in graph.relations]
        relations.append([[subject, thing, word] for subject, word, thing in known if word is not None])
        ids = [[lookup(word) for word in words] for words in graph.words]
        attributes.append([[number for number in words if number is not None] for words in ids])
    widest = max((len(words) for image in attributes for words in image), default=0)
    return replace(
        features,
        relations=_padded(relations, max(map(len, relations)), 3),
        attributes=_padded(
            [[[*words, *[-1] * (max(widest, 1) - len(words))] for words in image] for image in attributes],
            features.mask.shape[1],
            max(widest, 1),
        ),
    )


def _padded(rows: Sequence[Sequence[Sequence[int]]], longest: int, width: int) -> Tensor:
    """Lists of rows as one tensor (b, longest, width), -1 where padded; at least one row an image."""
    result = torch.full((len(rows), max(longest, 1), width), -1)
    for number, row in enumerate(rows):
        if row:
            result[number, : len(row)] = torch.tensor(row)
    return result


def detection_graph(regions: Sequence[Detection], boxes: ArrayLike) -> ImageGraph:
    """The graph of detected regions at relative boxes (k, 4)."""
    words = tuple((*([region.label] if region.label else []), *region.attributes) for region in regions)
    return ImageGraph(spatial_relations(boxes), words)


class RegionStore(Protocol):
    """A feature store whose entries name the regions."""

    def get(self, image_ids: Sequence[str]) -> Features:
        """Features of some images."""
        ...

    def entry(self, image_id: str) -> dict[str, Any]:
        """The index entry of an image: labels, attributes, perhaps relations."""
        ...


@dataclass(frozen=True, eq=False)
class GraphSource:
    """Features of a region store with their scene graphs: for training and captioning with SGAE.

    Relations are those of the store's entries where it has them (the toy world), else those of the boxes' positions.
    """

    store: RegionStore
    lookup: Lookup

    def get(self, image_ids: Sequence[str]) -> Features:
        """Features with relations and attributes."""
        features = self.store.get(image_ids)
        graphs = [self._graph(image_id, features, row) for row, image_id in enumerate(image_ids)]
        return add_graphs(features, graphs, self.lookup)

    def _graph(self, image_id: str, features: Features, row: int) -> ImageGraph:
        entry = self.store.entry(image_id)
        if "labels" not in entry or (features.boxes is None and "relations" not in entry):
            raise DatasetError(
                f"the features of {image_id!r} are not labelled regions with boxes, so there is no scene graph; "
                "use a region store, or the relation-free mode: --set relations=false"
            )
        described = entry.get("attributes") or [[] for _ in entry["labels"]]
        words = tuple(
            (*([label] if label else []), *more) for label, more in zip(entry["labels"], described, strict=True)
        )
        if "relations" in entry:
            relations = tuple(
                (int(subject), str(predicate), int(thing)) for subject, predicate, thing in entry["relations"]
            )
            return ImageGraph(relations, words)
        assert features.boxes is not None
        return ImageGraph(spatial_relations(features.boxes[row][features.mask[row]].numpy()), words)


def true_regions(sample: Sample) -> tuple[list[Detection], list[list[Any]]]:
    """Regions and relations of an image of the toy world, by its scene graph: labels are the plainest nouns."""
    graph = sample.extra.get("scene_graph")
    if not isinstance(graph, Mapping):
        raise DatasetError(f"image {sample.id} has no scene graph, as a toy world's have; use another --backbone")
    objects = {entry["id"]: entry for entry in graph["objects"]}
    regions = [
        Detection(region.box, *_named(objects.get(number), region.label), attributes=_described(objects.get(number)))
        for number, region in enumerate(sample.regions)
    ]
    return regions, [list(relation) for relation in graph["relations"]]


def _named(entry: Mapping[str, Any] | None, label: str | None) -> tuple[str | None, float]:
    return (label if entry is None else str(entry["noun"])), 1.0


def _described(entry: Mapping[str, Any] | None) -> tuple[str, ...]:
    return () if entry is None else tuple(word for words in entry["attributes"] for word in str(words).split()[:1])
