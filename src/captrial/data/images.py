"""Opening images safely: `open_image` returns an RGB image or raises an `ImageError` that says why not.

The format is recognised from the first bytes, never from the file name: JPEG, PNG, WebP, GIF (first frame), BMP and
TIFF are opened, AVIF and HEIC where Pillow or pillow-heif can decode them, nothing else. The number of pixels, and the
memory that decoding takes, are checked before any pixel is decoded: beside its file, opening one image takes at most 18
bytes per allowed pixel, 1.5 GiB with the default limit. EXIF orientation is applied, transparency is shown over white,
16- and 32-bit grey is scaled to 8 bits. All functions are safe to call from threads.

    open_image(source)      the image in RGB, or an ImageError
    try_open(source)        the image in RGB, or an ImageProblem: for batches
    image_size(source)      (width, height) from the header
    image_format(start)     the format of a file, from its first bytes
    pixel_batches(images)   lists of images that together have at most `BATCH_PIXELS` pixels
"""

from __future__ import annotations

import base64
import io
import stat
import struct
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from PIL import BmpImagePlugin, GifImagePlugin, Image, JpegImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin
from PIL.ImageFile import ImageFile

from captrial.data.image_modes import BAND_PIXELS, to_rgb
from captrial.errors import ImageError

MAX_PIXELS = 89_478_485  # Pillow's own limit: a quarter of a gigabyte in RGB
MAX_BYTES = 256 << 20
MAX_DEPTH = 18  # bytes per allowed pixel that decoding an image and converting it to RGB may take
BATCH_PIXELS = MAX_PIXELS  # of the images that are held at once: with 4 bytes per pixel, 358 MB
MAX_SCANS = 200  # a progressive JPEG has about ten; each one costs a pass over all pixels

Source = Path | str | bytes
T = TypeVar("T")

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
SUFFIXES = {  # of file names; the first one is used for writing
    "JPEG": (".jpg", ".jpeg", ".jpe"),
    "PNG": (".png",),
    "WebP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "HEIF": (".heic", ".heif"),
    "AVIF": (".avif",),
}
BRANDS = {  # of ISO media files, behind `ftyp`
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"mif1"), "HEIF"),
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
}
IMAGE_SUFFIXES = frozenset(chain.from_iterable(SUFFIXES.values()))
OTHER_SIGNATURES = (  # of files that are given instead of images by mistake; in lower case
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
PLUGINS: dict[str, type[ImageFile]] = {
    "JPEG": JpegImagePlugin.JpegImageFile,  # the class, not `Image.open`: never a multi-image container
    "PNG": PngImagePlugin.PngImageFile,
    "WebP": WebPImagePlugin.WebPImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
}
ORIENTATION = 0x0112
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True)
class ImageProblem:
    """Why an image was not opened, as a record for batches, where an exception would stop the rest.

    `kind` is `missing`, `empty`, `too large` (bytes), `too many pixels`, `not an image`, `broken`.
    """

    source: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


