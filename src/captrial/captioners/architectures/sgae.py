"""SGAE, the scene-graph auto-encoder (Yang et al. 2019): a dictionary learnt from sentences helps to caption images.

Stage 1 learns to reconstruct a sentence from its own scene graph, stage 2 the same through a shared dictionary, stage 3
to caption images from their scene graphs and what the dictionary recalls for them. All stages decode through the same
contract; only what is encoded differs (`encode_sentences` or `encode`). `GraphNet` is the network over scene graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures import layers
from captrial.captioners.architectures.recurrent import RecurrentCaptioner, RecurrentConfig, RecurrentStep
from captrial.captioners.base import masked_mean
from captrial.errors import InputError
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class SgaeConfig(RecurrentConfig):
    """Sizes of the paper."""

    width: int = 1000
    dictionary: int = 10000
    relations: bool = True  # False: elements only, without relations and attributes


class Nodes(NamedTuple):
    """Vectors of the nodes of a scene graph: objects, then relations, then one attribute node an object."""

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
        self.relation, self.as_subject, self.as_object = (
            layers.Projection(3 * width, width, dropout) for _ in range(3)
        )
        self.object = None if residual else layers.Projection(width, width, dropout)
        self.attribute = layers.Projection(2 * width, width, dropout)

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


class SentenceGraphs(NamedTuple):
    """Scene graphs of sentences, in word ids; -1 where padded."""

    objects: Tensor  # (b, o)
    relations: Tensor  # (b, r, 3) subject, object, word
    attributes: Tensor  # (b, o, a)


class SgaeMemory(NamedTuple):
    """Nodes ready for attention (sentences: one set; images: recalled and detected), their mean, and the graph."""

    contexts: tuple[layers.AdditiveMemory, ...]
    mean: Tensor  # (b, 1, d)
    relations: Relations | None
    elements: Tensor  # (b, k): mask of the elements that attention is reported on


class SgaeState(NamedTuple):
    """The two LSTMs."""

    attention: layers.LstmState
    language: layers.LstmState


class Core(nn.Module):
    """Top-Down's two LSTMs over one or two sets of nodes: an attention for each, which share one `W_v`."""

    def __init__(self, config: SgaeConfig, contexts: int) -> None:
        super().__init__()
        width = config.width
        self.looking = layers.LstmCell(3 * width, width)  # the attention LSTM; names are part of checkpoints
        self.attention = nn.ModuleList(
            layers.AdditiveAttention(None if number else width, width, config.attention) for number in range(contexts)
        )
        self.speaking = layers.LstmCell((contexts + 1) * width, width)

    def project(self, vectors: Tensor, mask: Tensor) -> layers.AdditiveMemory:
        """Nodes (b, k, d) ready for any of the attentions."""
        first = self.attention[0]
        assert isinstance(first, layers.AdditiveAttention)
        return first.project(vectors, mask)

    def forward(self, word: Tensor, state: SgaeState, memory: SgaeMemory) -> tuple[SgaeState, Tensor]:
        """Read a word vector (b, n, d); the attention returned is over the last set of nodes."""
        inputs = [state.language.hidden, memory.mean.expand_as(word), word]
        attention_state = self.looking(torch.cat(inputs, -1), state.attention)
        attended = []
        for attention, nodes in zip(self.attention, memory.contexts, strict=True):
            context, weights = attention(attention_state.hidden, nodes)
            attended.append(context)
        language = self.speaking(torch.cat([*attended, attention_state.hidden], -1), state.language)
        return SgaeState(attention_state, language), weights


