"""Document frequencies: the number of images whose references contain an n-gram; built, saved, loaded.

A table is a trie by levels over word ids (see `ngram_counts`), so it serves text (by the words it carries) and a
captioner's token ids (by the fingerprint of its vocabulary) alike. A table of another vocabulary would silently give
rewards near zero; it is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from captrial.arrays import read_npz
from captrial.errors import InputError, MismatchError
from captrial.files import content_hash, output_path
from captrial.language.vocabulary import BOS, EOS, PAD, SPECIALS, Vocabulary
from captrial.metrics.corpus import Corpus
from captrial.metrics.ngram_counts import ORDERS, Ints, TokenArrays, find, levels
from captrial.metrics.scores import References

TokenReferences = Sequence[Sequence[Sequence[int]]]  # token ids by image and reference
FORMAT = "captrial document frequencies 1"


def reference_tokens(
    references: TokenReferences, vocabulary: Vocabulary, count_end: bool = True
) -> tuple[TokenArrays, Ints]:
    """Token ids by image and reference as flat `TokenArrays`, and the image of each; rows are read up to EOS.

    BOS and PAD are dropped; with `count_end` every text is closed by EOS, whether its row has it or not.
    """
    closing = [EOS] if count_end else []
    rows = [np.array([*_words_of(row), *closing], dtype=np.int32) for of_image in references for row in of_image]
    image_of = np.repeat(np.arange(len(references)), [len(of_image) for of_image in references])
    flat = np.concatenate(rows) if rows else np.zeros(0, np.int32)
    if len(flat) and not (flat.min() >= 0 and flat.max() < len(vocabulary)):
        raise MismatchError(f"token ids reach {flat.max()}, but the vocabulary has {len(vocabulary)} words")
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    return TokenArrays(flat, offsets, (*SPECIALS, *vocabulary.words)), image_of


def _words_of(row: Iterable[int]) -> Iterable[int]:
    return (token for token in takewhile(lambda token: token != EOS, row) if token not in (BOS, PAD))


@dataclass(frozen=True)
class DocumentFrequencies:
    """`documents[k - 1][i]` images hold the k-gram whose packed key is `keys[k - 1][i]`; `images` in all."""

    words: tuple[str, ...]
    images: int
    keys: tuple[Ints, ...]  # by order, sorted: prefix id * len(words) + last word
    documents: tuple[Ints, ...]

    @classmethod
    def of(cls, references: References | Corpus) -> DocumentFrequencies:
        """The table of some references: raw text, or those of a prepared corpus."""
        corpus = references if isinstance(references, Corpus) else Corpus.prepare_references(references)
        tokens = TokenArrays.split(corpus.texts[len(corpus) :])
        return cls.of_arrays(tokens, corpus.image_of[len(corpus) :])

    @classmethod
    def of_tokens(
        cls, references: TokenReferences, vocabulary: Vocabulary, count_end: bool = True
    ) -> DocumentFrequencies:
        """The table of references that are a captioner's token ids; with `count_end` EOS is a word like others."""
        return cls.of_arrays(*reference_tokens(references, vocabulary, count_end))

    @classmethod
    def of_arrays(cls, tokens: TokenArrays, image_of: Ints) -> DocumentFrequencies:
        """The table of texts about images `image_of` (texts,)."""
        if not len(image_of):
            raise InputError("document frequencies need the references of at least one image")
        image_of_word = np.repeat(image_of, tokens.lengths)
        keys, documents = [], []
        for level in levels(tokens):
            grams = max(len(level.keys), 1)
            held = np.unique(image_of_word[level.positions] * grams + level.ids)
            keys.append(level.keys)
            documents.append(np.bincount(held % grams, minlength=len(level.keys)))
        return cls(tokens.vocabulary, int(image_of.max(initial=-1)) + 1, tuple(keys), tuple(documents))

    @classmethod
    def merge(cls, tables: Sequence[DocumentFrequencies]) -> DocumentFrequencies:
        """The table of all images of tables about different images; in whatever order, the same.

        Tables of one vocabulary keep it; otherwise the words of all are sorted.
        """
        if not tables:
            raise InputError("there is no table of document frequencies to merge")
        words = tables[0].words
        if any(table.words != words for table in tables):
            words = tuple(sorted({word for table in tables for word in table.words}))
        number = {word: index for index, word in enumerate(words)}
        own = [np.array([number[word] for word in table.words], dtype=np.int64) for table in tables]
        counts = np.concatenate([table.documents[0] for table in tables])
        keys = [np.arange(len(words))]
        documents = [_summed(np.concatenate(own), counts, len(words))]
        prefixes = own
        for order in range(1, ORDERS):
            named = zip(tables, own, prefixes, strict=True)
            pairs = [_renamed(table.keys[order], mine, prefix, len(words)) for table, mine, prefix in named]
            every, where = np.unique(np.concatenate(pairs), return_inverse=True)
            counts = np.concatenate([table.documents[order] for table in tables])
            keys.append(every)
            documents.append(_summed(where, counts, len(every)))
            prefixes = np.split(where, np.cumsum([len(pair) for pair in pairs])[:-1])
        return cls(words, sum(table.images for table in tables), tuple(keys), tuple(documents))

    @property
    def fingerprint(self) -> str:
        """The vocabulary this table is written in; for a captioner's, the same as `Vocabulary.fingerprint`."""
        special = len(SPECIALS) if self.words[: len(SPECIALS)] == SPECIALS else 0
        return content_hash("\n".join(self.words[special:]))

    def require(self, expected: str, what: str = "the captioner's vocabulary") -> None:
        """Refuse a table that is written in another vocabulary."""
        if expected != self.fingerprint:
            raise MismatchError(
                f"document frequencies were built with vocabulary {self.fingerprint}, but {what} is {expected}; "
                "build the table again with this vocabulary"
            )

    def lookup(self, keys: Sequence[Ints], vocabulary: Sequence[str]) -> list[Ints]:
        """By order, the index in this table of n-grams that are packed in another vocabulary; -1 where unknown."""
        index = {word: number for number, word in enumerate(self.words)}
        words = np.array([index.get(word, -1) for word in vocabulary], dtype=np.int64)
        known = [words]
        for order in range(1, ORDERS):
            prefix, last = np.divmod(keys[order], max(len(vocabulary), 1))
            prefix, last = known[-1][prefix], words[last]
            pairs = np.where((prefix >= 0) & (last >= 0), prefix * len(self.words) + last, -1)
            known.append(find(self.keys[order], pairs))
        return known

    def idf(self, order: int, numbers: Ints) -> NDArray[np.float64]:
        """log N - log max(1, df) of the n-grams with these indices; an unknown one (-1) counts as never seen."""
        padded = np.append(self.documents[order - 1], 0)  # so that index -1 may be read
        weights: NDArray[np.float64] = np.log(self.images) - np.log(np.maximum(padded[numbers], 1))
        return weights

    def _check(self, path: Path | str) -> None:
        """Refuse a table that contradicts itself: such counts would give scores that mean nothing."""
        problem = f"{self.images} images" if self.images < 1 else None
        problem = problem or ("a word twice" if len(set(self.words)) != len(self.words) else None)
        prefixes = 1
        for order, (keys, documents) in enumerate(zip(self.keys, self.documents, strict=True), 1):
            problem = problem or _fault(keys, documents, prefixes * len(self.words), self.images)
            if problem:
                raise InputError(f"{path}: not a table of document frequencies ({order}-grams: {problem})")
            prefixes = len(keys)

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write the table (`.npz`, no pickle); a file of others is replaced only with `overwrite`."""
        with output_path(path, overwrite=overwrite) as temporary, temporary.open("wb") as stream:
            self.write(stream)

    def write(self, stream: BinaryIO) -> None:
        """Write the table's file to a stream."""
        arrays = {f"keys_{k}": keys for k, keys in enumerate(self.keys, 1)}
        arrays |= {f"documents_{k}": counts for k, counts in enumerate(self.documents, 1)}
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        head = {"format": np.array(FORMAT), "images": np.array(self.images), "fingerprint": np.array(self.fingerprint)}
        np.savez_compressed(stream, allow_pickle=False, words=words, **head, **arrays)

    @classmethod
    def load(cls, path: Path | str) -> DocumentFrequencies:
        """Read a table; one whose words do not fit its fingerprint is refused."""
        return cls.read(path, path)

    @classmethod
    def read(cls, source: Path | str | BinaryIO, path: Path | str) -> DocumentFrequencies:
        """As `load`, from an open file too; `path` is for messages."""
        try:
            file = read_npz(source, path)
            if str(file["format"])[:100] != FORMAT:
                raise InputError(f"{path}: written in another format ({file['format']}); build the table again")
            words = tuple(file["words"].tobytes().decode().split("\n"))
            keys = tuple(file[f"keys_{k}"] for k in range(1, ORDERS + 1))
            documents = tuple(file[f"documents_{k}"] for k in range(1, ORDERS + 1))
            table = cls(words, int(file["images"]), keys, documents)
            expected = str(file["fingerprint"])
        except (ValueError, TypeError, KeyError, OverflowError, InputError) as error:
            raise InputError(f"{path}: not a table of document frequencies ({error})") from None
        table.require(expected, f"the fingerprint inside {path}")
        table._check(path)
        return table


def _fault(keys: Ints, documents: Ints, limit: int, images: int) -> str | None:
    """What is wrong with the n-grams of one order: keys are sorted and below `limit`, counts are 0 to `images`."""
    if any(values.ndim != 1 or values.dtype.kind != "i" for values in (keys, documents)):
        return "no whole numbers"
    if len(keys) != len(documents):
        return f"{len(keys)} n-grams, but {len(documents)} counts"
    if not len(keys):
        return None
    if documents.min() < 0 or documents.max() > images:
        return f"counts outside 0 to {images}"
    ordered = keys[0] >= 0 and int(keys[-1]) < limit and bool((keys[1:] > keys[:-1]).all())
    return None if ordered else "unknown words, or out of order"


def _renamed(keys: Ints, words: Ints, prefixes: Ints, size: int) -> Ints:
    """Packed keys of one table in merged numbers: `words[w]` is word w's, `prefixes[g]` that of the gram before."""
    prefix, last = np.divmod(keys, max(len(words), 1))
    renamed: Ints = prefixes[prefix] * size + words[last]
    return renamed


def _summed(where: Ints, counts: Ints, size: int) -> Ints:
    return np.bincount(where, counts, minlength=size).astype(np.int64)  # floats inside: exact below 2**53