class RefusedImageError(ImageError):
    """An `ImageError` with the `ImageProblem` that describes it."""

    def __init__(self, source: str, kind: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.problem = ImageProblem(source, kind, reason)


def open_image(
    source: Source,
    *,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    draft: tuple[int, int] | None = None,
    name: str | None = None,
) -> Image.Image:
    """Open an image in RGB: upright (EXIF), transparency over white, deep grey scaled to 8 bits.

    `source` is a path or the bytes of a file; `name` is used in messages (default: the path). With `draft`, a JPEG may
    be decoded at 1/2, 1/4 or 1/8 of its size, but not below `draft`: several times faster, and the file is still read
    to its end. Raises `ImageError` for a file that is missing, broken, too large or not an image. Pillow refuses WebP
    and TIFF above 179 million pixels, whatever `max_pixels` is.
    """
    name = name or _name(source)
    content = _content(source, max_bytes, name)
    try:
        with ignore_warnings():
            start = content[:64]
            _check_pixels(webp_size(start) or (1, 1), max_pixels, name)  # Pillow allocates a WebP canvas on opening
            image = _header(io.BytesIO(content), start, name)
            _check_pixels(image.size, max_pixels, name)
            _check_scans(image, content, name)
            if draft is not None:
                image.draft(None, draft)
            _check_memory(image, max_pixels, name)
            turn = UPRIGHT.get(_orientation(image))
            image.load()
            plain = image.mode == "RGB" and "transparency" not in image.info
            upright = image._new(image.im) if plain else to_rgb(image)  # the same pixels, not a copy
            del image  # before the next copy
            return upright.transpose(turn) if turn is not None else upright
    except ImageError:
        raise
    except Exception as error:  # Pillow raises almost anything on a malformed file
        raise _broken(name, error) from None


def try_open(
    source: Source,
    *,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    draft: tuple[int, int] | None = None,
    name: str | None = None,
) -> Image.Image | ImageProblem:
    """Like `open_image`, but return an `ImageProblem` instead of raising an `ImageError`."""
    try:
        return open_image(source, max_pixels=max_pixels, max_bytes=max_bytes, draft=draft, name=name)
    except RefusedImageError as error:
        return error.problem


def image_size(source: Source, *, name: str | None = None) -> tuple[int, int]:
    """(width, height) of the upright image, read from the header; no pixel is decoded, however large the image."""
    name = name or _name(source)
    try:
        with ignore_warnings(), _stream(source, name) as stream:
            start = stream.read(64)
            stream.seek(0)
            size = webp_size(start)
            if size is not None and size[0] * size[1] > MAX_PIXELS:
                return size  # opening it further would allocate the canvas
            image = _header(stream, start, name)
            width, height = image.size
            turned = image.format != "TIFF" and _orientation(image) in (5, 6, 7, 8)
            return (height, width) if turned else (width, height)
    except ImageError:
        raise
    except Exception as error:
        raise _broken(name, error) from None


def image_orientation(path: Path) -> int:
    """The EXIF orientation that an image file asks for, from 1 (upright) to 8; read from the header."""
    name = _name(path)
    try:
        with ignore_warnings(), _stream(path, name) as stream:
            start = stream.read(64)
            stream.seek(0)
            size = webp_size(start)
            if size is not None and size[0] * size[1] > MAX_PIXELS:
                return 1  # opening it further would allocate the canvas
            return _orientation(_header(stream, start, name))
    except ImageError:
        raise
    except Exception as error:
        raise _broken(name, error) from None


def _name(source: Source) -> str:
    return "image" if isinstance(source, bytes) else str(source)


def _stream(source: Source, name: str) -> BinaryIO:
    if isinstance(source, bytes):
        if not source:
            raise RefusedImageError(name, "empty", "is empty; download it again")
        return io.BytesIO(source)
    try:
        path = Path(source)
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RefusedImageError(name, "not an image", "is not a file")
        if status.st_size == 0:
            raise RefusedImageError(name, "empty", "is empty; download it again")
        return path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RefusedImageError(name, "missing", f"cannot be read ({reason}); check the path") from None


def _content(source: Source, max_bytes: int, name: str) -> bytes:
    with _stream(source, name) as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise RefusedImageError(name, "too large", f"has more than {max_bytes} bytes; shrink it, or raise max_bytes")
    return content


def _header(stream: BinaryIO, start: bytes, name: str) -> ImageFile:
    """The Pillow image with its header read; pixels are not decoded yet."""
    form = image_format(start)
    if form is None:
        raise RefusedImageError(
            name, "not an image", f"is {describe_file(start)}, not a JPEG, PNG, WebP, GIF, BMP or TIFF image"
        )
    plugin = PLUGINS.get(form) or _optional_plugin(form)
    if plugin is None:
        extra = "pip install 'captrial[heif]' reads it; or " if form == "HEIF" else ""
        kind = "a HEIC" if form == "HEIF" else "an AVIF"
        raise RefusedImageError(name, "not an image", f"is {kind} image; {extra}save it as JPEG")
    return plugin(stream)


@cache
def _optional_plugin(form: str) -> type[ImageFile] | None:
    """What decodes HEIC and AVIF, where it is installed."""
    try:
        if form == "HEIF":
            from pillow_heif.as_plugin import HeifImageFile

            return cast("type[ImageFile]", HeifImageFile)
        from PIL import AvifImagePlugin, features

        return AvifImagePlugin.AvifImageFile if features.check("avif") else None
    except ImportError:
        return None


def _check_scans(image: ImageFile, content: bytes, name: str) -> None:
    # Markers cannot occur inside entropy-coded data, so counting bytes counts scans (and those of a thumbnail).
    if image.format == "JPEG" and content.count(b"\xff\xda") > MAX_SCANS:
        raise RefusedImageError(name, "broken", f"has more than {MAX_SCANS} scans, which takes too long; save it again")


def _check_pixels(size: tuple[int, int], max_pixels: int, name: str) -> None:
    width, height = size
    if width <= 0 or height <= 0:
        raise RefusedImageError(name, "broken", f"has a size of {width} x {height} in its header; save it again")
    if width * height > max_pixels:
        raise RefusedImageError(
            name,
            "too many pixels",
            f"has {width} x {height} pixels, over the limit of {max_pixels}; shrink it, or raise max_pixels",
        )


def _check_memory(image: ImageFile, max_pixels: int, name: str) -> None:
    needed, limit = decoding_memory(image), MAX_DEPTH * max(max_pixels, BAND_PIXELS * 8)
    if needed > limit:
        raise RefusedImageError(
            name,
            "too many pixels",
            f"would take {needed >> 20} MiB to decode ({image.width} x {image.height} pixels, mode {image.mode}), over "
            f"the limit of {limit >> 20} MiB; save it as an 8-bit JPEG or PNG",
        )


def decoding_memory(image: ImageFile) -> int:
    """An upper bound of the bytes that decoding an image and converting it to RGB take, from its header."""
    pixels = image.width * image.height
    decoded = (
        4 * pixels if image.format in ("GIF", "WEBP", "HEIF", "AVIF") else _BYTES_PER_PIXEL.get(image.mode, 4) * pixels
    )
    buffers = 0  # of the decoder, while it fills the image
    if image.format == "JPEG" and image.info.get("progressive"):
        buffers = 2 * len(image.getbands()) * pixels  # all coefficients, 16 bits each
    elif image.format in ("WEBP", "HEIF", "AVIF"):
        buffers = 12 * pixels  # two canvases and a frame
    elif isinstance(image, TiffImagePlugin.TiffImageFile):
        buffers = _strip_bytes(image) + decoded  # it is turned upright while it is loaded
    return max(decoded + buffers, decoded + 4 * pixels, 8 * pixels) + 64 * BAND_PIXELS  # then RGB, then upright


_BYTES_PER_PIXEL = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2}  # in memory; else 4


