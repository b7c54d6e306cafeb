"""transformers checkpoints by name or local folder: loaded quietly, without pickles, and never with made-up weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from captrial.errors import InputError, MissingExtraError

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(@[\w./-]+)?")


def resolve_source(source: str) -> str:
    """The full path of a local folder, else a name on the hub (`name` or `name@revision`).

    What can only be a path and is not there is an error.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if folder.exists() or source.startswith((".", "~")) or not _HUB_NAME.fullmatch(source):
        raise InputError(f"{source} is no folder with a transformers checkpoint, nor a name on the hub; check the path")
    return source


def load_config(source: str) -> Any:
    """The configuration of a checkpoint."""
    with quiet_transformers() as transformers, _one_sentence(source):
        return transformers.AutoConfig.from_pretrained(**_place(source))


def load_network(source: str, auto: str, config: Any, pickle: bool = False) -> tuple[nn.Module, frozenset[str]]:
    """A checkpoint's network in float32 and eval mode, and the names of the weights it did not bring.

    `auto` is the transformers class that knows the architecture (`AutoModel`, `AutoModelForObjectDetection`, ...).
    transformers fills absent weights with random numbers: pass their names to `refuse_made_up_weights`.
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


def refuse_made_up_weights(
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
                f"{source} does not say how its pictures are prepared: it has no preprocessor_config.json; add the one "
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
    """What transformers raises on a checkpoint it cannot load, as one sentence."""
    try:
        yield
    except ImportError as error:  # an architecture with needs of its own, such as timm
        raise InputError(f"{source} cannot be loaded here: {_first_sentence(error)}") from None
    except Exception as error:  # a broken checkpoint can raise almost anything
        raise InputError(f"{source} cannot be loaded with transformers: {_first_sentence(error)}") from None


def _first_sentence(error: Exception) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(str(error).split()), maxsplit=1)[0][:300] or type(error).__name__
