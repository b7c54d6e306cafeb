"""A corpus: captions and references aligned, tokenised and counted once for all metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from captrial.errors import InputError
from captrial.language import tokenize_all
from captrial.metrics.ngram_counts import Counts, Ints, Places, TokenArrays, count, levels
from captrial.metrics.scores import Candidates, References


@dataclass(frozen=True)
class Corpus:
    """One candidate and some references per image; texts are PTB tokens, lower-case, joined by blanks.

    What is derived from the texts is computed on first use, then kept and shared by all metrics.
    """

    ids: Sequence[str]
    candidates: Sequence[str]  # (n,)
    references: Sequence[Sequence[str]]  # (n,) of at least one
    raw: tuple[Sequence[str], Sequence[Sequence[str]]] | None = field(default=None, repr=False, compare=False)
    shared: dict[str, list[list[str]]] = field(default_factory=dict, repr=False, compare=False)  # of the references

    @classmethod
    def prepare(cls, candidates: Candidates | Corpus, references: References | None = None) -> Corpus:
        """Align by id (or by position), check, and tokenise everything in one go; a `Corpus` is returned as it is."""
        if isinstance(candidates, Corpus):
            return candidates
        if references is None:
            raise InputError("references are needed beside candidates; give both, or a prepared Corpus")
        return cls.prepare_systems({"": candidates}, references)[""]

    @classmethod
    def prepare_systems(cls, systems: Mapping[str, Candidates], references: References) -> dict[str, Corpus]:
        """A corpus for each of several systems that captioned the same images; references are tokenised once."""
        ids, texts = _ids_and_references(references)
        for image_id, of_image in zip(ids, texts, strict=True):
            if isinstance(of_image, str) or not len(of_image):
                raise InputError(f"image id {image_id!r} needs a list of at least one reference")
        aligned = {name: _aligned(name, candidates, references, ids) for name, candidates in systems.items()}
        # As files: the toolkit's tokeniser looks past the end of a line (`Wii U.`), and so must ours to equal it.
        tokenized = iter(tokenize_all(list(chain.from_iterable(texts)), as_file=True))
        ready = [[next(tokenized) for _ in of_image] for of_image in texts]
        shared: dict[str, list[list[str]]] = {}
        return {
            name: cls(ids, tokenize_all(raw, as_file=True), ready, (raw, texts), shared)
            for name, raw in aligned.items()
        }

    @classmethod
    def prepare_references(cls, references: References) -> Corpus:
        """A corpus of references alone: every candidate is empty."""
        ids, _ = _ids_and_references(references)
        empty: Candidates = dict.fromkeys(ids, "") if isinstance(references, Mapping) else [""] * len(ids)
        return cls.prepare(empty, references)

    @classmethod
    def merge(cls, corpora: Sequence[Corpus]) -> Corpus:
        """The images of all, in order."""
        fields = [(c.ids, c.candidates, c.references, *c.as_written) for c in corpora]
        ids, candidates, references, *raw = (list(chain.from_iterable(column)) for column in zip(*fields, strict=True))
        return cls(ids, candidates, references, (raw[0], raw[1]))

    def select(self, images: Sequence[int] | Ints) -> Corpus:
        """The corpus of some images, by their numbers."""
        captions, written = self.as_written
        texts = ([texts[image] for image in images] for texts in (self.ids, self.candidates, captions))
        lists = ([lists[image] for image in images] for lists in (self.references, written))
        ids, candidates, raw = texts
        references, raw_references = lists
        return Corpus(ids, candidates, references, (raw, raw_references))

    @property
    def as_written(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Candidates and references before tokenising, where known, else as they are."""
        return self.raw or (self.candidates, self.references)

    def __len__(self) -> int:
        """The number of images."""
        return len(self.ids)

    @cached_property
    def texts(self) -> list[str]:
        """All texts: the n candidates, then the references image by image."""
        return [*self.candidates, *chain.from_iterable(self.references)]

    @cached_property
    def reference_counts(self) -> Ints:
        """(n,): references of each image."""
        return np.fromiter(map(len, self.references), np.int64, len(self))

    @cached_property
    def image_of(self) -> Ints:
        """(texts,): the image of each of `texts`."""
        images = np.arange(len(self))
        return np.concatenate([images, np.repeat(images, self.reference_counts)])

    @cached_property
    def tokens(self) -> TokenArrays:
        """All of `texts` as word ids."""
        return self.tokens_at_blanks.resplit(self.texts)

    @cached_property
    def tokens_at_blanks(self) -> TokenArrays:
        """The same as ROUGE-L of the COCO toolkit sees them: an empty text is one empty word."""
        return TokenArrays.split_at_blanks(self.texts)

    @cached_property
    def noun_lists(self) -> list[list[str]]:
        """The nouns (lemmas) of each of `texts`, in order."""
        from captrial.language.nouns import nouns

        if "nouns" not in self.shared:
            self.shared["nouns"] = nouns(list(chain.from_iterable(self.references)))
        return [*nouns(list(self.candidates)), *self.shared["nouns"]]

    @cached_property
    def nouns(self) -> TokenArrays:
        """The nouns of each of `texts` as ids of their own."""
        return TokenArrays.of_words(self.noun_lists)

    @cached_property
    def counts(self) -> tuple[Counts, ...]:
        """N-grams of orders 1 to 4, counted."""
        places = Places.of(self.tokens.lengths, self.reference_counts)
        return tuple(count(level, places) for level in levels(self.tokens))


def _ids_and_references(references: References) -> tuple[list[str], list[Sequence[str]]]:
    if isinstance(references, Mapping):
        return list(references), list(references.values())
    return [str(index) for index in range(len(references))], list(references)


def _aligned(name: str, candidates: Candidates, references: References, ids: Sequence[str]) -> list[str]:
    which = f"{name}: " if name else ""
    if isinstance(candidates, Mapping) != isinstance(references, Mapping):
        raise InputError(f"{which}captions and references must both be keyed by image id, or both be sequences")
    if isinstance(candidates, Mapping):
        extra = [key for key in candidates if key not in references]
        if extra:
            raise InputError(f"{which}image id {extra[0]!r} has a caption but no reference ({len(extra)} such ids)")
        missing = [key for key in ids if key not in candidates]
        if missing:
            raise InputError(f"{which}image id {missing[0]!r} has references but no caption ({len(missing)} such ids)")
        return [candidates[key] for key in ids]
    if len(candidates) != len(ids):
        raise InputError(f"{which}{len(candidates)} captions for {len(ids)} lists of references; they must align")
    return list(candidates)
