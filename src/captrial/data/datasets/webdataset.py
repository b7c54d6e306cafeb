"""Tar shards in WebDataset format: `read_shards` and `write_shards`.

Members that share a key (their path up to the first dot of the name) are one sample. Shards are read as streams, so
they may be larger than memory. The bytes of an image are in `extra["image"]` (`captrial.data.open_image` takes bytes);
nothing is unpacked to disk.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tarfile import EOFHeaderError, HeaderError  # type: ignore[attr-defined]
from types import TracebackType
from typing import Any, Self

import orjson

from captrial.data.datasets.base import DatasetReader, Probe, is_empty, natural_key
from captrial.data.images import IMAGE_SUFFIXES, SUFFIXES, image_format
from captrial.errors import DatasetError
from captrial.files import output_path, refuse_overwrite
from captrial.records import Box, ImageRef, Region, Sample

SHARD_SUFFIXES = (".tar", ".tar.gz", ".tgz")
LARGEST_MEMBER = 256 << 20  # bytes
_IMAGES = {suffix[1:] for suffix in IMAGE_SUFFIXES}


class _Member(tarfile.TarInfo):
    """A member that records how its archive ended: `tarfile` silently takes a damaged header for the end."""

    @classmethod
    def fromtarfile(cls, tarfile: Any) -> Self:  # the name of the parameter is the base class's
        """Read the next header."""
        try:
            return super().fromtarfile(tarfile)
        except EOFHeaderError:
            tarfile.is_whole = True
            raise
        except HeaderError as error:
            tarfile.fault = str(error)
            raise


@dataclass(slots=True)
class _Group:
    """The members of one key, while the archive is read."""

    key: str
    shard: str
    parts: dict[str, bytes] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def find_shards(path: Path | str) -> list[Path]:
    """The shards of a folder in natural order, the shards of `name-{000..003}.tar`, or the given file."""
    path = Path(path)
    if path.is_dir():
        return sorted(
            (one for one in path.iterdir() if one.name.endswith(SHARD_SUFFIXES)), key=lambda one: natural_key(one.name)
        )
    braces = re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}(.*)", path.name)
    if braces and len(braces[2]) == len(braces[3]):
        numbers = range(int(braces[2]), int(braces[3]) + 1)
        return [path.with_name(f"{braces[1]}{number:0{len(braces[2])}}{braces[4]}") for number in numbers]
    return [path]


def read_shards(*paths: Path | str, largest_member: int = LARGEST_MEMBER) -> Iterator[Sample]:
    """Read shards lazily, in order; one sample per group of members with the same key.

    The image (`.jpg`, `.png`, ...) becomes `extra["image"]`, its member name `extra["name"]`, `.json` `extra["json"]`.
    Captions are the JSON's `captions` or `caption`, else the lines of `.txt` (or `.caption`); `.cls` is the label. The
    id is the JSON's `id`, else the key; other members are bytes in `extra["parts"]`. Errors (a damaged archive, a path
    outside the shard, a link, a device, a member that is too large, malformed JSON, a missing image, a repeated key)
    are messages in `extra["error"]` of their sample, or of a sample of their own; only a missing shard is raised.
    """
    shards = [shard for path in paths for shard in find_shards(path)]
    if not shards:
        raise DatasetError(f"{', '.join(map(str, paths))}: no shards ({', '.join(SHARD_SUFFIXES)}) there")
    for shard in shards:
        if not shard.is_file():
            raise DatasetError(f"{shard}: no such shard")
    seen: set[str] = set()
    for shard in shards:
        for group in _groups(shard, largest_member):
            sample = _sample(group)
            if sample.id in seen and "error" not in sample.extra:
                error = f"{shard}: {group.key}: a sample with the id {sample.id!r} came before"
                sample = Sample(ImageRef(sample.id), extra={**_origin(group), "error": error})
            seen.add(sample.id)
            yield sample


def _groups(shard: Path, largest: int) -> Iterator[_Group]:
    """Groups of members with one key; the last group may have only the error of the archive."""
    group: _Group | None = None
    try:
        with tarfile.open(shard, "r|*", tarinfo=_Member) as archive:
            for member in archive:
                if member.isdir():
                    continue
                key, part = _split_name(member.name)
                if group is None or key != group.key:
                    if group is not None:
                        yield group
                    group = _Group(key, str(shard))
                _take(group, archive, member, part, largest)
            if not getattr(archive, "is_whole", False):
                raise EOFError(getattr(archive, "fault", "its end is missing"))
    except Exception as error:  # tarfile lets through what zlib, lzma and its own parsing raise: no common base
        group = group or _Group(shard.name, str(shard))
        group.errors.append(f"the archive is damaged from here on: {error}")
    if group is not None:
        yield group


def _split_name(name: str) -> tuple[str, str]:
    """The key and the suffix of a member's name: `a/b.seg.png` is (`a/b`, `seg.png`)."""
    folder, slash, base = name.rpartition("/")
    stem, dot, rest = base.partition(".")
    return (folder + slash + stem, rest.lower()) if stem and dot else (name, "")


