"""Karpathy's JSON: captions of COCO, Flickr30k and Flickr8k with their usual splits and tokens.

`{"dataset": ..., "images": [{"filename", "filepath"?, "cocoid"?, "imgid", "split", "sentences": [{"raw", "tokens"}]}]}`
"""

from __future__ import annotations

from pathlib import Path
from sys import intern
from typing import Any

from captrial.data.datasets.base import DatasetReader, Probe, expect, expect_field, image_root, read_json, safe_join
from captrial.data.datasets.samples import reject_duplicates, select_split
from captrial.errors import DatasetError
from captrial.records import ImageRef, Sample


def read_karpathy(path: Path | str, *, images: Path | str | None = None, split: str | None = None) -> list[Sample]:
    """Read a Karpathy file.

    The id of an image is its `cocoid` (`"42"`, as in COCO results files) if it has one, else its `filename`.
    `images` is the folder of the images (default: `images` beside the file, if it exists); COCO's `filepath`
    (`val2014`) is used where such a sub-folder exists. `split` may name several splits: `"train+restval"`.
    `extra` has `tokens` (one tuple per caption) and, where the file has them, `imgid` and `sentids`.
    """
    path = Path(path)
    document = expect(read_json(path), dict, f"{path}: the file")
    records = expect_field(document, "images", list, str(path))
    root = image_root(path, images)
    folders: dict[str, Path] = {}
    samples = [_sample(record, f"{path}: images[{index}]", root, folders) for index, record in enumerate(records)]
    reject_duplicates(samples, path)
    return select_split(samples, split, path)


def _sample(record: object, where: str, root: Path | None, folders: dict[str, Path]) -> Sample:
    record = expect(record, dict, where)
    filename = expect_field(record, "filename", str, where)
    where = f"{where} ({filename})"
    sentences = expect_field(record, "sentences", list, where)
    pairs = [_sentence(sentence, f"{where}: sentences[{index}]") for index, sentence in enumerate(sentences)]
    extra: dict[str, object] = {key: record[key] for key in ("imgid", "sentids") if key in record}
    if all(tokens is not None for _, tokens in pairs):
        extra["tokens"] = tuple(tokens for _, tokens in pairs)
    image = ImageRef(_identity(record, filename, where), _path(record, filename, where, root, folders))
    return Sample(image, tuple(raw for raw, _ in pairs), expect_field(record, "split", str, where), extra=extra)


def _identity(record: dict[str, Any], filename: str, where: str) -> str:
    return str(expect_field(record, "cocoid", int, where)) if "cocoid" in record else filename


def _path(
    record: dict[str, Any], filename: str, where: str, root: Path | None, folders: dict[str, Path]
) -> Path | None:
    if root is None:
        safe_join(Path(), filename, where)  # an unsafe name is an error even if no images are needed
        return None
    folder = root
    if "filepath" in record:
        name = expect_field(record, "filepath", str, where)
        if name not in folders:
            below = safe_join(root, name, where) if name else root
            folders[name] = below if below.is_dir() else root
        folder = folders[name]
    return safe_join(folder, filename, where)


def _sentence(sentence: object, where: str) -> tuple[str, tuple[str, ...] | None]:
    sentence = expect(sentence, dict, where)
    raw = expect_field(sentence, "raw", str, where)
    if not raw.strip():
        raise DatasetError(f"{where}: the caption is empty; remove it or write one")
    if "tokens" not in sentence:
        return raw, None
    tokens = expect_field(sentence, "tokens", list, where)
    try:
        return raw, tuple(map(intern, tokens))  # half a million captions share ten thousand words
    except TypeError:
        raise DatasetError(f"{where}: 'tokens' must be a list of strings") from None


def _recognise(probe: Probe) -> bool:
    document = probe.document
    images = document.get("images") if isinstance(document, dict) and "annotations" not in document else None
    return isinstance(images, list) and all(isinstance(one, dict) and "sentences" in one for one in images[:1])


KARPATHY = DatasetReader(
    name="karpathy",
    title="Karpathy JSON",
    description="images with sentences",
    needs="the JSON file, or a folder with one",
    recognise=_recognise,
    read=lambda path, options: read_karpathy(path, images=options.images),
    takes_images=True,
    in_folders=True,
)
