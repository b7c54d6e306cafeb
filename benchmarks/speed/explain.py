"""Integrated gradients of a caption of 12 words beside captum's loop over words, in one run, same model and nodes.

python -m benchmarks.speed.explain [--model FOLDER] [--input regions|pixels]   # speed and memory
python -m benchmarks.speed.explain --quadrature [--model FOLDER] [--input ...] # error against the number of steps
python -m benchmarks.speed.explain --photographs [--model FOLDER]              # pixels of eight photographs, by default

Each side runs in a process of its own (peak memory) on one thread, in the same portions of the path; seconds are the
processor's, which a busy machine does not change much. Without --model the shipped captioner is used, or untrained
weights where none is shipped. At equal completeness error captum is charged for its last run only, of the fewest steps
of a ladder that reach it: its seconds a step, measured, times their number; where none reaches it, for the longest, and
the ratio is a lower bound. Its error is that of the same nodes and gradients, from derivatives along the path in
forward mode: the sum of its attributions is the weighted sum of these. Ours is charged for everything: evaluating
the path, and tries that fell short.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.measuring import Row, compare, environment, peak_memory, show
from captrial.attribution.explain import VocabularyTokenizer
from captrial.attribution.gradients.path_gradients import PathGradients
from captrial.attribution.integrated_gradients.integration import (
    ALPHAS,
    Bend,
    QuadratureRule,
    completeness_errors,
    find_bend,
    gauss_legendre,
    integrate,
    path_scores,
)
from captrial.attribution.methods.integrated_gradients import integrated_gradients
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.subject import Subject, Targets, from_features, from_pixels, word_targets
from captrial.captioners import create
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import DEFAULT_CAPTIONER, shipped_captioners
from captrial.language.vocabulary import Vocabulary
from captrial.vision.backbones.efficientnet import EfficientNetLite

CAPTION = "a man in a red shirt is standing in front of trees"  # 12 words
INPUTS = ("regions", "pixels")
STEPS = {"regions": 32, "pixels": 6}
PORTION = {"regions": 16, "pixels": 2}  # points of the path in flight
LADDER = {"regions": (50, 100, 200, 400, 800), "pixels": (25, 50, 100, 200)}
TOLERANCE = 0.01
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "camera", "coins")  # that come with scikit-image


def load(model: str | None) -> Checkpoint:
    if model is not None:
        folder = Path(model)
        return Checkpoint.from_pretrained(folder / "best" if (folder / "best").is_dir() else folder)
    if DEFAULT_CAPTIONER in shipped_captioners():
        return Checkpoint.from_pretrained(shipped_captioners()[DEFAULT_CAPTIONER])
    torch.manual_seed(0)
    vocabulary = Vocabulary((*dict.fromkeys(CAPTION.split()), *(f"word{number}" for number in range(2700))))
    return Checkpoint(create("transformer-small", words=len(vocabulary), features=1280).eval(), vocabulary)


def prepare(model: str | None, kind: str) -> tuple[Subject, Targets]:
    """The photograph of an astronaut that comes with scikit-image, and the caption to explain."""
    from skimage.data import astronaut

    checkpoint = load(model)
    captioner = checkpoint.captioner.requires_grad_(False)
    tokenizer, backbone, image = VocabularyTokenizer(checkpoint), EfficientNetLite(2), Image.fromarray(astronaut())
    tokens = tokenizer.tokenize(CAPTION)
    assert len(tokens) == 12
    targets = word_targets(tokens, tokenizer.word_spans(tokens))
    if kind == "pixels":
        return from_pixels(captioner, backbone, image), targets
    return from_features(captioner, backbone.extract([image])), targets


def make_path(subject: Subject, targets: Targets, kind: str) -> PathGradients:
    return PathGradients(subject, targets, torch.zeros_like(subject.inputs), PORTION[kind] * len(targets))


class Words(nn.Module):
    """The model as captum wants it: inputs in, scores of the caption's words out."""

    def __init__(self, subject: Subject, targets: Targets) -> None:
        super().__init__()
        self.subject, self.targets = subject, targets

    def forward(self, inputs: Tensor) -> Tensor:
        """(b, *input) -> (b, words)."""
        return self.targets.scores(self.subject.forward(inputs, self.targets.tokens).logits)


