"""Attributions beside captum's, for all architectures: float64, region input, the same nodes, word by word.

python -m benchmarks.parity.attribution     # the table of docs/explain.md

captum guides `nn.ReLU` modules only. The Transformers embed regions through a functional ReLU, so captum gets a copy
in which that one is a module too (ReLU of a ReLU is the same function with the same guided gradient).
"""

from __future__ import annotations

import copy
import dataclasses
import warnings

import torch
from torch import Tensor, nn

from benchmarks.measuring import Row, compare
from captrial.attribution.gradients.path_gradients import input_gradients
from captrial.attribution.methods.guided_backprop import guided_gradients
from captrial.attribution.methods.integrated_gradients import integrated_gradients
from captrial.attribution.methods.registry import AttributionSettings
from captrial.attribution.subject import from_features, word_targets
from captrial.captioners import ARCHITECTURES, PRESETS, Captioner, create
from captrial.captioners.architectures.transformer import Transformer
from captrial.captioners.protocols import WordSpan
from captrial.decoding.protocol import BOS
from captrial.vision.features.visual_features import Features

METHODS = ("saliency", "guided_backprop", "integrated_gradients")
WORDS, SIZE, ELEMENTS, STEPS = 60, 32, 9, 20
TOKENS = [5, 17, 9, 44, 11, 6, 31, 58]
SMALL = {"width": 24, "heads": 4, "hidden": 48, "attention": 16, "embedding": 16, "dictionary": 40, "squeeze": 8}


def make(architecture: str) -> tuple[Captioner, Features]:
    """A small captioner with random weights, and one image of regions with boxes, relations and attributes."""
    torch.manual_seed(7)
    known = {
        field.name for field in dataclasses.fields(ARCHITECTURES[PRESETS[architecture].architecture].captioner.Config)
    }
    sizes = {name: size for name, size in SMALL.items() if name in known}
    captioner = create(architecture, words=WORDS, features=SIZE, **sizes).double().eval()
    for parameter in captioner.parameters():  # biases that are not zero, as after training
        if parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)
    features = Features(
        torch.randn(1, ELEMENTS, SIZE).double(),
        torch.ones(1, ELEMENTS, dtype=torch.bool),
        torch.rand(1, ELEMENTS, 2, 2).double().sort(2).values.flatten(2),
        torch.randint(0, ELEMENTS, (1, 5, 3)),
        torch.randint(4, WORDS, (1, ELEMENTS, 2)),
    )
    return captioner, features


class ForCaptum(nn.Module):
    """A captioner as captum wants models: elements in, the logits of the caption's words out."""

    def __init__(self, captioner: Captioner, features: Features) -> None:
        super().__init__()
        self.captioner, self.features = captioner, features

    def forward(self, elements: Tensor) -> Tensor:
        """(b, k, d) -> (b, words of the caption)."""
        rows = torch.zeros(len(elements), dtype=torch.long)
        read = torch.tensor([[BOS, *TOKENS[:-1]]]).expand(len(elements), 1, -1)
        logits = self.captioner(self.features.select(rows).with_elements(elements), read).logits
        return logits[:, 0, torch.arange(len(TOKENS)), torch.tensor(TOKENS)]


def by_captum(captioner: Captioner, features: Features, method: str) -> Tensor:
    """captum's attributions (words, k, d), a word at a time."""
    from captum.attr import GuidedBackprop, IntegratedGradients, Saliency

    model = ForCaptum(copy.deepcopy(captioner), features)
    if method == "guided_backprop" and isinstance(model.captioner, Transformer):
        model.captioner.embed = nn.Sequential(model.captioner.embed, nn.ReLU())  # type: ignore[assignment]
    inputs = features.elements.clone().requires_grad_()
    options: dict[str, object] = (
        {"n_steps": STEPS, "method": "gausslegendre"} if method == "integrated_gradients" else {}
    )
    if method == "saliency":
        options = {"abs": False}
    kind = {"saliency": Saliency, "guided_backprop": GuidedBackprop, "integrated_gradients": IntegratedGradients}[
        method
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = kind(model)
        rows = [explainer.attribute(inputs, target=word, **options)[0].detach() for word in range(len(TOKENS))]
    return torch.stack(rows)


def by_captrial(captioner: Captioner, features: Features, method: str) -> Tensor:
    """Ours, all words at once."""
    subject = from_features(captioner, features)
    words = [WordSpan(str(token), place, place + 1) for place, token in enumerate(TOKENS)]
    targets = word_targets(TOKENS, words)
    if method == "integrated_gradients":
        settings = AttributionSettings(steps=STEPS, rule="gauss_legendre")
        return integrated_gradients(subject, targets, settings).attribution
    return {"saliency": input_gradients, "guided_backprop": guided_gradients}[method](subject, targets)


def differences(architecture: str) -> dict[str, float]:
    """The largest difference of any word's attribution, relative to its norm, by method."""
    captioner, features = make(architecture)
    found = {}
    for method in METHODS:
        ours, theirs = by_captrial(captioner, features, method), by_captum(captioner, features, method)
        apart = (ours - theirs).flatten(1).norm(dim=1) / theirs.flatten(1).norm(dim=1).clamp(min=1e-300)
        found[method] = float(apart.max())
    return found


def run() -> list[Row]:
    torch.set_num_threads(1)  # more would only wait for each other: the captioners are tiny
    found = [differences(architecture) for architecture in ARCHITECTURES]
    what = f"{len(found)} captioners, largest difference from captum, of a word's norm"
    return [
        compare(f"{method}: {what}", "tolerance", max(row[method] for row in found), 1e-8, "") for method in METHODS
    ]


def main() -> None:
    print("| captioner | " + " | ".join(METHODS) + " |\n| --- " + "| --- " * len(METHODS) + "|")
    for architecture in ARCHITECTURES:
        row = differences(architecture)
        print(f"| {architecture} | " + " | ".join(f"{row[method]:.0e}" for method in METHODS) + " |", flush=True)


if __name__ == "__main__":
    main()
