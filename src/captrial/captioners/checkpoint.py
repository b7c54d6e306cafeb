"""Checkpoints: `config.json` + `model.safetensors` + `vocabulary.json` in a folder. No pickle is ever loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from captrial.captioners.base import Captioner
from captrial.captioners.registry import architecture_of, build
from captrial.errors import InputError, MismatchError
from captrial.files import atomic_path, atomic_write
from captrial.language.vocabulary import Vocabulary

CONFIG, WEIGHTS, VOCABULARY = "config.json", "model.safetensors", "vocabulary.json"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A captioner, its vocabulary, and how its features are made."""

    captioner: Captioner
    vocabulary: Vocabulary
    vision: Mapping[str, Any] = field(default_factory=dict)  # the description of its backbone
    notes: Mapping[str, Any] = field(default_factory=dict)  # preset, data, scores: for people

    def save_pretrained(self, directory: Path | str, dtype: torch.dtype | None = None) -> None:
        """Write the three files, optionally in a smaller `dtype`."""
        directory = Path(directory)
        tensors = {
            name: tensor.detach().to("cpu", dtype if tensor.is_floating_point() else None).contiguous()
            for name, tensor in self.captioner.state_dict().items()
        }
        with atomic_path(directory / WEIGHTS) as temporary:
            save_file(tensors, temporary)
        self.vocabulary.save(directory / VOCABULARY)
        config = {
            "architecture": architecture_of(self.captioner),
            "options": self.captioner.describe(),
            "vocabulary": self.vocabulary.fingerprint,
            "vision": dict(self.vision),
            "notes": dict(self.notes),
        }
        atomic_write(directory / CONFIG, orjson.dumps(config, option=orjson.OPT_INDENT_2))

    @classmethod
    def from_pretrained(cls, directory: Path | str) -> Checkpoint:
        """Read a checkpoint folder; the captioner is in float32 and evaluation mode."""
        directory = Path(directory)
        config = _read_config(directory / CONFIG)
        vocabulary = Vocabulary.load(directory / VOCABULARY)
        if vocabulary.fingerprint != config["vocabulary"]:
            raise MismatchError(f"{directory / VOCABULARY} is not the vocabulary this captioner was trained with")
        captioner = build(config["architecture"], config["options"])
        try:
            captioner.load_state_dict(_read_weights(directory / WEIGHTS))
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{directory / WEIGHTS} does not fit the sizes in {CONFIG} ({reason})") from None
        return cls(captioner.float().eval(), vocabulary, config["vision"], config["notes"])


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path.parent} is no checkpoint: it has no {CONFIG}") from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON ({error}); the checkpoint is damaged") from None
    missing = {"architecture", "options", "vocabulary", "vision", "notes"} - set(config)
    if missing:
        raise InputError(f"{path}: no {sorted(missing)[0]!r}; this is not a captrial checkpoint")
    return config  # type: ignore[no-any-return]


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        tensors: dict[str, torch.Tensor] = load_file(path)
    except (FileNotFoundError, SafetensorError) as error:
        raise InputError(f"{path}: cannot be read ({error}); the checkpoint is damaged") from None
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
