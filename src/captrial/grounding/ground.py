"""Ground the nouns of one explanation: did the captioner use what it names?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from captrial.attribution.elements import top_labels
from captrial.attribution.explanation import Explanation
from captrial.attribution.page import ExplanationView, WordMark
from captrial.grounding.grounding_score import DELTAS, CaptionGrounding, Grounder, Noun, Verdict, name_delta
from captrial.language.token_spans import words_of_tokens
from captrial.records import Region

MARKS = {
    Verdict.GROUNDED: WordMark(Verdict.GROUNDED, "✓", "#1d6b43"),
    Verdict.EARLY: WordMark(Verdict.EARLY, "◷", "#7a5d00"),
    Verdict.UNCHECKABLE: WordMark(Verdict.UNCHECKABLE, "?", "#5b6472"),
    Verdict.HALLUCINATED: WordMark(Verdict.HALLUCINATED, "✗", "#b3261e"),
}


@dataclass(frozen=True, eq=False)
class GroundedExplanation:
    """An explanation, the regions of its image, and a verdict on every noun."""

    explanation: Explanation
    regions: tuple[Region, ...]  # in pixels of the image
    grounding: CaptionGrounding
    description: str  # how words were compared, tau_g and the label set

    def verdict(self, word: int) -> Verdict | None:
        """The verdict on a word; None if it is no noun, or if the image has no usable region."""
        return next((noun.verdict for noun in self.grounding.nouns if noun.position == word), None)

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
