"""Any YOLO-style detector from an ONNX file, through onnxruntime: boxes, labels, scores; features come from a grid."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from captrial.errors import InputError, MissingExtraError
from captrial.files import content_hash
from captrial.records import Box
from captrial.vision.boxes import suppress
from captrial.vision.regions import Detection
from captrial.vision.yolo import Candidates, Letterbox, decode, find_layout

MOST_CANDIDATES = 1000  # before the suppression of doubles
PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")
SIZE = 640  # of the frame, where neither the file nor the user says


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

    def detect(self, pictures: Sequence[Image.Image]) -> list[list[Detection]]:
        """The regions of each picture, best first, boxes in its pixels."""
        fitted = [Letterbox.fit(picture, *self.frame) for picture in pictures]
        outputs = self._run([pixels for _, pixels in fitted])
        return [
            self._regions(output, letterbox, picture.size)
            for output, (letterbox, _), picture in zip(outputs, fitted, pictures, strict=True)
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
        """One output (rows, columns) a picture; a file with a fixed batch of one sees them one by one."""
        if not pixels:
            return []
        whole = not isinstance(self._shape[0], int)  # a named or unknown batch size: any
        batches = [np.stack(pixels)] if whole else [picture[None] for picture in pixels]
        kind = np.float16 if "float16" in self._type else np.float32
        runs = [self._session().run(None, {self._input: batch.astype(kind)})[0] for batch in batches]
        return [output.astype(np.float32) for run in runs for output in run]

    def _regions(self, output: NDArray[np.float32], letterbox: Letterbox, size: tuple[int, int]) -> list[Detection]:
        layout = find_layout((1, *output.shape), len(self.labels), self.frame)
        found = decode(output, layout, len(self.labels)).above(self.threshold, MOST_CANDIDATES)
        boxes = letterbox.undo(found.boxes, size)
        there = np.flatnonzero((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1]))
        found = Candidates(boxes[there], found.scores[there], found.classes[there])
        kept: Sequence[int] = range(len(there))  # end to end: suppressed already
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
            raise InputError(f"{self.path} takes input of shape {shape}, not pictures (batch, 3, height, width)")
        if isinstance(shape[0], int) and shape[0] != 1:
            raise InputError(f"{self.path} takes {shape[0]} pictures at once; export it with a batch of one, or of any")
        fixed = (shape[2], shape[3]) if isinstance(shape[2], int) and isinstance(shape[3], int) else None
        if wanted is not None and fixed not in (None, wanted):
            raise InputError(f"{self.path} was exported for {fixed} pixels (height, width); it cannot take {wanted}")
        return wanted or fixed or _noted_size(metadata) or (SIZE, SIZE)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


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
