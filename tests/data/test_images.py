"""Safe opening: every mode comes out right, every broken file is one sentence, nothing hangs or eats memory."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import textwrap
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from captrial.data import ImageProblem, image_size, open_image, try_open
from captrial.data.images import MAX_DEPTH, MAX_PIXELS, header_pixels, ignore_warnings, pixel_batches
from captrial.errors import ImageError

FORMATS = ["JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF"]


def encode(image: Image.Image, form: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def gradient(width: int = 48, height: int = 32) -> Image.Image:
    y, x = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([x * 255 // width, y * 255 // height, (x + y) % 256], -1).astype(np.uint8))


def pixels(image: Image.Image) -> np.ndarray:
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


@pytest.mark.parametrize("form", FORMATS)
def test_formats_by_content(form: str, tmp_path: Path) -> None:
    options = {"lossless": True} if form == "WebP" else {"quality": 95} if form == "JPEG" else {}
    path = tmp_path / "mislabelled.txt"
    path.write_bytes(encode(gradient(), form, **options))
    close = {"JPEG": 12, "GIF": 40}.get(form, 0)
    for source in (path, str(path), path.read_bytes()):
        assert np.abs(pixels(open_image(source)) - pixels(gradient())).max() <= close
        assert image_size(source) == (48, 32)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WebP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(form: str, orientation: int) -> None:
    turns = {2: [0], 3: [3], 4: [1], 5: [5], 6: [4], 7: [6], 8: [2]}  # how to undo what the tag says was done
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encode(gradient(), form, exif=exif, **({"quality": 95} if form == "JPEG" else {"lossless": True}))
    expected = gradient()
    for turn in turns.get(orientation, []):
        expected = expected.transpose(Image.Transpose(turn))
    assert image_size(content) == expected.size
    assert np.abs(pixels(open_image(content)) - pixels(expected)).max() <= (12 if form == "JPEG" else 0)


def test_transparency_is_shown_over_white() -> None:
    half = Image.new("RGBA", (4, 4), (255, 0, 0, 128))
    assert pixels(open_image(encode(half, "PNG")))[0, 0].tolist() == [255, 127, 127]
    clear = Image.new("LA", (4, 4), (0, 0))
    assert pixels(open_image(encode(clear, "PNG")))[0, 0].tolist() == [255, 255, 255]
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 0, 200, 0])
    assert pixels(open_image(encode(palette, "PNG")))[0, 0].tolist() == [0, 200, 0]
    for form in ("PNG", "GIF"):
        assert pixels(open_image(encode(palette, form, transparency=1)))[0, 0].tolist() == [255, 255, 255]
    assert pixels(open_image(encode(palette, "PNG", transparency=bytes([255, 0]))))[0, 0].tolist() == [255] * 3
    keyed = Image.new("RGB", (4, 4), (1, 2, 3))
    assert pixels(open_image(encode(keyed, "PNG", transparency=(1, 2, 3))))[0, 0].tolist() == [255] * 3


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_clipped(form: str) -> None:
    ramp = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    image = pixels(open_image(encode(Image.fromarray(ramp), form)))
    assert (image[..., 0] == np.arange(256).reshape(16, 16)).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[0.0, 0.5, 1.0]], np.float32), [0, 128, 255]),
        (np.array([[0.0, 100.0, 255.0]], np.float32), [0, 100, 255]),
        (np.array([[-1.0, 0.0, 1.0]], np.float32), [0, 128, 255]),
        (np.array([[np.nan, np.inf, 1.0]], np.float32), [0, 0, 255]),
        (np.array([[0, 65535, 257]], np.int32), [0, 255, 1]),
        (np.array([[0, 7, 255]], np.int32), [0, 7, 255]),
        (np.array([[0, 10**9, 5 * 10**8]], np.int32), [0, 255, 128]),
        (np.array([[5, 5, 5]], np.int32) - 10, [0, 0, 0]),
    ],
)
def test_deep_grey(values: np.ndarray, expected: list[int]) -> None:
    assert pixels(open_image(encode(Image.fromarray(values), "TIFF")))[0, :, 0].tolist() == expected


def test_cmyk_and_other_modes() -> None:
    cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    for form in ("JPEG", "TIFF"):
        assert np.abs(pixels(open_image(encode(cyan, form)))[8, 8] - [0, 255, 255]).max() <= 2
    for mode, form in [("1", "PNG"), ("L", "BMP"), ("L", "JPEG"), ("LAB", "TIFF"), ("YCbCr", "TIFF"), ("1", "TIFF")]:
        assert open_image(encode(Image.new(mode, (9, 7)), form)).size == (9, 7)


def test_first_frame_of_an_animation() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    for form in ("GIF", "WebP", "TIFF", "PNG"):
        content = encode(frames[0], form, save_all=True, append_images=frames[1:])
        assert np.abs(pixels(open_image(content))[0, 0] - [255, 0, 0]).max() <= 3, form


def kind_of(source: bytes | Path | str, **options: int) -> str:
    problem = try_open(source, **options)
    assert isinstance(problem, ImageProblem)
    with pytest.raises(ImageError) as caught:
        open_image(source, **options)
    assert str(caught.value) == f"{problem.source}: {problem.reason}"
    return problem.kind


def test_files_that_are_no_images(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    assert kind_of(tmp_path / "pipe") == "not an image"
    assert kind_of(tmp_path) == "not an image"
    assert kind_of(tmp_path / "none.jpg") == "missing"
    assert kind_of("a\0b") == "missing"
    (tmp_path / "empty.jpg").touch()
    assert kind_of(tmp_path / "empty.jpg") == "empty"
    assert kind_of(b"") == "empty"
    for content, says in [
        (b"<!DOCTYPE html><html>", "web page"),
        (b"\0\0\0\x1cftypmp42", "mp42"),
        (b"%PDF-1.4", "PDF"),
    ]:
        problem = try_open(content)
        assert isinstance(problem, ImageProblem)
        assert problem.kind == "not an image"
        assert says in problem.reason
    assert kind_of(b"\xff\xd8\xff\xe0" + bytes(50)) == "broken"
    assert kind_of(encode(gradient(), "PPM")) == "not an image"
    for call in (image_size, open_image):
        with pytest.raises(ImageError):
            call(tmp_path / "empty.jpg")


@pytest.mark.parametrize("form", FORMATS)
def test_truncated_files_are_broken(form: str) -> None:
    content = encode(Image.effect_noise((64, 64), 80).convert("RGB"), form)
    assert kind_of(content[: len(content) // 2]) == "broken"


def test_limits_are_configurable() -> None:
    content = encode(gradient(), "PNG")
    assert kind_of(content, max_pixels=48 * 32 - 1) == "too many pixels"
    assert open_image(content, max_pixels=48 * 32).size == (48, 32)
    assert kind_of(content, max_bytes=len(content) - 1) == "too large"


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = [b"\x89PNG\r\n\x1a\n"]
    for name, body in chunks:
        parts.append(struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)))
    return b"".join(parts)


@cache
def bombs() -> dict[str, bytes]:
    """Small files that claim to be huge, or unpack to something huge."""
    huge = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    small = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    zeros = zlib.compress(bytes(100 << 20), 1)
    rows = zlib.compress(bytes(8 * 25))
    jpeg = bytearray(encode(gradient(), "JPEG"))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = b"\xff\xdc\xff\xdc"
    gif = bytearray(encode(gradient(), "GIF"))
    gif[6:10] = b"\xff\xff\xff\xff"
    gif_frame = bytearray(encode(gradient(), "GIF"))
    at = gif_frame.index(b",\0\0\0\0")
    gif_frame[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    bmp = bytearray(encode(gradient(), "BMP"))
    bmp[18:26] = struct.pack("<ii", 60_000, 60_000)
    tags = [
        (256, 65_000),
        (257, 65_000),
        (258, 8),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, 65_000),
        (279, 1 << 30),
    ]
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    tiff = b"II*\0" + struct.pack("<I", 8) + directory + bytes(100)
    vp8x = b"VP8X" + struct.pack("<IB3x", 10, 0) + (16_000).to_bytes(3, "little") + (16_000).to_bytes(3, "little")
    vp8l = b"VP8L" + struct.pack("<IB", 100, 0x2F) + (16_382 | 16_382 << 14).to_bytes(4, "little") + bytes(96)
    vp8 = b"VP8 " + struct.pack("<I", 100) + b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", 16_383, 16_383) + bytes(90)
    return {
        "png": png((b"IHDR", huge), (b"IDAT", zeros), (b"IEND", b"")),
        "png, more pixels than it says": png((b"IHDR", small), (b"IDAT", zeros), (b"IEND", b"")),
        "png text": png((b"IHDR", small), *[(b"zTXt", b"a\0\0" + zeros)] * 20, (b"IDAT", rows), (b"IEND", b"")),
        "png text behind": png((b"IHDR", small), (b"IDAT", rows), *[(b"zTXt", b"a\0\0" + zeros)] * 20, (b"IEND", b"")),
        "png profile": png((b"IHDR", small), (b"iCCP", b"a\0\0" + zeros), (b"IDAT", rows), (b"IEND", b"")),
        "jpeg": bytes(jpeg),
        "jpeg scans": (scans := encode(gradient(), "JPEG", progressive=True))[:-2]
        + scans[scans.index(b"\xff\xda") :] * 500,
        "gif": bytes(gif),
        "gif frame": bytes(gif_frame),
        "bmp": bytes(bmp),
        "tiff": tiff,
        "webp canvas": b"RIFF" + struct.pack("<I", 200) + b"WEBP" + vp8x + vp8l,
        "webp lossless": b"RIFF" + struct.pack("<I", 112) + b"WEBP" + vp8l,
        "webp": b"RIFF" + struct.pack("<I", 112) + b"WEBP" + vp8,
    }


HARMLESS = {"png, more pixels than it says", "png text", "png text behind", "png profile"}


@pytest.mark.parametrize("name", bombs())
def test_bombs_are_refused_before_decoding(name: str) -> None:
    content = bombs()[name]
    problem = try_open(content)
    if name in HARMLESS:  # Pillow stops unpacking at a bound: either way is fine, as long as memory is (below)
        return
    assert isinstance(problem, ImageProblem), name
    assert problem.kind == ("broken" if name == "jpeg scans" else "too many pixels")
    if problem.kind == "too many pixels" and name != "gif frame":  # where Pillow itself refuses to read further
        assert "pixels, over the limit of" in problem.reason
        width, height = image_size(content)
        assert width * height > 200_000_000


def test_bombs_stay_within_memory(tmp_path: Path) -> None:
    """In a process of its own that may have 400 MB more than it has after its imports."""
    for number, content in enumerate(bombs().values()):
        (tmp_path / f"{number}.bomb").write_bytes(content)
    script = textwrap.dedent(
        """
        import resource, sys
        from pathlib import Path
        from captrial.data import image_size, try_open
        from captrial.errors import ImageError
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 400_000_000,) * 2)
        for path in sorted(Path(sys.argv[1]).glob("*.bomb")):
            problem = try_open(path)
            assert "memory" not in getattr(problem, "reason", "").lower()
            try:
                image_size(path)
            except ImageError:
                pass
        """
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60, env=environment())


def environment() -> dict[str, str]:
    root = Path(__file__).resolve().parents[2]
    return {**os.environ, "PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"}


def test_draft_is_smaller_and_still_checked() -> None:
    content = encode(gradient(1600, 1200), "JPEG")
    assert open_image(content, draft=(200, 150)).size == (200, 150)
    assert kind_of(content[:-2000]) == "broken"
    assert isinstance(try_open(content[:-2000], draft=(200, 150)), ImageProblem)


def test_no_warning_leaks_from_any_thread() -> None:
    exif = encode(gradient(), "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\x12\x01\x03\0\xff\xff\xff\x7f" * 4)
    apng = png((b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)), (b"acTL", bytes(8)),
               (b"IDAT", zlib.compress(bytes(200))), (b"IEND", b""))  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.warns(UserWarning, match="Corrupt|corrupt|Tag|tag|Truncated"):
            Image.open(io.BytesIO(exif)).getexif()
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(try_open, [exif, apng] * 50))
        assert all(isinstance(result, Image.Image) for result in results)
    assert caught == []


def test_quiet_is_of_one_thread_only() -> None:
    with ThreadPoolExecutor(1) as other, ignore_warnings():
        warnings.warn("not heard", stacklevel=1)
        with pytest.raises(UserWarning, match="heard"):
            other.submit(warnings.warn, "heard").result()
    with pytest.raises(UserWarning, match="again"):
        warnings.warn("again", stacklevel=1)


@pytest.mark.needs("data")
def test_real_photographs(data: Path) -> None:
    for path in sorted((data / "coco" / "images").iterdir())[:40]:
        with Image.open(path) as reference:
            assert image_size(path) == reference.size
            assert (pixels(open_image(path)) == pixels(reference.convert("RGB"))).all()


@cache
def valid_files() -> list[bytes]:
    small = gradient(12, 9)
    exif = Image.Exif()
    exif[0x0112] = 6
    return [
        *(encode(small, form) for form in FORMATS),
        encode(small, "JPEG", progressive=True, exif=exif),
        encode(small.convert("CMYK"), "JPEG"),
        encode(small.convert("RGBA"), "PNG", exif=exif),
        encode(small.convert("P"), "PNG", transparency=0),
        encode(small.convert("RGBA"), "WebP", exif=exif),
        encode(small, "WebP", save_all=True, append_images=[small.rotate(180)]),
        encode(small, "GIF", save_all=True, append_images=[small.rotate(180)]),
        encode(small, "PNG", save_all=True, append_images=[small.rotate(180)]),
        encode(small, "TIFF", compression="tiff_lzw"),
        encode(small, "TIFF", compression="jpeg"),
        encode(small.convert("1"), "TIFF", compression="group4"),
        encode(Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8)), "PNG"),
    ]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid file with bytes changed, cut out, repeated or lost at the end; PNG check sums are sometimes repaired."""
    content = bytearray(draw(st.sampled_from(valid_files())))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        extra = draw(st.binary(min_size=1, max_size=4))
        kind = draw(st.integers(0, 3))
        end = [at + len(extra), at, at + 16, len(content)][kind]
        content[at:end] = extra if kind < 2 else b""
    return repaired(bytes(content)) if draw(st.booleans()) else bytes(content)


