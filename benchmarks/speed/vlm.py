"""Input x gradient of all words of a caption by a VLM beside loops over its words, in one run, same model and numbers.

python -m benchmarks.speed.vlm [--words 20 200] [--sample 4] [--save FILE]

The model is a LLaVA with random weights (above 100 million parameters, 196 image tokens; about nine tenths of them are
embeddings of 100 000 tokens, as in small VLMs). `captum`: one call of captum's InputXGradient a word, the caption
forced in all of them. `growing prefix`: the same, but a word's call reads only the words before it, which is the loop
of programs that explain while they generate (inseq; inseq itself was not run: its releases need another version of
transformers). The loops are run for a `--sample` of words, evenly spaced, and charged for all. Each side runs in a
process of its own on one thread (peak memory, that of loading the model with it); seconds are the processor's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.measuring import Row, compare, environment, peak_memory, show
from captrial.attribution.methods.saliency import gradients_times_input
from captrial.attribution.subject import Subject, Targets, from_image_tokens, word_targets
from captrial.captioners.huggingface.image_tokens.layouts import find_layout
from captrial.captioners.huggingface.image_tokens.token_boxes import grid_boxes
from captrial.captioners.huggingface.image_tokens.tokens import ImageTokens
from captrial.captioners.protocols import WordSpan

VOCABULARY, IMAGE, SIDE = 100_000, 5, 14  # tokens, the id of an image token, image tokens a side
SIDES = ("ours", "captum", "growing prefix")


def image_tokens() -> ImageTokens:
    """A LLaVA with random weights in front of a random image and a prompt of 20 tokens."""
    import transformers

    torch.manual_seed(0)
    sizes = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4, "num_attention_heads": 8}
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, image_size=224
        ),
        text_config=transformers.LlamaConfig(**sizes, vocab_size=VOCABULARY, max_position_embeddings=1024),
        image_token_id=IMAGE,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
    )
    config.vision_config.patch_size = 224 // SIDE
    model: Any = transformers.LlavaForConditionalGeneration(config).eval().requires_grad_(False)
    assert sum(parameter.numel() for parameter in model.parameters()) > 100e6
    prompt = torch.cat([torch.arange(10, 20), torch.full((SIDE * SIDE,), IMAGE), torch.arange(20, 30)])[None]
    inputs = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    inputs["pixel_values"] = torch.randn(1, 3, 224, 224)
    return ImageTokens(model, inputs, grid_boxes(SIDE, SIDE), find_layout("llava"))


class OneImage:
    """What `from_image_tokens` asks of a captioner."""

    def __init__(self, seen: ImageTokens) -> None:
        self.seen = seen

    def image_tokens(self, image: Any) -> ImageTokens:
        """The only image's tokens."""
        return self.seen


def targets_of(words: int) -> Targets:
    """A caption of random tokens, each a word."""
    tokens = torch.randint(100, VOCABULARY, (words,), generator=torch.Generator().manual_seed(0)).tolist()
    return word_targets(tokens, [WordSpan(str(token), place, place + 1) for place, token in enumerate(tokens)])


def one_word(subject: Subject, targets: Targets, word: int, prefix: bool) -> Tensor:
    """captum's input x gradient of one word, reading the whole caption or only up to the word."""
    from captum.attr import InputXGradient

    tokens = targets.tokens[:, : word + 1] if prefix else targets.tokens

    def score(inputs: Tensor) -> Tensor:
        return subject.decode(inputs, tokens).logits[:, 0, word, int(targets.token[word])]

    found: Tensor = InputXGradient(score).attribute(subject.inputs[None].clone().requires_grad_())
    return found[0]


def measure(side: str, words: int, sample: int) -> dict[str, Any]:
    """Seconds for all words, peak memory, and the sum of each sampled word's attribution (the sides must agree)."""
    torch.set_num_threads(1)
    subject, targets = from_image_tokens(OneImage(image_tokens()), None), targets_of(words)  # type: ignore[arg-type]
    some = np.linspace(0, words - 1, min(sample, words)).round().astype(int).tolist()
    loops: dict[str, Callable[[int], Tensor]] = {
        "captum": lambda word: one_word(subject, targets, word, False),
        "growing prefix": lambda word: one_word(subject, targets, word, True),
    }
    start = time.process_time()
    if side == "ours":
        found = gradients_times_input(subject, targets)[some]
        spent = time.process_time() - start
    else:
        found = torch.stack([loops[side](word) for word in some])
        spent = (time.process_time() - start) * words / len(some)
    return {"seconds": spent, "memory": peak_memory(), "sums": found.abs().sum((1, 2)).tolist()}


def rows(words: list[int], sample: int) -> list[Row]:
    """Ours beside both loops, captions of so many words."""
    made: list[Row] = []
    for count in words:
        code = "import json, sys; from benchmarks.speed.vlm import measure; "
        code += "print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))"
        sides = {}
        for side in SIDES:
            line, place = [sys.executable, "-c", code, side, str(count), str(sample)], environment(OMP_NUM_THREADS="1")
            done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True, env=place)
            sides[side] = json.loads(done.stdout.splitlines()[-1])
        for loop in SIDES[1:]:
            assert np.allclose(sides["ours"]["sums"], sides[loop]["sums"], rtol=1e-2), "the sides disagree"
            what = f"input x gradient, a VLM's caption of {count} words"
            made.append(compare(what, loop, sides["ours"]["seconds"], sides[loop]["seconds"], "s"))
            made.append(compare(f"{what}: memory", loop, sides["ours"]["memory"], sides[loop]["memory"], "MB"))
    return made


def run() -> list[Row]:
    """The rows of `python -m benchmarks`: the short caption."""
    return rows([20], 4)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--sample", type=int, default=4)
    parser.add_argument("--save", type=Path)
    chosen = parser.parse_args()
    found = rows(chosen.words, chosen.sample)
    show(found)
    if chosen.save:
        chosen.save.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
