"""A view of one explanation, with the regions of a detector and a verdict a noun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from captrial.explain.explanation import Explanation
from captrial.explain.grounding import Grounder
from captrial.explain.regions import top_regions
from captrial.explain.view import View
from captrial.records import Region


def grounded_view(explanation: Explanation, regions: Sequence[Region], grounder: Grounder) -> View:
    """What the captioner looked at with every word, and whether its nouns are grounded there.

    `regions` are in pixels of the picture; those without a label are drawn but cannot ground a noun.
    """
    view = explanation.view()
    view = replace(view, regions=tuple(regions), notes=(*view.notes, grounder.description))
    labelled = [number for number, region in enumerate(regions) if region.label]
    looked: list[str] = []
    if labelled and explanation.words:
        best = top_regions(view.scores()[:, labelled])
        looked = [regions[labelled[number]].label or "" for number in best]
    nouns = grounder.nouns([explanation.caption])[0] if explanation.words else []
    inside = [noun for noun in nouns if noun[0] < len(explanation.words)]
    return replace(view, grounding=grounder.ground(explanation.words, inside, looked))