def _take(group: _Group, archive: tarfile.TarFile, member: tarfile.TarInfo, part: str, largest: int) -> None:
    fault = _fault(member, largest)
    if fault is None and part in group.parts:
        fault = "is there twice"
    if fault is not None:
        group.errors.append(f"member {member.name!r} {fault}")
        return
    stream = archive.extractfile(member)
    content = stream.read() if stream is not None else b""
    if len(content) != member.size:
        raise EOFError(f"member {member.name!r} ends after {len(content)} of {member.size} bytes")
    group.parts[part] = content


def _fault(member: tarfile.TarInfo, largest: int) -> str | None:
    path = PurePosixPath(member.name)
    if not member.isfile():
        return "is a link or a device, not a file"
    if path.is_absolute() or ".." in path.parts or "\0" in member.name or "\\" in member.name:
        return "has a path that leads out of the shard"
    if member.size > largest:
        return f"has {member.size} bytes, more than the {largest} allowed"
    return None


def _origin(group: _Group) -> dict[str, object]:
    return {"shard": group.shard, "key": group.key}


def _sample(group: _Group) -> Sample:
    parts = dict(group.parts)
    extra = _origin(group)
    images = [part for part in parts if part in _IMAGES]
    if len(images) == 1:
        extra["name"] = f"{group.key}.{images[0]}"
        extra["image"] = parts.pop(images[0])
    elif not group.errors:
        what = "no image" if not images else f"{len(images)} images ({', '.join(images)})"
        group.errors.append(f"has {what} among its members ({', '.join(sorted(parts)) or 'none'})")
    record = _json(parts.pop("json", None), group)
    if record:
        extra["json"] = record
    identity = record.get("id")
    image = ImageRef(
        str(identity) if isinstance(identity, str | int) else group.key, label=_label(parts, record, group)
    )
    captions = _captions(parts, record, group)
    regions, split = _regions(record.get("regions"), group), record.get("split")
    if parts:
        extra["parts"] = parts
    if group.errors:
        extra["error"] = f"{group.shard}: {group.key}: {'; '.join(group.errors)}"
    return Sample(image, captions, split if isinstance(split, str) else None, regions, extra=extra)


def _json(content: bytes | None, group: _Group) -> dict[str, Any]:
    if content is None:
        return {}
    try:
        record = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        group.errors.append(f"its .json is malformed: {error}")
        return {}
    if not isinstance(record, dict):
        group.errors.append("its .json is not an object")
        return {}
    return record


def _text(parts: dict[str, bytes], name: str, group: _Group) -> str | None:
    content = parts.pop(name, None)
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        group.errors.append(f"its .{name} is not UTF-8")
        return None


def _captions(parts: dict[str, bytes], record: dict[str, Any], group: _Group) -> tuple[str, ...]:
    lines = [_text(parts, name, group) for name in ("txt", "caption")]
    listed = record.get("captions", record.get("caption"))
    if listed is None:
        return tuple(line for text in lines if text for line in text.splitlines() if line.strip())
    texts = [listed] if isinstance(listed, str) else listed
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        group.errors.append("the captions in its .json are not strings with words")
        return ()
    return tuple(texts)


def _label(parts: dict[str, bytes], record: dict[str, Any], group: _Group) -> str | None:
    given = _text(parts, "cls", group)
    label = given.strip() if given is not None else record.get("label")
    return str(label) if isinstance(label, str | int) and str(label) else None


def _regions(rows: object, group: _Group) -> tuple[Region, ...]:
    regions = []
    for row in rows if isinstance(rows, list) else []:
        try:
            x1, y1, x2, y2, label, score = row
            region = Region(Box(float(x1), float(y1), float(x2), float(y2)), label, float(score))
        except (TypeError, ValueError):
            region = None
        if region is None or is_empty(region.box) or not isinstance(region.label, str | None):
            group.errors.append(f"its .json has a region that is not [x1, y1, x2, y2, label, score]: {row!r}"[:200])
        else:
            regions.append(region)
    return tuple(regions)


