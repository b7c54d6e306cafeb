"""Transformers checkpoints by name or folder: where they are, what may be read, and processors without torchvision.

Only safetensors are read and no code of a checkpoint is run, unless its user says so. Every way to fail ends in one
sentence with the way out.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from captrial.errors import InputError, MissingExtraError

CONFIG = "config.json"
_WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.tiktoken")
_PICKLED = ("*.bin", "*.pt", "*.pth")


def find_checkpoint(source: str, *, revision: str | None = None, code: bool = False, pickle: bool = False) -> Path:
    """The folder of a checkpoint: a folder given, or one named on the Hugging Face hub (cache first, then download)."""
    folder = Path(source).expanduser()
    if not folder.is_dir():
        if folder.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
            raise InputError(f"{source}: no such folder; give a checkpoint folder, or a name on the hub: owner/model")
        folder = _from_hub(source, revision, (*_WANTED, *(["*.py"] if code else []), *(_PICKLED if pickle else ())))
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder}: no {CONFIG}; this is no transformers checkpoint")
    if not pickle and not any(folder.glob("*.safetensors")):
        raise InputError(f"{source}: there is no safetensors file, {_other_weights(folder)}")
    return folder


def is_transformers(folder: Path) -> bool:
    """Whether a folder holds a transformers checkpoint: its `config.json` names a model type."""
    try:
        return "model_type" in json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError):
        return False


def _other_weights(folder: Path) -> str:
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if not pickled:
        return "nor any other file of weights; fetch it anew"
    return (
        f"only {pickled[0]}, a pickle that can run code when it is read; convert it to safetensors, "
        "or allow it if you trust it: --allow-pickle, or ?allow_pickle=true behind its name"
    )


def _from_hub(name: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ModuleNotFoundError:
        raise MissingExtraError(f"captioner {name}", "hf") from None
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except HFValidationError:
        raise InputError(f"{name}: neither a folder here nor a name on the hub (owner/model)") from None
    except (HfHubHTTPError, OSError) as error:  # what the hub answered, or that it did not
        raise InputError(f"{name}: {_hub_problem(name, revision, error)}") from None


def _hub_problem(name: str, revision: str | None, error: Exception) -> str:
    from huggingface_hub import constants, errors

    if isinstance(error, errors.GatedRepoError):
        return "its owner asks for consent first; give it on its page, then `hf auth login`"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"has no revision {revision!r}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "no folder here, and no such model on the hub (or a private one: `hf auth login`)"
    why = "offline mode is on" if constants.HF_HUB_OFFLINE else f"{constants.ENDPOINT} cannot be reached"
    return (
        f"no folder here, not whole in the cache of huggingface_hub, and {why} ({type(error).__name__}); "
        f"where there is a network, run `hf download {name} --local-dir DIR` and give DIR"
    )


def load_processor(folder: Path, config: Any, code: bool) -> Any:
    """Tokeniser and image processor of a checkpoint, joined by its processor class where it has one.

    The image processor is the Pillow one, with torchvision or without: same pixels everywhere. Video processors, which
    need torchvision, are left out.
    """
    library: Any = import_module("transformers")
    tokenizer = library.AutoTokenizer.from_pretrained(folder, trust_remote_code=code, config=config)
    image_processor = library.AutoImageProcessor.from_pretrained(folder, trust_remote_code=code, backend="pil")
    kind = _processor_class(folder, config, code)
    if kind is None:
        return PlainProcessor(image_processor, tokenizer)
    if not issubclass(kind, library.ProcessorMixin):
        raise InputError(f"{folder}: its processor {kind.__name__} is of an unknown kind")
    return _join(kind, folder, {"image_processor": image_processor, "tokenizer": tokenizer})


class PlainProcessor:
    """Image processor and tokeniser of checkpoints that have no processor class, such as ViT-GPT2."""

    chat_template = None

    def __init__(self, image_processor: Any, tokenizer: Any) -> None:
        self.image_processor, self.tokenizer = image_processor, tokenizer


def _processor_class(folder: Path, config: Any, code: bool) -> Any:
    auto: Any = import_module("transformers.models.auto.processing_auto")
    for name in ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json"):
        path = folder / name
        told = json.loads(path.read_bytes()) if path.is_file() else {}
        if code and "AutoProcessor" in told.get("auto_map", {}):
            return type(auto.AutoProcessor.from_pretrained(folder, trust_remote_code=True))
        if told.get("processor_class"):
            return auto.processor_class_from_name(told["processor_class"])
    return auto.PROCESSOR_MAPPING.get(type(config), None)


def _join(kind: Any, folder: Path, parts: dict[str, Any]) -> Any:
    """A processor of class `kind` from its parts; the parts that images do not need are left out."""
    wanted = kind.get_attributes()
    if extra := sorted(set(wanted) - {*parts, "video_processor"}):
        raise InputError(f"{folder}: its processor needs {extra[0]!r}, which captioning images does not provide")

    class ImagesOnly(kind):  # type: ignore[misc]
        __init__ = kind.__init__
        apply_chat_template = import_module("transformers").ProcessorMixin.apply_chat_template  # SmolVLM's needs video

        @classmethod
        def get_attributes(cls) -> list[str]:
            return [name for name in wanted if name in parts]

    ImagesOnly.__name__ = kind.__name__
    told, _ = kind.get_processor_dict(folder)
    told.pop("video_processor", None)
    return ImagesOnly.from_args_and_dict([parts.get(name) for name in wanted], told)