class Sgae(RecurrentCaptioner):
    """Graph networks for sentences and images, a shared dictionary, a decoder for each."""

    Config: ClassVar[type[SgaeConfig]] = SgaeConfig
    config: SgaeConfig
    needs_graphs: ClassVar[bool] = True

    def __init__(self, config: SgaeConfig) -> None:
        super().__init__(config)
        width = config.width
        self.words = layers.Embedding(config.words, width, config.dropout)
        self.embed = layers.Projection(config.features, width, config.dropout)
        self.embed_mean = layers.Projection(width, width, config.dropout)
        self.embed_label = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.sentence_graph = GraphNet(width, config.dropout, residual=False)
        self.picture_graph = GraphNet(width, config.dropout, residual=True)  # names are part of checkpoints: kept
        self.dictionary = nn.Parameter(torch.empty(config.dictionary, width).uniform_(0, 0.01))
        self.to_dictionary = nn.Sequential(
            *(
                part
                for _ in range(2)
                for part in (nn.Linear(width, width), nn.LeakyReLU(0.1), layers.Dropout(config.dropout))
            ),
            nn.Linear(width, width),
        )
        self.sentence_core = Core(config, contexts=1)
        self.picture_core = Core(config, contexts=2)
        self.head = nn.Linear(width, config.words)
        self.dropout = layers.Dropout(config.dropout)

    def encode(self, features: Features) -> SgaeMemory:
        """Images: the nodes of their scene graphs, and what the dictionary recalls for each node."""
        features = self.standardised(features)
        elements = self.embed(features.elements)
        if not self.config.relations:
            nodes, relations = Nodes(elements, features.mask), None
        elif features.relations is None or features.attributes is None:
            raise InputError(
                "sgae needs relations and attributes of the images and these features have none; "
                "use labelled regions (--backbone region-detector), or the relation-free mode: --set relations=false"
            )
        else:
            relations = Relations(features.relations)
            nodes = self.picture_graph(
                elements, features.mask, relations, self._label(relations.words), features.attributes, self._label
            )
        recalled = self.recall(self.to_dictionary(nodes.vectors))
        contexts = tuple(self.picture_core.project(each, nodes.mask) for each in (recalled, nodes.vectors))
        return SgaeMemory(contexts, self._mean(nodes), relations, features.mask)

    def encode_sentences(self, graphs: SentenceGraphs, use_dictionary: bool) -> SgaeMemory:
        """Sentences: the nodes of their own scene graphs, in stage 2 through the dictionary."""
        relations, mask = Relations(graphs.relations), graphs.objects >= 0
        nodes = self.sentence_graph(
            self._word(graphs.objects), mask, relations, self._word(relations.words), graphs.attributes, self._word
        )
        if use_dictionary:
            nodes = Nodes(self.recall(nodes.vectors), nodes.mask)
        contexts = (self.sentence_core.project(nodes.vectors, nodes.mask),)
        return SgaeMemory(contexts, self._mean(nodes), relations, mask)

    def recall(self, x: Tensor) -> Tensor:
        """Re-encode vectors (..., d) by the dictionary: `D^T softmax(D x)`."""
        return torch.softmax(x @ self.dictionary.T, -1) @ self.dictionary

    def start(self, memory: SgaeMemory) -> SgaeState:
        """Zeros."""
        zeros = layers.zero_state(memory.mean, self.config.width)
        return SgaeState(zeros, zeros)

    def recurrent_step(self, tokens: Tensor, state: SgaeState, memory: SgaeMemory) -> RecurrentStep:
        """Read a word, over sentence or image nodes alike."""
        core = self.picture_core if len(memory.contexts) == 2 else self.sentence_core
        state, weights = core(self.words(tokens), state, memory)
        if memory.relations is not None:
            weights = memory.relations.to_elements(weights, memory.elements.shape[1])
        return RecurrentStep(state.language.hidden, state, weights)

    def _word(self, ids: Tensor) -> Tensor:
        """Word vectors of ids that may be padding."""
        vectors: Tensor = self.words(ids.clamp(min=0))
        return vectors

    def _label(self, ids: Tensor) -> Tensor:
        """Vectors of the words that label relations and attributes of images."""
        vectors: Tensor = self.embed_label(self._word(ids))
        return vectors

    def _mean(self, nodes: Nodes) -> Tensor:
        """The mean is of nodes and not, as Top-Down's, of an image's elements: sentences have one, too."""
        mean: Tensor = self.embed_mean(masked_mean(nodes.vectors, nodes.mask)).unsqueeze(1)
        return mean
