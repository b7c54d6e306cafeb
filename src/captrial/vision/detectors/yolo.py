"""YOLO-style detectors in ONNX files, run by onnxruntime: boxes, labels and scores; features come from a grid.

Images go in letterboxed (`Letterbox`); `find_layout` and `decode` read the three output layouts of the family.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from captrial.errors import InputError, MissingExtraError
from captrial.files import content_hash
from captrial.records import Box
from captrial.vision.boxes import suppress
from captrial.vision.descriptions import BackboneName, read_labels
from captrial.vision.detectors.base import Detection

Floats = NDArray[np.float32]
Layout = Literal["v5", "v8", "v8-rows", "end-to-end"]

GREY = 114  # what the border of a letterbox is filled with, in training as here
STRIDES = (8, 16, 32)
MASKS = 32  # coefficients a segmentation model gives every candidate
MOST_FINAL = 1000  # rows of an end-to-end model, which has suppressed doubles itself (300 as a rule)


@dataclass(frozen=True)
class Letterbox:
    """An image scaled into a `height` x `width` frame with its shape kept, centred on grey."""

    scale: float
    left: int
    top: int

    @classmethod
    def fit(cls, image: Image.Image, height: int, width: int) -> tuple[Letterbox, Floats]:
        """The arrangement, and the pixels (3, height, width) in [0, 1]."""
        scale = min(height / image.height, width / image.width)
        columns, rows = max(round(image.width * scale), 1), max(round(image.height * scale), 1)
        left, top = (width - columns) // 2, (height - rows) // 2
        frame = np.full((height, width, 3), GREY, np.uint8)
        small = image.convert("RGB").resize((columns, rows), Image.Resampling.BILINEAR)
        frame[top : top + rows, left : left + columns] = np.asarray(small)
        pixels = np.ascontiguousarray(frame.transpose(2, 0, 1), np.float32)
        return cls(scale, left, top), pixels / np.float32(255)

    def undo(self, boxes: Floats, size: tuple[int, int]) -> Floats:
        """Boxes (n, 4) of the frame in pixels of the image of (width, height), cut off at its border."""
        shift = np.array([self.left, self.top, self.left, self.top], np.float32)
        moved: Floats = np.clip((boxes - shift) / np.float32(self.scale), 0, np.array([*size, *size], np.float32))
        return moved


@dataclass(frozen=True)
class Candidates:
    """What a network proposes for one image, in pixels of its frame."""

    boxes: Floats  # (n, 4) x1 y1 x2 y2
    scores: Floats  # (n,)
    classes: NDArray[np.int64]  # (n,)

    def above(self, threshold: float, most: int) -> Candidates:
        """The at most `most` best ones that reach the threshold, best first; equal scores: the first."""
        order = np.argsort(-self.scores, kind="stable")[:most]
        order = order[self.scores[order] >= threshold]
        return Candidates(self.boxes[order], self.scores[order], self.classes[order])


def find_layout(shape: tuple[int, ...], classes: int, frame: tuple[int, int]) -> Layout:
    """Which layout an output of this shape (batch, rows, columns) is in.

    - `v5` (and v6, v7): a row a candidate: x y w h, objectness, classes
    - `v8` (and v9, v11, v12): a column a candidate: x y w h, classes; `v8-rows` is its transpose
    - `end-to-end` (v10, v26, or exported with suppression): a row a region: x1 y1 x2 y2, score, class

    The 32 mask coefficients of a segmentation model may stand behind the classes.

    >>> find_layout((1, 84, 8400), 80, (640, 640)), find_layout((1, 25200, 85), 80, (640, 640))
    ('v8', 'v5')
    """
    if len(shape) == 3:
        rows, columns = shape[1:]
        if columns == 6 and rows <= MOST_FINAL and not (classes == 1 and rows == 3 * _cells(frame)):
            return "end-to-end"
        if rows - classes in (4, 4 + MASKS) and (rows < columns or columns == _cells(frame)):
            return "v8"
        if columns - classes in (4, 4 + MASKS):
            return "v8-rows"
        if columns - classes in (5, 5 + MASKS):
            return "v5"
    raise InputError(
        f"an output of shape {shape} is no YOLO layout for {classes} classes: expected (1, {4 + classes}, n), "
        f"(1, n, {5 + classes}) or (1, n, 6); export the model without changes, or give its class names"
    )


def decode(output: Floats, layout: Layout, classes: int) -> Candidates:
    """One image's output (rows, columns) as candidates, each with its best class."""
    if layout == "end-to-end":
        return Candidates(output[:, :4], output[:, 4], output[:, 5].astype(np.int64))
    table = output.T if layout == "v8" else output
    start = 5 if layout == "v5" else 4
    chances = table[:, start : start + classes]
    if layout == "v5":
        chances = chances * table[:, 4:5]  # p(class) = p(class | object) p(object)
    best = chances.argmax(1)
    middle, half = table[:, :2], table[:, 2:4] / 2
    boxes = np.concatenate([middle - half, middle + half], 1)
    return Candidates(boxes, chances[np.arange(len(best)), best], best)


