"""Getting a caption file's bytes, and telling its format from them."""

from __future__ import annotations

from pathlib import Path

from captrial.errors import CaptionFileError

BOM = b"\xef\xbb\xbf"
FOREIGN = {  # openings of files that people hand over by mistake
    b"\x1f\x8b": "is compressed (gzip); unpack it first",
    b"PK\x03\x04": "is a ZIP archive or a spreadsheet; unpack it, or export it as CSV",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save it as UTF-8",
}


def load(path: Path | str) -> bytes:
    """The bytes of a caption file without a byte order mark; a clear error where it cannot be one."""
    path = Path(path)
    try:
        if path.is_dir():
            raise CaptionFileError(f"{path}: is a directory; name a caption file in it")
        content = path.read_bytes()
    except FileNotFoundError:
        raise CaptionFileError(f"{path}: no such file; check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise CaptionFileError(f"{path}: cannot be read ({error}); check the path and its permissions") from None
    content = content.removeprefix(BOM)
    if not content.strip():
        raise CaptionFileError(f"{path}: is empty; write captions to it first")
    _refuse_foreign(content, path.name)
    return content


def is_parquet(content: bytes) -> bool:
    """Whether these are the bytes of a Parquet file."""
    return content.startswith(b"PAR1")


def looks_like_json(content: bytes) -> bool:
    """Whether the text opens as a JSON array or object."""
    return content[:4096].lstrip()[:1] in (b"[", b"{")


def decode(content: bytes) -> tuple[str, str | None]:
    """The text, and where its first byte that is not UTF-8 stands; such bytes become lone surrogates.

    >>> decode(b"a dog\\nna\\xefve")
    ('a dog\\nna\\udcefve', 'byte 0xef at offset 8, line 2')
    """
    try:
        return content.decode(), None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        place = f"byte 0x{content[error.start]:02x} at offset {error.start}, line {line}"
        return content.decode(errors="surrogateescape"), place


def is_clean(text: str) -> bool:
    """Whether a string can be written as UTF-8: lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_foreign(content: bytes, name: str) -> None:
    if is_parquet(content):
        return
    for opening, what in FOREIGN.items():
        if content.startswith(opening):
            raise CaptionFileError(f"{name}: {what}")
    nul = content.find(b"\0")
    if nul >= 0:
        raise CaptionFileError(
            f"{name}: is not text (a zero byte at offset {nul}); give JSON, JSON lines, CSV, TSV or Parquet"
        )
