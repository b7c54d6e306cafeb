"""The colours that captions can name, further colours, and mixing them."""

from __future__ import annotations

from captrial.toyworld.randomness import RandomStream

RGB = tuple[int, int, int]

COLOURS: dict[str, RGB] = {
    "red": (205, 58, 52),
    "orange": (236, 134, 44),
    "yellow": (244, 202, 70),
    "green": (78, 146, 76),
    "blue": (58, 116, 190),
    "purple": (126, 86, 164),
    "pink": (238, 142, 168),
    "brown": (138, 92, 58),
    "black": (54, 52, 60),
    "white": (242, 240, 234),
    "gray": (146, 149, 155),
}
SKIN: tuple[RGB, ...] = ((248, 214, 184), (236, 188, 150), (206, 150, 108), (160, 108, 74), (112, 74, 52))
HAIR: tuple[RGB, ...] = ((52, 40, 36), (92, 60, 38), (150, 96, 48), (214, 170, 92), (168, 76, 40), (150, 148, 150))
TROUSERS: tuple[RGB, ...] = ((62, 78, 112), (70, 66, 72), (120, 100, 78), (84, 100, 96), (150, 138, 116))
INK: RGB = (40, 36, 42)
CREAM: RGB = (250, 246, 236)
WOOD: RGB = (160, 112, 70)
STEEL: RGB = (178, 184, 192)
GLASS: RGB = (186, 218, 234)
LEAF: RGB = (84, 148, 76)


def mix(first: RGB, second: RGB, share: float) -> RGB:
    """`first` with a share of `second` in it.

    >>> mix((0, 0, 0), (200, 100, 50), 0.5)
    (100, 50, 25)
    """
    keep = 1.0 - share
    return (
        int(first[0] * keep + second[0] * share),
        int(first[1] * keep + second[1] * share),
        int(first[2] * keep + second[2] * share),
    )


def dark(colour: RGB, share: float = 0.22) -> RGB:
    """The colour in shadow: darker and a little cooler."""
    return mix(colour, (28, 24, 52), share)


def light(colour: RGB, share: float = 0.3) -> RGB:
    """The colour in sunlight: lighter and a little warmer."""
    return mix(colour, (255, 250, 232), share)


def jitter(colour: RGB, rng: RandomStream, amount: int = 10) -> RGB:
    """A random similar colour that still has the same name."""
    shift = rng.triangular(amount)
    red, green, blue = (min(max(int(c + shift + rng.triangular(amount * 0.6)), 0), 255) for c in colour)
    return red, green, blue
