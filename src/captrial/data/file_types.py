"""Telling files apart by their first bytes."""

from __future__ import annotations

import struct

SIGNATURES = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
)
SUFFIXES = {  # of file names; the first is the one we write
    "JPEG": (".jpg", ".jpeg", ".jpe"),
    "PNG": (".png",),
    "WebP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
}
IMAGE_SUFFIXES = frozenset(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
OTHERS = (
    (b"<!doctype html", "a web page"),
    (b"<html", "a web page"),
    (b"<svg", "an SVG drawing"),
    (b"<?xml", "an XML or SVG file"),
    (b"%pdf", "a PDF document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"pk\x03\x04", "a ZIP archive"),
    (b"\0\0\0\x0cjp  ", "a JPEG 2000 image"),
    (b"8bps", "a Photoshop file"),
    (b"\0\0\x01\0", "an icon"),
)


def image_format(start: bytes) -> str | None:
    """The format of an image we open, from the first bytes of its file, or None.

    >>> image_format(b"GIF89a..."), image_format(b"<html>")
    ('GIF', None)
    """
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WebP"
    return next((name for signature, name in SIGNATURES if start.startswith(signature)), None)


def what_else(start: bytes) -> str:
    """What a file that is not one of our images seems to be, in words."""
    if start[4:8] == b"ftyp":
        return f"a {start[8:12].decode('ascii', 'replace').strip()} file (HEIF, AVIF or video)"
    opening = start.lstrip().lower()
    return next((what for signature, what in OTHERS if opening.startswith(signature)), "something else")


def webp_size(start: bytes) -> tuple[int, int] | None:
    """(width, height) of a WebP image from its first 30 bytes; None for anything else or where they do not say."""
    chunk = start[12:16] if image_format(start) == "WebP" else b""
    if chunk == b"VP8X" and len(start) >= 30:
        return int.from_bytes(start[24:27], "little") + 1, int.from_bytes(start[27:30], "little") + 1
    if chunk == b"VP8L" and len(start) >= 25 and start[20] == 0x2F:
        bits = int.from_bytes(start[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 " and start[23:26] == b"\x9d\x01\x2a" and len(start) >= 30:
        width, height = struct.unpack_from("<HH", start, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None
