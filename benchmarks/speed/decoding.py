"""Beam search beside transformers' `generate`: one encoder-decoder, the same weights in both, side by side in one run.

The peer is Marian's architecture (post-norm, ReLU, sinusoidal positions), which is Cornia 2022's Transformer once its
weights are copied; the captions of both must be the same before any time counts.

    python -m benchmarks.speed.decoding                        # batch 1 and 50 beside generate, in float32 and int8
    python -m benchmarks.speed.decoding --sizes [PRESET ...]   # prediction time against batch size (Cornia 2022 Fig. 2)
    OMP_NUM_THREADS=1 python -m benchmarks.speed.decoding      # CPU seconds of one thread, for a busy machine
    python -m benchmarks.speed.decoding --loss RUN FEATURES    # CIDEr of a trained captioner with packed weights
"""

from __future__ import annotations

import copy
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measuring import Row, compare, show
from captrial.captioners import create
from captrial.captioners.architectures.transformer import Transformer
from captrial.captioners.packed_weights import PRECISIONS, packed
from captrial.decoding import BOS, EOS, PAD, BeamSettings, beam_search
from captrial.papers.prediction_time import clock
from captrial.vision.features.visual_features import Features

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
FAMILY = ("transformer", "smart", "m2")  # of Cornia 2022
WORDS, WIDTH, REGIONS, FEATURES, BEAM, LENGTH = 10_000, 512, 36, 2048, 5, 20


def features(images: int, seed: int = 0) -> Features:
    generator = torch.Generator().manual_seed(seed)
    elements = torch.randn(images, REGIONS, FEATURES, generator=generator)
    return Features(elements, torch.ones(images, REGIONS, dtype=torch.bool), torch.rand(images, REGIONS, 4))


@torch.no_grad()
def captioner(preset: str = "transformer", ending: float = 10.0) -> Any:
    """A random captioner that is as sure of its words as a trained one, and ends after about `ending` of them.

    The end's weights are fitted to the place in the sentence (ridge regression on what the decoder gives there), so
    that captions end naturally, a few words earlier or later, and not at a forced length.
    """
    torch.manual_seed(0)
    model = create(preset, words=WORDS, features=FEATURES, output_bias=True).eval()
    model.head.weight.mul_(6)
    model.head.bias[EOS] = 0.0
    hidden: list[Tensor] = []
    handle = model.head.register_forward_pre_hook(lambda _, inputs: hidden.append(inputs[0]))
    model(features(16, 1), torch.randint(4, WORDS, (16, 5, LENGTH)))
    handle.remove()
    x = torch.cat([hidden[0].flatten(0, 2), torch.ones(16 * 5 * LENGTH, 1)], 1)  # (n, d + 1)
    place = torch.arange(LENGTH).repeat(16 * 5).float()
    wanted = 4.0 * (place - ending) + 14.0
    solved = torch.linalg.solve(x.T @ x + 10 * torch.eye(x.shape[1]), x.T @ wanted)
    model.head.weight[EOS], model.head.bias[EOS] = solved[:-1], solved[-1]
    for parameter in model.parameters():
        parameter.copy_(parameter.half())  # as in a checkpoint that is stored in float16
    return model


@torch.no_grad()
def nudged(model: Any) -> Any:
    """The same captioner by a millionth, so that its weights do not fit into float16."""
    made = copy.deepcopy(model)
    for parameter in made.parameters():
        parameter.mul_(1 + 1e-6)
    return made


@torch.no_grad()
def peer(model: Transformer) -> Any:
    """The same captioner as a transformers model: Marian with our weights."""
    from transformers import MarianConfig, MarianMTModel

    config = model.config
    made: Any = MarianMTModel(
        MarianConfig(
            vocab_size=WORDS,
            d_model=WIDTH,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            encoder_ffn_dim=config.hidden,
            decoder_ffn_dim=config.hidden,
            activation_function="relu",
            max_position_embeddings=128,
            scale_embedding=False,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=False,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    ).eval()
    made.model.encoder.embed_positions.weight.zero_()  # regions have no order
    made.model.decoder.embed_positions.weight.copy_(model.positions)
    made.model.decoder.embed_tokens.weight.copy_(model.words.weight)
    made.lm_head.weight = torch.nn.Parameter(model.head.weight.clone())
    made.final_logits_bias.copy_(model.head.bias)
    for ours, theirs in zip(model.encoder, made.model.encoder.layers, strict=True):
        _copy_attention(ours.attention, theirs.self_attn)
        _copy_rest(ours, theirs, [(ours.residual_1, "self_attn"), (ours.residual_2, "final")])
    for ours, theirs in zip(model.decoder, made.model.decoder.layers, strict=True):
        _copy_attention(ours.self_attention, theirs.self_attn)
        _copy_attention(ours.cross_attention, theirs.encoder_attn)
        norms = [(ours.residual_1, "self_attn"), (ours.residual_2, "encoder_attn"), (ours.residual_3, "final")]
        _copy_rest(ours, theirs, norms)
    return made


def _copy(ours: Any, theirs: Any) -> None:
    theirs.weight.copy_(ours.weight)
    theirs.bias.copy_(ours.bias)


def _copy_attention(ours: Any, theirs: Any) -> None:
    for mine, other in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("out", "out_proj")):
        _copy(getattr(ours, mine), getattr(theirs, other))


def _copy_rest(ours: Any, theirs: Any, norms: list[tuple[Any, str]]) -> None:
    _copy(ours.feed_forward[0], theirs.fc1)
    _copy(ours.feed_forward[3], theirs.fc2)
    for residual, name in norms:
        _copy(residual.norm, getattr(theirs, f"{name}_layer_norm"))


