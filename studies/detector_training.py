"""Training of the region detector: targets, losses and the loop.

Targets are FCOS's: cells near the centre of a box predict it, on the level that fits its size. Captions name only a
part of what is there, so a class that no caption of an image mentions is a weak negative in it (`unmentioned`), a
class that is mentioned without a box is none at all, and neither are single people inside a box around a group.

Of the backbone only the 1 x 1 convolutions from stride 16 on are tuned. Their depthwise neighbours stay as they are, so
that gradients pass through them by a forward convolution, several times as fast on a CPU as torch's own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from captrial.files import atomic_path
from captrial.vision.detectors.region_network import (
    BLOCKS,
    SLOTS,
    STRIDES,
    Predictions,
    RegionLabels,
    RegionNetwork,
    cell_centres,
    is_tuned,
)
from studies.region_labels import LabelledBox, LabelledImage

RANGES = ((0.0, 112.0), (112.0, 240.0), (240.0, math.inf))  # larger side of boxes, in pixels, a level
RADIUS = 1.5  # cells around a box's centre that predict it, in strides


@dataclass(frozen=True)
class DetectorRecipe:
    """How the detector is trained."""

    epochs: int = 8
    batch: int = 8
    rate: float = 8e-4  # of the new layers
    trunk_rate: float = 1e-4  # of the tuned part of the backbone; 0 leaves it frozen
    decay: float = 0.05
    unmentioned: float = 0.5  # weight of cells as negatives of a class that no caption mentions
    box_weight: float = 2.0
    noun_weight: float = 0.5
    adjective_weight: float = 0.3
    crop: float = 0.6  # least side of a random crop, as a share of the image's
    average: float = 0.998  # decay of the moving average of weights that is kept
    seed: int = 0


class Targets(NamedTuple):
    """What the cells of one image should say. -1 in `boxes`: nothing."""

    chosen: Tensor  # (cells, slots) index of a box, or -1
    boxes: Tensor  # (n, 4) pixels of the square
    classes: Tensor  # (n, classes) 0 or 1
    nouns: Tensor  # (n, nouns) shares of the phrases
    adjectives: Tensor  # (n, adjectives) 0 or 1
    weights: Tensor  # (classes,) of a cell as a negative example
    ignored: Tensor  # (cells,) True where single people are neither there nor not: inside a box around a group


class TargetMaker:
    """Makes targets of labelled images for one network."""

    def __init__(self, labels: RegionLabels, size: int, unmentioned: float) -> None:
        self.labels, self.size, self.unmentioned = labels, size, unmentioned
        self.centres, self.strides = cell_centres(size)
        self.columns = {name: number for number, name in enumerate(labels.scored)}
        self.noun_columns = {name: number for number, name in enumerate(labels.nouns)}
        self.adjective_columns = {name: number for number, name in enumerate(labels.adjectives)}

    def __call__(self, image: LabelledImage, window: tuple[float, float, float, float], mirrored: bool) -> Targets:
        """Targets of a part (x1, y1, x2, y2) of an image, mirrored or not."""
        kept = [(box, moved) for box in image.boxes if (moved := _move(box.box, window, mirrored)) is not None]
        boxes = torch.tensor([moved for _, moved in kept], dtype=torch.float32).reshape(-1, 4) * self.size
        slots = torch.tensor([box.slot for box, _ in kept], dtype=torch.long)
        hot = [self._rows(box) for box, _ in kept]
        widths = len(self.columns), len(self.noun_columns), len(self.adjective_columns)
        classes, nouns, adjectives = (
            torch.from_numpy(np.array([row[part] for row in hot], np.float32).reshape(len(kept), width))
            for part, width in enumerate(widths)
        )
        groups = boxes[torch.tensor([box.group for box, _ in kept], dtype=torch.bool)]
        return Targets(
            self._assign(boxes, slots), boxes, classes, nouns, adjectives, self._weights(image), self._inside(groups)
        )

    def _rows(self, box: LabelledBox) -> tuple[Any, Any, Any]:
        classes = np.zeros(len(self.columns), np.float32)
        classes[[self.columns[name] for name in (*(f"type:{kind}" for kind in box.types), *box.classes)]] = 1
        nouns = np.zeros(len(self.noun_columns), np.float32)
        for noun, count in box.nouns.items():
            if noun in self.noun_columns:
                nouns[self.noun_columns[noun]] = count
        adjectives = np.zeros(len(self.adjective_columns), np.float32)
        adjectives[[self.adjective_columns[word] for word in box.adjectives if word in self.adjective_columns]] = 1
        return classes, nouns / max(nouns.sum(), 1), adjectives

    def _weights(self, image: LabelledImage) -> Tensor:
        weights = torch.full((len(self.columns),), self.unmentioned)
        weights[[self.columns[name] for name in image.mentioned if name in self.columns]] = 1.0
        weights[[self.columns[name] for name in image.unplaced if name in self.columns]] = 0.0
        return weights

    def _inside(self, boxes: Tensor) -> Tensor:
        x, y = self.centres[:, :1], self.centres[:, 1:]
        return ((x > boxes[:, 0]) & (x < boxes[:, 2]) & (y > boxes[:, 1]) & (y < boxes[:, 3])).any(1)

    def _assign(self, boxes: Tensor, slots: Tensor) -> Tensor:
        """Which box each cell predicts in each slot, of several the smallest; a box without a near cell takes one."""
        chosen = torch.full((len(self.centres), len(SLOTS)), -1, dtype=torch.long)
        sides = boxes[:, 2:] - boxes[:, :2]
        middles, larger = boxes[:, :2] + sides / 2, sides.max(1).values
        for number in torch.argsort(sides.prod(1), descending=True, stable=True).tolist():
            level = next(at for at, (low, high) in enumerate(RANGES) if low <= larger[number] < high)
            away = (self.centres - middles[number]).abs()
            near = (away < torch.minimum(torch.tensor(RADIUS * STRIDES[level]), sides[number] / 2)).all(1)
            near &= self.strides == STRIDES[level]
            if not near.any():
                near[(away.sum(1) + (self.strides != STRIDES[level]) * 1e6).argmin()] = True
            chosen[near, slots[number]] = number
        return chosen


def _move(
    box: tuple[float, ...], window: tuple[float, float, float, float], mirrored: bool
) -> tuple[float, float, float, float] | None:
    """A relative box on a window of the image; None where most of it is outside."""
    left, top, right, bottom = window
    width, height = right - left, bottom - top
    whole = [(box[0] - left) / width, (box[1] - top) / height, (box[2] - left) / width, (box[3] - top) / height]
    x1, y1, x2, y2 = (min(max(side, 0.0), 1.0) for side in whole)
    area = (whole[2] - whole[0]) * (whole[3] - whole[1])
    if (x2 - x1) * (y2 - y1) < 0.4 * area or x2 - x1 < 0.01 or y2 - y1 < 0.01:
        return None
    return (1 - x2, y1, 1 - x1, y2) if mirrored else (x1, y1, x2, y2)


def detector_loss(
    network: RegionNetwork, predictions: Predictions, targets: Sequence[Targets], recipe: DetectorRecipe
) -> dict[str, Tensor]:
    """Losses of a batch: `classes` (quality focal), `boxes` (generalised IoU), `nouns`, `adjectives`."""
    labels = network.labels
    columns = torch.tensor(labels.scored_slots)
    person = labels.scored.index("person") if "person" in labels.scored else None
    wanted = torch.zeros_like(predictions.scores)  # (b, cells, classes)
    weights = torch.stack([target.weights for target in targets])[:, None].expand_as(wanted).clone()
    box_losses, shares, noun_losses, adjective_losses = [], [], [], []
    for row, target in enumerate(targets):
        cells, slots = torch.nonzero(target.chosen >= 0, as_tuple=True)
        if person is not None:
            weights[row, target.ignored, person] = 0
        if not len(cells):
            continue
        numbers = target.chosen[cells, slots]
        found = predictions.boxes[row, cells, slots]
        overlap, generalised = paired_iou(found, target.boxes[numbers])
        box_losses.append(1 - generalised)
        quality = overlap.detach().clamp(min=0)
        hot = target.classes[numbers] * (columns[None] == slots[:, None])
        held = (hot * quality[:, None]).to(wanted.dtype)
        wanted[row].index_put_((cells,), held, accumulate=True)
        weights[row].index_put_((cells,), (hot > 0) * 10.0, accumulate=True)
        shares.append(1 / torch.bincount(numbers)[numbers].float())  # every box counts the same
        nouns, adjectives = network.name(predictions.features[row, cells], slots)
        named = target.nouns[numbers].sum(1)
        noun_losses.append(-(target.nouns[numbers] * functional.log_softmax(nouns.float(), 1)).sum(1))
        adjective_losses.append(
            functional.binary_cross_entropy_with_logits(
                adjectives.float(), target.adjectives[numbers], reduction="none"
            ).sum(1)
            * named
        )
    weights = weights.clamp(max=1.0)
    likely = torch.sigmoid(predictions.scores)
    focal = functional.binary_cross_entropy_with_logits(predictions.scores, wanted, reduction="none")
    count = max(sum(len(each) for each in box_losses), 1)
    losses = {"classes": (focal * (wanted - likely).abs().square() * weights).sum() / count}
    if box_losses:
        share = torch.cat(shares)
        share = share / share.sum()
        pairs = {"boxes": box_losses, "nouns": noun_losses, "adjectives": adjective_losses}
        losses |= {name: (torch.cat(each) * share).sum() for name, each in pairs.items()}
    return losses


def paired_iou(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """IoU and generalised IoU of boxes (n, 4) with boxes (n, 4), pair by pair: (n,) each."""
    corner = torch.minimum(first[:, 2:], second[:, 2:])
    common = (corner - torch.maximum(first[:, :2], second[:, :2])).clamp(min=0).prod(1)
    area = (first[:, 2:] - first[:, :2]).prod(1) + (second[:, 2:] - second[:, :2]).prod(1) - common
    hull = (torch.maximum(first[:, 2:], second[:, 2:]) - torch.minimum(first[:, :2], second[:, :2])).prod(1)
    overlap = common / area.clamp(min=1e-6)
    return overlap, overlap - (hull - area) / hull.clamp(min=1e-6)


class _FixedDepthwise(torch.autograd.Function):
    """A depthwise convolution whose weights get no gradient; the gradient of its input is a forward convolution."""

    @staticmethod
    def forward(context: Any, padded: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
        weight, bias = weight.to(padded.dtype), bias.to(padded.dtype)
        context.save_for_backward(weight)
        context.shape, context.stride = padded.shape, stride
        return functional.conv2d(padded, weight, bias, stride, groups=len(weight))

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = context.saved_tensors
        size = weight.shape[-1]
        if context.stride > 1:
            rows, columns = (side - size + 1 for side in context.shape[2:])
            spread = gradient.new_zeros(*context.shape[:2], rows, columns)
            spread = spread.contiguous(memory_format=torch.channels_last)
            spread[:, :, :: context.stride, :: context.stride] = gradient
            gradient = spread
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        return functional.conv2d(gradient, weight.flip(2, 3), padding=size - 1, groups=len(weight)), None, None, None


def _pass_through(convolution: Any, values: Tensor) -> Tensor:
    padded, stride = convolution.static_padding(values), convolution.stride[0]
    passed: Tensor = _FixedDepthwise.apply(padded, convolution.weight, convolution.bias, stride)  # type: ignore[no-untyped-call]
    return passed


def tuned_stages(network: RegionNetwork, pixels: Tensor, first: int) -> list[Tensor]:
    """`RegionNetwork.stages`, with gradients for the 1 x 1 convolutions of blocks from `first` on."""
    trunk: Any = network.grid.network
    ends = BLOCKS[network.settings.version]
    found = []
    with torch.no_grad():
        current = trunk._swish(trunk._conv_stem(pixels.contiguous(memory_format=torch.channels_last)))
    for number, block in enumerate(trunk._blocks):
        with torch.set_grad_enabled(number >= first):
            before = current
            current = block._swish(block._expand_conv(before)) if hasattr(block, "_expand_conv") else before
            current = block._swish(_pass_through(block._depthwise_conv, current))
            current = block._project_conv(current)
            if current.shape == before.shape and block.id_skip and max(_as_pair(block._block_args.stride)) == 1:
                current = current + before
        if number in ends:
            found.append(current)
    return found


def _as_pair(stride: Any) -> tuple[int, ...]:
    return tuple(stride) if isinstance(stride, (list, tuple)) else (stride,)


def tuned_parameters(network: RegionNetwork, first: int) -> dict[str, nn.Parameter]:
    """The weights of the backbone that training changes, by name."""
    return {name: value for name, value in network.named_parameters() if is_tuned(name, first)}


class Photographs:
    """Crops of images as a batch, with their targets; the order depends on seed and epoch only."""

    def __init__(self, network: RegionNetwork, images: Sequence[LabelledImage], paths: Mapping[str, Path],
                 recipe: DetectorRecipe) -> None:  # fmt: skip
        self.images, self.paths, self.recipe = list(images), paths, recipe
        self.size, self.preprocess = network.settings.size, network.grid.preprocess
        self.make = TargetMaker(network.labels, self.size, recipe.unmentioned)

    def epoch(self, number: int, start: int = 0) -> Iterator[tuple[Tensor, list[Targets]]]:
        """Batches of one epoch, from the one with number `start` on."""
        generator = np.random.default_rng([self.recipe.seed, number])
        order = generator.permutation(len(self.images))
        seeds = generator.integers(0, 2**31, len(order))
        for first in range(start * self.recipe.batch, len(order) - self.recipe.batch + 1, self.recipe.batch):
            yield self._batch(order[first : first + self.recipe.batch], seeds[first : first + self.recipe.batch])

    def __len__(self) -> int:
        return len(self.images) // self.recipe.batch

    def _batch(self, order: Any, seeds: Any) -> tuple[Tensor, list[Targets]]:
        pixels, targets = [], []
        for index, seed in zip(order, seeds, strict=True):
            image, generator = self.images[index], np.random.default_rng(seed)
            window, mirrored = self._window(generator), bool(generator.random() < 0.5)
            pixels.append(self._pixels(image, window, mirrored, generator))
            targets.append(self.make(image, window, mirrored))
        return torch.stack(pixels), targets

    def _window(self, generator: np.random.Generator) -> tuple[float, float, float, float]:
        """The whole image, a part of it, or the image with a border around it."""
        choice = generator.random()
        if choice < 0.25:
            return 0.0, 0.0, 1.0, 1.0
        low, high = (self.recipe.crop, 1.0) if choice < 0.75 else (1.0, 1.5)
        side = generator.uniform(low, high)
        width, height = side * generator.uniform(0.9, 1.1), side * generator.uniform(0.9, 1.1)
        left, top = generator.uniform(0, 1) * (1 - width), generator.uniform(0, 1) * (1 - height)
        return left, top, left + width, top + height

    def _pixels(self, image: LabelledImage, window: tuple[float, float, float, float], mirrored: bool,
                generator: np.random.Generator) -> Tensor:  # fmt: skip
        with Image.open(self.paths[image.id]) as opened:
            whole = opened.convert("RGB")
        width, height = whole.size
        box = (window[0] * width, window[1] * height, window[2] * width, window[3] * height)
        if window[0] >= 0 and window[1] >= 0 and window[2] <= 1 and window[3] <= 1:
            square = whole.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box)
        else:
            factors = self.size / (box[2] - box[0]), self.size / (box[3] - box[1])
            inner = whole.resize((round(width * factors[0]), round(height * factors[1])), Image.Resampling.BILINEAR)
            square = Image.new("RGB", (self.size, self.size), (124, 124, 124))
            square.paste(inner, (round(-box[0] * factors[0]), round(-box[1] * factors[1])))
        values = torch.from_numpy(np.array(square)).permute(2, 0, 1).float() / 255
        values = values.flip(2) if mirrored else values
        bright, contrast = generator.uniform(-0.1, 0.1), generator.uniform(0.8, 1.2)
        values = ((values - 0.5) * contrast + 0.5 + bright).clamp(0, 1)
        mean, std = (torch.tensor(each).view(3, 1, 1) for each in (self.preprocess.mean, self.preprocess.std))
        return (values - mean) / std


def train_detector(
    network: RegionNetwork,
    images: Sequence[LabelledImage],
    paths: Mapping[str, Path],
    recipe: DetectorRecipe,
    folder: Path,
    validate: Any = None,
    half: bool = True,
) -> None:
    """Train in place; the network ends with the moving average of its weights.

    The state is kept in `folder` every hundred steps and before validation, and training goes on from there;
    `log.jsonl` has the losses. `validate(network, epoch)` is called with the averaged weights after every epoch.
    """
    torch.manual_seed(recipe.seed)
    folder.mkdir(parents=True, exist_ok=True)
    batches = Photographs(network, images, paths, recipe)
    tuned = tuned_parameters(network, network.settings.tuned_from) if recipe.trunk_rate else {}
    head = {name: value for name, value in network.named_parameters() if not name.startswith("grid.")}
    parameters = {**head, **tuned}
    for value in parameters.values():
        value.requires_grad_(True)
    groups = [
        {"params": list(head.values()), "base": recipe.rate, "weight_decay": recipe.decay},
        {"params": list(tuned.values()), "base": recipe.trunk_rate, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW([group for group in groups if group["params"]], lr=recipe.rate, betas=(0.9, 0.99))
    average = {name: value.detach().clone() for name, value in parameters.items()}
    state = _load(folder, parameters, average, optimiser)
    step, total = int(state), recipe.epochs * len(batches)
    began, sums = time.perf_counter(), dict[str, float]()
    for epoch in range(step // len(batches), recipe.epochs):
        network.train()
        for pixels, targets in batches.epoch(epoch, step % len(batches)):
            for group in optimiser.param_groups:
                group["lr"] = group["base"] * schedule(step, total)
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                predictions = network.heads(
                    *tuned_stages(network, pixels, network.settings.tuned_from if tuned else 99)
                )
                losses = detector_loss(network, predictions, targets, recipe)
            weights = {"boxes": recipe.box_weight, "nouns": recipe.noun_weight, "adjectives": recipe.adjective_weight}
            loss = torch.stack([weights.get(name, 1.0) * value for name, value in losses.items()]).sum()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(list(parameters.values()), 10.0)
            optimiser.step()
            step += 1
            keep = min(recipe.average, (1 + step) / (10 + step))
            with torch.no_grad():
                for name, value in parameters.items():
                    average[name].lerp_(value, 1 - keep)
            for name, part in losses.items():
                sums[name] = sums.get(name, 0.0) + float(part.detach())
            if step % 50 == 0:
                line = {"step": step, "of": total, "seconds": round(time.perf_counter() - began, 1)}
                _log(folder, {**line, **{name: round(value / 50, 4) for name, value in sums.items()}})
                sums = {}
            if step % 100 == 0:
                _save(folder, parameters, average, optimiser, step)
        if validate is not None or epoch + 1 == recipe.epochs:
            _save(folder, parameters, average, optimiser, step)
        own = {name: value.detach().clone() for name, value in parameters.items()}
        _copy(parameters, average)
        if validate is not None:
            _log(folder, {"epoch": epoch + 1, **validate(network.eval(), epoch + 1)})
        if epoch + 1 < recipe.epochs:
            _copy(parameters, own)
    _copy(parameters, average)
    network.requires_grad_(False).eval()


def schedule(step: int, total: int, warm: int = 100) -> float:
    """A short warm-up, then half a cosine down to a hundredth."""
    if step < warm:
        return (step + 1) / warm
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(total - warm, 1)))


def _copy(parameters: Mapping[str, nn.Parameter], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(values[name])


def _log(folder: Path, line: Mapping[str, Any]) -> None:
    with (folder / "log.jsonl").open("ab") as file:
        file.write(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def _save(
    folder: Path, parameters: Mapping[str, Tensor], average: Mapping[str, Tensor], optimiser: Any, step: int
) -> None:
    state = {
        "parameters": dict(parameters),
        "average": dict(average),
        "optimiser": optimiser.state_dict(),
        "step": step,
    }
    with atomic_path(folder / "state.pt") as path:
        torch.save(state, path)


def _load(folder: Path, parameters: Mapping[str, nn.Parameter], average: dict[str, Tensor], optimiser: Any) -> int:
    if not (folder / "state.pt").is_file():
        return 0
    state = torch.load(folder / "state.pt", weights_only=True)
    _copy(parameters, state["parameters"])
    average.update(state["average"])
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"])