def repaired(content: bytes) -> bytes:
    """The same chunks with right check sums, so that mutations get past the first gate of a PNG."""
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        return content
    chunks, at = [], 8
    while at + 8 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + min(length, 1 << 16)]))
        at += 12 + length
    return png(*chunks)


def open_malformed(content: bytes) -> None:
    result = try_open(content, max_pixels=1_000_000)
    if isinstance(result, ImageProblem):
        assert result.reason
        assert "\n" not in result.reason
    else:
        assert result.mode == "RGB"
        assert result.size[0] * result.size[1] <= 1_000_000
    try:
        width, height = image_size(content)
    except ImageError:
        assert isinstance(result, ImageProblem)
    else:
        assert isinstance(result, ImageProblem) or result.size == (width, height)


malformed = st.one_of(
    mutated(), mutated(), st.binary(max_size=100), st.builds(lambda a, b: a[:12] + b, mutated(), st.binary())
)


@given(content=malformed)
@settings(max_examples=600, deadline=10_000, suppress_health_check=[HealthCheck.too_slow])
def test_malformed_images_give_a_problem_or_a_image(content: bytes) -> None:
    open_malformed(content)


@pytest.mark.full
@given(content=malformed)
@settings(max_examples=20_000, deadline=10_000, suppress_health_check=[HealthCheck.too_slow])
def test_thousands_of_malformed_images(content: bytes) -> None:
    open_malformed(content)


