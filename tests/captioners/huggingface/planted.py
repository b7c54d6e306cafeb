"""Images in which one known place decides one word, and VLMs that learn to say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from captioners.huggingface.tiny_checkpoints import _padded
from captioners.huggingface.tiny_vlms import forced_inputs, keep_places_apart
from captrial.attribution.attribution import Attribution
from captrial.attribution.word_maps import square_maps

COLOURS = {
    "red": (220, 20, 20),
    "green": (20, 160, 40),
    "blue": (30, 60, 230),
    "yellow": (240, 220, 30),
    "purple": (150, 30, 170),
    "cyan": (30, 220, 220),
}
NONE = "plain"  # said where no cell has a colour, so that every colour must be seen to be said
CELLS = 4  # the image in so many rows and columns; one cell has a colour
BEFORE, AFTER = "a", "mark here"  # words that are always said


class Planted(NamedTuple):
    """A grey image with one coloured cell, and what is to be said about it."""

    image: Image.Image
    colour: str
    box: tuple[float, float, float, float]

    @property
    def caption(self) -> str:
        """The caption; its second word depends on the image."""
        return f"{BEFORE} {self.colour} {AFTER}"

    def hit(self, attribution: Attribution, word: int = 1, side: int = 64) -> bool:
        """The pointing game: whether the highest point of a word's map lies in the coloured cell."""
        scores: NDArray[np.float64] = attribution.scores[word : word + 1].astype(np.float64)
        (map_,) = square_maps(scores, attribution.boxes, None, side)
        y, x = np.unravel_index(map_.argmax(), map_.shape)
        x1, y1, x2, y2 = self.box
        return bool(x1 <= (x + 0.5) / side <= x2 and y1 <= (y + 0.5) / side <= y2)


def planted_images(size: tuple[int, int], count: int, seed: int) -> list[Planted]:
    """Images of one size; cells are where rounding puts them, so that they need not be those of tokens."""
    random, found = np.random.default_rng(seed), []
    for _ in range(count):
        row, column = random.integers(0, CELLS, 2)
        colour = str(random.choice([*COLOURS, NONE]))
        image = Image.fromarray(random.integers(110, 146, (size[1], size[0], 3), np.uint8))
        box = (column / CELLS, row / CELLS, (column + 1) / CELLS, (row + 1) / CELLS)
        pixels = tuple(round(edge * side) for edge, side in zip(box, (*size, *size), strict=True))
        if colour != NONE:
            image.paste(COLOURS[colour], pixels)  # type: ignore[arg-type]
        found.append(Planted(image, colour, box))
    return found


def teach_planted(captioner: Any, sizes: Sequence[tuple[int, int]], steps: int = 1000, enough: float = 0.005) -> float:
    """Train a model whose vision tower keeps places apart until every colour is said wherever it is.

    Images are of several sizes; returns the last mean loss.
    """
    model, tokenizer = captioner.model.requires_grad_(True).train(), captioner.tokenizer
    keep_places_apart(model)
    batches = []
    for seed in range(6):
        for size in sizes:
            planted = planted_images(size, 24, 1000 + seed)
            said = [[*captioner.tokenize(one.caption), tokenizer.eos_token_id] for one in planted]
            tokens, labels = _padded(tokenizer, said)
            inputs = captioner.prepare([one.image for one in planted])
            batches.append((forced_inputs(captioner, inputs, tokens), labels))
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, weight_decay=0.0)
    recent = [1.0] * len(batches)
    for step in range(steps):
        read, labels = batches[step % len(batches)]
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (step + 1) / 40, 2 * (1 - step / steps))
        optimizer.zero_grad()
        logits = model(**read, use_cache=False).logits[:, -labels.shape[1] :]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        recent = [*recent[1:], float(loss.detach())]
        if max(recent) < enough:
            break
    model.eval().requires_grad_(False)
    return float(np.mean(recent))
