"""A graph network over scene graphs: objects, relations between them, attributes on them (used by SGAE)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.recurrent import Projection


class Nodes(NamedTuple):
    """Vectors of the nodes of a graph: objects, then relations, then one attribute node an object."""

    vectors: Tensor  # (b, o + r + o, d)
    mask: Tensor  # (b, o + r + o)


class Relations(NamedTuple):
    """Relation triples (b, r, 3): subject, object, word; -1 where padded."""

    triples: Tensor

    @property
    def mask(self) -> Tensor:
        """(b, r), True where there is a relation."""
        return self.triples[..., 0] >= 0

    @property
    def words(self) -> Tensor:
        """(b, r) word ids."""
        return self.triples[..., 2]

    def ends(self) -> tuple[Tensor, Tensor]:
        """Indices (b, r) of subjects and objects, 0 where padded."""
        clamped = self.triples.clamp(min=0)
        return clamped[..., 0], clamped[..., 1]

    def to_elements(self, weights: Tensor, elements: int) -> Tensor:
        """Attention over nodes (b, n, o + r + o) as attention over the objects (b, n, o).

        An attribute's share goes to its object, a relation's half to its subject and half to its object.
        """
        between = weights[..., elements:-elements]
        total: Tensor = weights[..., :elements] + weights[..., -elements:]
        for end in self.ends():
            index = end.unsqueeze(1).expand_as(between)
            total = total.scatter_add(-1, index, between / 2)
        return total


class GraphNet(nn.Module):
    """One round of messages along the relations, in the roles of subject and object.

    With `residual` (images) objects keep their own vector and relations average theirs with the message;
    without it (sentences) both are projected.
    """

    def __init__(self, width: int, dropout: float, residual: bool) -> None:
        super().__init__()
        self.residual = residual
        self.relation, self.as_subject, self.as_object = (Projection(3 * width, width, dropout) for _ in range(3))
        self.object = None if residual else Projection(width, width, dropout)
        self.attribute = Projection(2 * width, width, dropout)

    def forward(
        self,
        objects: Tensor,
        mask: Tensor,
        relations: Relations,
        relation_vectors: Tensor,
        attributes: Tensor,
        label: Callable[[Tensor], Tensor],
    ) -> Nodes:
        """Objects (b, o, d), mask (b, o), relation vectors (b, r, d), attribute ids (b, o, a) -> all nodes."""
        triples, present = self._triples(objects, relations, relation_vectors)
        messages = torch.zeros_like(objects)
        degree = objects.new_zeros(objects.shape[:2])
        for end, role in zip(relations.ends(), (self.as_subject, self.as_object), strict=True):
            index = end.unsqueeze(-1).expand(-1, -1, objects.shape[-1])
            messages = messages.scatter_add(1, index, role(triples) * present.unsqueeze(-1))
            degree = degree.scatter_add(1, end, present)
        own = objects if self.object is None else self.object(objects)
        updated = (own + messages) / (1 + degree).unsqueeze(-1)
        between = self.relation(triples)
        if self.residual:
            between = (relation_vectors + between) / 2
        described, has = self._attributes(objects, attributes, label)
        vectors = torch.cat([updated, between, described], 1)
        return Nodes(vectors, torch.cat([mask, relations.mask, has & mask], 1))

    def _triples(self, objects: Tensor, relations: Relations, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """[subject; object; relation] of every relation (b, r, 3 d), and 1.0 where it is one (b, r)."""
        ends = [objects.gather(1, end.unsqueeze(-1).expand(-1, -1, objects.shape[-1])) for end in relations.ends()]
        return torch.cat([*ends, vectors], -1), relations.mask.to(objects.dtype)

    def _attributes(
        self, objects: Tensor, attributes: Tensor, label: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The mean of an object's attribute messages (b, o, d), and whether it has any (b, o)."""
        present = (attributes >= 0).to(objects.dtype).unsqueeze(-1)  # (b, o, a, 1)
        words = label(attributes)  # (b, o, a, d)
        pairs = torch.cat([objects.unsqueeze(2).expand_as(words), words], -1)
        total = (self.attribute(pairs) * present).sum(2)
        count = present.sum(2)
        return total / count.clamp(min=1), count.squeeze(-1) > 0
