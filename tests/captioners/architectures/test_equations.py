"""Every captioner against its equations, written down a second time: without caches, masks, captions side by side.

The parameters are the captioner's, what is done with them is not. States and contexts are (b, d), elements (b, k, d);
every function gives the logits (b, t, words) of teacher forcing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn, relu, sigmoid, tanh
from torch.nn.functional import celu, group_norm

from captioners.architectures.test_contract import make_features, make_tokens, tiny
from captrial.captioners import ARCHITECTURES
from captrial.vision.features.visual_features import Features

State = tuple[Tensor, Tensor]  # hidden, cell
CELU_ALPHA = 1.3
BLOCKED = 1e-6  # what a geometry gate of ORT is at least


# Parts that several captioners have.


def additive_attention(
    attention: Any, query: Tensor, values: Tensor, projection: nn.Module, prior: Tensor | float = 1.0
) -> tuple[Tensor, Tensor]:
    """e_i = w . tanh(W_v v_i + W_h h), alpha = softmax(e): sum_i alpha_i v_i (b, d), and alpha as (b, k, 1)."""
    scores = attention.score(tanh(prior * projection(values) + attention.query(query)[:, None]))
    weights = scores.softmax(1)
    return (weights * values).sum(1), weights


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(b, k, d) -> (b, heads, k, d_h)."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def attend(queries: Tensor, keys: Tensor, values: Tensor, heads: int, bias: Tensor | float = 0.0) -> Tensor:
    """softmax(q . k / sqrt(d_h) + bias) v in every head, side by side (b, q, d)."""
    query, key, value = (split_heads(part, heads) for part in (queries, keys, values))
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + bias
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)


def gated_linear_unit(layer: nn.Module, *inputs: Tensor) -> Tensor:
    """The first half is content, the second its gate."""
    content, gate = layer(torch.cat(inputs, -1)).chunk(2, -1)
    return content * sigmoid(gate)


def lstm(cell: Any, state: State, *inputs: Tensor) -> State:
    hidden, memory = cell.cell(torch.cat(inputs, -1), state)
    return hidden, memory


def zeros(model: Any, like: Tensor) -> Tensor:
    return like.new_zeros(len(like), model.config.width)


# Captioners with an LSTM.


def show_attend_tell(model: Any, features: Features, tokens: Tensor) -> Tensor:
    elements = features.elements
    first = relu(model.init[0](elements.mean(1)))
    hidden, cell = tanh(model.init_hidden(first)), tanh(model.init_cell(first))
    projected = tanh(model.element[1](model.element[0](elements)))  # p_i, of two layers
    logits = []
    for position, read in enumerate(tokens.T):
        weights = model.attention(tanh(projected + model.query(hidden)[:, None])).softmax(1)  # of h_{t-1}
        context = sigmoid(model.selector(hidden)) * (weights * elements).sum(1)  # beta gate, of h_{t-1} too
        word = model.words(read) * (position > 0)  # the first input is all zeros
        hidden, cell = lstm(model.lstm, (hidden, cell), word, context)
        deep = tanh(model.out_hidden(hidden) + word + model.out_context(context))
        logits.append(model.head(deep))
    return torch.stack(logits, 1)


def att2in(model: Any, features: Features, tokens: Tensor) -> Tensor:
    elements = relu(model.embed[0](features.elements))
    hidden = cell = zeros(model, elements)
    logits = []
    for read in tokens.T:
        context, _ = additive_attention(model.attention, hidden, elements, model.attention.value)  # of h_{t-1}
        word = relu(model.words[0](read))
        gates = model.from_word(word) + model.from_hidden(hidden)
        into, forget, out, *candidates = gates.chunk(5, -1)
        seen = model.from_context(context).chunk(2, -1)  # in the candidates alone
        candidate = torch.maximum(candidates[0] + seen[0], candidates[1] + seen[1])  # maxout, no tanh
        cell = sigmoid(forget) * cell + sigmoid(into) * candidate
        hidden = sigmoid(out) * tanh(cell)
        logits.append(model.head(hidden))
    return torch.stack(logits, 1)


def top_down(model: Any, features: Features, tokens: Tensor) -> Tensor:
    elements = relu(model.embed[0](features.elements))
    mean = relu(model.embed_mean[0](features.elements.mean(1)))
    looking = speaking = (zeros(model, elements), zeros(model, elements))
    logits = []
    for read in tokens.T:
        looking = lstm(model.looking, looking, speaking[0], mean, relu(model.words[0](read)))  # [h2; v; x]
        context, _ = additive_attention(model.attention, looking[0], elements, model.attention.value)  # of h1, now
        speaking = lstm(model.speaking, speaking, context, looking[0])
        logits.append(model.head(speaking[0]))
    return torch.stack(logits, 1)


def stack_cap(model: Any, features: Features, tokens: Tensor) -> Tensor:
    elements = relu(model.embed[0](features.elements))
    mean = relu(model.embed_mean[0](features.elements.mean(1)))
    looking = (zeros(model, elements), zeros(model, elements))
    stages = [looking] * 3  # coarse, fine, fine
    logits = []
    for read in tokens.T:
        looking = lstm(model.looking, looking, stages[-1][0], mean, relu(model.words[0](read)))  # the last feeds back
        hidden, prior = looking[0], 1.0
        for stage, attention in enumerate(model.attention):
            context, prior = additive_attention(attention, hidden, elements, attention.value, prior)
            stages[stage] = lstm(model.speaking[stage], stages[stage], context, hidden)
            hidden = stages[stage][0]
        logits.append(model.heads[-1](hidden))
    return torch.stack(logits, 1)


def aoa(model: Any, features: Features, tokens: Tensor) -> Tensor:
    heads = model.config.heads
    refined = relu(model.embed[0](features.elements))
    for layer in model.refiner:  # x + AoA(LN x, MHA(LN x, LN x, LN x)), no feed-forward
        inner = layer.norm(refined)
        attended = attend(layer.query(inner), layer.key(inner), layer.value(inner), heads)
        refined = refined + gated_linear_unit(layer.aoa.gate[1], attended, inner)
    refined = model.refined_norm(refined)
    values, keys = model.values_keys(refined).chunk(2, -1)  # values first
    hidden = cell = context = zeros(model, refined)
    logits = []
    for read in tokens.T:
        word = relu(model.words[0](read))
        hidden, cell = lstm(model.lstm, (hidden, cell), word, refined.mean(1) + context)
        query = model.query(model.query_norm(hidden))[:, None]
        context = gated_linear_unit(model.aoa.gate[1], attend(query, keys, values, heads)[:, 0], hidden)
        logits.append(model.head(context))
    return torch.stack(logits, 1)


def x_linear(block: Any, query: Tensor, elements: Tensor) -> Tensor:
    """beta * P(q) * sum_i alpha_i P(v_i), both attentions from the products P(q) * P(k_i) of a head."""

    def project(low_rank: Any, x: Tensor) -> Tensor:
        """P, as (b, k, heads, d_h)."""
        b, k, d = x.shape
        heads, norm = low_rank.heads, low_rank.norm
        flat = celu(low_rank.linear(x), CELU_ALPHA).view(b * k, d)
        return group_norm(flat, heads, norm.weight, norm.bias).view(b, k, heads, -1)

    query = query[:, None]
    squeezed = relu(block.squeeze[0](project(block.query, query) * project(block.key, elements)))  # B'
    spatial = block.spatial(squeezed).softmax(1)  # alpha, (b, k, heads, 1)
    channel = sigmoid(block.channel(squeezed.mean(1)))  # beta, (b, heads, d_h)
    seen = (spatial * project(block.value, elements)).sum(1)
    return (channel * project(block.query_value, query)[:, 0] * seen).flatten(1)


def x_lan(model: Any, features: Features, tokens: Tensor) -> Tensor:
    elements = celu(model.embed[0](features.elements), CELU_ALPHA)
    images = [elements.mean(1)]  # g_0
    for block in model.blocks:
        image = x_linear(block.look, images[-1], elements)
        both = torch.cat([image[:, None].expand_as(elements), elements], -1)
        elements = block.norm(elements + relu(block.mix[0](both)))
        images.append(image)
    joined = model.join_norm(model.join(torch.cat(images, -1)))  # of g_0 ... g_4
    hidden = cell = context = zeros(model, joined)
    logits = []
    for read in tokens.T:
        word = celu(model.words[0](read), CELU_ALPHA)
        hidden, cell = lstm(model.lstm, (hidden, cell), word, joined + context)
        attended = model.mix_norm(model.mix(torch.cat([hidden, x_linear(model.look, hidden, elements)], -1)))
        context = gated_linear_unit(model.context[0], attended, hidden)
        logits.append(model.head(context))
    return torch.stack(logits, 1)


# SGAE: an image at a time, and no node that is padding.


def image_nodes(model: Any, elements: Tensor, relations: Tensor, attributes: Tensor) -> Tensor:
    """Objects, relations and attributes of one image: elements (k, d) -> (nodes, d)."""

    def message(projection: Any, *parts: Tensor) -> Tensor:
        return relu(projection[0](torch.cat(parts, -1)))

    def label(word: Tensor) -> Tensor:
        return relu(model.embed_label[0](relu(model.words[0](word))))

    net = model.picture_graph
    objects = [[element] for element in elements]  # itself, and a message for every relation it is in
    between, described = [], []
    for subject, target, word in relations[relations[:, 0] >= 0]:
        triple = (elements[subject], elements[target], label(word))
        objects[subject].append(message(net.as_subject, *triple))
        objects[target].append(message(net.as_object, *triple))
        between.append((label(word) + message(net.relation, *triple)) / 2)
    for element, words in zip(elements, attributes, strict=True):
        found = [message(net.attribute, element, label(word)) for word in words[words >= 0]]
        described += [torch.stack(found).mean(0)] if found else []
    means = [torch.stack(parts).mean(0) for parts in objects]  # (v_i + messages) / (1 + degree)
    return torch.stack([*means, *between, *described])


def sgae(model: Any, features: Features, tokens: Tensor) -> Tensor:
    assert features.relations is not None
    assert features.attributes is not None
    embedded = relu(model.embed[0](features.elements))
    graphs = zip(embedded, features.relations, features.attributes, tokens, strict=True)
    return torch.cat([sgae_image(model, image_nodes(model, *graph), said) for *graph, said in graphs])


def sgae_image(model: Any, nodes: Tensor, tokens: Tensor) -> Tensor:
    """The logits of one image (1, t, words)."""
    first, _, _, second, _, _, third = model.to_dictionary
    leaky = nn.LeakyReLU(0.1)
    recalled = third(leaky(second(leaky(first(nodes)))))
    recalled = (recalled @ model.dictionary.T).softmax(-1) @ model.dictionary  # D^T softmax(D x)
    nodes, recalled = nodes[None], recalled[None]
    core, mean = model.picture_core, relu(model.embed_mean[0](nodes.mean(1)))
    to_recalled, to_seen = core.attention
    looking = speaking = (zeros(model, nodes), zeros(model, nodes))
    logits = []
    for read in tokens[:, None]:
        looking = lstm(core.looking, looking, speaking[0], mean, relu(model.words[0](read)))
        memory, _ = additive_attention(to_recalled, looking[0], recalled, to_recalled.value)
        seen, _ = additive_attention(to_seen, looking[0], nodes, to_recalled.value)  # one W_v for both
        speaking = lstm(core.speaking, speaking, memory, seen, looking[0])
        logits.append(model.head(speaking[0]))
    return torch.stack(logits, 1)


# Transformers.


def multi_head(attention: Any, queries: Tensor, elements: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    """Attention with its projections; memory slots beside keys and values where it has some (M2, SMArT)."""
    keys, values = attention.key(elements), attention.value(elements)
    if attention.memory_slots:  # [W_k X; sqrt(d_k) M_k] and [W_v X; sqrt(m) M_v]
        slots = (len(elements), -1, -1)
        scale = math.sqrt(keys.shape[-1] / attention.heads)
        keys = torch.cat([keys, scale * attention.memory_keys.expand(slots)], 1)
        values = torch.cat([values, math.sqrt(attention.memory_slots) * attention.memory_values.expand(slots)], 1)
    context: Tensor = attention.out(attend(attention.query(queries), keys, values, attention.heads, bias))
    return context


def feed_forward(layer: Any, x: Tensor) -> Tensor:
    inner, _, _, outer = layer.feed_forward
    result: Tensor = outer(relu(inner(x)))
    return result


def sinusoids(length: int, width: int) -> Tensor:
    """Positions from 1: sines and cosines take turns."""
    angles = torch.arange(1, length + 1)[:, None] / 10_000 ** (torch.arange(0, width, 2).double() / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def causal(length: int) -> Tensor:
    """A bias that hides later words."""
    return torch.full((length, length), -math.inf).double().triu(1)


def encode(model: Any, features: Features) -> list[Tensor]:
    """LN(x + f(x)) around attention and feed-forward (Cornia 2022 Eq. 6): the elements after every layer."""
    levels = [model.embed_norm(relu(model.embed(features.elements)))]
    for layer in model.encoder:
        looked = layer.residual_1.norm(levels[-1] + multi_head(layer.attention, levels[-1], levels[-1]))
        levels.append(layer.residual_2.norm(looked + feed_forward(layer, looked)))
    return levels[1:]


def transformer(model: Any, features: Features, tokens: Tensor) -> Tensor:
    """Cornia 2022's Transformer; SMArT is the same with memory slots."""
    elements = encode(model, features)[-1]
    words = model.words(tokens) + sinusoids(tokens.shape[1], model.config.width)
    for layer in model.decoder:
        read = layer.residual_1.norm(words + multi_head(layer.self_attention, words, words, causal(tokens.shape[1])))
        seen = layer.residual_2.norm(read + multi_head(layer.cross_attention, read, elements))
        words = layer.residual_3.norm(seen + feed_forward(layer, seen))
    logits: Tensor = model.head(words)
    return logits