PEAK = """
import io, resource, sys
from captrial.data import images
content = open(sys.argv[1], "rb").read()
with images.ignore_warnings():
    bound = images.decoding_memory(images._header(io.BytesIO(content), content[:64], ""))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    size = images.open_image(content).size
    print(size[0] * size[1], bound, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
except images.ImageError as error:
    print("refused", bound, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def peak(path: Path) -> tuple[str, int, int]:
    """(pixels, bound, bytes) of opening an image in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, check=True, timeout=120)
    pixels, bound, used = done.stdout.split()
    return pixels.decode(), int(bound), int(used)


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


LARGE = {  # name: mode, format, options
    "baseline": ("RGB", "JPEG", {"exif": turned()}),
    "progressive": ("RGB", "JPEG", {"progressive": True, "subsampling": 0, "exif": turned()}),
    "progressive CMYK": ("CMYK", "JPEG", {"progressive": True}),
    "transparent": ("RGBA", "PNG", {"exif": turned()}),
    "webp": ("RGBA", "WebP", {"exif": turned()}),
    "gif": ("L", "GIF", {}),
    "float": ("F", "TIFF", {"compression": "tiff_lzw"}),
    "float in one strip": ("F", "TIFF", {"compression": "tiff_lzw", "tiffinfo": {278: 4000, 0x0112: 6}}),
    "integers": ("I", "TIFF", {"compression": "tiff_adobe_deflate"}),
    "16 bits": ("I;16", "PNG", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_memory_of_one_image_is_bounded(name: str, tmp_path: Path) -> None:
    """The bound that is checked before decoding holds: at most 18 bytes per pixel, 1.5 GiB at the limit of pixels."""
    mode, form, options = LARGE[name]
    with (tmp_path / "large").open("wb") as stream:
        Image.new(mode, (5000, 4000)).save(stream, form, **options)
    pixels, bound, used = peak(tmp_path / "large")
    assert int(pixels) == 5000 * 4000
    assert used < bound
    assert bound < MAX_DEPTH * 5000 * 4000  # so that every image up to the limit of pixels can be opened
    assert MAX_DEPTH * MAX_PIXELS <= 3 << 29


@pytest.mark.slow
def test_an_image_that_would_take_too_much_memory_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    """A TIFF of 64 pixels whose header declares a tile of 60 000 x 60 000."""
    path = tmp_path / "bomb.tif"
    Image.new("RGBA", (8, 8)).save(path, tiffinfo={40001: 60_000, 40002: 60_000})
    content = path.read_bytes()
    for private, tag in ((40001, 322), (40002, 323)):
        assert content.count(struct.pack("<H", private)) == 1
        content = content.replace(struct.pack("<H", private), struct.pack("<H", tag))
    path.write_bytes(content)
    pixels, bound, used = peak(path)
    assert (pixels, bound > 13 << 30) == ("refused", True)
    assert used < 50 << 20


def test_batches_of_images_have_a_budget_of_pixels(tmp_path: Path) -> None:
    paths = []
    for index, side in enumerate((40, 30, 100, 10, 10, 10)):
        paths.append(tmp_path / f"{index}.png")
        Image.new("1", (side, side)).save(paths[-1])
    paths.insert(2, tmp_path / "missing.png")
    assert header_pixels(paths[0]) == 1600
    batches = list(pixel_batches(paths, budget=2500, largest=3))
    assert [[path.name for path in batch] for batch in batches] == [
        ["0.png", "1.png", "missing.png"],
        ["2.png"],
        ["3.png", "4.png", "5.png"],
    ]
    assert list(pixel_batches([], budget=1)) == []
