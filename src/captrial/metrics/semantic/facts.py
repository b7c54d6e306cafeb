"""Facts: what a caption says that no reference supports (mistakes), and what references say that it leaves out.

Caption and references are taken apart into propositions (`captrial.metrics.semantic.propositions`), which are embedded
and matched softly (`soft_matching`): precision is how far the caption's propositions are supported, recall how far the
references' are covered, both in [0, 1]. A proposition with less support than `THRESHOLD` is listed as a mistake or an
omission, with the words that it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import Candidates, MeanState, References, Scores
from captrial.metrics.semantic.propositions import Proposition, propositions
from captrial.metrics.semantic.sentence_encoder import SentenceEncoder, sentence_encoder
from captrial.metrics.semantic.soft_matching import Match, Parts, grouped, match_columns, soft_match

THRESHOLD = 0.5  # support below which a proposition is listed; docs/metrics.md has the error rates measured with it
Extract = Callable[[Sequence[str]], list[list[Proposition]]]
"""Texts to the propositions of each: the parser's by default, or what a language model lists
(`captrial.judges.EndpointPropositions`). Its `description`, if it has one, is stated under tables."""


@dataclass(frozen=True)
class Finding:
    """A proposition of the caption or of a reference, and how far the other side supports it, in [0, 1]."""

    proposition: Proposition
    support: float
    reference: int | None = None  # the number of the reference that says it; None: the caption does


@dataclass(frozen=True)
class FactReport:
    """What one caption says and leaves out."""

    caption: str
    references: tuple[str, ...]
    said: tuple[Finding, ...]
    wanted: tuple[Finding, ...]
    precision: float
    recall: float
    f: float

    def mistakes(self, threshold: float = THRESHOLD) -> list[Finding]:
        """What the caption says with less support than the threshold, the least supported first."""
        return _below(self.said, threshold)

    def omissions(self, threshold: float = THRESHOLD) -> list[Finding]:
        """What references say and the caption covers less than the threshold, the least covered first."""
        return _below(self.wanted, threshold)


def facts(
    candidates: Candidates | Corpus,
    references: References | None = None,
    encoder: str | None = None,
    extract: Extract | None = None,
) -> Scores:
    """F of soft precision and recall over propositions, with both as parts.

    An image whose references hold no proposition is left out; a caption without any scores 0.
    """
    return FactsState.of(Corpus.prepare(candidates, references), encoder, extract).scores()


def fact_reports(
    candidates: Candidates, references: References, encoder: str | None = None, extract: Extract | None = None
) -> list[FactReport]:
    """The propositions behind the score of each caption, with their support."""
    corpus = Corpus.prepare(candidates, references)
    captions, written = corpus.as_written
    found, matches = _matched(corpus, sentence_encoder(encoder), extract)
    rest = iter(found[len(corpus) :])
    reports = []
    for caption, texts, own, match in zip(captions, written, found[: len(corpus)], matches, strict=True):
        said = tuple(Finding(*pair) for pair in zip(own, match.support.tolist(), strict=True))
        wanted = tuple(
            Finding(proposition, support, number)
            for number, cover in enumerate(match.cover)
            for proposition, support in zip(next(rest), cover.tolist(), strict=True)
        )
        reports.append(FactReport(caption, tuple(texts), said, wanted, match.precision, match.recall, match.f))
    return reports


class FactsState(MeanState):
    """The means of image scores."""

    @classmethod
    def of(cls, corpus: Corpus, encoder: str | None = None, extract: Extract | None = None) -> FactsState:
        """Score one shard."""
        model = sentence_encoder(encoder)
        _, matches = _matched(corpus, model, extract)
        source = getattr(extract, "description", "the parser" if extract is None else "a function that was given")
        return cls(match_columns(matches, "facts"), (f"propositions by {source}, compared by {model.description}",))


def _matched(
    corpus: Corpus, encoder: SentenceEncoder, extract: Extract | None
) -> tuple[list[list[Proposition]], list[Match]]:
    """The propositions of the captions, then of the references, and a match for each image."""
    captions, references = corpus.as_written
    found = (extract or propositions)([*captions, *chain.from_iterable(references)])
    vectors = encoder.encode([item.text for items in found for item in items])
    ends = np.cumsum([len(items) for items in found])
    parts = [
        Parts(vectors[end - len(items) : end], np.ones(len(items))) for end, items in zip(ends, found, strict=True)
    ]
    theirs = grouped(parts[len(corpus) :], [len(each) for each in references])
    return found, [soft_match(own, other) for own, other in zip(parts[: len(corpus)], theirs, strict=True)]


def _below(findings: Sequence[Finding], threshold: float) -> list[Finding]:
    return sorted((finding for finding in findings if finding.support < threshold), key=lambda finding: finding.support)
