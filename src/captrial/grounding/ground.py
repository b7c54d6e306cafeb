"""`captrial.ground(captioner, image)`: explain a caption and give every noun a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import orjson
from PIL import Image

from captrial.attribution.attribution import Array, Attribution, top_labels
from captrial.attribution.explain import check_request
from captrial.attribution.explain import explain as explain_words
from captrial.attribution.explanation import Alternative, Explanation
from captrial.attribution.methods.registry import DEFAULT_METHOD, title_of
from captrial.attribution.page import ExplanationView, WordMark, error_warning, framed, words_figure, write_page
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
from captrial.result_table import DataFrames
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


REASONS = {  # after the noun
    Verdict.GROUNDED: "its top region is {label}",
    Verdict.EARLY: "it is in the image, but only an earlier word has a top region of that class",
    Verdict.NOT_LOOKED_AT: "it is in the image, but the word's top region is {label}",
    Verdict.NOT_IN_IMAGE: "no {noun} was found in the image",
    Verdict.UNCHECKABLE: "the detector knows no class for it, so it cannot be checked",
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


def explain(
    captioner: AnyCaptioner | Explainable | str | Path,
    image: Image.Image | str | Path,
    method: str = DEFAULT_METHOD,
    *,
    regions: RegionSource = DEFAULT_DETECTOR,
    **options: Any,
) -> GroundedExplanation:
    """Explain every word of a captioner's caption of an image, with a verdict on every noun: `captrial explain`.

    `options` are those of `ground`, for example `caption="a dog runs"`, `contrast={"cat": "dog"}`, `over="pixels"`,
    `steps=50`. Without verdicts, and without a detector: `captrial.attribution.explain`.
    """
    return ground(captioner, image, method, regions=regions, **options)


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
    options.setdefault("second", True)
    explanation = explain_words(captioner, opened, method, **options)
    return ground_explanation(explanation, found, grounder or Grounder(found.labels), rule)


@dataclass(frozen=True, eq=False, repr=False)
class GroundedExplanation(DataFrames):
    """An explanation, the regions of its image, and a verdict on every noun. Made by `captrial.ground`."""

    explanation: Explanation
    regions: tuple[Region, ...]  # in pixels of the image
    grounding: CaptionGrounding
    description: str  # how words were compared, tau_g and the label set
    rule: str = DEFAULT_RULE  # how the top region of a word was chosen
    detector: str | None = None  # that made the regions
    calibration: NounCalibration | None = None  # of that detector, with the error rates of verdicts
    found: Mapping[int, int] = field(default_factory=dict)  # by position of a noun: the best region that is of it

    @property
    def caption(self) -> str:
        """The caption that was grounded."""
        return self.explanation.caption

    @property
    def words(self) -> tuple[str, ...]:
        """The words that were explained."""
        return self.explanation.words

    @property
    def image(self) -> Image.Image | None:
        """The image that was captioned."""
        return self.explanation.image

    @property
    def log_probabilities(self) -> Array | None:
        """(w,) of each word given those before it; None for black boxes."""
        return self.explanation.log_probabilities

    @property
    def alternatives(self) -> tuple[tuple[Alternative, ...], ...]:
        """Of each word, the most likely words in its place with their probabilities; empty for black boxes."""
        return self.explanation.alternatives

    @property
    def attribution(self) -> Attribution:
        """The attribution of the words."""
        return self.explanation.attribution

    def to_numpy(self) -> Array:
        """Scores (words, elements), >= 0."""
        return self.explanation.to_numpy()

    def top(self, word: int) -> int | None:
        """The element with the highest score for a word; None if there is no element."""
        return self.explanation.top(word)

    def __repr__(self) -> str:
        """The caption and the verdicts."""
        verdicts = ", ".join(f"{noun.name}: {noun.verdict}" for noun in self.nouns) or self.grounding.problem
        return f"GroundedExplanation({self.caption!r}; {self.attribution.method}; {verdicts})"

    def _repr_html_(self) -> str:
        return framed([self.view()])

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

    def reason(self, noun: GroundedNoun) -> str:
        """What the verdict on a noun rests on."""
        label = self.grounding.labels[noun.position] if self.grounding.labels else ""
        return REASONS[noun.verdict].format(noun=noun.name, label=_with_article(label))

    def warnings(self) -> list[str]:
        """Reasons to distrust the maps: a large numerical error, or methods that name other regions."""
        found = [error_warning(self.explanation.attribution), self._disagreement()]
        return [warning for warning in found if warning]

    def _disagreement(self) -> str | None:
        """The nouns whose top region is of another class by the second method."""
        second, labels = self.explanation.second, self.grounding.labels
        image = self.explanation.image
        if second is None or image is None or not labels:
            return None
        shown = second.without_class_token()
        others = top_labels(shown.scores, shown.boxes, self.regions, image.size, self.rule)
        places = sorted({noun.position for noun in self.nouns})
        apart = [place for place in places if others and others[place] != labels[place]]
        if not apart:
            return None
        words = self.explanation.words
        named = ", ".join(f"“{words[place]}” ({labels[place]}; {others[place]})" for place in apart[:3])
        more = f" and {len(apart) - 3} more" if len(apart) > 3 else ""
        return (
            f"methods disagree about {len(apart)} of {len(places)} nouns: the top region by "
            f"{title_of(self.explanation.attribution.method)} and by {title_of(second.method)} is different for "
            f"{named}{more}"
        )

    def error_by_references(self, noun: GroundedNoun) -> float | None:
        """How often verdicts like this one are wrong by the references of photographs; None where not measured."""
        rates = error_rates(self.calibration, self.explanation.attribution.method)
        return None if rates is None else rates.get(noun.verdict)

    def _mark(self, noun: GroundedNoun) -> WordMark:
        """The mark of a noun, with the error rate by eye where there is one, else by references."""
        by_eye = self.error_by_eye(noun)
        if by_eye is not None:
            return MARKS[noun.verdict]._replace(error=by_eye, basis="by eye")
        return MARKS[noun.verdict]._replace(error=self.error_by_references(noun), basis="by references")

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
                noun.position: self._mark(noun)._replace(reason=self.reason(noun)) for noun in reversed(grounding.nouns)
            },
            found=self.found,
            warnings=self.warnings(),
            scores=list(zip(map(name_delta, DELTAS), grounding.scores(), strict=True)),
            problem=grounding.problem,
        )

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a word: as `Explanation.rows`, with its top region, verdict, and how often that is wrong."""
        keys = ("top_region", "verdict", "error_by_references", "error_by_eye", "reason")
        told = self.to_dict()["words"]
        return [row | {key: word[key] for key in keys} for row, word in zip(self.explanation.rows(), told, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values: caption, words with the label of their top region and their verdict, GroundingScores."""
        found, labels = self.explanation.attribution, self.grounding.labels
        shares = self.explanation.language_shares
        alternatives = self.explanation.alternatives
        words = [
            {
                "word": word,
                "top_region": labels[number] if labels else None,
                "verdict": None if noun is None else noun.verdict.value,
                "absent": None if noun is None else noun.absent,
                "error_by_eye": None if noun is None else self.error_by_eye(noun),
                "language_share": None if shares is None else float(shares[number]),
                "reason": None if noun is None else f"{noun.name}: {self.reason(noun)}.",
                "alternatives": {
                    one.word: one.probability for one in (alternatives[number] if number < len(alternatives) else ())
                },
                "error_by_references": None if noun is None else self.error_by_references(noun),
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
            "warnings": self.warnings(),
        }

    def _noun(self, word: int) -> GroundedNoun | None:
        return next((noun for noun in self.nouns if noun.position == word), None)

    def save(self, path: Path | str) -> Path:
        """Write a page with verdicts (`.html`), the values of `to_dict` (`.json`), or all numbers (`.npz`)."""
        path = Path(path)
        if path.suffix == ".html":
            return write_page([self.view()], path)
        if path.suffix == ".npz":
            return self.explanation.save(path)
        if path.suffix != ".json":
            raise InputError(f"{path}: explanations are saved as .html, .json or .npz")
        atomic_write(path, orjson.dumps(self.to_dict(), option=orjson.OPT_INDENT_2))
        return path

    def show(self) -> Figure:
        """A figure for a notebook: the image once a word, with its map, top region and verdict."""
        return words_figure(self.view())


def ground_explanation(
    explanation: Explanation | GroundedExplanation,
    found: ImageRegions | Sequence[Region],
    grounder: Grounder,
    rule: str = DEFAULT_RULE,
) -> GroundedExplanation:
    """Ground the nouns of an explained caption.

    Regions are in pixels of the image. Those without a label, or outside the part of the image that the captioner
    saw, are drawn but ground no noun. What is in the image is told by a detector's log-odds of nouns
    (`ImageRegions.odds`), else by the labels of the regions. `rule` chooses the top region of a word.
    """
    if isinstance(explanation, GroundedExplanation):  # with other regions
        explanation = explanation.explanation
    if not isinstance(found, ImageRegions):
        found = ImageRegions(list(found), [])
    regions = found.regions
    view = explanation.view()
    labels = top_labels(view.attribution.scores, view.attribution.boxes, regions, view.image.size, rule)
    names = [region.label for region in regions if region.label]
    presence = presence_of(grounder, names, found.odds, found.calibration)
    grounding = grounder.ground(explanation.words, _nouns(explanation.words, grounder), labels, presence)
    places = {noun.position: place for noun in grounding.nouns for place in best_region(grounder, noun.name, regions)}
    return GroundedExplanation(
        explanation, tuple(regions), grounding, grounder.description, rule, found.detector, found.calibration, places
    )


def _with_article(label: str) -> str:
    return f"{'an' if label[:1] in 'aeiou' else 'a'} {label}" if label else "none"


def best_region(grounder: Grounder, noun: str, regions: Sequence[Region]) -> list[int]:
    """The region with the highest score whose label names the noun, in a list; an empty one if there is none."""
    named = [place for place, region in enumerate(regions) if region.label and grounder.names(noun, region.label)]
    return [max(named, key=lambda place: regions[place].score)] if named else []


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
