"""A view of one explanation, with the regions of a detector and a verdict a noun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from captrial.attribution.explanation import Explanation
from captrial.attribution.regions import top_labels
from captrial.attribution.view import View
from captrial.grounding.grounding_score import Grounder, Noun
from captrial.language.token_spans import words_of_tokens
from captrial.records import Region


def grounded_view(explanation: Explanation, regions: Sequence[Region], grounder: Grounder) -> View:
    """What the captioner looked at with every word, and whether its nouns are grounded there.

    `regions` are in pixels of the image; those without a label, or of which the captioner saw nothing, are drawn but
    cannot ground a noun.
    """
    view = explanation.view()
    view = replace(view, regions=tuple(regions), notes=(*view.notes, grounder.description))
    looked = top_labels(view.attribution.scores, view.attribution.boxes, regions, *view.image.size)
    return replace(view, grounding=grounder.ground(explanation.words, _nouns(explanation.words, grounder), looked))


def _nouns(words: Sequence[str], grounder: Grounder) -> list[Noun]:
    """Nouns at the captioner's own words: a VLM says commas and "man's", where our tokens are none and two."""
    if not words:
        return []
    places = words_of_tokens(words)
    return [(places[position], name) for position, name in grounder.nouns([" ".join(words)])[0]]
