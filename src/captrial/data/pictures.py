"""Opening pictures from anywhere without being harmed: a picture in RGB, or one sentence that says why not.

What a file is, its bytes decide, never its suffix: JPEG, PNG, WebP, GIF (first frame), BMP and TIFF are opened, nothing
else. The number of pixels is known before any is decoded.
"""

from __future__ import annotations

import io
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from PIL import BmpImagePlugin, GifImagePlugin, Image, JpegImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin
from PIL.ImageFile import ImageFile

from captrial.data.colours import to_rgb
from captrial.data.quiet import quiet
from captrial.data.signatures import picture_format, webp_size, what_else
from captrial.errors import PictureError

MAX_PIXELS = 89_478_485  # Pillow's own limit: a quarter of a gigabyte in RGB
MAX_BYTES = 256 << 20
MAX_SCANS = 200  # a progressive JPEG has about ten; each one costs a pass over all pixels

Source = Path | str | bytes

PLUGINS: dict[str, type[ImageFile]] = {
    "JPEG": JpegImagePlugin.JpegImageFile,  # the class, not `Image.open`: never a multi-picture container
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
class PictureProblem:
    """Why a picture was not opened: a record for a list, where an exception would stop the batch.

    Kinds: `missing`, `empty`, `too large` (bytes), `too many pixels`, `not a picture`, `broken`.
    """

    source: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


class RefusedPictureError(PictureError):
    """A `PictureError` that knows its kind (see `PictureProblem`)."""

    def __init__(self, source: str, kind: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.problem = PictureProblem(source, kind, reason)


def open_picture(
    source: Source,
    *,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    draft: tuple[int, int] | None = None,
    name: str | None = None,
) -> Image.Image:
    """A picture in RGB, upright (EXIF), transparency over white, 16 bits scaled to 8; else a `PictureError`.

    `source` is a path or the bytes of a file (then `name` stands in messages). With `draft`, a JPEG may be decoded at
    a half, quarter or eighth of its size, but not below `draft`: several times faster, and still read to its end.
    Safe in threads. Pillow itself refuses WebP and TIFF above 179 million pixels, whatever `max_pixels` is.
    """
    name = name or _name(source)
    content = _content(source, max_bytes, name)
    try:
        with quiet():
            start = content[:64]
            _check_pixels(webp_size(start) or (1, 1), max_pixels, name)  # Pillow allocates a WebP canvas on opening
            image = _header(io.BytesIO(content), start, name)
            _check_pixels(image.size, max_pixels, name)
            _check_scans(image, content, name)
            if draft is not None:
                image.draft(None, draft)
            turn = UPRIGHT.get(_orientation(image))
            image.load()
            picture = to_rgb(image)
            return picture.transpose(turn) if turn is not None else picture
    except PictureError:
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
) -> Image.Image | PictureProblem:
    """`open_picture` for batches: what would be raised is returned."""
    try:
        return open_picture(source, max_pixels=max_pixels, max_bytes=max_bytes, draft=draft, name=name)
    except RefusedPictureError as error:
        return error.problem


def picture_size(source: Source, *, name: str | None = None) -> tuple[int, int]:
    """(width, height) of the upright picture, from the header alone: nothing is decoded, whatever it claims."""
    name = name or _name(source)
    try:
        with quiet(), _stream(source, name) as stream:
            start = stream.read(64)
            stream.seek(0)
            size = webp_size(start)
            if size is not None and size[0] * size[1] > MAX_PIXELS:
                return size  # opening it further would allocate the canvas
            image = _header(stream, start, name)
            width, height = image.size
            turned = image.format != "TIFF" and _orientation(image) in (5, 6, 7, 8)
            return (height, width) if turned else (width, height)
    except PictureError:
        raise
    except Exception as error:
        raise _broken(name, error) from None


def _name(source: Source) -> str:
    return "picture" if isinstance(source, bytes) else str(source)


def _stream(source: Source, name: str) -> BinaryIO:
    if isinstance(source, bytes):
        if not source:
            raise RefusedPictureError(name, "empty", "is empty; fetch it again")
        return io.BytesIO(source)
    try:
        path = Path(source)
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RefusedPictureError(name, "not a picture", "is not a file")
        if status.st_size == 0:
            raise RefusedPictureError(name, "empty", "is empty; fetch it again")
        return path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RefusedPictureError(name, "missing", f"cannot be read ({reason}); check the path") from None


def _content(source: Source, max_bytes: int, name: str) -> bytes:
    with _stream(source, name) as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise RefusedPictureError(name, "too large", f"has more than {max_bytes} bytes; shrink it, or raise max_bytes")
    return content


def _header(stream: BinaryIO, start: bytes, name: str) -> ImageFile:
    """The picture's Pillow object with size and mode read, pixels not."""
    form = picture_format(start)
    if form is None:
        raise RefusedPictureError(
            name, "not a picture", f"is {what_else(start)}, not a JPEG, PNG, WebP, GIF, BMP or TIFF picture"
        )
    return PLUGINS[form](stream)


def _check_scans(image: ImageFile, content: bytes, name: str) -> None:
    # Markers cannot occur inside entropy-coded data, so counting bytes counts scans (and those of a thumbnail).
    if image.format == "JPEG" and content.count(b"\xff\xda") > MAX_SCANS:
        raise RefusedPictureError(
            name, "broken", f"has more than {MAX_SCANS} scans, made to take for ever; save it anew"
        )


def _check_pixels(size: tuple[int, int], max_pixels: int, name: str) -> None:
    width, height = size
    if width <= 0 or height <= 0:
        raise RefusedPictureError(name, "broken", f"claims a size of {width} x {height}; save it anew")
    if width * height > max_pixels:
        raise RefusedPictureError(
            name,
            "too many pixels",
            f"has {width} x {height} pixels, over the limit of {max_pixels}; shrink it, or raise max_pixels",
        )


def _orientation(image: ImageFile) -> int:
    """The EXIF orientation written before the pixels; 1 where it is absent or unreadable."""
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return 1  # Pillow turns TIFFs upright while loading
    if isinstance(image, PngImagePlugin.PngImageFile) and "exif" not in image.info:
        return 1  # asking Pillow would decode the pixels to look behind them
    try:
        value = image.getexif().get(ORIENTATION, 1)
    except Exception:  # a picture with broken metadata is still a picture
        return 1
    return value if isinstance(value, int) else 1


def _broken(name: str, error: Exception) -> RefusedPictureError:
    if isinstance(error, Image.DecompressionBombError):
        return RefusedPictureError(name, "too many pixels", "has too many pixels for Pillow to decode; shrink it")
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    return RefusedPictureError(name, "broken", f"is truncated or damaged ({reason}); fetch or save it anew")
