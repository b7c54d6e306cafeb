"""What decoding returns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

PAD, BOS, EOS = 0, 1, 2  # ids of the special tokens, as in every vocabulary of ours


@dataclass(frozen=True, eq=False)
class Decoded:
    """Captions as token ids, best first: `b` pictures, `n` captions of each, `t` steps.

    Where a picture has fewer than `n` captions that search may say, the rest are empty: PAD only, score -inf.
    """

    tokens: Tensor  # (b, n, t); EOS is kept where it was said, PAD after it
    scores: Tensor  # (b, n): what they were ranked by
    log_probs: Tensor  # (b, n, t): log-probability of each token, 0 at PAD
    attention: Tensor | None = None  # (b, n, t, k), where a trace was asked for

    def sentences(self) -> list[list[list[int]]]:
        """Word ids of every caption, special tokens removed: [picture][caption][word]."""
        return [
            [[token for token in caption if token not in (PAD, BOS, EOS)] for caption in captions]
            for captions in self.tokens.tolist()
        ]

    def best(self) -> list[list[int]]:
        """Word ids of the best caption of every picture."""
        return [captions[0] for captions in self.sentences()]
