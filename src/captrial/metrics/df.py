"""Document frequencies: in how many images' references each n-gram stands. Built, saved, loaded, bound to a vocabulary.

A table is a trie by levels over word ids (see `ngrams`), so it serves text (by the words it carries) and a captioner's
token ids (by the fingerprint of its vocabulary) alike. A table of another vocabulary would silently give rewards near
zero; it is refused instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError, MismatchError
from captrial.files import atomic_path, content_hash
from captrial.metrics.corpus import Corpus
from captrial.metrics.ngrams import ORDERS, find
from captrial.metrics.sentences import Ints

FORMAT = "captrial document frequencies 1"


def fingerprint(words: Sequence[str]) -> str:
    """A vocabulary's identity: its words in the order of their ids."""
    return content_hash("\n".join(words))


@dataclass(frozen=True)
class DocumentFrequencies:
    """`documents[k - 1][i]` images hold the k-gram whose packed key is `keys[k - 1][i]`; `images` in all."""

    words: tuple[str, ...]
    images: int
    keys: tuple[Ints, ...]  # by order, sorted: prefix id * len(words) + last word
    documents: tuple[Ints, ...]

    @classmethod
    def of(cls, corpus: Corpus) -> DocumentFrequencies:
        """The table of a corpus's references; n-grams that only candidates hold are kept, at 0 images."""
        counts = corpus.counts
        words = corpus.sentences.vocabulary
        return cls(words, len(corpus), tuple(c.keys for c in counts), tuple(c.documents for c in counts))

    @property
    def fingerprint(self) -> str:
        """The identity of the vocabulary this table is written in."""
        return fingerprint(self.words)

    def require(self, expected: str, what: str = "the captioner's vocabulary") -> None:
        """Refuse a table that is written in another vocabulary."""
        if expected != self.fingerprint:
            raise MismatchError(
                f"document frequencies were built with vocabulary {self.fingerprint}, but {what} is {expected}; "
                "build the table again with this vocabulary"
            )

    def idf(self, corpus: Corpus) -> list[NDArray[np.float64]]:
        """By order, (grams,): log N - log max(1, df) for each n-gram of the corpus; unknown ones count as never seen."""
        index = {word: number for number, word in enumerate(self.words)}
        vocabulary = corpus.sentences.vocabulary
        words = np.array([index.get(word, -1) for word in vocabulary], dtype=np.int64)
        known, idfs = words, []
        for order in range(ORDERS):
            if order:
                prefix, last = np.divmod(corpus.counts[order].keys, max(len(vocabulary), 1))
                inside = (known[prefix] >= 0) & (words[last] >= 0)
                pairs = np.where(inside, known[prefix] * len(self.words) + words[last], -1)
                known = find(self.keys[order], pairs)
            frequency = np.where(known >= 0, self._padded(order)[known], 0)
            idfs.append(np.log(self.images) - np.log(np.maximum(frequency, 1)))
        return idfs

    def save(self, path: Path | str) -> None:
        """Write the table (`.npz`, no pickle)."""
        arrays = {f"keys_{k}": keys for k, keys in enumerate(self.keys, 1)}
        arrays |= {f"documents_{k}": counts for k, counts in enumerate(self.documents, 1)}
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        head = {"format": np.array(FORMAT), "images": np.array(self.images), "fingerprint": np.array(self.fingerprint)}
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, words=words, **head, **arrays)

    @classmethod
    def load(cls, path: Path | str) -> DocumentFrequencies:
        """Read a table; one whose words do not fit its fingerprint is refused."""
        try:
            with np.load(path, allow_pickle=False) as file:
                if str(file["format"]) != FORMAT:
                    raise InputError(f"{path}: written in another format ({file['format']}); build the table again")
                words = tuple(file["words"].tobytes().decode().split("\n"))
                keys = tuple(file[f"keys_{k}"] for k in range(1, ORDERS + 1))
                documents = tuple(file[f"documents_{k}"] for k in range(1, ORDERS + 1))
                table = cls(words, int(file["images"]), keys, documents)
                expected = str(file["fingerprint"])
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            raise InputError(f"{path}: not a table of document frequencies ({error})") from None
        table.require(expected, f"the fingerprint inside {path}")
        return table

    def _padded(self, order: int) -> Ints:
        return np.append(self.documents[order], 0)  # so that index -1 may be read