def _strip_bytes(image: TiffImagePlugin.TiffImageFile) -> int:
    """The size of a decoded strip or tile of a TIFF, which may be the whole image."""
    tags = image.tag_v2
    bits = tags.get(TiffImagePlugin.BITSPERSAMPLE, 1)
    depth = max(bits) if isinstance(bits, tuple) else int(bits)
    samples = int(tags.get(TiffImagePlugin.SAMPLESPERPIXEL, 1))
    height = int(tags[TiffImagePlugin.IMAGELENGTH])  # as stored: `image.height` is that of the upright image
    rows = min(int(tags.get(TiffImagePlugin.ROWSPERSTRIP, height)), height)
    width, rows = (
        int(tags.get(tag, other))
        for tag, other in (
            (TiffImagePlugin.TILEWIDTH, tags[TiffImagePlugin.IMAGEWIDTH]),
            (TiffImagePlugin.TILELENGTH, rows),
        )
    )
    return max(width, 0) * max(rows, 0) * max(depth, 1) * max(samples, 1) // 8


def _orientation(image: ImageFile) -> int:
    """The EXIF orientation stored before the pixels; 1 where it is absent or unreadable."""
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return 1  # Pillow applies the orientation of a TIFF while loading
    if isinstance(image, PngImagePlugin.PngImageFile) and "exif" not in image.info:
        return 1  # Pillow would decode the pixels to search for EXIF behind them
    try:
        value = image.getexif().get(ORIENTATION, 1)
    except Exception:  # an image with broken metadata is still an image
        return 1
    return value if isinstance(value, int) else 1


