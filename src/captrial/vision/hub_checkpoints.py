"""Checkpoints of the transformers library, by local folder or by name on the Hugging Face hub.

Everything of captrial that reads such checkpoints finds and loads them here: backbones and detectors by
`load_config` and `load_network`, captioners by `find_checkpoint`, which gives the whole folder. Only safetensors are
read and no code of a checkpoint is run unless the user allows it, absent weights are refused rather than filled with
random numbers, and every failure is one sentence with a way out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from captrial.errors import InputError, MissingExtraError

CONFIG = "config.json"
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(@[\w./-]+)?")
_WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.tiktoken")
_PICKLED = ("*.bin", "*.pt", "*.pth")


def resolve_source(source: str) -> str:
    """The full path of a local folder, else a name on the hub (`name` or `name@revision`).

    What can only be a path and does not exist is an error.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if folder.exists() or source.startswith((".", "~")) or not _HUB_NAME.fullmatch(source):
        raise InputError(f"{source}: no such folder, nor a name on the hub; give a checkpoint folder, or owner/model")
    return source


def find_checkpoint(source: str, *, revision: str | None = None, code: bool = False, pickle: bool = False) -> Path:
    """The folder of a whole checkpoint: a local one, or one named on the hub (cache first, then download).

    `code` and `pickle` also fetch Python files and weights that are not safetensors.
    """
    resolved = resolve_source(source)
    folder = Path(resolved)
    if not folder.is_dir():
        patterns = (*_WANTED, *(["*.py"] if code else []), *(_PICKLED if pickle else ()))
        folder = _from_hub(resolved, revision, patterns)
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder}: no {CONFIG}; this is no transformers checkpoint")
    if not pickle and not any(folder.glob("*.safetensors")):
        raise InputError(f"{source}: there is no safetensors file, {_other_weights(folder)}")
    return folder


def is_transformers(folder: Path) -> bool:
    """Whether a folder holds a transformers checkpoint: its `config.json` names a model type."""
    try:
        return "model_type" in json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def load_config(source: str) -> Any:
    """The configuration of a checkpoint."""
    with quiet_transformers() as transformers, _one_sentence(source):
        return transformers.AutoConfig.from_pretrained(**_place(source))


def load_network(source: str, auto: str, config: Any, pickle: bool = False) -> tuple[nn.Module, frozenset[str]]:
    """A checkpoint's network in float32 and eval mode, and the names of the weights it did not bring.

    `auto` is the transformers class that knows the architecture (`AutoModel`, `AutoModelForObjectDetection`, ...).
    transformers fills absent weights with random numbers: pass their names to `refuse_random_weights`.
    """
    with quiet_transformers() as transformers, _one_sentence(source):
        model = getattr(transformers, auto)
        if auto == "AutoBackbone":  # asks the hub even about local folders
            model = transformers.MODEL_FOR_BACKBONE_MAPPING[type(config)]
        network, report = model.from_pretrained(
            **_place(source),
            config=config,
            dtype=torch.float32,
            use_safetensors=None if pickle else True,
            output_loading_info=True,
        )
    network.requires_grad_(False).eval()
    return network, frozenset(report["missing_keys"])


def refuse_random_weights(
    network: nn.Module, missing: frozenset[str], results: Callable[[], Sequence[Tensor]], source: str
) -> None:
    """An error where `results` depend on weights that the checkpoint did not bring (a pooler's may be missing)."""
    parameters = {name: value for name, value in network.named_parameters() if name in missing}
    used = {name for name, _ in network.named_buffers() if name in missing and not name.endswith("batches_tracked")}
    if parameters:
        for parameter in parameters.values():
            parameter.requires_grad_(True)
        with torch.enable_grad():
            total = sum((result.sum() for result in results()), torch.zeros(()))
            slopes = torch.autograd.grad(total, list(parameters.values()), allow_unused=True) if total.grad_fn else ()
        used |= {name for name, slope in zip(parameters, slopes, strict=False) if slope is not None}
        network.requires_grad_(False)
    if used:
        names = ", ".join(sorted(used)[:3])
        raise InputError(
            f"{source} lacks {len(used)} weights that its features need ({names}{', ...' if len(used) > 3 else ''}); "
            "they would be random numbers: use a complete checkpoint"
        )


def image_processor_settings(source: str) -> Mapping[str, Any]:
    """The checkpoint's own account of its preprocessing (`preprocessor_config.json`, or inside a processor's)."""
    with quiet_transformers():
        from transformers.image_processing_base import ImageProcessingMixin

        try:
            settings, _ = ImageProcessingMixin.get_image_processor_dict(**_place(source))
        except OSError:
            load_config(source)  # where nothing can be had of this checkpoint, that is the error
            raise InputError(
                f"{source} does not describe its preprocessing: it has no preprocessor_config.json; add the one "
                "of the model it was made from, or pass preprocess=Preprocess(...)"
            ) from None
    return dict(settings)


@contextmanager
def quiet_transformers() -> Iterator[Any]:
    """The transformers package with its progress bars and load reports off; `MissingExtraError` where it is absent."""
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("A transformers checkpoint", "hf") from None
    logging: Any = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield transformers
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _place(source: str) -> dict[str, str]:
    """The arguments by which transformers finds a checkpoint."""
    if Path(source).is_dir():
        return {"pretrained_model_name_or_path": source}
    name, _, revision = source.partition("@")
    return {"pretrained_model_name_or_path": name, "revision": revision or "main"}


@contextmanager
def _one_sentence(source: str) -> Iterator[None]:
    """Turn what transformers raises on a checkpoint it cannot load into one sentence."""
    try:
        yield
    except ImportError as error:  # an architecture with needs of its own, such as timm
        raise InputError(f"{source} cannot be loaded here: {_first_sentence(error)}") from None
    except Exception as error:  # a broken checkpoint can raise almost anything
        raise InputError(f"{source} cannot be loaded with transformers: {_first_sentence(error)}") from None


def _first_sentence(error: Exception) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(str(error).split()), maxsplit=1)[0][:300] or type(error).__name__


def _other_weights(folder: Path) -> str:
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if not pickled:
        return "nor any other file of weights; fetch it again"
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