def _cells(frame: tuple[int, int]) -> int:
    return sum((frame[0] // stride) * (frame[1] // stride) for stride in STRIDES)


MOST_CANDIDATES = 1000  # before the suppression of doubles
PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")
SIZE = 640  # of the frame, where neither the file nor the user gives one


class OnnxDetector:
    """A YOLO detector (v5 to v12, or exported end to end) from a file.

    Class names and frame size come from the file's metadata (`names`, `imgsz`, written by the usual exporters);
    `labels` and `frame` (height, width) replace them. Thresholds are the family's own defaults. Safe to fork and to
    pickle: every process opens its own session.
    """

    name = "onnx"
    width = None

    def __init__(
        self,
        path: Path | str,
        threshold: float = 0.25,
        iou: float = 0.7,
        labels: Sequence[str] | None = None,
        frame: tuple[int, int] | None = None,
    ) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise InputError(f"{path} is no file; give an ONNX file of a YOLO-style detector")
        self.threshold, self.iou = threshold, iou
        self._opened: tuple[int, Any] | None = None
        metadata = self._session().get_modelmeta().custom_metadata_map
        self.labels: tuple[str, ...] = tuple(labels) if labels is not None else self._names(metadata)
        first = self._session().get_inputs()[0]
        self._input, self._shape, self._type = first.name, list(first.shape), first.type
        self.frame = self._frame(metadata, frame)
        self._weights = content_hash(self.path.read_bytes())

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """The regions of each image, best first, boxes in its pixels."""
        fitted = [Letterbox.fit(image, *self.frame) for image in images]
        outputs = self._run([pixels for _, pixels in fitted])
        return [
            self._regions(output, letterbox, image.size)
            for output, (letterbox, _), image in zip(outputs, fitted, images, strict=True)
        ]

    def describe(self) -> dict[str, Any]:
        """File (by content), frame, thresholds and labels."""
        return {
            "detector": self.name,
            "source": str(self.path),
            "weights": self._weights,
            "frame": list(self.frame),
            "threshold": self.threshold,
            "iou": self.iou,
            "labels": list(self.labels),
        }

    def _run(self, pixels: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        """One output (rows, columns) an image; a file with a fixed batch of one gets them one by one."""
        if not pixels:
            return []
        whole = not isinstance(self._shape[0], int)  # a named or unknown batch size: any
        batches = [np.stack(pixels)] if whole else [image[None] for image in pixels]
        kind = np.float16 if "float16" in self._type else np.float32
        runs = [self._session().run(None, {self._input: batch.astype(kind)})[0] for batch in batches]
        return [output.astype(np.float32) for run in runs for output in run]

    def _regions(self, output: NDArray[np.float32], letterbox: Letterbox, size: tuple[int, int]) -> list[Detection]:
        layout = find_layout((1, *output.shape), len(self.labels), self.frame)
        found = decode(output, layout, len(self.labels)).above(self.threshold, MOST_CANDIDATES)
        boxes = letterbox.undo(found.boxes, size)
        valid = np.flatnonzero((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1]))
        found = Candidates(boxes[valid], found.scores[valid], found.classes[valid])
        kept: Sequence[int] = range(len(valid))  # end to end: suppressed already
        if layout != "end-to-end":
            kept = suppress(found.boxes, found.scores, self.iou, found.classes)
        if (found.classes >= len(self.labels)).any():
            raise InputError(f"{self.path} found class {found.classes.max()}, but has {len(self.labels)} class names")
        return [
            Detection(Box(*found.boxes[i].tolist()), self.labels[found.classes[i]], float(found.scores[i]))
            for i in kept
        ]

    def _session(self) -> Any:
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), _open(self.path)
        return self._opened[1]

    def _names(self, metadata: dict[str, str]) -> tuple[str, ...]:
        """The class names that exporters write: a Python dict or list in a string."""
        try:
            names = ast.literal_eval(metadata.get("names", ""))
            return tuple(str(names[number]) for number in range(len(names)))
        except (SyntaxError, ValueError, KeyError, TypeError):
            raise InputError(
                f"{self.path} has no class names in its metadata; give them, one a line: ?labels=FILE"
            ) from None

    def _frame(self, metadata: dict[str, str], wanted: tuple[int, int] | None) -> tuple[int, int]:
        shape = self._shape
        if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
            raise InputError(f"{self.path} takes input of shape {shape}, not images (batch, 3, height, width)")
        if isinstance(shape[0], int) and shape[0] != 1:
            raise InputError(f"{self.path} takes {shape[0]} images at once; export it with a batch of one, or of any")
        fixed = (shape[2], shape[3]) if isinstance(shape[2], int) and isinstance(shape[3], int) else None
        if wanted is not None and fixed not in (None, wanted):
            raise InputError(f"{self.path} was exported for {fixed} pixels (height, width); it cannot take {wanted}")
        return wanted or fixed or _noted_size(metadata) or (SIZE, SIZE)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def load_onnx(name: BackboneName, features: bool) -> OnnxDetector:
    """By name: `onnx:FILE?threshold=0.3&iou=0.5&size=640&labels=FILE`; it never has features of its own."""
    return OnnxDetector(
        name.need_source("an ONNX file"),
        name.take("threshold", float, 0.25),
        name.take("iou", float, 0.7),
        name.take("labels", read_labels, None),
        name.take("size", lambda text: (int(text), int(text)), None),
    )


def restore_onnx(description: Mapping[str, Any]) -> OnnxDetector:
    """From a description."""
    how = description
    return OnnxDetector(how["source"], how["threshold"], how["iou"], how["labels"], tuple(how["frame"]))


def _noted_size(metadata: dict[str, str]) -> tuple[int, int] | None:
    try:
        height, width = ast.literal_eval(metadata.get("imgsz", ""))
        return int(height), int(width)
    except (SyntaxError, ValueError, TypeError):
        return None


def _open(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("A detector in an ONNX file", "models") from None
    available = onnxruntime.get_available_providers()
    providers = [provider for provider in PROVIDERS if provider in available]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # onnxruntime has a class for every failure, none of them public
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"{path} cannot be loaded with onnxruntime ({reason})") from None
