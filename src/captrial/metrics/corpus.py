"""Captions and references made ready once for all metrics: aligned, tokenised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain

from captrial.errors import InputError
from captrial.metrics.scores import Candidates, References


@dataclass(frozen=True)
class Corpus:
    """One candidate and some references an image; texts are PTB tokens, lower-case, joined by blanks."""

    ids: Sequence[str]
    candidates: Sequence[str]  # (n,)
    references: Sequence[Sequence[str]]  # (n,) of at least one

    @classmethod
    def prepare(cls, candidates: Candidates | Corpus, references: References | None = None) -> Corpus:
        """Align by id (or by position), check, and tokenise everything in one go."""
        if isinstance(candidates, Corpus):
            return candidates
        if references is None:
            raise InputError("references are needed beside candidates; give both, or a prepared Corpus")
        ids, raw_candidates, raw_references = _aligned(candidates, references)
        counts = [len(texts) for texts in raw_references]
        tokenized = _tokenize([*raw_candidates, *chain.from_iterable(raw_references)])
        rest = iter(tokenized[len(ids) :])
        return cls(ids, tokenized[: len(ids)], [[next(rest) for _ in range(count)] for count in counts])

    def __len__(self) -> int:
        """The number of images."""
        return len(self.ids)


def _aligned(candidates: Candidates, references: References) -> tuple[list[str], list[str], list[Sequence[str]]]:
    if isinstance(candidates, Mapping) != isinstance(references, Mapping):
        raise InputError("candidates and references must both be keyed by image id, or both be sequences")
    if isinstance(candidates, Mapping) and isinstance(references, Mapping):
        missing = [key for key in candidates if key not in references]
        if missing:
            raise InputError(f"image id {missing[0]!r} has a caption but no reference ({len(missing)} such ids)")
        missing = [key for key in references if key not in candidates]
        if missing:
            raise InputError(f"image id {missing[0]!r} has references but no caption ({len(missing)} such ids)")
        ids = list(candidates)
        return ids, list(candidates.values()), [references[key] for key in ids]
    if len(candidates) != len(references):
        raise InputError(f"{len(candidates)} candidates but {len(references)} lists of references; they must align")
    return [str(index) for index in range(len(candidates))], list(candidates), list(references)


def _tokenize(texts: Sequence[str]) -> list[str]:
    language = import_module("captrial.language")  # a plain import once the tokeniser has landed
    return list(language.tokenize_all(texts))
