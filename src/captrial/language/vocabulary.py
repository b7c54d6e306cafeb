"""The vocabulary of a captioner: separate ids for PAD, BOS, EOS and UNK, one fixed order, a fingerprint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from captrial.errors import InputError, MismatchError
from captrial.files import atomic_write, content_hash

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
FIRST_WORD = len(SPECIALS)
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words and their ids: 0 PAD, 1 BOS, 2 EOS, 3 UNK, then `words` in order.

    >>> vocabulary = Vocabulary(("a", "dog"))
    >>> vocabulary.encode(["a", "red", "dog"])
    [1, 4, 3, 5, 2]
    >>> vocabulary.decode([1, 4, 5, 2, 0, 0])
    ['a', 'dog']
    """

    words: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = {word: FIRST_WORD + index for index, word in enumerate(self.words)}
        if len(ids) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise InputError(f"the vocabulary has {twice!r} twice")
        for word in self.words:
            if not word or word in SPECIALS or word.split() != [word]:
                raise InputError(f"{word!r} cannot be a word of a vocabulary")
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def build(cls, captions: Iterable[Sequence[str]], min_count: int = 5) -> Vocabulary:
        """The words that occur at least `min_count` times in tokenised captions, frequent ones first, then by letters.

        >>> Vocabulary.build([["a", "dog"], ["a", "cat"]], min_count=1).words
        ('a', 'cat', 'dog')
        """
        counts = Counter(word for caption in captions for word in caption)
        kept = [word for word, count in counts.items() if count >= min_count and word not in SPECIALS]
        return cls(tuple(sorted(kept, key=lambda word: (-counts[word], word))))

    def __len__(self) -> int:
        """The number of ids, the four special ones included."""
        return FIRST_WORD + len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __iter__(self) -> Iterator[str]:
        """The words, in the order of their ids, without the special ones."""
        return iter(self.words)

    def __getitem__(self, word: str) -> int:
        """The id of a word; `UNK` for one that is not in the vocabulary."""
        return self._ids.get(word, UNK)

    def word(self, token: int) -> str:
        """The word of an id; special ids give `<pad>`, `<bos>`, `<eos>`, `<unk>`."""
        if not 0 <= token < len(self):
            raise InputError(f"{token} is not an id of this vocabulary of {len(self)}")
        return SPECIALS[token] if token < FIRST_WORD else self.words[token - FIRST_WORD]

    def encode(self, tokens: Iterable[str], *, bos: bool = True, eos: bool = True) -> list[int]:
        """The ids of a tokenised caption between BOS and EOS."""
        ids = [self._ids.get(token, UNK) for token in tokens]
        return [BOS] * bos + ids + [EOS] * eos

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words of a row of ids up to EOS; PAD and BOS are skipped, UNK stays visible as `<unk>`."""
        words = []
        for token in map(int, ids):
            if token == EOS:
                break
            if token not in (PAD, BOS):
                words.append(self.word(token))
        return words

    @property
    def fingerprint(self) -> str:
        """A hash of the words in their order: files that depend on a vocabulary keep it and refuse another."""
        return content_hash("\n".join(self.words))

    def save(self, path: Path | str) -> None:
        """Write `vocabulary.json`."""
        document = {"format": _FORMAT, "fingerprint": self.fingerprint, "words": self.words}
        atomic_write(path, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")

    @classmethod
    def load(cls, path: Path | str) -> Vocabulary:
        """Read `vocabulary.json`; one that was edited by hand does not match its fingerprint and is refused."""
        try:
            document = orjson.loads(Path(path).read_bytes())
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
        except orjson.JSONDecodeError as error:
            raise InputError(f"{path}: not JSON: {error}") from None
        words = document.get("words") if isinstance(document, dict) else None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InputError(f"{path}: no list of 'words'; not a vocabulary")
        vocabulary = cls(tuple(words))
        if document.get("format") != _FORMAT or document.get("fingerprint") != vocabulary.fingerprint:
            raise MismatchError(f"{path}: the words do not match the file's fingerprint; save the vocabulary again")
        return vocabulary
