"""Contact sheets: images of the toy world with their boxes and captions on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from captrial.data.images import MAX_PIXELS
from captrial.errors import InputError
from captrial.files import output_path, refuse_overwrite
from captrial.records import Box
from captrial.toyworld.dataset_writer import ToyWorldSettings
from captrial.toyworld.drawing.colours import COLOURS, RGB, mix
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES
from captrial.toyworld.scene.robot import FRAMES
from captrial.toyworld.world import ToyImage, ToyWorld

PAPER: RGB = (252, 251, 248)
TEXT: RGB = (44, 44, 52)
FORMATS = (".png", ".jpg", ".webp")
GAP = 14
LINES = 5  # of text under an image
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def contact_sheet(world: ToyWorld, picks: Sequence[tuple[str, int]], columns: int = 6) -> Image.Image:
    """Images (split, index) in rows, each with the boxes of mentionable objects and two of its captions."""
    cells = [_cell(world.render(split, index)) for split, index in picks]
    width, height = cells[0].size
    rows = -(-len(cells) // columns)
    sheet = Image.new("RGB", (columns * (width + GAP) + GAP, rows * (height + GAP) + GAP), PAPER)
    for place, cell in enumerate(cells):
        row, column = divmod(place, columns)
        sheet.paste(cell, (GAP + column * (width + GAP), GAP + row * (height + GAP)))
    return sheet


def draw_sheet(
    out: Path | str, settings: ToyWorldSettings, columns: int = 6, start: int = 0, *, overwrite: bool = False
) -> None:
    """Write a contact sheet of images of each split, from index `start`; robot images are from different sequences.

    A file that captrial did not write is replaced only with `overwrite`.
    """
    refuse_overwrite(out, overwrite=overwrite)
    rows = -(-settings.images // columns)
    if rows * columns * settings.size**2 > MAX_PIXELS:
        raise InputError(f"{out}: {rows} x {columns} images of {settings.size} pixels are too large for a sheet")
    if Path(out).suffix.lower() not in FORMATS:
        raise InputError(f"{out}: a contact sheet is {', '.join(FORMATS)}; choose one of these suffixes")
    picks = [
        (split, start + place * (FRAMES + 3 if split == "robot" else 1))
        for split, count in settings.splits.items()
        for place in range(count)
    ]
    sheet = contact_sheet(ToyWorld(settings.seed, settings.size), picks, columns)
    with output_path(out, overwrite=overwrite) as temporary:
        sheet.save(temporary)


def _cell(image: ToyImage) -> Image.Image:
    side = image.pixels.shape[0]
    font, small = ImageFont.load_default(max(side / 19, 9)), ImageFont.load_default(max(side / 23, 8))
    line = round(side / 16)
    cell = Image.new("RGB", (side, side + LINES * line + 4), PAPER)
    cell.paste(Image.fromarray(image.pixels))
    pen = ImageDraw.Draw(cell)
    mentionable = image.sample.extra["mentionable"]
    assert isinstance(mentionable, list)
    regions = [image.sample.regions[number] for number in mentionable]
    for region in regions:
        x1, y1, x2, y2 = region.box
        pen.rectangle((x1, y1, x2 - 1, y2 - 1), outline=_colour(str(region.label)), width=2)
    for region in sorted(regions, key=lambda region: -region.box.area):
        _label(pen, region.box, str(region.label), small, side)
    captions = sorted(image.sample.captions, key=len)  # the longest and the median one are shown
    text = [part for caption in (captions[-1], captions[2]) for part in _wrapped(caption, font, side)][:LINES]
    for number, words in enumerate(text):
        pen.text((0, side + 4 + number * line), words, TEXT, font)
    return cell


def _wrapped(text: str, font: Font, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _colour(label: str) -> RGB:
    palette = [colour for name, colour in COLOURS.items() if name not in {"black", "white", "gray"}]
    return mix(palette[list(OBJECT_CLASSES).index(label) % len(palette)], (0, 0, 0), 0.1)


def _label(pen: ImageDraw.ImageDraw, box: Box, label: str, font: Font, side: int) -> None:
    left, top, right, bottom = pen.textbbox((0, 0), label, font)
    wide, tall = right - left + 5, bottom - top + 4
    x, y = max(min(box.x1, side - wide), 0), max(box.y1 - tall, 0)
    pen.rectangle((x, y, x + wide, y + tall), fill=_colour(label))
    pen.text((x + 3 - left, y + 2 - top), label, PAPER, font)
