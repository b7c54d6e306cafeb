"""Files inside a ZIP archive of others, unpacked one at a time within bounds."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator

from captrial.errors import CaptionFileError

_LARGEST_MEMBER = 32 << 20  # bytes, unpacked; logs hold images
_LARGEST_RATIO = 200  # of all members to the archive; texts and images have far less


def unpack(content: bytes, source: str, wanted: Callable[[str], bool], advice: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the wanted members; a `CaptionFileError` with advice where the archive is not sound."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [one for one in archive.infolist() if wanted(one.filename)]
            if sum(one.file_size for one in members) > _LARGEST_RATIO * len(content):
                raise CaptionFileError(f"{source}: unpacks to more than {_LARGEST_RATIO} times its size; {advice}")
            for one in members:
                yield one.filename, _unpacked(archive, one)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise CaptionFileError(f"{source}: cannot be unpacked ({error}); {advice}") from None


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member; the size that it states may be wrong."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others allocate what a file asks for
        raise ValueError(f"{member.filename[:100]} is compressed by another method than deflate")
    with archive.open(member) as file:
        content = file.read(_LARGEST_MEMBER + 1)
    if len(content) > _LARGEST_MEMBER:
        raise ValueError(f"{member.filename[:100]} has more than {_LARGEST_MEMBER} bytes")
    return content
