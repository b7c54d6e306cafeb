"""Opening images from anywhere without being harmed: an image in RGB, or one sentence that says why not.

What a file is, its bytes decide, never its suffix: JPEG, PNG, WebP, GIF (first frame), BMP and TIFF are opened, nothing
else. The number of pixels is known before any is decoded.
"""

from __future__ import annotations

import io
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from PIL import BmpImagePlugin, GifImagePlugin, Image, JpegImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin
from PIL.ImageFile import ImageFile

from captrial.data.file_types import image_format, webp_size, what_else
from captrial.errors import DatasetError, ImageError
from captrial.records import Sample

# Any image mode to RGB: transparency over white, deep pixels scaled and never clipped.


DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")
ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")


def to_rgb(image: Image.Image) -> Image.Image:
    """A new image in RGB that shows what a viewer on a white page would show."""
    if image.mode in DEEP:
        return _from_deep(image)
    if image.mode in ALPHA or "transparency" in image.info:
        return _over_white(image)
    return image.copy() if image.mode == "RGB" else image.convert("RGB")


def _over_white(image: Image.Image) -> Image.Image:
    if image.mode in ("RGBa", "La"):  # premultiplied: has to pass through its straight form
        image = image.convert(image.mode[:-1] + "A")
    layer = image.convert("RGBA")
    page = Image.new("RGB", layer.size, "white")
    page.paste(layer, mask=layer.getchannel("A"))
    return page


def _from_deep(image: Image.Image) -> Image.Image:
    """Grey with 16 or 32 bits, or fractions."""
    values = np.asarray(image)
    grey = _scaled(values)
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey[values == transparent] = 255
    return Image.fromarray(grey).convert("RGB")


def _scaled(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Grey values of any depth as bytes.

    16-bit values have a scale of 0 to 65535; 32-bit ones that fit are taken to be 8 or 16 bits, fractions within
    [0, 1] or [0, 255] to have that scale. Anything else has no agreed scale and is stretched to its extremes.
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "u" and size == 2:
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 / 255 = 257, rounded to nearest
    deep = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(deep.min()), float(deep.max())
    if low >= 0:
        agreed = (1.0, 255.0) if kind == "f" else (255.0, 65_535.0)
        low, high = 0.0, next((scale for scale in agreed if high <= scale), high)
    return np.rint((deep - low) * (255 / max(high - low, 1e-300))).astype(np.uint8)


# Silence for a library that warns about every oddity of a file, in this thread only.
#
# `warnings.catch_warnings` swaps a list that all threads share, so two threads that open images would undo each other's
# work. Here one entry of that list matches only while the current thread asks for it.


_state = threading.local()


class _InThisThread:
    """Stands where `warnings` expects a compiled pattern of module names."""

    def match(self, _module: str) -> bool:
        """Whether the thread that warns has asked for silence."""
        return bool(getattr(_state, "depth", 0))


_ENTRY = ("ignore", None, Warning, _InThisThread(), 0)


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings raised by this thread inside the block."""
    filters = cast("list[Any]", warnings.filters)
    if not filters or filters[0] is not _ENTRY:  # somebody put another filter in front, or restored an older list
        filters[:] = [_ENTRY, *(entry for entry in filters if entry is not _ENTRY)]
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1


MAX_PIXELS = 89_478_485  # Pillow's own limit: a quarter of a gigabyte in RGB
MAX_BYTES = 256 << 20
MAX_SCANS = 200  # a progressive JPEG has about ten; each one costs a pass over all pixels

Source = Path | str | bytes

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
    """Why an image was not opened: a record for a list, where an exception would stop the batch.

    Kinds: `missing`, `empty`, `too large` (bytes), `too many pixels`, `not an image`, `broken`.
    """

    source: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


class RefusedImageError(ImageError):
    """A `ImageError` that knows its kind (see `ImageProblem`)."""

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
    """An image in RGB, upright (EXIF), transparency over white, 16 bits scaled to 8; else a `ImageError`.

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
            upright = to_rgb(image)
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
    """`open_image` for batches: what would be raised is returned."""
    try:
        return open_image(source, max_pixels=max_pixels, max_bytes=max_bytes, draft=draft, name=name)
    except RefusedImageError as error:
        return error.problem


def image_size(source: Source, *, name: str | None = None) -> tuple[int, int]:
    """(width, height) of the upright image, from the header alone: nothing is decoded, whatever it claims."""
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
    except ImageError:
        raise
    except Exception as error:
        raise _broken(name, error) from None


def _name(source: Source) -> str:
    return "image" if isinstance(source, bytes) else str(source)


def _stream(source: Source, name: str) -> BinaryIO:
    if isinstance(source, bytes):
        if not source:
            raise RefusedImageError(name, "empty", "is empty; fetch it again")
        return io.BytesIO(source)
    try:
        path = Path(source)
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RefusedImageError(name, "not an image", "is not a file")
        if status.st_size == 0:
            raise RefusedImageError(name, "empty", "is empty; fetch it again")
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
    """The image's Pillow object with size and mode read, pixels not."""
    form = image_format(start)
    if form is None:
        raise RefusedImageError(
            name, "not an image", f"is {what_else(start)}, not a JPEG, PNG, WebP, GIF, BMP or TIFF image"
        )
    return PLUGINS[form](stream)


def _check_scans(image: ImageFile, content: bytes, name: str) -> None:
    # Markers cannot occur inside entropy-coded data, so counting bytes counts scans (and those of a thumbnail).
    if image.format == "JPEG" and content.count(b"\xff\xda") > MAX_SCANS:
        raise RefusedImageError(name, "broken", f"has more than {MAX_SCANS} scans, made to take for ever; save it anew")


def _check_pixels(size: tuple[int, int], max_pixels: int, name: str) -> None:
    width, height = size
    if width <= 0 or height <= 0:
        raise RefusedImageError(name, "broken", f"claims a size of {width} x {height}; save it anew")
    if width * height > max_pixels:
        raise RefusedImageError(
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
    except Exception:  # an image with broken metadata is still an image
        return 1
    return value if isinstance(value, int) else 1


def _broken(name: str, error: Exception) -> RefusedImageError:
    if isinstance(error, Image.DecompressionBombError):
        return RefusedImageError(name, "too many pixels", "has too many pixels for Pillow to decode; shrink it")
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    return RefusedImageError(name, "broken", f"is truncated or damaged ({reason}); fetch or save it anew")


# Sizes of images that a data set does not tell.


def size_of(sample: Sample) -> tuple[int, int]:
    """The width and height of a sample's image; an error where they are not known."""
    width, height = sample.image.width, sample.image.height
    if not width or not height:
        raise DatasetError(f"image {sample.id}: its size is not known, so boxes have no place on it")
    return width, height


def with_size(sample: Sample) -> Sample:
    """The sample with its image's width and height, read from the file's header where they are not known."""
    image = sample.image
    if image.width and image.height:
        return sample
    if image.path is None:
        raise DatasetError(f"image {sample.id}: neither its size nor its file is known, so boxes have no place on it")
    width, height = image_size(image.path)
    return replace(sample, image=replace(image, width=width, height=height))