@torch.inference_mode()
def ours(model: Any, seen: Features) -> list[list[int]]:
    return beam_search(model, model.encode(seen), BeamSettings(beam=BEAM, max_words=LENGTH)).best()


@torch.inference_mode()
def theirs(model: Transformer, made: Any, seen: Features) -> list[list[int]]:
    embedded = model.embed_norm(model.embed(seen.elements).relu())  # their encoder begins behind the embedding
    captions = made.generate(
        inputs_embeds=embedded,
        attention_mask=seen.mask.long(),
        num_beams=BEAM,
        max_new_tokens=LENGTH,
        length_penalty=0.0,
        early_stopping=False,
        do_sample=False,
        suppress_tokens=[PAD, BOS],
        bad_words_ids=None,
    )
    return [[token for token in row if token not in (PAD, BOS, EOS)] for row in captions.tolist()]


def seconds(function: Callable[[], object], repeats: int) -> float:
    """The median of some runs, after one to warm up."""
    function()
    found = []
    for _ in range(repeats):
        start = clock()
        function()
        found.append(clock() - start)
    return statistics.median(found)


def run(batches: tuple[tuple[int, int, int], ...] = ((1, 4, 3), (50, 1, 1))) -> list[Row]:
    """Captions a second, in turns on the same images; `batches` are sizes, how many of each, how often timed."""
    torch.set_num_threads(THREADS)
    model = captioner()
    speakers = {
        "float32, checkpoint in float16": packed(model, "float32"),
        "float32, checkpoint in float32": packed(nudged(model), "float32"),
        "int8": packed(model, "int8"),
    }
    made = peer(model)
    check = features(50)
    other = theirs(model, made, check)
    lengths = sorted(map(len, other))
    print(f"generate: {statistics.mean(lengths):.1f} words per caption, {lengths[0]} to {lengths[-1]}")
    for name, speaker in speakers.items():
        same = sum(a == b for a, b in zip(ours(speaker, check), other, strict=True))
        print(f"{name}: {same} of 50 captions are the same")
    rows = []
    for batch, count, repeats in batches:
        spent = dict.fromkeys(["generate", *speakers], 0.0)
        for seed in range(count):
            shown = features(batch, seed)
            spent["generate"] += seconds(lambda s=shown: theirs(model, made, s), repeats)  # type: ignore[misc]
            for name, speaker in speakers.items():
                spent[name] += seconds(lambda s=shown, m=speaker: ours(m, s), repeats)  # type: ignore[misc]
        peer_rate = batch * count / spent.pop("generate")
        for name, total in spent.items():
            what = f"beam-5 decoding, batch {batch}, {name}"
            against = "transformers' generate, float32"
            rows.append(compare(what, against, batch * count / total, peer_rate, "captions/s"))
    return [*rows, *relatives()]


def relatives(batch: int = 50) -> list[Row]:
    """The captioners of Cornia 2022 Fig. 2 beside its Transformer."""
    rates = {}
    for preset in FAMILY:
        model, shown = captioner(preset), features(batch)
        rates[preset] = batch / seconds(lambda m=model, s=shown: ours(m, s), 1)  # type: ignore[misc]
    plain = rates.pop("transformer")
    return [
        compare(f"beam-5 decoding, batch {batch}, {preset}", "our Transformer", rate, plain, "captions/s")
        for preset, rate in rates.items()
    ]


def sizes(presets: Sequence[str], batches: tuple[int, ...] = (1, 5, 10, 25, 50)) -> None:
    """Mean and standard deviation of the seconds a batch takes, features given (Cornia 2022 Fig. 2)."""
    for preset in presets or FAMILY:
        model = captioner(preset)
        for batch in batches:
            shown, found = features(batch), []
            ours(model, shown)
            for _ in range(3):
                start = clock()
                ours(model, shown)
                found.append(clock() - start)
            mean, spread = statistics.mean(found), statistics.stdev(found)
            each = f"{1e3 * mean:.0f} ms, deviation {1e3 * spread:.0f}, {batch / mean:.1f} captions/s"
            print(f"{preset}, batch {batch}: {each}", flush=True)


def loss(run: Path, store: Path) -> None:
    """CIDEr on Flickr8k's test images, beam 5, at every precision."""
    from captrial.captioners import Checkpoint
    from captrial.captioners.trained import caption_by_id
    from captrial.data.datasets import read_karpathy
    from captrial.metrics.ngram.cider import cider
    from captrial.vision.features.feature_store import FeatureStore
    from studies.data_paths import FLICKR8K_CAPTIONS

    samples = read_karpathy(FLICKR8K_CAPTIONS, split="test")
    checkpoint = Checkpoint.from_pretrained(run)
    known = FeatureStore(store, checkpoint.vision)
    plain: list[str] = []
    for precision in PRECISIONS:
        model = packed(checkpoint.captioner, precision)
        captions = caption_by_id(model, checkpoint.vocabulary, known, [sample.id for sample in samples])
        plain = plain or captions
        same = sum(a == b for a, b in zip(captions, plain, strict=True))
        score = cider(captions, [sample.captions for sample in samples]).corpus
        print(f"{precision}: CIDEr {score:.4f}, {same} of {len(captions)} captions as in float32", flush=True)


def main() -> None:
    torch.set_num_threads(THREADS)
    print(f"{THREADS} threads" if THREADS > 1 else "1 thread, CPU seconds")
    if "--loss" in sys.argv:
        loss(*map(Path, sys.argv[2:4]))
    elif "--sizes" in sys.argv:
        sizes(sys.argv[2:])
    else:
        show(run())


if __name__ == "__main__":
    main()
