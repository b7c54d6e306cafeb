"""Explanations: an attribution with its captioner and image, shown and saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson
from markupsafe import escape
from PIL import Image

from captrial.arrays import read_npz
from captrial.attribution.attribution import Array, Attribution
from captrial.errors import InputError
from captrial.files import atomic_path, atomic_write
from captrial.result_table import DataFrames

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from captrial.attribution.page import ExplanationView

_LIKELY = ("log_probabilities", "prior_log_probabilities")
END = "(end)"  # the alternative of ending the caption
_ARRAYS = ("scores", "boxes", "signed", "changes", "errors")


class Alternative(NamedTuple):
    """A word that the captioner could have said in a place, with its probability given the words before it."""

    word: str
    probability: float


@dataclass(frozen=True, eq=False)
class Explanation(DataFrames):
    """An explained caption: its attribution, the captioner and the image. Made by `captrial.explain`."""

    attribution: Attribution
    captioner: str = ""
    image: Image.Image | None = None
    log_probabilities: Array | None = None  # (w,) of each word given those before it; None for black boxes
    contrast: Mapping[str, str] = field(default_factory=dict)  # word: the word it was compared with
    alternatives: tuple[tuple[Alternative, ...], ...] = ()  # of each word, the most likely first; empty for black boxes
    second: Attribution | None = None  # by another method, to compare with; only where it was asked for
    prior_log_probabilities: Array | None = None  # (w,) as `log_probabilities`, behind blank or foreign images

    def __repr__(self) -> str:
        """The caption, the method and the number of elements; not the arrays."""
        found = self.attribution
        return f"Explanation({self.caption!r}; {found.method}; {found.scores.shape[1]} elements)"

    def _repr_html_(self) -> str:
        """The page in a frame."""
        from captrial.attribution.page import framed

        return str(escape(repr(self))) if self.image is None else framed([self.view()])

    @property
    def caption(self) -> str:
        """The words as one string."""
        return " ".join(self.attribution.words)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that were explained."""
        return self.attribution.words

    @property
    def language_shares(self) -> Array | None:
        """The share of each word's probability that stays without the image (w,); None where it was not measured."""
        from captrial.attribution.language_prior import language_shares

        if self.log_probabilities is None or self.prior_log_probabilities is None:
            return None
        return language_shares(self.log_probabilities, self.prior_log_probabilities)

    def to_numpy(self) -> Array:
        """Scores (words, elements), >= 0."""
        return self.attribution.scores

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a word: its probability, the most likely other word, and what is left without the image."""
        likely, shares, errors = self.log_probabilities, self.language_shares, self.attribution.errors
        others = [
            next((other for other in several if other.word != word), None)
            for word, several in zip(self.words, self.alternatives or [()] * len(self.words), strict=True)
        ]
        return [
            {
                "word": word,
                "probability": None if likely is None else float(np.exp(likely[number])),
                "or_else": None if other is None else other.word,
                "or_else_probability": None if other is None else other.probability,
                "language_share": None if shares is None else float(shares[number]),
                "completeness_error": None if errors is None else float(errors[number]),
            }
            for number, (word, other) in enumerate(zip(self.words, others, strict=True))
        ]

    def top(self, word: int) -> int | None:
        """The element with the highest score for a word, the first of equals; None if there is no element."""
        scores = self.attribution.scores[word]
        return int(scores.argmax()) if len(scores) else None

    def view(self) -> ExplanationView:
        """The input of pages and figures; add regions and marks to it with `dataclasses.replace`."""
        from captrial.attribution.language_prior import share_note
        from captrial.attribution.page import ExplanationView

        if self.image is None:
            raise InputError("this explanation was made from features: there is no image to draw on")
        shown = self.attribution.without_class_token()
        notes = [f"“{word}” is explained by its lead over “{other}”" for word, other in self.contrast.items()]
        shares = self.language_shares
        if shares is not None and (note := share_note(shares, self.words)):
            notes.append(note)
        return ExplanationView(
            self.image,
            shown,
            captioner=self.captioner,
            notes=tuple(notes),
            alternatives=self.alternatives,
            language_shares=shares,
        )

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
            arrays = read_npz(path)
            about = orjson.loads(bytes(arrays.pop("about").item()))
            likely, prior = (arrays.pop(name, None) for name in _LIKELY)
            arrays.pop("language_shares", None)  # follow from both
            attribution = Attribution(
                tuple(map(str, about["words"])),
                method=str(about["method"]),
                grid=None if about["grid"] is None else tuple(about["grid"]),
                window=tuple(about["window"]),
                steps=about["steps"],
                **arrays,
            )
            alternatives = tuple(
                tuple(Alternative(str(word), float(value)) for word, value in several)
                for several in about.get("alternatives", ())  # files of earlier versions have none
            )
            return cls(
                attribution,
                str(about["captioner"]),
                None,
                likely,
                dict(about["contrast"]),
                alternatives,
                prior_log_probabilities=prior,
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, InputError) as error:
            raise InputError(f"{path}: not a saved explanation ({error})") from None

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
            "alternatives": [[tuple(one) for one in several] for several in self.alternatives],
        }

    def _arrays(self) -> dict[str, Array]:
        arrays = {name: getattr(self.attribution, name) for name in _ARRAYS}
        arrays |= {name: getattr(self, name) for name in _LIKELY} | {"language_shares": self.language_shares}
        return {name: np.ascontiguousarray(values) for name, values in arrays.items() if values is not None}
