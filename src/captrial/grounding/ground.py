"""`captrial.ground(captioner, image)`: explain a caption and give every noun a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import orjson
from PIL import Image

from captrial.attribution.attribution import top_labels
from captrial.attribution.explain import check_request, explain
from captrial.attribution.explanation import Explanation
from captrial.attribution.methods.registry import DEFAULT_METHOD
from captrial.attribution.page import ExplanationView, WordMark, words_figure, write_page
from captrial.attribution.region_rules import DEFAULT_RULE, region_rule
from captrial.captioners.loading import load_captioner
from captrial.captioners.protocols import AnyCaptioner, Explainable
from captrial.data.images import open_image
from captrial.errors import InputError
from captrial.files import atomic_write
from captrial.grounding.error_rates import absence_error, error_note, error_rates, rates_by_eye
from captrial.grounding.presence import presence_of
from captrial.grounding.regions import GRID, NO_REGIONS, ImageRegions, RegionSource, image_regions
from captrial.grounding.score import (
    DELTAS,
    CaptionGrounding,
    GroundedNoun,
    Grounder,
    Noun,
    Verdict,
    name_delta,
    nouns_of,
)
from captrial.language.nouns import analyse
from captrial.records import Region
from captrial.vision.boxes import relative_boxes
from captrial.vision.detectors.base import Detector
from captrial.vision.detectors.noun_presence import NounCalibration
from captrial.vision.registry import DEFAULT_DETECTOR, load_detector

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = {
    Verdict.GROUNDED: WordMark(Verdict.GROUNDED, "✓", "#1d6b43"),
    Verdict.EARLY: WordMark(Verdict.EARLY, "◷", "#7a5d00"),
    Verdict.NOT_LOOKED_AT: WordMark(Verdict.NOT_LOOKED_AT, "↷", "#8a4b00"),
    Verdict.NOT_IN_IMAGE: WordMark(Verdict.NOT_IN_IMAGE, "✗", "#b3261e"),
    Verdict.UNCHECKABLE: WordMark(Verdict.UNCHECKABLE, "?", "#5b6472"),
}


@overload
def ground(
    captioner: AnyCaptioner | Explainable | str | Path,
    images: Image.Image | str | Path,
    method: str = DEFAULT_METHOD,
    *,
    regions: RegionSource = DEFAULT_DETECTOR,
    grounder: Grounder | None = None,
    **options: Any,
) -> GroundedExplanation: ...


@overload
def ground(
    captioner: AnyCaptioner | Explainable | str | Path,
    images: Iterable[Image.Image | str | Path],
    method: str = DEFAULT_METHOD,
    *,
    regions: str | Detector = DEFAULT_DETECTOR,
    grounder: Grounder | None = None,
    **options: Any,
) -> list[GroundedExplanation]: ...


def ground(
    captioner: AnyCaptioner | Explainable | str | Path,
    images: Image.Image | str | Path | Iterable[Image.Image | str | Path],
    method: str = DEFAULT_METHOD,
    *,
    regions: RegionSource = DEFAULT_DETECTOR,
    grounder: Grounder | None = None,
    **options: Any,
) -> GroundedExplanation | list[GroundedExplanation]:
    """Explain a captioner's caption of an image, and judge of every noun whether the captioner used what it names.

    `captioner` is a captioner or its name, `images` an image, a path, or several, for which a list comes back.
    `regions` with labels tell what is where: a detector or its name (`region-detector`, `onnx:FILE` ...), or for
    one image `Region`s in its pixels. `grounder` compares nouns with labels; by default it has the default
    similarity and all labels of the detector. `options` are those of `captrial.explain`: `caption=...`, `contrast=...`,
    `settings=...`, `over="pixels"` ...; and `rule`, which chooses the top region (`captrial.attribution.REGION_RULES`).

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
    found = image_regions(regions, opened)
    rule = options.pop("rule", DEFAULT_RULE)
    region_rule(rule)
    if found.regions:
        options.setdefault("boxes", relative_boxes(found.regions, opened.size))  # the regions that occlusion covers
    explanation = explain(captioner, opened, method, **options)
    return ground_explanation(explanation, found, grounder or Grounder(found.labels), rule)


