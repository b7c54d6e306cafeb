"""How a VLM's language model reads prompt and caption: in one decoder, or an encoder with a decoder behind it.

Both are seen as one sequence of positions. A causal decoder has those of prompt and caption. With an encoder, the
prompt's positions (the encoder's) come first and the caption's (the decoder's) follow; a layer's attention then goes
from some of these positions to some, which `LayerAttention` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from captrial.captioners.protocols import LayerAttention

SELF_ATTENTION = ("self_attn", "SelfAttention")
CROSS_ATTENTION = ("encoder_attn", "EncDecAttention")
PER_TOKEN = ("attention_mask", "token_type_ids", "mm_token_type_ids")  # inputs with a value for every token
CAPTION_TYPES = {"paligemma": 1}  # its prompt (type 0) attends in both directions, its caption does not
Keep = Callable[[LayerAttention], LayerAttention | None]
Places = tuple[nn.Module, int, int]  # an attention module, its first row, its first column


class CausalText:
    """Prompt and caption are one text."""

    def __init__(self, model: Any, prompt: Tensor) -> None:
        self.prompt = prompt
        self.entry = model.get_decoder()  # the module that image tokens enter
        self.stacks = [self.entry]

    def read(self, tokens: Tensor) -> dict[str, Tensor]:
        """What the model reads to predict `tokens` (rows, t)."""
        return {"input_ids": torch.cat([self.prompt.expand(len(tokens), -1), tokens[:, :-1]], 1)}

    def queries(self, count: int) -> Tensor:
        """The positions that predict a caption's first `count` tokens: each is that of the token before."""
        return torch.arange(count, device=self.prompt.device) + len(self.prompt) - 1

    def attentions(self) -> list[Places]:
        """Every layer's attention."""
        return [(module, 0, 0) for module in _named(self.entry, SELF_ATTENTION)]


class EncodedText:
    """An encoder reads the prompt; a decoder, which attends to it, reads the caption."""

    def __init__(self, model: Any, prompt: Tensor) -> None:
        self.prompt = prompt
        self.entry, decoder = model.get_encoder(), model.get_decoder()
        self.decoder = getattr(decoder, "decoder", decoder)  # Florence-2 gives encoder and decoder
        self.stacks = [self.entry, self.decoder]
        text = model.config.text_config
        start = getattr(model.generation_config, "decoder_start_token_id", None)
        self.start: int = text.decoder_start_token_id if start is None else start

    def read(self, tokens: Tensor) -> dict[str, Tensor]:
        """What the model reads to predict `tokens` (rows, t)."""
        first = tokens.new_full((len(tokens), 1), self.start)
        return {
            "input_ids": self.prompt.expand(len(tokens), -1),
            "decoder_input_ids": torch.cat([first, tokens[:, :-1]], 1),
        }

    def queries(self, count: int) -> Tensor:
        """The positions that predict a caption's first `count` tokens, behind those of the encoder."""
        return torch.arange(count, device=self.prompt.device) + len(self.prompt)

    def attentions(self) -> list[Places]:
        """The encoder's layers, then each of the decoder's: to the caption, to the prompt."""
        p = len(self.prompt)
        found: list[Places] = [(module, 0, 0) for module in _named(self.entry, SELF_ATTENTION)]
        own, cross = _named(self.decoder, SELF_ATTENTION), _named(self.decoder, CROSS_ATTENTION)
        for pair in zip(own, cross, strict=True):
            found += [(pair[0], p, p), (pair[1], p, 0)]
        return found


TextStack = CausalText | EncodedText


def text_stack(model: Any, prompt: Tensor) -> TextStack:
    """How the language model of a VLM reads."""
    encoded = getattr(model.config.get_text_config(), "is_encoder_decoder", False) or getattr(
        model.config, "is_encoder_decoder", False
    )
    return (EncodedText if encoded else CausalText)(model, prompt)


def continued(model: Any, inputs: Mapping[str, Tensor], read: Tensor) -> dict[str, Tensor]:
    """Masks and types of a prompt's tokens for what is read (rows, length): they go on with what they end with."""
    caption = CAPTION_TYPES.get(model.config.model_type)
    rows, length = read.shape
    found = {}
    for name in PER_TOKEN:
        if name in inputs:
            value = inputs[name]
            last = value[:, -1:]
            if caption is not None and name == "token_type_ids":
                last = torch.full_like(last, caption)
            grown = torch.cat([value, last.expand(-1, length - value.shape[1])], 1)
            found[name] = grown.expand(rows, -1)
    return found


@contextmanager
def recorded_attention(text: TextStack, keep: Keep) -> Iterator[list[LayerAttention]]:
    """Inside `with`, attention is computed so that it can be read; what `keep` leaves of each layer is recorded.

    `keep` gets a layer as soon as it is computed, and may return less of it, or None.
    """
    recorded: list[LayerAttention] = []

    def record(row: int, column: int, result: Any) -> None:
        weights = [part for part in result if isinstance(part, Tensor) and part.ndim == 4]  # T5: a bias before them
        kept = keep(LayerAttention(weights[-1], row, column)) if weights else None
        if kept is not None:
            recorded.append(kept)

    with ExitStack() as stack:
        for module, row, column in text.attentions():
            hook = module.register_forward_hook(
                lambda _, __, result, row=row, column=column: record(
                    row, column, result if isinstance(result, tuple) else ()
                )
            )
            stack.callback(hook.remove)
        for part in text.stacks:
            stack.callback(part.set_attn_implementation, part.config._attn_implementation)
            part.set_attn_implementation("eager")
        yield recorded


def _named(stack: nn.Module, names: tuple[str, ...]) -> list[nn.Module]:
    """The modules of those names, layer by layer."""
    return [module for path, module in stack.named_modules() if path.rpartition(".")[2] in names]
