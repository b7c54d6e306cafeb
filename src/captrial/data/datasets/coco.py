"""COCO annotations (captions, and instances with boxes, polygons and RLE masks), and plain boxes as JSON.

`{"images": [{"id", "file_name", "width", "height"}], "annotations": [{"image_id", "caption"}
 or {"image_id", "category_id", "bbox": [x, y, w, h], "segmentation", "iscrowd"}], "categories": [{"id", "name"}]}`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.data.datasets import masks
from captrial.data.datasets.base import (
    DatasetReader,
    Probe,
    expect,
    expect_field,
    image_root,
    is_empty,
    read_box,
    read_json,
    safe_join,
)
from captrial.data.datasets.samples import join, reject_duplicates, replace_regions, select_split
from captrial.errors import DatasetError
from captrial.records import Box, ImageRef, Region, Sample

LARGEST_COORDINATE = 1e5  # pixels; tracing an outline takes time and memory in proportion to its length


@dataclass(slots=True)
class _Gathered:
    """One image while its annotations are collected, possibly from several files."""

    image: ImageRef
    file_name: str
    split: str | None
    captions: list[str] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    iscrowd: list[bool] = field(default_factory=list)
    segmentations: list[Any] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_coco(
    *paths: Path | str, images: Path | str | None = None, split: str | None = None, masks: bool = False
) -> list[Sample]:
    """Read one COCO annotation file, or several about the same images (e.g. captions and instances).

    Ids are COCO's image ids as strings (`"42"`). Samples are in the order of the images in the files, captions and
    regions in the order of the annotations; images without annotations are kept. `extra` has, aligned with `regions`,
    `iscrowd` (bools) and `segmentations` (as in the file: polygons, RLE, or None), which `segmentation_mask` turns into
    a mask; with `masks=True` every region has its mask (memory: height x width bytes each). Boxes without area cannot
    be regions: they are left out and listed in `extra["problems"]`. `split` selects by the `split` field that some
    COCO-style files give their images.
    """
    if not paths:
        raise DatasetError("read_coco needs at least one annotation file")
    gathered: dict[int, _Gathered] = {}
    for path in map(Path, paths):
        document = expect(read_json(path), dict, f"{path}: the file")
        _add_images(document, path, image_root(path, images), gathered)
        _add_annotations(document, path, gathered, masks)
    return select_split([_finish(item) for item in gathered.values()], split, paths[0])


def read_coco_folder(
    folder: Path | str, *, images: Path | str | None = None, split: str | None = None, masks: bool = False
) -> list[Sample]:
    """Read the official files of a folder together: `captions_val2017.json` with `instances_val2017.json`, and so on.

    `folder` is the one with the files, or one that holds it as `annotations`. Where files of several years or splits
    are there, `train2017` is the split `train`, `val2017` `val`. Images are in `images`, in its folder `val2017`, in
    `val2017` beside the folder of the files (the official layout), or in `images` beside the files.
    """
    root = _annotations_folder(Path(folder))
    groups = official_files(root)
    if not groups:
        raise DatasetError(f"{root}: no files captions_*.json and instances_*.json; name the file to read")
    samples: list[Sample] = []
    for name, paths in groups.items():
        found = read_coco(*paths, images=_folder_images(root, name, images), masks=masks)
        given = name.rstrip("0123456789") if len(groups) > 1 else None
        samples += [sample if sample.split or not given else replace(sample, split=given) for sample in found]
    reject_duplicates(samples, root)
    return select_split(samples, split, root)


def official_files(folder: Path) -> dict[str, list[Path]]:
    """The official caption and instance files of a folder, by what stands behind: `val2017`."""
    found: dict[str, list[Path]] = {}
    for kind in ("captions", "instances"):
        for path in sorted(folder.glob(f"{kind}_*.json")):
            found.setdefault(path.stem.removeprefix(f"{kind}_"), []).append(path)
    return found


def _annotations_folder(folder: Path) -> Path:
    below = folder / "annotations"
    return below if not official_files(folder) and below.is_dir() else folder


def _folder_images(root: Path, name: str, images: Path | str | None) -> Path | None:
    if images is not None:
        below = Path(images) / name
        return below if below.is_dir() else Path(images)
    candidates = (root.parent / name, root / name, root / "images")
    return next((folder for folder in candidates if folder.is_dir()), None)


def read_boxes(path: Path | str) -> list[Sample]:
    """Read `{"image id": [[x1, y1, x2, y2, "class"(, score)], ...]}` as samples that have only regions.

    Empty boxes are left out and listed in `extra["problems"]`. `join(captions, boxes)` adds them to captions. The file
    may also be COCO's instances, whose masks can be decoded then (`masked_regions`).
    """
    document = expect(read_json(path), dict, f"{path}: the file")
    if isinstance(document.get("images"), list) and "annotations" in document:
        return read_coco(path)
    return [
        Sample(ImageRef(identity), regions=regions, extra={"problems": wrong} if wrong else {})
        for identity, rows in document.items()
        for regions, wrong in [labelled_boxes(rows, f"{path}: image {identity!r}")]
    ]


def with_boxes(samples: Sequence[Sample], path: Path | str) -> list[Sample]:
    """The samples with the regions of a file that `read_boxes` reads, in place of their own.

    Ids of the file that are none of the samples are ignored; `DatasetError` if all are.
    """
    known = {sample.id for sample in samples}
    found = [other for other in read_boxes(path) if other.id in known]
    if not found:
        raise DatasetError(f"{path}: none of its ids is an image of the data, such as {samples[0].id!r}")
    return join([replace_regions(sample, ()) for sample in samples], found)


def labelled_boxes(rows: object, where: str) -> tuple[tuple[Region, ...], tuple[str, ...]]:
    """Regions from rows `[x1, y1, x2, y2, label(, score)]`, and one message per empty box."""
    regions, wrong = [], []
    for index, row in enumerate(expect(rows, list, where)):
        here = f"{where}: box {index}"
        row = expect(row, list, here)
        if len(row) not in (5, 6):
            raise DatasetError(
                f"{here} must be [x1, y1, x2, y2, label] or the same with a score, found {len(row)} items"
            )
        box, label = read_box(row[:4], here), expect(row[4], str, f"{here}: label")
        if is_empty(box):
            wrong.append(f"{here} ({label}) is empty and was left out: {list(box)}")
            continue
        regions.append(Region(box, label, expect(row[5], float, f"{here}: score") if len(row) == 6 else 1.0))
    return tuple(regions), tuple(wrong)


def segmentation_mask(segmentation: object, height: int, width: int, where: str = "segmentation") -> NDArray[np.bool_]:
    """The mask (height, width) of a COCO segmentation: polygons, or RLE with counts as numbers or compressed."""
    if isinstance(segmentation, list):
        return masks.polygons_to_mask(_polygons(segmentation, where), height, width)
    if isinstance(segmentation, dict):
        size = segmentation.get("size")
        if size != [height, width]:
            raise DatasetError(f"{where}: the mask is {size} and the image {[height, width]} (height, width)")
        return masks.decode(segmentation, where)
    raise DatasetError(f"{where}: a segmentation is a list of polygons or an RLE object")


def _polygons(segmentation: list[object], where: str) -> list[NDArray[np.float64]]:
    polygons = []
    for index, flat in enumerate(segmentation):
        numbers = [expect(number, float, f"{where}: polygon {index}") for number in expect(flat, list, where)]
        if len(numbers) < 6 or len(numbers) % 2:
            raise DatasetError(
                f"{where}: polygon {index} needs at least three x, y pairs, found {len(numbers)} numbers"
            )
        if max(map(abs, numbers)) > LARGEST_COORDINATE:
            raise DatasetError(f"{where}: polygon {index} reaches beyond {LARGEST_COORDINATE:g} pixels")
        polygons.append(np.array(numbers).reshape(-1, 2))
    return polygons


def _add_images(document: dict[str, Any], path: Path, root: Path | None, gathered: dict[int, _Gathered]) -> None:
    seen: set[int] = set()
    for index, record in enumerate(expect_field(document, "images", list, str(path))):
        where = f"{path}: images[{index}]"
        record = expect(record, dict, where)
        identity = expect_field(record, "id", int, where)
        if identity in seen:
            raise DatasetError(f"{where}: image id {identity} is given twice; keep one")
        seen.add(identity)
        new = _image(record, identity, where, root)
        old = gathered.setdefault(identity, new)
        for what in ("file_name", "split"):
            if getattr(old, what) != getattr(new, what):
                raise DatasetError(f"{where}: image {identity} had another {what!r} in an earlier file")
        if (old.image.width, old.image.height) != (new.image.width, new.image.height):
            raise DatasetError(f"{where}: image {identity} had another size in an earlier file")
        if old.image.path is None and new.image.path is not None:
            old.image = new.image


def _image(record: dict[str, Any], identity: int, where: str, root: Path | None) -> _Gathered:
    name = expect_field(record, "file_name", str, where)
    path = safe_join(root or Path(), name, where)
    width, height = (_size(record, key, where) for key in ("width", "height"))
    split = expect_field(record, "split", str, where) if "split" in record else None
    return _Gathered(ImageRef(str(identity), path if root else None, width, height), name, split)


def _size(record: dict[str, Any], key: str, where: str) -> int | None:
    if key not in record:
        return None
    size = expect_field(record, key, int, where)
    if size <= 0:
        raise DatasetError(f"{where}: {key!r} must be positive, found {size}")
    return size


def _add_annotations(document: dict[str, Any], path: Path, gathered: dict[int, _Gathered], masks: bool) -> None:
    categories = _categories(document.get("categories", []), path)
    for index, record in enumerate(expect_field(document, "annotations", list, str(path))):
        where = f"{path}: annotations[{index}]"
        record = expect(record, dict, where)
        identity = expect_field(record, "image_id", int, where)
        item = gathered.get(identity)
        if item is None:
            raise DatasetError(f"{where}: image_id {identity} is not among the images")
        if "caption" not in record and "bbox" not in record:
            raise DatasetError(f"{where}: neither 'caption' nor 'bbox'; only captions and instances are understood")
        if "caption" in record:
            _add_caption(item, expect_field(record, "caption", str, where), where)
        if "bbox" in record:
            _add_instance(item, record, categories, where, masks)


def _categories(records: object, path: Path) -> dict[int, str]:
    names: dict[int, str] = {}
    for index, record in enumerate(expect(records, list, f"{path}: 'categories'")):
        where = f"{path}: categories[{index}]"
        record = expect(record, dict, where)
        identity = expect_field(record, "id", int, where)
        if identity in names:
            raise DatasetError(f"{where}: category id {identity} is given twice")
        names[identity] = expect_field(record, "name", str, where)
    return names


def _add_caption(item: _Gathered, caption: str, where: str) -> None:
    if not caption.strip():
        raise DatasetError(f"{where}: the caption of image {item.image.id} is empty; remove it or write one")
    item.captions.append(caption)


def _add_instance(item: _Gathered, record: dict[str, Any], categories: dict[int, str], where: str, masks: bool) -> None:
    category = expect_field(record, "category_id", int, where)
    if category not in categories:
        raise DatasetError(f"{where}: category_id {category} is not among the categories")
    x, y, width, height = read_box(expect_field(record, "bbox", list, where), f"{where}: 'bbox'")
    box = Box(x, y, x + width, y + height)
    if is_empty(box):
        item.problems.append(f"{where} ({categories[category]}) has an empty box and was left out: {record['bbox']}")
        return
    segmentation = record.get("segmentation")
    mask = _mask(segmentation, item.image, where) if masks and segmentation is not None else None
    item.regions.append(Region(box, categories[category], mask=mask))
    item.iscrowd.append(bool(expect(record.get("iscrowd", 0), int, f"{where}: 'iscrowd'")))
    item.segmentations.append(segmentation)


def _mask(segmentation: object, image: ImageRef, where: str) -> NDArray[np.bool_]:
    if image.height is None or image.width is None:
        raise DatasetError(f"{where}: masks need the 'width' and 'height' of image {image.id}")
    return segmentation_mask(segmentation, image.height, image.width, f"{where}: segmentation")


def _finish(item: _Gathered) -> Sample:
    extra: dict[str, object] = {}
    if item.regions:
        extra |= {"iscrowd": tuple(item.iscrowd), "segmentations": tuple(item.segmentations)}
    if item.problems:
        extra["problems"] = tuple(item.problems)
    return Sample(item.image, tuple(item.captions), item.split, tuple(item.regions), extra=extra)


def with_masks(samples: Iterable[Sample]) -> list[Sample]:
    """Samples of `read_coco` with the masks of all regions decoded; regions without a segmentation stay unchanged."""
    return [replace(sample, regions=tuple(masked_regions(sample, sample.regions))) for sample in samples]


def masked_regions(sample: Sample, regions: Sequence[Region]) -> list[Region]:
    """Some regions of a sample of `read_coco` with their masks decoded; those without a segmentation as they are."""
    segmentations = _segmentations(sample)
    if not segmentations:
        return list(regions)
    same = {id(region): found for region, found in zip(sample.regions, segmentations, strict=True)}
    equal = dict(zip(sample.regions, segmentations, strict=True))  # two objects may have the same box and label
    where = f"image {sample.id}"
    return [
        region if region.mask is not None or found is None else replace(region, mask=_mask(found, sample.image, where))
        for region in regions
        for found in [same.get(id(region), equal.get(region))]
    ]


def _segmentations(sample: Sample) -> tuple[object, ...]:
    """One segmentation a region, as in the file; nothing if the sample has none."""
    found = sample.extra.get("segmentations", ())
    return found if isinstance(found, tuple) and len(found) == len(sample.regions) else ()


def region_shapes(sample: Sample, regions: Sequence[Region], *, masks: bool) -> list[Region]:
    """Some regions of a sample with their masks decoded or, without `masks`, as boxes alone."""
    return masked_regions(sample, regions) if masks else [replace(region, mask=None) for region in regions]


def check_masks(samples: Iterable[Sample], option: str) -> None:
    """Raise `DatasetError` if no region of the samples has a mask, so that `option` would change nothing."""
    if not any(map(_has_masks, samples)):
        raise DatasetError(
            f"{option}: no region of these images has a mask, only boxes; give a data set with masks (COCO's "
            "instances_*.json, also by --boxes; the toy world), or leave it out"
        )


def _has_masks(sample: Sample) -> bool:
    of_phrases = (region for phrases in sample.phrases for phrase in phrases for region in phrase.regions)
    decoded = any(region.mask is not None for region in (*sample.regions, *of_phrases))
    return decoded or any(found is not None for found in _segmentations(sample))


def _is_coco(probe: Probe) -> bool:
    document = probe.document
    return isinstance(document, dict) and isinstance(document.get("images"), list) and "annotations" in document


def _has_pairs(folder: Path) -> bool:
    """Whether captions and instances of the same images are in a folder."""
    return any(len(paths) > 1 for paths in official_files(folder).values())


def _is_boxes(probe: Probe) -> bool:
    document = probe.document
    if not isinstance(document, dict) or not document or isinstance(document.get("images"), list):
        return False
    groups = document.values()
    return all(isinstance(group, list) and all(isinstance(row, list) for row in group) for group in groups)


COCO = DatasetReader(
    name="coco",
    title="COCO annotations",
    description="captions or instances",
    needs="the JSON file, or a folder with one",
    recognise=_is_coco,
    read=lambda path, options: read_coco(path, images=options.images),
    takes_images=True,
    in_folders=True,
)
COCO_FOLDER = DatasetReader(
    name="coco-folder",
    title="COCO folder",
    description="captions_*.json with instances_*.json",
    needs="the folder with the files, or the one that holds it as `annotations`",
    recognise=lambda probe: probe.is_folder and _has_pairs(_annotations_folder(probe.path)),
    read=lambda path, options: read_coco_folder(path, images=options.images),
    takes_images=True,
)
BOXES = DatasetReader(
    name="boxes",
    title="boxes JSON",
    description='{"id": [[x1, y1, x2, y2, "class"], ...]}',
    needs="the JSON file",
    recognise=_is_boxes,
    read=lambda path, _: read_boxes(path),
)
