"""Masks match the pixels, colours are recognisable, effects change the image."""

from __future__ import annotations

from collections import Counter

import numpy as np

from captrial.toyworld import OBJECT_CLASSES, ToyWorld


def test_masks_cover_what_was_painted() -> None:
    """Where a thing is taken out of the scene, the image changes inside its mask and not far outside."""
    from dataclasses import replace

    from captrial.toyworld.drawing.rendering import draw, paint, visible_parts

    scene = replace(ToyWorld(seed=0).scene("train", 21), cords=(), links=())
    layers = draw(scene, 256)
    whole = paint(scene, layers, 256).astype(int)
    for number, sight in enumerate(visible_parts(scene, layers, 256)):
        assert sight is not None
        without = [None if place == number else layer for place, layer in enumerate(layers)]
        changed = np.abs(paint(scene, without, 256).astype(int) - whole).max(axis=2) > 6
        assert changed[sight.mask].mean() > 0.9
        x1, y1, x2, y2 = map(int, sight.box)
        near = np.zeros_like(changed)
        near[max(y1 - 2, 0) : y2 + 2, max(x1 - 2, 0) : x2 + 2] = True
        assert not changed[~near].any()


def test_every_class_can_be_recognised_by_its_colour() -> None:
    """A thing painted red is redder than the same thing painted blue: the colour of the truth is the colour seen."""
    from captrial.toyworld.drawing.rendering import sprite
    from captrial.toyworld.scene.layout import SceneObject

    for name, label in OBJECT_CLASSES.items():
        form, pose = next(iter(label.forms)), next(iter(label.poses))
        means = {}
        for colour in ("red", "blue"):
            layer = sprite(SceneObject(name, form, pose, colour, "", 0.5, 0.9, 0.4 / label.extent(form, pose).top), 256)
            assert layer is not None
            solid = layer.pixels[layer.pixels[:, :, 3] > 127].astype(float)
            means[colour] = solid[:, 0].mean() - solid[:, 2].mean()
        assert means["red"] > means["blue"] + 15, name


def test_wild_images_have_effects() -> None:
    world = ToyWorld(seed=0, size=96)
    effects = Counter(effect for index in range(120) for effect in world.scene("wild", index).effects)
    assert set(effects) == {"noise", "blur", "haze", "dim", "leaves", "fence", "rain"}
    noisy = next(index for index in range(120) if world.scene("wild", index).effects == ("noise",))
    pixels = world.render("wild", noisy).pixels.astype(int)
    assert np.abs(np.diff(pixels, axis=1)).mean() > 8