@dataclass(frozen=True, eq=False)
class GroundedExplanation:
    """An explanation, the regions of its image, and a verdict on every noun. Made by `captrial.ground`."""

    explanation: Explanation
    regions: tuple[Region, ...]  # in pixels of the image
    grounding: CaptionGrounding
    description: str  # how words were compared, tau_g and the label set
    rule: str = DEFAULT_RULE  # how the top region of a word was chosen
    detector: str | None = None  # that made the regions
    calibration: NounCalibration | None = None  # of that detector, with the error rates of verdicts

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
        noun = self._noun(word)
        return None if noun is None else noun.verdict

    def error_by_eye(self, noun: GroundedNoun) -> float | None:
        """How often *not in the image* is wrong by eye for nouns of this kind; None for other verdicts."""
        return absence_error(self.calibration, noun.name) if noun.verdict is Verdict.NOT_IN_IMAGE else None

    def view(self) -> ExplanationView:
        """What pages and figures show, with a mark on every noun."""
        view, grounding = self.explanation.view(), self.grounding
        return replace(
            view,
            regions=self.regions,
            notes=(
                *view.notes,
                self.description,
                *([error_note(self.calibration, self.explanation.attribution.method)] if self.detector else []),
            ),
            rule=self.rule,
            marks={
                noun.position: MARKS[noun.verdict]._replace(error=self.error_by_eye(noun))
                for noun in reversed(grounding.nouns)
            },
            scores=list(zip(map(name_delta, DELTAS), grounding.scores(), strict=True)),
            problem=grounding.problem,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values: caption, words with the label of their top region and their verdict, GroundingScores."""
        found, labels = self.explanation.attribution, self.grounding.labels
        shares = self.explanation.language_shares
        words = [
            {
                "word": word,
                "top_region": labels[number] if labels else None,
                "verdict": None if noun is None else noun.verdict.value,
                "absent": None if noun is None else noun.absent,
                "error_by_eye": None if noun is None else self.error_by_eye(noun),
                "language_share": None if shares is None else float(shares[number]),
                "completeness_error": None if found.errors is None else float(found.errors[number]),
            }
            for number, word in enumerate(found.words)
            for noun in [self._noun(number)]
        ]
        return {
            "caption": self.caption,
            "captioner": self.explanation.captioner,
            "method": found.method,
            "words": words,
            "grounding_score": dict(zip(("0", "1", "3", "5", "inf"), self.grounding.scores(), strict=True)),
            "rule": self.rule,
            "error_rates": error_rates(self.calibration, found.method),
            "error_rates_by_eye": rates_by_eye(self.calibration),
            "problem": self.grounding.problem,
        }

    def _noun(self, word: int) -> GroundedNoun | None:
        return next((noun for noun in self.nouns if noun.position == word), None)

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


def ground_explanation(
    explanation: Explanation,
    found: ImageRegions | Sequence[Region],
    grounder: Grounder,
    rule: str = DEFAULT_RULE,
) -> GroundedExplanation:
    """Ground the nouns of an explained caption.

    Regions are in pixels of the image. Those without a label, or outside the part of the image that the captioner
    saw, are drawn but ground no noun. What is in the image is told by a detector's log-odds of nouns
    (`ImageRegions.odds`), else by the labels of the regions. `rule` chooses the top region of a word.
    """
    if not isinstance(found, ImageRegions):
        found = ImageRegions(list(found), [])
    regions = found.regions
    view = explanation.view()
    labels = top_labels(view.attribution.scores, view.attribution.boxes, regions, view.image.size, rule)
    names = [region.label for region in regions if region.label]
    presence = presence_of(grounder, names, found.odds, found.calibration)
    grounding = grounder.ground(explanation.words, _nouns(explanation.words, grounder), labels, presence)
    return GroundedExplanation(
        explanation, tuple(regions), grounding, grounder.description, rule, found.detector, found.calibration
    )


def _nouns(words: Sequence[str], grounder: Grounder) -> list[Noun]:
    """Nouns at the captioner's own words: a VLM has "," and "man's" as words, our tokeniser none and two."""
    if not words:
        return []
    analysis = analyse([" ".join(words)], phrases=False)[0]
    nouns = nouns_of(analysis, grounder.similarity)
    if analysis.tokens == tuple(words):
        return nouns
    from captrial.language.token_spans import words_of_tokens

    places = words_of_tokens(words)
    return [(places[position], name) for position, name in nouns]
