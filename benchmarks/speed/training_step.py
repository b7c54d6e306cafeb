"""The step of self-critical training beside the step of cross-entropy: same captioner, same batches, in turns.

Flickr8k's captions with random features in the place of images (49 cells of 1 280), 32 images of 5 captions a
step. Untrained captioners would stop at once or never: all generate twelve words, as Flickr8k's captions have
with their end.

    python -m benchmarks.speed.training_step [PRESET ...]            # OMP_NUM_THREADS=1: CPU seconds of one thread
    python -m benchmarks.speed.training_step --faster [PRESET ...]   # in bfloat16, compiled, with torch's dropout
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.measuring import Row, compare, show
from captrial.captioners import create
from captrial.captioners.architectures.layers import Dropout
from captrial.data.datasets import read_karpathy
from captrial.decoding.constraints import Suppress
from captrial.language.vocabulary import EOS, Vocabulary
from captrial.metrics.ngram.cider_reward import CiderReward
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.papers.prediction_time import clock
from captrial.training.data import Batch, CaptionData, tokenize_captions
from captrial.training.schedules import Schedule
from captrial.training.stages.base import NEVER_SAMPLED, CrossEntropy, SelfCritical, Stage, on_tokens
from captrial.vision.features.visual_features import Features
from studies.data_paths import FLICKR8K_CAPTIONS

PRESETS = ("show_attend_tell-small", "top_down-small", "transformer-small", "m2-small")
IMAGES, BATCH, CELLS, WIDTH, LENGTH = 800, 32, 49, 1280, 12


class OfOneLength(SelfCritical):
    """SCST on captions of twelve words."""

    def decoding_options(self) -> dict[str, Any]:
        """Without an end."""
        return {"max_words": LENGTH, "constraints": (Suppress((*NEVER_SAMPLED, EOS)),)}


class RandomFeatures:
    """Noise in the shape of EfficientNet-Lite2's grid."""

    def get(self, image_ids: Sequence[str]) -> Features:
        """A batch of it."""
        shape = (len(image_ids), CELLS)
        return Features(torch.randn(*shape, WIDTH), torch.ones(shape, dtype=torch.bool), torch.rand(*shape, 4))


def data() -> CaptionData:
    samples = list(read_karpathy(FLICKR8K_CAPTIONS, split="train"))[:IMAGES]
    words = tokenize_captions(samples)
    return CaptionData(samples, Vocabulary.build((row for rows in words for row in rows), 5), RandomFeatures())


def step(stage: Stage, optimizer: torch.optim.Optimizer, batch: Batch) -> float:
    """Seconds of one step: loss, gradients, update."""
    start = clock()
    optimizer.zero_grad(set_to_none=True)
    loss, _ = stage.loss(batch, 0)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(stage.parameters(), 1.0)
    optimizer.step()
    return clock() - start


def side_by_side(preset: str, known: CaptionData, timed: int = 5) -> Row:
    """Milliseconds of a step of either kind, in turns."""
    torch.manual_seed(0)
    captioner = create(preset, words=len(known.vocabulary), features=WIDTH).train()
    schedule = Schedule("constant", 2e-3)
    table = DocumentFrequencies.of_tokens(known.token_ids, known.vocabulary, True)
    reward = on_tokens(CiderReward(table, known.token_ids, known.vocabulary, True))
    imitate, criticise = CrossEntropy(captioner, 1, schedule), OfOneLength(captioner, 1, schedule, reward)
    optimizer = torch.optim.AdamW(captioner.parameters(), lr=0.0)  # only time passes
    first, *batches = itertools.islice(known.batches(BATCH, 0, 0), 1 + timed)
    xe, scst = [], []
    step(imitate, optimizer, first)
    step(criticise, optimizer, first)
    for batch in batches:
        xe.append(step(imitate, optimizer, batch))
        scst.append(step(criticise, optimizer, batch))
    what = f"SCST step of {preset}, beam of 5"
    against = "XE step (the goal: at least 0.25)"
    return compare(what, against, 1e3 * statistics.median(scst), 1e3 * statistics.median(xe), "ms")


def faster(preset: str, known: CaptionData, timed: int = 6) -> list[Row]:
    """A step of cross-entropy beside one with `--set autocast=true`, one compiled and one with torch's own dropout."""
    captioners = []
    for _ in range(4):
        torch.manual_seed(0)
        captioners.append(create(preset, words=len(known.vocabulary), features=WIDTH).train())
    compiled: Any = captioners[2]
    methods = (compiled.encode, compiled.teacher_force)
    compiled.encode, compiled.teacher_force = (torch.compile(each, dynamic=True) for each in methods)
    for module in list(captioners[3].modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Dropout):
                setattr(module, name, torch.nn.Dropout(child.p))
    stages = [CrossEntropy(captioner, 1, Schedule("constant", 2e-3)) for captioner in captioners]
    optimizers = [torch.optim.AdamW(captioner.parameters(), lr=0.0) for captioner in captioners]
    spent: list[list[float]] = [[], [], [], []]
    for batch in itertools.islice(known.batches(BATCH, 0, 0), 3 + timed):  # the first three compile
        for kind in range(4):
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == 1):
                spent[kind].append(step(stages[kind], optimizers[kind], batch))
    plain, halved, built, usual = (1e3 * statistics.median(each[3:]) for each in spent)
    print(f"{preset}: compiling took {sum(spent[2][:3]):.0f} s")
    return [
        compare(f"XE step of {preset}, bfloat16", "float32", halved, plain, "ms"),
        compare(f"XE step of {preset}, compiled", "not compiled", built, plain, "ms"),
        compare(f"XE step of {preset}, dropout from random bits", "torch's dropout", plain, usual, "ms"),
    ]


def run(presets: Sequence[str] = PRESETS) -> list[Row]:
    """A row a preset."""
    known = data()
    return [side_by_side(preset, known) for preset in presets]


def main() -> None:
    if "--faster" in sys.argv:
        known = data()
        show([row for preset in sys.argv[2:] or PRESETS for row in faster(preset, known)])
    else:
        show(run(sys.argv[1:] or PRESETS))


if __name__ == "__main__":
    main()