def m2(model: Any, features: Features, tokens: Tensor) -> Tensor:
    levels = encode(model, features)
    words = model.words(tokens) + sinusoids(tokens.shape[1], model.config.width)
    for layer in model.decoder:
        read = layer.residual_1.norm(words + multi_head(layer.self_attention, words, words, causal(tokens.shape[1])))
        mesh = torch.zeros_like(read)
        for level, gate in zip(levels, layer.gates, strict=True):  # one cross-attention, a gate for each level
            seen = layer.residual_2.norm(read + multi_head(layer.cross_attention, read, level))  # C_i
            mesh = mesh + sigmoid(gate(torch.cat([read, seen], -1))) * seen
        mesh = mesh / math.sqrt(3)
        words = layer.residual_3.norm(mesh + feed_forward(layer, mesh))
    logits: Tensor = model.head(words)
    return logits


def compare_boxes(boxes: Tensor) -> Tensor:
    """lambda_mn embedded by 8 frequencies: (b, k, 4) -> (b, k, k, 64)."""
    left, top, right, bottom = boxes.unbind(-1)
    width, height, middle_x, middle_y = right - left, bottom - top, (left + right) / 2, (top + bottom) / 2
    apart = [
        ((middle[:, :, None] - middle[:, None]).abs() / size[:, :, None]).clamp(min=1e-3)
        for middle, size in ((middle_x, width), (middle_y, height))
    ]
    ratios = [size[:, :, None] / size[:, None] for size in (width, height)]
    angles = [100 * ratio.log() * 1000 ** (-k / 8) for ratio in (*apart, *ratios) for k in range(8)]
    return torch.stack([*(angle.sin() for angle in angles), *(angle.cos() for angle in angles)], -1)


