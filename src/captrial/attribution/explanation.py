"""Attributions (scores of every word) and explanations (an attribution with its caption and image)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import orjson
from numpy.typing import NDArray
from PIL import Image

from captrial.attribution.elements import WHOLE, class_token, grid_of
from captrial.errors import InputError
from captrial.files import atomic_path, atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from captrial.attribution.page import ExplanationView

Array = NDArray[np.floating[Any]]
_ARRAYS = ("scores", "boxes", "signed", "changes", "errors")


@dataclass(frozen=True, eq=False)
class Attribution:
    """One method's scores of `e` visual elements (regions, cells, patches or pixels) for the `w` words of a caption.

    Regions are ranked by `scores`: |A| summed over feature dimensions or colour channels, or attention weights. Scores
    are never NaN; an image without elements has `e = 0`.
    """

    words: tuple[str, ...]
    scores: Array  # (w, e), >= 0
    boxes: Array  # (e, 4) x1 y1 x2 y2 relative to the whole image, in [0, 1]
    method: str
    signed: Array | None = None  # (w, e): A summed over dimensions; negative is evidence against the word
    grid: tuple[int, int] | None = None  # rows, columns if the elements tile `window`, row by row
    window: tuple[float, float, float, float] = WHOLE  # the part of the image the model saw, relative to the image
    changes: Array | None = None  # (w,): S(image) - S(baseline), the sum that integrated gradients should reach
    errors: Array | None = None  # (w,): completeness error, for methods that claim completeness
    steps: int = 0  # gradient evaluations along the path; 1 for plain gradients, 0 for attention and occlusion

    def __post_init__(self) -> None:
        words, elements = len(self.words), len(self.boxes)
        if self.scores.shape != (words, elements):
            raise InputError(f"attribution: scores are {self.scores.shape} for {words} words and {elements} boxes")
        if self.grid is not None and self.grid[0] * self.grid[1] != elements:
            raise InputError(f"attribution: a grid of {self.grid[0]} x {self.grid[1]} cells has not {elements} boxes")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def error(self) -> float | None:
        """The largest completeness error of a word."""
        return None if self.errors is None or not len(self.errors) else float(self.errors.max())

    def maps(self) -> Array:
        """The scores as images, (w, rows, columns); an `InputError` if the elements are not a grid."""
        if self.grid is None:
            raise InputError(f"{self.method}: these are scores of {len(self.boxes)} boxes, not of a grid")
        return self.scores.reshape(len(self.words), *self.grid)

    def without_class_token(self) -> Attribution:
        """Only the cells of a ViT: its class token has no place on a map."""
        if not len(self.boxes):
            return self
        left, top, right, bottom = self.window
        inside = (self.boxes - np.array([left, top] * 2)) / np.array([right - left, bottom - top] * 2)
        cells = ~class_token(inside)
        signed = None if self.signed is None else self.signed[:, cells]
        grid = self.grid if cells.all() else grid_of(inside[cells])
        return replace(self, scores=self.scores[:, cells], boxes=self.boxes[cells], signed=signed, grid=grid)

    def select(self, words: slice) -> Attribution:
        """The same for some of the words."""

        def part(values: Array | None) -> Array | None:
            return None if values is None else values[words]

        return replace(
            self,
            words=self.words[words],
            scores=self.scores[words],
            signed=part(self.signed),
            changes=part(self.changes),
            errors=part(self.errors),
        )


@dataclass(frozen=True, eq=False)
class Explanation:
    """An explained caption: its attribution, the captioner and the image. Made by `captrial.explain`."""

    attribution: Attribution
    captioner: str = ""
    image: Image.Image | None = None
    log_probabilities: Array | None = None  # (w,) of each word given those before it; None for black boxes
    contrast: Mapping[str, str] = field(default_factory=dict)  # word: the word it was compared with

    @property
    def caption(self) -> str:
        """The words as one string."""
        return " ".join(self.attribution.words)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that were explained."""
        return self.attribution.words

    def to_numpy(self) -> Array:
        """Scores (words, elements), >= 0."""
        return self.attribution.scores

    def top(self, word: int) -> int | None:
        """The element with the highest score for a word, the first of equals; None if there is no element."""
        scores = self.attribution.scores[word]
        return int(scores.argmax()) if len(scores) else None

    def view(self) -> ExplanationView:
        """The input of pages and figures; add regions and marks to it with `dataclasses.replace`."""
        from captrial.attribution.page import ExplanationView

        if self.image is None:
            raise InputError("this explanation was made from features: there is no image to draw on")
        shown = self.attribution.without_class_token()
        against = tuple(f"“{word}” is explained by its lead over “{other}”" for word, other in self.contrast.items())
        return ExplanationView(self.image, shown, captioner=self.captioner, notes=against)

    def save(self, path: Path | str) -> Path:
        """Write a page (`.html`), all numbers (`.npz`, see `load`), or numbers for other tools (`.json`)."""
        path = Path(path)
        if path.suffix == ".html":
            from captrial.attribution.page import write_page

            return write_page([self.view()], path)
        if path.suffix == ".npz":
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, about=np.array(orjson.dumps(self._about())), **self._arrays())  # type: ignore[arg-type]
        elif path.suffix == ".json":
            atomic_write(path, orjson.dumps(self._about() | self._arrays(), option=orjson.OPT_SERIALIZE_NUMPY))
        else:
            raise InputError(f"{path}: explanations are saved as .html, .npz or .json")
        return path

    @classmethod
    def load(cls, path: Path | str) -> Explanation:
        """Read an `.npz` file written by `save`; it does not hold the image."""
        try:
            with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                about = orjson.loads(bytes(file["about"].item()))
                arrays = {name: file[name] for name in file.files if name != "about"}
        except (OSError, EOFError, KeyError, TypeError, ValueError, BadZipFile) as error:
            raise InputError(f"{path}: not a saved explanation ({error})") from None
        log_probabilities = arrays.pop("log_probabilities", None)
        grid = None if about["grid"] is None else tuple(about["grid"])
        attribution = Attribution(
            tuple(about["words"]),
            method=about["method"],
            grid=grid,
            window=tuple(about["window"]),
            steps=about["steps"],
            **arrays,
        )
        return cls(attribution, about["captioner"], None, log_probabilities, about["contrast"])

    def show(self) -> Figure:
        """A figure for a notebook: the image once a word, with the map of the word."""
        from captrial.attribution.page import words_figure

        return words_figure(self.view())

    def _about(self) -> dict[str, Any]:
        found = self.attribution
        return {
            "captioner": self.captioner,
            "words": found.words,
            "method": found.method,
            "grid": found.grid,
            "window": found.window,
            "steps": found.steps,
            "contrast": dict(self.contrast),
        }

    def _arrays(self) -> dict[str, Array]:
        arrays = {name: getattr(self.attribution, name) for name in _ARRAYS}
        arrays["log_probabilities"] = self.log_probabilities
        return {name: np.ascontiguousarray(values) for name, values in arrays.items() if values is not None}