def captum(subject: Subject, targets: Targets, steps: int, portion: int) -> Tensor:
    from captum.attr import IntegratedGradients

    explainer = IntegratedGradients(Words(subject, targets))
    inputs = subject.inputs.unsqueeze(0).clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"n_steps": steps, "method": "gausslegendre", "internal_batch_size": portion}
        rows = [explainer.attribute(inputs, target=word, **options)[0] for word in range(len(targets))]
    return torch.stack(rows)


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The least processor seconds of some runs after a first one, and the result."""
    result = work() if repeats > 1 else None
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def one_side(side: str, kind: str, model: str | None) -> dict[str, float]:
    """Seconds and peak memory of one side; `complete` is ours at the default tolerance."""
    subject, targets = prepare(model, kind)
    steps = STEPS[kind]
    plain = AttributionSettings(steps=steps, rule="gauss_legendre")
    works: dict[str, Callable[[], Any]] = {
        "ours": lambda: integrate(make_path(subject, targets, kind), plain),
        "captum": lambda: captum(subject, targets, steps, PORTION[kind]),
        "complete": lambda: integrated_gradients(subject, targets, AttributionSettings(tolerance=TOLERANCE)),
    }
    before = peak_memory()
    taken, result = timed(works[side], 2 if kind == "regions" and side != "complete" else 1)
    found = {"seconds": taken, "memory": peak_memory() - before}
    return found | ({"steps": result.steps, "error": float(result.errors.max())} if side == "complete" else {})


def slopes(subject: Subject, targets: Targets, alphas: Tensor, rows: int = 8) -> Tensor:
    """Derivatives (m, w) of the words' scores along the path, in forward mode."""
    found = []
    for part in torch.split(alphas, rows):

        def scores(at: Tensor) -> Tensor:
            points = at.view(-1, *[1] * subject.inputs.ndim) * subject.inputs
            return targets.scores(subject.forward(points, targets.tokens).logits)

        with sdpa_kernel(SDPBackend.MATH):
            found.append(torch.func.jvp(scores, (part,), (torch.ones_like(part),))[1])
    return torch.cat(found)


def plain_error(subject: Subject, targets: Targets, changes: Tensor, steps: int) -> float:
    """The completeness error of captum's nodes and gradients."""
    rule = gauss_legendre(steps)
    along = slopes(subject, targets, torch.as_tensor(rule.alphas).to(subject.inputs)).double()
    sums = (torch.as_tensor(rule.weights)[:, None] * along).sum(0)
    return float(completeness_errors(sums, changes.double()).max())


def in_new_process(side: str, kind: str, model: str | None) -> dict[str, float]:
    which = ["--model", model] if model else []
    command = [sys.executable, "-m", "benchmarks.speed.explain", "--side", side, "--input", kind, *which]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment())
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def steps_needed(model: str | None, kind: str, ladder: Sequence[int]) -> tuple[int, float]:
    """How many of captum's steps reach the tolerance, the fewest of the ladder, and the error they leave."""
    subject, targets = prepare(model, kind)
    ends, steps, error = make_path(subject, targets, kind).ends, 0, float("inf")
    for steps in ladder:
        error = plain_error(subject, targets, ends[1] - ends[0], steps)
        print(f"{kind}, captum's nodes: {error:.2%} with {steps} steps", flush=True)
        if error <= TOLERANCE:
            break
    return steps, error


def speed(model: str | None, kind: str, ladder: Sequence[int]) -> list[Row]:
    """At equal steps and at equal completeness error."""
    ours, theirs = (in_new_process(side, kind, model) for side in ("ours", "captum"))
    what = f"integrated gradients of 12 words over {kind}"
    rows = [
        compare(f"{what}, {STEPS[kind]} steps", "captum", ours["seconds"], theirs["seconds"]),
        compare(f"{what}, {STEPS[kind]} steps, memory taken", "captum", ours["memory"], theirs["memory"], "MB"),
    ]
    ours = in_new_process("complete", kind, model)
    steps, error = steps_needed(model, kind, ladder)
    what = f"{what}, error under {TOLERANCE:.0%} ({ours['steps']:.0f} steps, {ours['error']:.2%})"
    against = f"captum ({steps} steps, {error:.2%}{'' if error <= TOLERANCE else ': not reached'})"
    return [*rows, compare(what, against, ours["seconds"], theirs["seconds"] / STEPS[kind] * steps)]


def run() -> list[Row]:
    torch.set_num_threads(1)
    return [*speed(None, "regions", LADDER["regions"]), *speed(None, "pixels", LADDER["pixels"][:2])]


def rules(nodes: int, bend: Bend) -> dict[str, tuple[QuadratureRule, bool]]:
    """The candidates: what changes the variable, and whether ReLUs are averaged."""

    def power(exponent: int) -> QuadratureRule:
        plain = gauss_legendre(nodes)
        weights = plain.weights * exponent * plain.alphas ** (exponent - 1)
        return QuadratureRule(plain.alphas**exponent, weights, plain.ends**exponent)

    return {
        "Gauss-Legendre (captum)": (gauss_legendre(nodes), False),
        "in u, alpha = u^2": (power(2), False),
        "in u, alpha = u^3": (power(3), False),
        "on the bent path": (gauss_legendre(nodes, bend), False),
        "bent, ReLUs averaged": (gauss_legendre(nodes, bend), True),
    }


