"""Mistakes and omissions of captions, by the propositions behind `facts`, with their words to underline on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from captrial.metrics import FactReport, fact_reports
from captrial.metrics.semantic.facts import Finding

SHOWN = 60  # captions on a page, those with the least supported mistakes


@dataclass(frozen=True)
class TextPart:
    """A run of characters; `support` is that of the least supported proposition its words say, None: not listed."""

    text: str
    support: float | None = None


@dataclass(frozen=True)
class MarkedCaption:
    """One caption and its references, cut where underlining begins and ends."""

    image: str
    model: str
    caption: tuple[TextPart, ...]
    references: tuple[tuple[TextPart, ...], ...]
    least: float  # the support of the worst mistake; 1 without any


@dataclass(frozen=True)
class ModelFacts:
    """Means over the labelled images of one model."""

    model: str
    captions: int
    mistakes: float  # a caption
    omissions: float
    precision: float
    recall: float


def underlined(text: str, findings: Sequence[Finding]) -> tuple[TextPart, ...]:
    """The text in parts: words of findings with the least of their supports, what is between them without.

    Words next to each other that have the same support are one part, with the blanks between them.
    """
    support: dict[tuple[int, int], float] = {}
    for finding in findings:
        for span in finding.proposition.words:
            support[span] = min(finding.support, support.get(span, 1.0))
    parts: list[TextPart] = []
    end = 0
    last: float | None = None
    for (start, stop), value in sorted(support.items()):
        between = text[end:start]
        if last == value and not between.strip():
            parts[-1] = TextPart(parts[-1].text + between + text[start:stop], value)
        else:
            parts += [TextPart(between)] * bool(between) + [TextPart(text[start:stop], value)]
        end, last = stop, value
    return (*parts, *([TextPart(text[end:])] if text[end:] else []))


def caption_mistakes(
    captions: Mapping[str, Sequence[str]], references: Mapping[str, Sequence[str]], models: Sequence[str]
) -> tuple[list[ModelFacts], list[MarkedCaption]]:
    """Means of every model, and the captions with the least supported mistakes; images without references left out."""
    images = [image for image in captions if references.get(image)]
    keys = [(image, model) for image in images for model in range(len(models))]
    reports = fact_reports(
        [captions[image][model] for image, model in keys], [list(references[image]) for image, _ in keys]
    )
    rows = [
        _means(name, [report for (_, model), report in zip(keys, reports, strict=True) if model == number])
        for number, name in enumerate(models)
    ]
    marked = [_marked(image, models[model], report) for (image, model), report in zip(keys, reports, strict=True)]
    worst = sorted((item for item in marked if item.least < 1), key=lambda item: item.least)
    return rows, worst[:SHOWN]


def _means(name: str, reports: Sequence[FactReport]) -> ModelFacts:
    scored = [report for report in reports if not np.isnan(report.f)]  # references that say something
    values = [
        (len(report.mistakes()), len(report.omissions()), report.precision, report.recall) for report in scored
    ] or [(0, 0, float("nan"), float("nan"))]
    return ModelFacts(name, len(scored), *(float(value) for value in np.mean(values, axis=0)))


def _marked(image: str, model: str, report: FactReport) -> MarkedCaption:
    mistakes, omissions = report.mistakes(), report.omissions()
    references = tuple(
        underlined(text, [item for item in omissions if item.reference == number])
        for number, text in enumerate(report.references)
    )
    least = min((item.support for item in mistakes), default=1.0)
    return MarkedCaption(image, model, underlined(report.caption, mistakes), references, least)
