"""How backbones and features are written down: names that people type, descriptions that files keep.

A name is `KIND[:SOURCE][?setting=value&...]` (`BackboneName`), such as `hf:microsoft/resnet-50?stage=stage3`. A
description is what `Backbone.describe` returns: plain values, kept in feature stores and checkpoints, that identify
features wherever their weights lie (`identity`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import orjson

from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.vision.preprocess import Preprocess

PRECOMPUTED = "precomputed"  # how descriptions of features made by other programs begin
SOURCE = "source"  # where weights are loaded from: a path or a name on a hub


@dataclass
class BackboneName:
    """One part of a backbone's name, parsed; a setting that nothing has taken is an error (`done`)."""

    kind: str
    source: str | None
    settings: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> BackboneName:
        """Split `kind:source?key=value&key=value`.

        >>> BackboneName.parse("hf:microsoft/resnet-50?stage=stage3")
        BackboneName(kind='hf', source='microsoft/resnet-50', settings={'stage': 'stage3'})
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
        """The value of one setting, converted by `kind`."""
        if key not in self.settings:
            return default
        value = self.settings.pop(key)
        try:
            return kind(value)
        except ValueError:
            raise InputError(f"{self}: {key}={value} is not understood") from None

    def done(self) -> None:
        """An error where a setting is left that this kind of backbone does not have."""
        if self.settings:
            raise InputError(f"{self} has no setting {', '.join(self.settings)}")

    def preprocess(self, usual: Preprocess) -> Preprocess:
        """`usual` with the size and mode of the settings; a crop keeps its share of the image."""
        size = self.take("size", int, usual.size)
        mode = self.take("mode", str, usual.mode)
        return replace(usual, size=size, mode=mode, shorter=round(usual.shorter * size / usual.size))


def yes_or_no(text: str) -> bool:
    """The value of a setting that is `yes` or `no`."""
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


def read_labels(path: str) -> list[str]:
    """The class names of a file, one a line."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: the class names cannot be read ({error.strerror}); give one name a line") from None


def identity(description: Mapping[str, Any]) -> dict[str, Any]:
    """A description as plain JSON values, without the place of weights, at every depth.

    >>> identity({"backbone": "hf:vit", "source": "/models/vit", "grid": {"source": "x", "width": 3}})
    {'backbone': 'hf:vit', 'grid': {'width': 3}}
    """
    plain = orjson.loads(orjson.dumps(dict(description)))
    return {key: _plain(value) for key, value in plain.items() if key != SOURCE}


def _plain(value: Any) -> Any:
    return identity(value) if isinstance(value, dict) else value
