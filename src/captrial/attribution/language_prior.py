"""What the words alone would say: how much of a word's probability stays when the image is taken away.

The caption is scored behind images that show nothing of this one: blank ones, or foreign ones that the user gives. A
word's share of the language prior is the mean of its probabilities there over its probability behind its own image, at
most 1. Near 1 the words before it (and what captions usually say) predict the word as well as the image does; near 0 it
was read off the image.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image, ImageStat

from captrial.attribution.attribution import Array
from captrial.attribution.subject import Subject, Targets
from captrial.data.images import open_image
from captrial.errors import InputError

NEEDED_NO_IMAGE = 0.8  # share from which on a word is said to have needed no image
_BLACK, _WHITE = (0, 0, 0), (255, 255, 255)


def read_prior(text: str) -> tuple[Literal["blank", "off"], list[Image.Image]]:
    """What `--prior` names: blank images, none, or those of a folder, which take the place of blank ones."""
    if text == "off":
        return "off", []
    folder = Path(text)
    files = sorted(path for path in folder.iterdir() if path.is_file()) if text != "blank" and folder.is_dir() else []
    if text != "blank" and not files:
        raise InputError(f"--prior {text}: give blank, off, or a folder with images")
    return "blank", [open_image(path) for path in files]


def blank_images(image: Image.Image) -> list[Image.Image]:
    """Images of the same size in its mean colour, black and white."""
    mean = tuple(round(value) for value in ImageStat.Stat(image.convert("RGB")).mean)
    return [Image.new("RGB", image.size, colour) for colour in (mean, _BLACK, _WHITE)]


@torch.no_grad()
def log_probabilities(subject: Subject, targets: Targets) -> Array | None:
    """Log-probability of each word given those before it (w,); None without words."""
    if not len(targets):
        return None
    targets = targets.to(subject.inputs.device)
    scores = targets.scores(subject.forward(subject.inputs.unsqueeze(0), targets.tokens).logits)
    found: Array = scores[0].double().cpu().numpy()
    return found


def prior_log_probabilities(subjects: Iterable[Subject], targets: Targets) -> Array | None:
    """Log of the mean probability of each word (w,) behind other images; None without words or images."""
    found = [scores for subject in subjects if (scores := log_probabilities(subject, targets)) is not None]
    return np.logaddexp.reduce(found, 0) - np.log(len(found)) if found else None


def language_shares(own: Array, prior: Array) -> Array:
    """The share of each word's probability that stays without the image (w,), in [0, 1].

    >>> language_shares(np.log([0.9, 0.9]), np.log([0.9, 0.09])).round(2).tolist()
    [1.0, 0.1]
    """
    return np.asarray(np.exp(np.minimum(prior - own, 0.0)))


def share_note(shares: Sequence[float] | Array, words: Sequence[str]) -> str | None:
    """The words that needed no image, as a sentence; None if there is none."""
    found = [f"“{word}”" for word, share in zip(words, shares, strict=True) if share >= NEEDED_NO_IMAGE]
    if not found:
        return None
    return f"needed no image (at least {NEEDED_NO_IMAGE:.0%} of their probability stays without it): {', '.join(found)}"