def quadrature(model: str | None, kind: str) -> None:
    """Largest completeness error of a word, and the distance of all maps from those of many steps."""
    subject, targets = prepare(model, kind)
    if kind == "pixels":
        segments_and_nodes(subject, targets)
        return
    path = make_path(subject, targets, kind)
    bend, changes = find_bend(ALPHAS, path_scores(path)), path.ends[1] - path.ends[0]

    def apply(rule: QuadratureRule, averaged: bool) -> Tensor:
        alphas, weights, ends = (torch.as_tensor(part).to(path.start) for part in rule)
        return path.pull(alphas, weights, ends if averaged else None).gradient * path.direction

    exact = apply(gauss_legendre(128, bend), True)
    sizes = (12, 24, 48)
    print("| rule | " + " | ".join(f"{nodes} steps: error, distance" for nodes in sizes) + " |\n|" + " --- |" * 4)
    for name in rules(4, bend):
        cells = []
        for nodes in sizes:
            maps = apply(*rules(nodes, bend)[name])
            error = completeness_errors(maps.flatten(1).sum(1), changes).max()
            cells.append(f"{float(error):.2%}, {float((maps - exact).abs().sum() / exact.abs().sum()):.2%}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(f"bend at alpha = {bend.at:.3g}; changes of score {np.round(changes.numpy(), 2).tolist()}")


def segments_and_nodes(subject: Subject, targets: Targets) -> None:
    """Over pixels: segments beside the textbook's nodes, for three of the words; the exact maps are 64 segments'."""
    some = chosen_words(targets, (1, 5, 11))
    exact = integrated_gradients(subject, some, AttributionSettings(steps=64)).attribution
    cells = cell_shares(exact)
    print("| rule | steps | error | distance of pixels | of 7 x 7 cells | s |\n|" + " --- |" * 6)
    for rule, counts in (("averaged", (4, 8, 16, 32)), ("gauss_legendre", (25, 100))):
        for steps in counts:
            begun = time.process_time()
            found = integrated_gradients(subject, some, AttributionSettings(steps=steps, rule=rule))  # type: ignore[arg-type]
            seconds, maps = time.process_time() - begun, found.attribution
            apart = float((cell_shares(maps) - cells).abs().sum() / 2 / len(some))
            far = float((maps - exact).abs().sum() / exact.abs().sum())
            print(
                f"| {rule} | {steps} | {float(found.errors.max()):.2%} | {far:.1%} | {apart:.2%} | {seconds:.1f} |",
                flush=True,
            )


def cell_shares(maps: Tensor) -> Tensor:
    """The share of |A| that lies in each of 7 x 7 cells: (w, 3, h, w) -> (w, 7, 7)."""
    height, width = (side // 7 for side in maps.shape[2:])
    cells = maps.abs().sum(1).reshape(len(maps), 7, height, 7, width).sum((2, 4))
    return cells / cells.sum((1, 2), keepdim=True)


def chosen_words(targets: Targets, words: Sequence[int]) -> Targets:
    """Some words of a caption, after the same beginnings."""
    keep = torch.isin(targets.word, torch.tensor(words))
    names = ("row", "position", "token", "sign")
    renumbered = torch.searchsorted(torch.tensor(words), targets.word[keep])
    parts = {name: getattr(targets, name)[keep] for name in names}
    return replace(targets, words=tuple(targets.words[word] for word in words), word=renumbered, **parts)


def photographs(model: str | None) -> None:
    """The default over pixels, on photographs of scikit-image, with the captioner's own captions."""
    from skimage import data

    from captrial.attribution.explain import explain
    from captrial.captioners.trained import TrainedCaptioner

    captioner = TrainedCaptioner(load(model), EfficientNetLite(2))
    print("| photograph | caption | segments | s | error of a word: largest, mean |\n|" + " --- |" * 5)
    for name in PHOTOGRAPHS:
        image = Image.fromarray(getattr(data, name)()).convert("RGB")
        begun = time.process_time()
        found = explain(captioner, image, over="pixels").attribution
        seconds = time.process_time() - begun
        assert found.errors is not None
        errors = f"{found.errors.max():.2%}, {found.errors.mean():.2%}"
        print(f"| {name} | {' '.join(found.words)} | {found.steps} | {seconds:.1f} | {errors} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--input", choices=INPUTS)
    parser.add_argument("--side", choices=("ours", "captum", "complete"))
    parser.add_argument("--quadrature", action="store_true")
    parser.add_argument("--photographs", action="store_true")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    if wanted.side:
        print(json.dumps(one_side(wanted.side, wanted.input, wanted.model)))
        return
    if wanted.photographs:
        photographs(wanted.model)
        return
    for kind in [wanted.input] if wanted.input else INPUTS:
        if wanted.quadrature:
            quadrature(wanted.model, kind)
        else:
            show(speed(wanted.model, kind, LADDER[kind]))


if __name__ == "__main__":
    main()
