"""Tiny transformers checkpoints, made once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def lesson() -> Any:
    """Twenty toy images and their captions."""
    from captioners.huggingface.tiny_checkpoints import lesson as make

    return make()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, lesson: Any) -> Callable[[str], Path]:
    """The checkpoint folder of a tiny model by name, made when first asked for."""
    import torch

    from captioners.huggingface.tiny_checkpoints import MAKERS, UNTRAINED
    from captrial.vision.hub_checkpoints import quiet_transformers

    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            with torch.random.fork_rng(), quiet_transformers():
                torch.manual_seed(0)
                {**MAKERS, **UNTRAINED}[name](made[name], lesson)
        return made[name]

    return get


@pytest.fixture(scope="session")
def vlm(tmp_path_factory: pytest.TempPathFactory, lesson: Any) -> Callable[..., Path]:
    """The folder of a tiny VLM by family, trained on ten toy images unless asked otherwise; made once."""
    import torch

    from captioners.huggingface.tiny_vlms import make
    from captrial.vision.hub_checkpoints import quiet_transformers

    made: dict[tuple[str, bool], Path] = {}

    def get(name: str, trained: bool = True) -> Path:
        if (name, trained) not in made:
            made[name, trained] = tmp_path_factory.mktemp(name)
            with torch.random.fork_rng(), quiet_transformers():
                make(name, made[name, trained], lesson, trained)
        return made[name, trained]

    return get
