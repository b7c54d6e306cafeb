"""Checkpoints: `config.json` + `model.safetensors` + `vocabulary.json` in a folder. No pickle is ever loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode

from captrial.captioners.base import Captioner
from captrial.captioners.registry import architecture_of, build
from captrial.errors import CaptrialError, InputError, MismatchError
from captrial.folders import FolderVerifier, VerifiedFolder, check_files, write_checked
from captrial.language.vocabulary import Vocabulary

CONFIG, WEIGHTS, VOCABULARY = "config.json", "model.safetensors", "vocabulary.json"
REMAKE = "`captrial train`"
MOST = 1000  # an option that is no size, such as a number of words, may be this large in any checkpoint
LENGTH_POWER = 0.7  # ranked by log-probability alone captions come out short (chosen on Flickr8k's val images)
_CONFIG_KINDS = {"architecture": str, "options": dict, "vocabulary": str, "vision": dict, "notes": dict}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A captioner, its vocabulary, and how its features are made."""

    captioner: Captioner
    vocabulary: Vocabulary
    vision: Mapping[str, Any] = field(default_factory=dict)  # the description of its backbone
    notes: Mapping[str, Any] = field(default_factory=dict)  # preset, data, scores: for people
    length_power: float = LENGTH_POWER  # how a beam ranks captions of several lengths (`BeamSettings`), by validation

    def save_pretrained(self, directory: Path | str, dtype: torch.dtype | None = None) -> None:
        """Write the three files, optionally in a smaller `dtype`."""
        directory = Path(directory)
        tensors = {
            name: tensor.detach().to("cpu", dtype if tensor.is_floating_point() else None).contiguous()
            for name, tensor in self.captioner.state_dict().items()
        }
        config = {
            "architecture": architecture_of(self.captioner),
            "options": self.captioner.describe(),
            "vocabulary": self.vocabulary.fingerprint,
            "vision": dict(self.vision),
            "notes": dict(self.notes),
            "length_power": self.length_power,
        }
        with write_checked(directory) as staging:
            save_file(tensors, staging / WEIGHTS)
            self.vocabulary.save(staging / VOCABULARY)
            (staging / CONFIG).write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2))

    @classmethod
    def from_pretrained(cls, directory: Path | str) -> Checkpoint:
        """Read a checkpoint folder; the captioner is in float32 and evaluation mode."""
        directory = Path(directory)
        check_files(directory, REMAKE, [CONFIG, VOCABULARY, WEIGHTS])
        config = _read_config(directory / CONFIG)
        vocabulary = Vocabulary.load(directory / VOCABULARY)
        if vocabulary.fingerprint != config["vocabulary"]:
            raise MismatchError(f"{directory / VOCABULARY} is not the vocabulary this captioner was trained with")
        captioner = _build(directory, config)
        try:
            captioner.load_state_dict(_read_weights(directory / WEIGHTS))
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{directory / WEIGHTS} does not fit the sizes in {CONFIG} ({reason})") from None
        power = config.get("length_power", LENGTH_POWER)  # not in checkpoints of earlier versions
        return cls(captioner.float().eval(), vocabulary, config["vision"], config["notes"], power)


class _ShapesOnly(TorchFunctionMode):
    """Tensors that modules create inside have shapes but no memory and no values.

    Not `torch.device("meta")`: random initial values, and small tables that are computed, would then load torch's
    compiler, which takes a second.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch instead of each of its functions."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if func in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn):
            kwargs = {**kwargs, "device": "meta"}
        elif re.fullmatch(r".*[^_]_|div|mul|__setitem__", name):  # in place, or scaled: there are no values to change
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **kwargs)


def _build(directory: Path, config: Mapping[str, Any]) -> Captioner:
    """The captioner, without its weights; sizes that the weights do not have are refused before memory is allocated."""
    try:
        with safe_open(directory / WEIGHTS, "pt") as file:
            stored = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{directory / WEIGHTS}: cannot be read ({error}); the checkpoint is damaged") from None
    largest = max((size for shape in stored.values() for size in shape), default=0)
    for name, value in config["options"].items():
        if isinstance(value, int) and value > max(largest, len(stored), MOST):
            raise InputError(f"{directory / CONFIG}: {name} is {value}, more than its weights have; it is damaged")
    try:
        with _ShapesOnly():
            needed = build(config["architecture"], config["options"]).state_dict()
    except (TypeError, ValueError, RuntimeError, AssertionError, ZeroDivisionError, OverflowError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{directory / CONFIG}: no such captioner can be built ({reason}); it is damaged") from None
    for name, tensor in needed.items():
        if stored.get(name) != list(tensor.shape):
            raise InputError(
                f"{directory / WEIGHTS} does not fit the sizes in {CONFIG} ({name}: {stored.get(name)} instead of "
                f"{list(tensor.shape)})"
            )
    return build(config["architecture"], config["options"])


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path.parent} is not a checkpoint: it has no {CONFIG}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not JSON ({error}); the checkpoint is damaged") from None
    for name, kind in _CONFIG_KINDS.items():
        if not isinstance(config, dict) or not isinstance(config.get(name), kind):
            raise InputError(f"{path}: no {name!r}, or something else under it; this is not a captrial checkpoint")
    power = config.get("length_power", LENGTH_POWER)
    if not isinstance(power, int | float) or not 0 <= power <= 10:
        raise InputError(f"{path}: length_power is {power!r}, not a number from 0 to 10; it is damaged")
    return config  # type: ignore[no-any-return]


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        tensors: dict[str, torch.Tensor] = load_file(path)
    except (FileNotFoundError, SafetensorError) as error:
        raise InputError(f"{path}: cannot be read ({error}); the checkpoint is damaged") from None
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def verify_checkpoint(directory: Path | str) -> VerifiedFolder:
    """Load a checkpoint, which checks its files; the problem is returned, not raised."""
    try:
        Checkpoint.from_pretrained(directory)
    except CaptrialError as error:
        return VerifiedFolder(CHECKPOINT.name, 3, (str(error),))
    return VerifiedFolder(CHECKPOINT.name, 3)


def _is_checkpoint(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / VOCABULARY).is_file()


CHECKPOINT = FolderVerifier("checkpoint", _is_checkpoint, verify_checkpoint)
