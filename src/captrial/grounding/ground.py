"""`captrial.ground(captioner, image)`: explain a caption and give every noun a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import orjson
from matplotlib.figure import Figure
from PIL import Image

from captrial.attribution.attribution import relative_boxes, top_labels
from captrial.attribution.explain import check_request, explain
from captrial.attribution.explanation import Explanation
from captrial.attribution.methods.registry import DEFAULT_METHOD
from captrial.attribution.page import ExplanationView, WordMark, words_figure, write_page
from captrial.captioners.loading import load_captioner
from captrial.captioners.protocols import AnyCaptioner, Explainable
from captrial.data.images import open_image
from captrial.errors import InputError
from captrial.files import atomic_write
from captrial.grounding.regions import GRID, NO_REGIONS, RegionSource, image_regions
from captrial.grounding.score import DELTAS, CaptionGrounding, GroundedNoun, Grounder, Noun, Verdict, name_delta
from captrial.language.token_spans import words_of_tokens
from captrial.records import Region
from captrial.vision.detectors.base import Detector
from captrial.vision.registry import load_detector

MARKS = {
    Verdict.GROUNDED: WordMark(Verdict.GROUNDED, "✓", "#1d6b43"),
    Verdict.EARLY: WordMark(Verdict.EARLY, "◷", "#7a5d00"),
    Verdict.UNCHECKABLE: WordMark(Verdict.UNCHECKABLE, "?", "#5b6472"),
    Verdict.HALLUCINATED: WordMark(Verdict.HALLUCINATED, "✗", "#b3261e"),
}


@overload
def ground(
    captioner: AnyCaptioner | Explainable | str | Path,
    images: Image.Image | str | Path,
    method: str = DEFAULT_METHOD,
    *,
    regions: RegionSource = "localiser",
    grounder: Grounder | None = None,
    **options: Any,
) -> GroundedExplanation: ...


@overload
def ground(
    captioner: AnyCaptioner | Explainable | str | Path,
    images: Iterable[Image.Image | str | Path],
    method: str = DEFAULT_METHOD,
    *,
    regions: str | Detector = "localiser",
    grounder: Grounder | None = None,
    **options: Any,
) -> list[GroundedExplanation]: ...


def ground(
    captioner: AnyCaptioner | Explainable | str | Path,
    images: Image.Image | str | Path | Iterable[Image.Image | str | Path],
    method: str = DEFAULT_METHOD,
    *,
    regions: RegionSource = "localiser",
    grounder: Grounder | None = None,
    **options: Any,
) -> GroundedExplanation | list[GroundedExplanation]:
    """Explain a captioner's caption of an image, and judge of every noun whether the captioner used what it names.

    `captioner` is a captioner or its name, `images` an image, a path, or several, for which a list comes back.
    `regions` with labels tell what is where: a detector or its name (`localiser`, `onnx:FILE`, `detr:MODEL`), or for
    one image `Region`s in its pixels. `grounder` compares nouns with labels; by default it has the default
    similarity and all labels of the detector. `options` are those of `captrial.explain`: `words=...`, `contrast=...`,
    `settings=...`, `over="pixels"` ...

    Raises `InputError` as `captrial.explain` does, and for an unknown detector.

        grounded = captrial.ground("transformer", "photo.jpg")
        for noun in grounded.nouns:
            print(noun.name, noun.verdict)
    """
    check_request(method, options.get("contrast"))
    if isinstance(images, Image.Image | str | Path):
        return _ground_image(captioner, images, method, regions, grounder, options)
    if isinstance(regions, Sequence) and not isinstance(regions, str):
        raise InputError("regions of several images: give a detector, or ground one image after the other")
    model = load_captioner(str(captioner)) if isinstance(captioner, str | Path) else captioner
    detector = load_detector(regions) if isinstance(regions, str) and regions not in (GRID, NO_REGIONS) else regions
    grounded = [_ground_image(model, image, method, detector, grounder, dict(options)) for image in images]
    if isinstance(captioner, str | Path):
        grounded = [replace(one, explanation=replace(one.explanation, captioner=str(captioner))) for one in grounded]
    return grounded


def _ground_image(
    captioner: AnyCaptioner | Explainable | str | Path,
    image: Image.Image | str | Path,
    method: str,
    regions: RegionSource,
    grounder: Grounder | None,
    options: dict[str, Any],
) -> GroundedExplanation:
    opened = image if isinstance(image, Image.Image) else open_image(Path(image))
    found, labels = image_regions(regions, opened)
    if found:
        options.setdefault("boxes", relative_boxes(found, *opened.size))  # the regions that occlusion covers
    explanation = explain(captioner, opened, method, **options)
    return ground_explanation(explanation, found, grounder or Grounder(labels))


@dataclass(frozen=True, eq=False)
class GroundedExplanation:
    """An explanation, the regions of its image, and a verdict on every noun. Made by `captrial.ground`."""

    explanation: Explanation
    regions: tuple[Region, ...]  # in pixels of the image
    grounding: CaptionGrounding
    description: str  # how words were compared, tau_g and the label set

    @property
    def caption(self) -> str:
        """The caption that was grounded."""
        return self.explanation.caption

    @property
    def nouns(self) -> tuple[GroundedNoun, ...]:
        """The nouns of the caption with their verdicts; empty if the image has no usable region."""
        return self.grounding.nouns

    def verdict(self, word: int) -> Verdict | None:
        """The verdict on a word; None if it is no noun, or if the image has no usable region."""
        return next((noun.verdict for noun in self.nouns if noun.position == word), None)

    def view(self) -> ExplanationView:
        """What pages and figures show, with a mark on every noun."""
        view, grounding = self.explanation.view(), self.grounding
        return replace(
            view,
            regions=self.regions,
            notes=(*view.notes, self.description),
            marks={noun.position: MARKS[noun.verdict] for noun in reversed(grounding.nouns)},
            scores=list(zip(map(name_delta, DELTAS), grounding.scores(), strict=True)),
            problem=grounding.problem,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values: caption, words with the label of their top region and their verdict, GroundingScores."""
        found, labels = self.explanation.attribution, self.grounding.labels
        words = [
            {
                "word": word,
                "looked_at": labels[number] if labels else None,
                "verdict": verdict and verdict.value,
                "completeness_error": None if found.errors is None else float(found.errors[number]),
            }
            for number, word in enumerate(found.words)
            for verdict in [self.verdict(number)]
        ]
        return {
            "caption": self.caption,
            "captioner": self.explanation.captioner,
            "method": found.method,
            "words": words,
            "grounding_score": dict(zip(("0", "1", "3", "5", "inf"), self.grounding.scores(), strict=True)),
            "problem": self.grounding.problem,
        }

    def save(self, path: Path | str) -> Path:
        """Write a page with verdicts (`.html`), or the values of `to_dict` (`.json`)."""
        path = Path(path)
        if path.suffix == ".html":
            return write_page([self.view()], path)
        if path.suffix != ".json":
            raise InputError(f"{path}: grounded explanations are saved as .html or .json")
        atomic_write(path, orjson.dumps(self.to_dict(), option=orjson.OPT_INDENT_2))
        return path

    def show(self) -> Figure:
        """A figure for a notebook: the image once a word, with its map, top region and verdict."""
        return words_figure(self.view())


def ground_explanation(explanation: Explanation, regions: Sequence[Region], grounder: Grounder) -> GroundedExplanation:
    """Ground the nouns of an explained caption.

    `regions` are in pixels of the image. Regions without a label, or outside the part of the image that the captioner
    saw, are drawn but ground no noun.
    """
    view = explanation.view()
    labels = top_labels(view.attribution.scores, view.attribution.boxes, regions, *view.image.size)
    grounding = grounder.ground(explanation.words, _nouns(explanation.words, grounder), labels)
    return GroundedExplanation(explanation, tuple(regions), grounding, grounder.description)


def _nouns(words: Sequence[str], grounder: Grounder) -> list[Noun]:
    """Nouns at the captioner's own words: a VLM has "," and "man's" as words, our tokeniser none and two."""
    if not words:
        return []
    places = words_of_tokens(words)
    return [(places[position], name) for position, name in grounder.nouns([" ".join(words)])[0]]
