"""The selected images as data for the page: captions side by side, references, and who won by which metric."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

from PIL import Image

from captrial.compete import Competition
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.storage.labels import Labels
from captrial.progress import track

WIDTH = 360  # pixels of a thumbnail
MOST = 1500  # thumbnails in one page: some 25 MB


def gallery_data(competition: Competition, labels: Labels, pairwise_scores: Sequence[PairwiseScores]) -> dict[str, Any]:
    """Everything the gallery's script needs, as one JSON object."""
    captions = competition.selected_captions()
    images = competition.selected_images()
    thumbnails = _thumbnails(competition, images)
    return {
        "models": list(competition.models),
        "metrics": [pairwise.metric for pairwise in pairwise_scores],
        "images": {
            image: {
                "captions": list(captions[image]),
                "references": labels.references.get(image, []),
                "thumbnail": thumbnails.get(image),
            }
            for image in images
        },
        "pairs": [
            {
                "models": list(pair),
                "images": list(active.images),
                "similarity": list(active.similarity),
                "scores": {pairwise.metric: _scores(pairwise, pair, active.images) for pairwise in pairwise_scores},
            }
            for pair, active in competition.selections().items()
        ],
    }


def _scores(
    pairwise: PairwiseScores, pair: tuple[int, int], images: Sequence[str]
) -> list[tuple[float | None, float | None] | None]:
    """The metric of both captions of each image; None where it has no label."""
    for found in pairwise.pairs:
        if found.models == pair:
            rows = zip(found.images.tolist(), found.per_image.tolist(), strict=True)
            values = {pairwise.images[image]: (_known(both[0]), _known(both[1])) for image, both in rows}
            return [values.get(name) for name in images]
    return [None] * len(images)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _thumbnails(competition: Competition, images: Sequence[str]) -> dict[str, str]:
    """Small JPEGs as data URIs of the images that are there and can be opened."""
    found: dict[str, str] = {}
    source = competition.image_source
    for image in track(images if source else [], "thumbnails"):
        opened = source.open(image) if source and len(found) < MOST else None
        if opened is not None:
            found[image] = _data_uri(opened)
    return found


def _data_uri(image: Image.Image) -> str:
    image.thumbnail((WIDTH, WIDTH))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=76, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()
