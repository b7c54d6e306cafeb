"""The step of self-critical training beside the step of cross-entropy: same captioner, same batches, in turns.

Flickr8k's captions with random features in the place of pictures (49 cells of 1 280), 32 pictures of 5 captions a
step. Each captioner first learns from some hundred captions how long a caption is, or its samples would never end.

    python -m benchmarks.training_step [PRESET ...]     # OMP_NUM_THREADS=1: CPU seconds of one thread
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

import torch

from benchmarks.measuring import Row, compare, show
from captrial.captioners import create
from captrial.data.readers import read_karpathy
from captrial.language.vocabulary import Vocabulary
from captrial.metrics.df import DocumentFrequencies
from captrial.metrics.reward import CiderReward
from captrial.reproduce.timing import clock
from captrial.training.batches import Batch, CaptionData, tokenize_captions
from captrial.training.schedules import Schedule
from captrial.training.stages import CrossEntropy, SelfCritical, Stage, on_tokens
from captrial.vision.features import Features
from experiments.shared import FLICKR8K_CAPTIONS

PRESETS = ("show_attend_tell-small", "top_down-small", "transformer-small", "m2-small")
PICTURES, BATCH, CELLS, WIDTH = 800, 32, 49, 1280


class RandomFeatures:
    """Noise in the shape of EfficientNet-Lite2's grid."""

    def get(self, picture_ids: Sequence[str]) -> Features:
        """A batch of it."""
        shape = (len(picture_ids), CELLS)
        return Features(torch.randn(*shape, WIDTH), torch.ones(shape, dtype=torch.bool), torch.rand(*shape, 4))


def data() -> CaptionData:
    samples = list(read_karpathy(FLICKR8K_CAPTIONS, split="train"))[:PICTURES]
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


def side_by_side(preset: str, known: CaptionData, warm: int = 10, timed: int = 3) -> Row:
    """Milliseconds of a step of either kind, in turns."""
    torch.manual_seed(0)
    captioner = create(preset, words=len(known.vocabulary), features=WIDTH).train()
    schedule = Schedule("constant", 2e-3)
    table = DocumentFrequencies.of_tokens(known.token_ids, known.vocabulary, True)
    reward = on_tokens(CiderReward(table, known.token_ids, known.vocabulary, True))
    imitate, criticise = CrossEntropy(captioner, 1, schedule), SelfCritical(captioner, 1, schedule, reward)
    optimizer = torch.optim.AdamW(captioner.parameters(), lr=2e-3)
    batches = [batch for epoch in range(3) for batch in known.batches(BATCH, 0, epoch)][: warm + timed]
    for batch in batches[:warm]:
        step(imitate, optimizer, batch)
    for group in optimizer.param_groups:
        group["lr"] = 0.0  # from here on only time passes
    step(criticise, optimizer, batches[0])
    xe, scst, lengths = [], [], []
    for batch in batches[warm:]:
        xe.append(step(imitate, optimizer, batch))
        scst.append(step(criticise, optimizer, batch))
        with torch.no_grad():
            lengths.append(float((criticise.draw(captioner, batch)[0] != 0).sum(-1).float().mean()))
    what = f"SCST step of {preset}, {statistics.mean(lengths):.1f} words a sample"
    against = "XE step (the goal: ratio 0.25)"
    return compare(what, against, 1e3 * statistics.median(scst), 1e3 * statistics.median(xe), "ms")


def run(presets: Sequence[str] = PRESETS) -> list[Row]:
    """A row a preset."""
    known = data()
    return [side_by_side(preset, known) for preset in presets]


def main() -> None:
    show(run(sys.argv[1:] or PRESETS))


if __name__ == "__main__":
    main()
