"""What decoding needs of a captioner (`StepModel`), what it returns (`Decoded`), and its trees of tensors.

Shapes: `b` images, `n` hypotheses of each. Memory tensors are (b, ...), one row an image, never copied for the
hypotheses; state tensors are (b, n, ...). Both are opaque trees: search reorders them with `pick_images` and
`pick_hypotheses` without knowing their structure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from captrial.errors import InputError

PAD, BOS, EOS = 0, 1, 2  # ids of the special tokens, as in every vocabulary of captrial


class Step(NamedTuple):
    """The result of one step."""

    logits: Tensor  # (b, n, words)
    state: Any
    attention: Tensor | None  # (b, n, k) over the visual elements, summing to 1


class StepModel(Protocol):
    """A model that extends captions word by word."""

    def start(self, memory: Any) -> Any:
        """The state before the first word, for one hypothesis an image: tensors (b, 1, ...)."""
        ...

    def step(self, tokens: Tensor, state: Any, memory: Any) -> Step:
        """Read `tokens` (b, n), the last word of every hypothesis, and score the next word."""
        ...


@dataclass(frozen=True, eq=False)
class Decoded:
    """Captions as token ids, best first: `b` images, `n` captions of each, `t` steps.

    Where the constraints leave fewer than `n` captions of an image, the others are empty: PAD only, score -inf.
    """

    tokens: Tensor  # (b, n, t); EOS is kept where a caption ended, PAD after it
    scores: Tensor  # (b, n): what the captions were ranked by
    log_probs: Tensor  # (b, n, t): log-probability of each token, 0 at PAD
    attention: Tensor | None = None  # (b, n, t, k), with `trace`

    def captions(self) -> list[list[list[int]]]:
        """Word ids of every caption, special tokens removed: [image][caption][word]."""
        return [
            [[token for token in caption if token not in (PAD, BOS, EOS)] for caption in captions]
            for captions in self.tokens.tolist()
        ]

    def best(self) -> list[list[int]]:
        """Word ids of the best caption of every image."""
        return [captions[0] for captions in self.captions()]


def require_positive(**numbers: float | None) -> None:
    """Raise `InputError` for a number that leaves nothing to choose from; None stands for "not given".

    >>> require_positive(beam=5, top_k=None)
    """
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise InputError(f"{name}={number} leaves nothing to choose from; give a number above 0")


MAX_BEAM = 1000  # hypotheses an image: memory grows with it


def require_beam(beam: int) -> None:
    """Raise `InputError` for a beam that no memory would hold."""
    require_positive(beam=beam)
    if beam > MAX_BEAM:
        raise InputError(f"a beam of {beam} is too wide; give at most {MAX_BEAM}")


Tree = TypeVar("Tree")


def map_tensors(tree: Tree, function: Callable[[Tensor], Tensor]) -> Tree:
    """Apply `function` to every tensor in nested tuples, lists, dicts and dataclasses; the rest stays as it is."""
    return _mapped(tree, function)  # type: ignore[no-any-return]


def _mapped(tree: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, tuple):
        parts = [_mapped(part, function) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    if isinstance(tree, list):
        return [_mapped(part, function) for part in tree]
    if isinstance(tree, dict):
        return {key: _mapped(part, function) for key, part in tree.items()}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return type(tree)(*(_mapped(getattr(tree, field.name), function) for field in dataclasses.fields(tree)))
    return tree


def first_tensor(tree: object) -> Tensor:
    """Any tensor of the tree; its first axis counts the images."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(tree, note)
    return found[0]


def pick_images(tree: Tree, rows: Tensor) -> Tree:
    """Keep the images `rows` (m,) of a tree whose tensors are (b, ...)."""
    return map_tensors(tree, lambda tensor: tensor.index_select(0, rows))


def pick_hypotheses(tree: Tree, parents: Tensor) -> Tree:
    """Reorder hypotheses: tensors (b, n, ...) become (b, m, ...), taking `parents` (b, m) of each image."""
    images, wanted = parents.shape
    rows: dict[int, Tensor] = {}  # by n: tensors of one tree share theirs

    def pick(tensor: Tensor) -> Tensor:
        n = tensor.shape[1]
        if n not in rows:
            first = torch.arange(0, n * images, n, device=parents.device).unsqueeze(1)  # (b, 1)
            rows[n] = (parents + first).reshape(-1)
        flat = tensor.reshape(images * n, *tensor.shape[2:]).index_select(0, rows[n])
        return flat.view(images, wanted, *tensor.shape[2:])

    return map_tensors(tree, pick)