def _broken(name: str, error: Exception) -> RefusedImageError:
    if isinstance(error, Image.DecompressionBombError):
        return RefusedImageError(name, "too many pixels", "has too many pixels for Pillow to decode; shrink it")
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    return RefusedImageError(name, "broken", f"is truncated or damaged ({reason}); download or save it again")


def pixel_batches(
    images: Iterable[T],
    pixels: Callable[[T], int] | None = None,
    *,
    largest: int = 64,
    budget: int = BATCH_PIXELS,
) -> Iterator[list[T]]:
    """Cut images into lists of at most `largest` that together have at most `budget` pixels, in order.

    `pixels` tells the size of one; by default, images are sources of `open_image` and their headers are read. An image
    with more pixels than the budget is a list of its own, one that cannot be read counts as empty.

    >>> list(pixel_batches([3, 4, 9, 1], pixels=int, budget=8))
    [[3, 4], [9], [1]]
    """
    batch: list[T] = []
    total = 0
    for image in images:
        size = pixels(image) if pixels is not None else header_pixels(cast("Source", image))
        if batch and (len(batch) == largest or total + size > budget):
            yield batch
            batch, total = [], 0
        batch.append(image)
        total += size
    if batch:
        yield batch


def header_pixels(source: Source) -> int:
    """The number of pixels of an image from its header; 0 for a file that cannot be read."""
    try:
        width, height = image_size(source)
    except ImageError:
        return 0
    return width * height


def image_format(start: bytes) -> str | None:
    """The format of an image file from its first bytes; None where it is not one of the formats.

    >>> image_format(b"GIF89a..."), image_format(b"<html>")
    ('GIF', None)
    """
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WebP"
    if start[4:8] == b"ftyp" and start[8:12] in BRANDS:
        return BRANDS[start[8:12]]
    return next((name for signature, name in SIGNATURES if start.startswith(signature)), None)


def describe_file(start: bytes) -> str:
    """What a file that is not an image of a known format seems to be, in words: `a web page`, `a PDF document`."""
    if start[4:8] == b"ftyp":
        return f"a {start[8:12].decode('ascii', 'replace').strip()} file (HEIF, AVIF or video)"
    opening = start.lstrip().lower()
    return next((what for signature, what in OTHER_SIGNATURES if opening.startswith(signature)), "something else")


def webp_size(start: bytes) -> tuple[int, int] | None:
    """(width, height) of a WebP image from its first 30 bytes; None for other files."""
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


_thread = threading.local()


class _ThisThread:
    """Takes the place of the compiled module pattern in a warnings filter; matches in threads inside the block."""

    def match(self, _module: str) -> bool:
        """Whether the current thread is inside `ignore_warnings`."""
        return bool(getattr(_thread, "depth", 0))


_FILTER = ("ignore", None, Warning, _ThisThread(), 0)


@contextmanager
def ignore_warnings() -> Iterator[None]:
    """Ignore warnings raised by the current thread inside the block: Pillow warns about every oddity of a file.

    `warnings.catch_warnings` replaces a list that all threads share, so that threads would restore each other's state.
    Here one entry stays in the list and matches only in threads that are inside the block.
    """
    filters = cast("list[Any]", warnings.filters)
    if not filters or filters[0] is not _FILTER:  # another filter was put in front, or an older list was restored
        filters[:] = [_FILTER, *(entry for entry in filters if entry is not _FILTER)]
    _thread.depth = getattr(_thread, "depth", 0) + 1
    try:
        yield
    finally:
        _thread.depth -= 1


def data_url(content: bytes, media_type: str) -> str:
    """Bytes as a `data:` URL.

    >>> data_url(b"<svg/>", "image/svg+xml")
    'data:image/svg+xml;base64,PHN2Zy8+'
    """
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def image_data_url(
    image: Image.Image, form: str = "JPEG", *, side: int | None = None, quality: int = 85, optimize: bool = False
) -> str:
    """An image as a `data:` URL, JPEG or PNG; with `side`, shrunk so that neither side is longer."""
    shown = image.convert("RGB") if form == "JPEG" else image
    if side is not None:
        shown = shown.copy()
        shown.thumbnail((side, side))
    content = io.BytesIO()
    shown.save(content, form, quality=quality, optimize=optimize)
    return data_url(content.getvalue(), f"image/{form.lower()}")
