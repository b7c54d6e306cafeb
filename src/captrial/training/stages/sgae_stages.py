"""SGAE's sentence stages: reconstruct sentences from their own scene graphs, then through the dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.sgae import SentenceGraphs, Sgae
from captrial.language.vocabulary import PAD, UNK, Vocabulary
from captrial.training.data import Batch
from captrial.training.losses import cross_entropy
from captrial.training.parallel import WEIGHT
from captrial.training.schedules import Schedule
from captrial.training.stages.base import Logs

# The scene graph of one sentence: (object,), (object, attribute) and (subject, object, relation).
Tuples = Sequence[tuple[str, ...]]


@dataclass
class SentenceStage:
    """Cross-entropy of sentences decoded from their scene graphs; the images are not used."""

    captioner: Sgae
    epochs: int
    schedule: Schedule
    graphs: Sequence[Sequence[Tuples]]  # [image][caption]
    vocabulary: Vocabulary
    use_dictionary: bool
    name: str = "sentences"
    validates: bool = False
    averages: bool = False

    def parameters(self) -> Iterable[nn.Parameter]:
        """All of the captioner's; those of the image side get no gradient here."""
        return self.captioner.parameters()

    def loss(self, batch: Batch, epoch: int) -> tuple[Tensor, Logs]:
        """One caption an image; which one changes with the epoch."""
        number = epoch % batch.tokens.shape[1]
        tokens = batch.tokens[:, number : number + 1]  # (b, 1, t)
        chosen = zip(batch.rows.tolist(), batch.captions[:, number].tolist(), strict=True)
        graphs = graph_tensors([self.graphs[row][caption] for row, caption in chosen], self.vocabulary)
        graphs = SentenceGraphs(*(part.to(tokens.device) for part in graphs))
        memory = self.captioner.encode_sentences(graphs, self.use_dictionary)
        forced = self.captioner.teacher_force(tokens[..., :-1], memory)
        loss = cross_entropy(forced.logits, tokens[..., 1:])
        return loss, {"loss": float(loss.detach()), WEIGHT: float((tokens[..., 1:] != PAD).sum())}


def graph_tensors(graphs: Sequence[Tuples], vocabulary: Vocabulary) -> SentenceGraphs:
    """Scene-graph tuples of `b` sentences as padded word ids; words outside the vocabulary are left out.

    A graph without any known object keeps one unknown object, so that there is something to attend to.
    """
    parts = [_one_graph(graph, vocabulary) for graph in graphs]
    return SentenceGraphs(
        _padded([objects for objects, _, _ in parts], ()),
        _padded([relations for _, relations, _ in parts], (3,)),
        _padded([_equal(attributes) for _, _, attributes in parts], (max(_widest(part[2]) for part in parts),)),
    )


def _one_graph(graph: Tuples, vocabulary: Vocabulary) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Object ids, relation triples (subject, object, word id) and attribute ids of each object."""
    place: dict[str, int] = {}
    for entry in graph:
        for name in entry[: 2 if len(entry) == 3 else 1]:
            if vocabulary[name] != UNK:
                place.setdefault(name, len(place))
    objects = [vocabulary[name] for name in place] or [UNK]
    relations = [
        [place[subject], place[thing], vocabulary[word.split()[0]]]
        for subject, thing, word in (entry for entry in graph if len(entry) == 3)
        if subject in place and thing in place and word.split()
    ]
    attributes: list[list[int]] = [[] for _ in objects]
    for name, attribute in (entry for entry in graph if len(entry) == 2):
        if name in place and vocabulary[attribute] != UNK:
            attributes[place[name]].append(vocabulary[attribute])
    return objects, relations, attributes


def _widest(rows: Sequence[Sequence[int]]) -> int:
    return max(1, *(len(row) for row in rows))


def _equal(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Rows padded with -1 to the same length."""
    width = _widest(rows)
    return [[*row, *[-1] * (width - len(row))] for row in rows]


def _padded(parts: Sequence[Sequence[object]], inner: tuple[int, ...]) -> Tensor:
    """Lists of different lengths as one tensor (b, longest, *inner), -1 where padded."""
    longest = max(1, *(len(part) for part in parts))
    result = torch.full((len(parts), longest, *inner), -1)
    for row, part in enumerate(parts):
        if part:
            values = torch.tensor(part)
            result[row][tuple(slice(size) for size in values.shape)] = values
    return result
