"""A toy world on disk: its Karpathy and COCO files joined with phrases and scene graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from captrial.data.datasets.base import DatasetReader, expect, expect_field, read_json
from captrial.data.datasets.coco import labelled_boxes, read_coco
from captrial.data.datasets.karpathy import read_karpathy
from captrial.data.datasets.samples import join
from captrial.errors import DatasetError
from captrial.records import Phrase, Region, Sample

Phrases = tuple[tuple[Phrase, ...], ...]


def read_phrases(path: Path | str) -> dict[str, Phrases]:
    """Read `phrases.json`: for every image id one tuple of phrases per caption; their regions have boxes and labels.

    `{"images": {id: {"regions": [[x1, y1, x2, y2, label], ...], "sentences": [[{"text", "start", "end", "entity",
    "kinds", "regions": [numbers of regions]}, ...], ...]}}}`
    """
    document = expect(read_json(path), dict, f"{path}: the file")
    records = expect_field(document, "images", dict, str(path))
    return {identity: _image_phrases(record, f"{path}: image {identity!r}") for identity, record in records.items()}


def _image_phrases(record: object, where: str) -> Phrases:
    record = expect(record, dict, where)
    regions, wrong = labelled_boxes(record.get("regions"), where)
    if wrong:
        raise DatasetError(wrong[0])
    sentences = expect_field(record, "sentences", list, where)
    return tuple(
        tuple(
            _phrase(phrase, regions, f"{where}: sentence {number}, phrase {place}")
            for place, phrase in enumerate(expect(phrases, list, f"{where}: sentence {number}"))
        )
        for number, phrases in enumerate(sentences)
    )


def _phrase(record: object, regions: tuple[Region, ...], where: str) -> Phrase:
    record = expect(record, dict, where)
    numbers = [expect(number, int, f"{where}: 'regions'") for number in expect_field(record, "regions", list, where)]
    outside = [number for number in numbers if not 0 <= number < len(regions)]
    if outside:
        raise DatasetError(f"{where}: region {outside[0]} is not among the {len(regions)} of the image")
    start, end = (expect_field(record, key, int, where) for key in ("start", "end"))
    return Phrase(
        expect_field(record, "text", str, where),
        start,
        end,
        tuple(regions[number] for number in numbers),
        expect_field(record, "entity", str, where),
        tuple(expect(kind, str, f"{where}: 'kinds'") for kind in expect_field(record, "kinds", list, where)),
    )


def read_toyworld(folder: Path | str, *, split: str | None = None, masks: bool = False) -> list[Sample]:
    """Read the folder written by `write_toyworld`: captions, regions, phrases, scene graphs and optionally masks."""
    folder = Path(folder)
    captions = read_karpathy(folder / "dataset.json", split=split)
    wanted = {sample.id for sample in captions}
    boxes = [sample for sample in read_coco(folder / "instances.json", masks=masks) if sample.id in wanted]
    sizes = {sample.id: sample.image for sample in boxes}
    phrases = read_phrases(folder / "phrases.json")
    graphs = expect_field(read_json(folder / "scene_graphs.json"), "images", dict, str(folder / "scene_graphs.json"))
    samples = []
    for sample in join(captions, boxes):
        if sample.id not in sizes:
            raise DatasetError(
                f"{folder / 'instances.json'}: image {sample.id!r} is missing; write the toy world again"
            )
        graph = _graph(graphs, sample.id, folder)
        scene = expect_field(graph, "scene", str, f"{folder / 'scene_graphs.json'}: image {sample.id!r}")
        size = sizes[sample.id]
        image = replace(sample.image, width=size.width, height=size.height, label=scene)
        linked = _with_regions(phrases.get(sample.id, ()), sample, folder / "phrases.json")
        samples.append(replace(sample, image=image, phrases=linked, extra={**sample.extra, **graph}))
    return samples


def _graph(graphs: Mapping[str, Any], identity: str, folder: Path) -> dict[str, object]:
    return expect(graphs.get(identity), dict, f"{folder / 'scene_graphs.json'}: image {identity!r}")


def _with_regions(phrases: Phrases, sample: Sample, path: Path) -> Phrases:
    """The phrases with the sample's own regions, which may have masks."""

    def linked(phrase: Phrase) -> Phrase:
        if not phrase.regions:
            return phrase
        try:  # the entity is made of the numbers of the regions
            regions = tuple(sample.regions[int(number)] for number in str(phrase.entity).split("+"))
        except (ValueError, IndexError):
            raise DatasetError(
                f"{path}: image {sample.id!r}: the entity {str(phrase.entity)[:40]!r} is not made of region numbers"
            ) from None
        return replace(phrase, regions=regions)

    return tuple(tuple(map(linked, sentence)) for sentence in phrases)


TOYWORLD = DatasetReader(
    name="toyworld",
    title="toy world",
    description="written by `captrial data toyworld`",
    needs="the folder",
    recognise=lambda probe: (probe.path / "toyworld.json").is_file(),
    read=lambda path, _: read_toyworld(path),
)
