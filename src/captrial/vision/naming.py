"""The names of backbones: `KIND[:SOURCE][?settings]`, for detectors with `+GRID` behind."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from captrial.errors import InputError
from captrial.vision.preprocess import Preprocess

_GRID = re.compile(r"\+(?=(?:efficientnet-lite|vgg19|clip|hf:))")


@dataclasses.dataclass
class Name:
    """One part of a backbone's name, taken apart; a setting that nobody asks for is an error (`done`)."""

    kind: str
    source: str | None
    settings: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Name:
        """Take `kind:source?key=value&key=value` apart.

        >>> Name.parse("hf:microsoft/resnet-50?stage=stage3")
        Name(kind='hf', source='microsoft/resnet-50', settings={'stage': 'stage3'})
        """
        head, _, tail = text.partition("?")
        kind, _, source = head.partition(":")
        return cls(kind, source or None, dict(parse_qsl(tail, keep_blank_values=True)))

    def __str__(self) -> str:
        return self.kind if self.source is None else f"{self.kind}:{self.source}"

    def need_source(self, what: str) -> str:
        """The source, or an error that says what it should be."""
        if self.source is None:
            raise InputError(f"{self.kind} needs {what}: {self.kind}:...")
        return self.source

    def take(self, key: str, kind: Callable[[str], Any], default: Any) -> Any:
        """The value of one setting, converted."""
        if key not in self.settings:
            return default
        value = self.settings.pop(key)
        try:
            return kind(value)
        except ValueError:
            raise InputError(f"{self}: {key}={value} is not understood") from None

    def done(self) -> None:
        """An error where a setting is left."""
        if self.settings:
            raise InputError(f"{self} has no setting {', '.join(self.settings)}")

    def preprocess(self, usual: Preprocess) -> Preprocess:
        """`usual` with the size and mode that are asked for; a crop keeps its share of the picture."""
        size = self.take("size", int, usual.size)
        mode = self.take("mode", str, usual.mode)
        return dataclasses.replace(usual, size=size, mode=mode, shorter=round(usual.shorter * size / usual.size))


def split_grid(text: str) -> tuple[str, str | None]:
    """A detector's name and the grid behind its plus sign.

    >>> split_grid("onnx:a+b.onnx?threshold=0.1+efficientnet-lite2?size=448")
    ('onnx:a+b.onnx?threshold=0.1', 'efficientnet-lite2?size=448')
    """
    parts = _GRID.split(text, maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else None


def yes(text: str) -> bool:
    """`yes` or `no`."""
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"
