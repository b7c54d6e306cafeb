"""SGAE, scene-graph auto-encoder (Yang et al. 2019): a dictionary learnt from sentences helps to see.

Stage 1 learns to say a sentence from its own scene graph, stage 2 the same through a shared dictionary, stage 3 to
caption images from their scene graphs and from what the dictionary recalls of them. All stages speak through the
same contract: only what is encoded differs (`encode_sentences` or `encode`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from captrial.captioners.architectures.attention import AdditiveAttention, AdditiveMemory
from captrial.captioners.architectures.graph_network import GraphNet, Nodes, Relations
from captrial.captioners.architectures.recurrent import (
    Embedding,
    LstmCell,
    LstmState,
    Projection,
    Read,
    RecurrentCaptioner,
    zero_state,
)
from captrial.captioners.base import CaptionerConfig, masked_mean
from captrial.errors import InputError
from captrial.vision.features.visual_features import Features


@dataclass(frozen=True)
class SgaeConfig(CaptionerConfig):
    """Sizes of the paper."""

    width: int = 1000
    attention: int = 512
    dictionary: int = 10000
    dropout: float = 0.5
    relations: bool = True  # False: elements only, without relations and attributes


class SentenceGraphs(NamedTuple):
    """Scene graphs of sentences, in word ids; -1 where padded."""

    objects: Tensor  # (b, o)
    relations: Tensor  # (b, r, 3) subject, object, word
    attributes: Tensor  # (b, o, a)


class SgaeMemory(NamedTuple):
    """Nodes ready for attention (sentences: one set; images: recalled and seen), their mean, and the graph."""

    contexts: tuple[AdditiveMemory, ...]
    mean: Tensor  # (b, 1, d)
    relations: Relations | None
    elements: Tensor  # (b, k): mask of the elements that attention is reported on


class SgaeState(NamedTuple):
    """The two LSTMs."""

    looking: LstmState
    speaking: LstmState


class Core(nn.Module):
    """Top-Down's two LSTMs over one or two sets of nodes: an attention for each, which share one `W_v`."""

    def __init__(self, config: SgaeConfig, contexts: int) -> None:
        super().__init__()
        width = config.width
        self.looking = LstmCell(3 * width, width)
        self.attention = nn.ModuleList(
            AdditiveAttention(None if number else width, width, config.attention) for number in range(contexts)
        )
        self.speaking = LstmCell((contexts + 1) * width, width)

    def project(self, vectors: Tensor, mask: Tensor) -> AdditiveMemory:
        """Nodes (b, k, d) ready for any of the attentions."""
        first = self.attention[0]
        assert isinstance(first, AdditiveAttention)
        return first.project(vectors, mask)

    def forward(self, word: Tensor, state: SgaeState, memory: SgaeMemory) -> tuple[SgaeState, Tensor]:
        """Read a word vector (b, n, d); the attention returned is over the last set of nodes."""
        inputs = [state.speaking.hidden, memory.mean.expand_as(word), word]
        looking = self.looking(torch.cat(inputs, -1), state.looking)
        seen = []
        for attention, nodes in zip(self.attention, memory.contexts, strict=True):
            context, weights = attention(looking.hidden, nodes)
            seen.append(context)
        return SgaeState(looking, self.speaking(torch.cat([*seen, looking.hidden], -1), state.speaking)), weights


class Sgae(RecurrentCaptioner):
    """Graph networks for sentences and images, a shared dictionary, a decoder for each."""

    Config: ClassVar[type[SgaeConfig]] = SgaeConfig
    config: SgaeConfig
    needs_graphs: ClassVar[bool] = True

    def __init__(self, config: SgaeConfig) -> None:
        super().__init__(config)
        width = config.width
        self.words = Embedding(config.words, width, config.dropout)
        self.embed = Projection(config.features, width, config.dropout)
        self.embed_mean = Projection(width, width, config.dropout)
        self.embed_label = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.sentence_graph = GraphNet(width, config.dropout, residual=False)
        self.image_graph = GraphNet(width, config.dropout, residual=True)
        self.dictionary = nn.Parameter(torch.empty(config.dictionary, width).uniform_(0, 0.01))
        self.to_dictionary = nn.Sequential(
            *(
                part
                for _ in range(2)
                for part in (nn.Linear(width, width), nn.LeakyReLU(0.1), nn.Dropout(config.dropout))
            ),
            nn.Linear(width, width),
        )
        self.sentence_core = Core(config, contexts=1)
        self.image_core = Core(config, contexts=2)
        self.head = nn.Linear(width, config.words)
        self.dropout = nn.Dropout(config.dropout)

    def encode(self, features: Features) -> SgaeMemory:
        """Images: the nodes of their scene graphs, and what the dictionary recalls for each node."""
        elements = self.embed(features.elements)
        if not self.config.relations:
            nodes, relations = Nodes(elements, features.mask), None
        elif features.relations is None or features.attributes is None:
            raise InputError(
                "sgae needs relations and attributes of the images and these features have none; "
                "use labelled regions (--backbone localiser), or the relation-free mode: --set relations=false"
            )
        else:
            relations = Relations(features.relations)
            nodes = self.image_graph(
                elements, features.mask, relations, self._label(relations.words), features.attributes, self._label
            )
        recalled = self.recall(self.to_dictionary(nodes.vectors))
        contexts = tuple(self.image_core.project(each, nodes.mask) for each in (recalled, nodes.vectors))
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
        zeros = zero_state(memory.mean, self.config.width)
        return SgaeState(zeros, zeros)

    def read(self, tokens: Tensor, state: SgaeState, memory: SgaeMemory) -> Read:
        """Read a word, over sentence or image nodes alike."""
        core = self.image_core if len(memory.contexts) == 2 else self.sentence_core
        state, weights = core(self.words(tokens), state, memory)
        if memory.relations is not None:
            weights = memory.relations.to_elements(weights, memory.elements.shape[1])
        return Read(state.speaking.hidden, state, weights)

    def score(self, output: Tensor) -> Tensor:
        """A linear layer after dropout."""
        logits: Tensor = self.head(self.dropout(output))
        return logits

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