def ort(model: Any, features: Features, tokens: Tensor) -> Tensor:
    """x + f(LN x), a norm at the end, and boxes in the encoder's attention; without geometry the 6 + 6 layer one."""
    elements = relu(model.embed(features.elements))
    for number, layer in enumerate(model.encoder):
        bias: Tensor | float = 0.0
        if hasattr(model, "geometry"):  # log max(ReLU(w_h . Emb(lambda) + b_h), 1e-6), a gate for each head and layer
            gates = relu(model.geometry[number](compare_boxes(features.boxes)))  # type: ignore[arg-type]
            bias = gates.clamp(min=BLOCKED).log().permute(0, 3, 1, 2)
        inner = layer.residual_1.norm(elements)
        elements = elements + multi_head(layer.attention, inner, inner, bias)
        elements = elements + feed_forward(layer, layer.residual_2.norm(elements))
    elements = model.encoder_norm(elements)
    width = model.config.width
    words = model.words(tokens) * math.sqrt(width) + sinusoids(tokens.shape[1], width)
    for layer in model.decoder:
        inner = layer.residual_1.norm(words)
        words = words + multi_head(layer.self_attention, inner, inner, causal(tokens.shape[1]))
        words = words + multi_head(layer.cross_attention, layer.residual_2.norm(words), elements)
        words = words + feed_forward(layer, layer.residual_3.norm(words))
    logits: Tensor = model.head(model.decoder_norm(words))
    return logits


EQUATIONS: dict[str, Callable[[Any, Features, Tensor], Tensor]] = {
    "show_attend_tell": show_attend_tell,
    "att2in": att2in,
    "disc": att2in,  # they differ in training
    "top_down": top_down,
    "stack_cap": stack_cap,
    "sgae": sgae,
    "aoa": aoa,
    "x_lan": x_lan,
    "transformer": transformer,
    "smart": transformer,
    "m2": m2,
    "ort": ort,
    "ort-no-geometry": ort,
    "transformer-pre-norm": ort,
}


@pytest.mark.parametrize("preset", EQUATIONS)
@torch.no_grad()
def test_logits_are_those_of_the_equations(preset: str) -> None:
    captioner, features, tokens = tiny(preset), make_features(), make_tokens(1)
    for parameter in captioner.parameters():  # new norms all scale by 1 and add 0: they could be mistaken for another
        parameter.add_(0.3 * torch.randn_like(parameter))
    expected = EQUATIONS[preset](captioner, features, tokens[:, 0])
    found = captioner(features, tokens).logits[:, 0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)  # the table of positions is float32


def test_every_architecture_has_its_equations() -> None:
    assert EQUATIONS.keys() >= ARCHITECTURES.keys()
