"""Captions much longer than their references (a VLM's paragraphs): noticed, and cut where the user asks for it.

Every metric here compares with sentences of about ten words; a paragraph loses on length, not on what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from captrial.language.sentences import first_sentence, first_words

MUCH_LONGER = 2.0  # times the references' mean length


def shortened(text: str, sentence: bool = False, words: int | None = None) -> str:
    """A caption cut to its first sentence, its first words, or both."""
    if sentence:
        text = first_sentence(text)
    return text if words is None else first_words(text, words)


def much_longer(captions: Sequence[str], references: Mapping[str, Sequence[str]]) -> tuple[float, float] | None:
    """Mean words of captions and references if the captions are far longer, else None."""
    ours = [len(caption.split()) for caption in captions]
    theirs = [len(text.split()) for of_image in references.values() for text in of_image]
    if not ours or not theirs:
        return None
    mean, wanted = sum(ours) / len(ours), sum(theirs) / len(theirs)
    return (mean, wanted) if mean > MUCH_LONGER * max(wanted, 1.0) else None