class ShardWriter:
    """Writes shards of a fixed number of samples; each shard is renamed into place when it is complete.

    A sample becomes `000000042.jpg` (the bytes of the image, unchanged), `.json` (id, captions, split, label, size,
    regions) and `.txt` (one caption per line, for other readers). Keys are running numbers, because ids may contain
    dots and slashes; the id is in the JSON.
    """

    def __init__(self, folder: Path, size: int = 1000, name: str = "shard", overwrite: bool = False) -> None:
        if size < 1:
            raise DatasetError("a shard needs at least one sample")
        self.written: list[Path] = []
        self._folder, self._size, self._name = folder, size, name
        self._count = 0
        self._ids: set[str] = set()
        self._open: ExitStack | None = None
        self._archive: tarfile.TarFile | None = None
        self._overwrite = overwrite
        refuse_overwrite(self._path(0), overwrite=overwrite)

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number:06}.tar"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            self._open.__exit__(kind, error, trace)  # on an error the unfinished shard is removed

    def add(self, sample: Sample) -> None:
        """Append one sample; its image is read from its path, or taken from `extra["image"]`."""
        if sample.id in self._ids:
            raise DatasetError(f"two samples with the id {sample.id!r}; shards need different ones")
        members = self._members(sample)
        self._ids.add(sample.id)
        if self._count % self._size == 0:
            self._next_shard()
        assert self._archive is not None
        for suffix, content in members:
            member = tarfile.TarInfo(f"{self._count:09}.{suffix}")
            member.size, member.mode = len(content), 0o644  # no times and owners: the same input, the same bytes
            self._archive.addfile(member, io.BytesIO(content))
        self._count += 1

    def _next_shard(self) -> None:
        if self._open is not None:
            self._open.close()
        path = self._path(len(self.written))
        self._open = ExitStack()
        temporary = self._open.enter_context(output_path(path, overwrite=self._overwrite))
        archive = tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by the stack
        self._archive = self._open.enter_context(archive)
        self.written.append(path)

    def _members(self, sample: Sample) -> list[tuple[str, bytes]]:
        content = _image_bytes(sample)
        kind = image_format(content[:16])
        if kind is None:
            raise DatasetError(f"{sample.image.path or sample.id}: is not an image; it cannot go into a shard")
        members = [
            (SUFFIXES[kind][0][1:], content),
            ("json", orjson.dumps(_record(sample), option=orjson.OPT_SORT_KEYS)),
        ]
        if sample.captions:
            lines = "\n".join(" ".join(caption.split()) for caption in sample.captions)
            members.append(("txt", lines.encode()))
        return members


def _image_bytes(sample: Sample) -> bytes:
    image = sample.extra.get("image")
    if isinstance(image, bytes):
        return image
    if sample.image.path is None:
        raise DatasetError(f"image {sample.id!r} has no file; it cannot go into a shard")
    try:
        return sample.image.path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{sample.image.path}: cannot be read: {error.strerror or error}") from None


def _record(sample: Sample) -> dict[str, object]:
    image = sample.image
    regions = [[*region.box, region.label, region.score] for region in sample.regions]
    fields = {
        "id": sample.id,
        "captions": list(sample.captions),
        "split": sample.split,
        "label": image.label,
        "width": image.width,
        "height": image.height,
        "regions": regions,
    }
    return {key: value for key, value in fields.items() if value not in (None, [])}


def write_shards(
    samples: Iterable[Sample],
    folder: Path | str,
    *,
    size: int = 1000,
    name: str = "shard",
    overwrite: bool = False,
) -> list[Path]:
    """Write samples to `folder/name-000000.tar`, ... with `size` samples each; the same samples give the same bytes.

    Shards that captrial did not write, or that have changed since, are replaced only with `overwrite`.
    """
    with ShardWriter(Path(folder), size, name, overwrite) as writer:
        for sample in samples:
            writer.add(sample)
    return writer.written


def _recognise(probe: Probe) -> bool:
    if probe.is_folder:
        return any(file.name.endswith(SHARD_SUFFIXES) for file in probe.files)
    return probe.path.name.endswith(SHARD_SUFFIXES) or "{" in probe.path.name


SHARDS = DatasetReader(
    name="shards",
    title="WebDataset shards",
    description=", ".join(SHARD_SUFFIXES),
    needs="a shard, a folder of shards, or name-{000..003}.tar",
    recognise=_recognise,
    read=lambda path, _: read_shards(path),
)
