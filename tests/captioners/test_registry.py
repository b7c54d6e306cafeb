"""The registries of architectures and of transformers families: a new entry is found, built, saved and documented."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from captrial.captioners import ARCHITECTURES, Checkpoint, create
from captrial.captioners.base import Captioner, CaptionerConfig, TeacherForced
from captrial.captioners.huggingface import families
from captrial.captioners.huggingface.families import FAMILIES, Blip, Family, find_family
from captrial.captioners.registry import (
    DEFAULT_CAPTIONER,
    PRESETS,
    Architecture,
    Preset,
    architecture_of,
    shipped_captioners,
)
from captrial.decoding import Step, greedy
from captrial.errors import InputError
from captrial.language.vocabulary import Vocabulary
from captrial.vision.features.visual_features import Features

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class UnigramConfig(CaptionerConfig):
    """One number a word."""


class Unigram(Captioner):
    """Every word is as probable at every place of every image."""

    Config: ClassVar[type[UnigramConfig]] = UnigramConfig

    def __init__(self, config: UnigramConfig) -> None:
        super().__init__(config)
        self.logits = nn.Parameter(torch.arange(config.words).float())

    def encode(self, features: Features) -> Tensor:
        return features.mask

    def start(self, memory: Tensor) -> Tensor:
        return torch.zeros(len(memory), 1)

    def step(self, tokens: Tensor, state: Tensor, memory: Tensor) -> Step:
        return Step(self.logits.expand(*tokens.shape, -1), state, None)

    def teacher_force(self, tokens: Tensor, memory: Tensor) -> TeacherForced:
        shares = memory / memory.sum(1, keepdim=True)
        attention = shares[:, None, None].expand(*tokens.shape, -1)
        return TeacherForced(self.logits.expand(*tokens.shape, -1), attention)


def test_a_new_architecture_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Architecture(Unigram, "Unigram", "word frequencies", "nothing", "any", "none", "–", "–")
    monkeypatch.setitem(ARCHITECTURES, "unigram", entry)
    monkeypatch.setitem(PRESETS, "unigram", Preset("unigram"))
    vocabulary = Vocabulary(("a", "dog"))
    captioner = create("unigram", words=len(vocabulary), features=3)
    assert architecture_of(captioner) == "unigram"
    Checkpoint(captioner, vocabulary).save_pretrained(tmp_path)
    again = Checkpoint.from_pretrained(tmp_path).captioner
    memory = again.encode(Features(torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool)))
    assert greedy(again, memory, max_words=2).best() == [[len(vocabulary) - 1] * 2]


def test_a_class_that_is_not_registered_is_refused(tmp_path: Path) -> None:
    captioner = Unigram(UnigramConfig(words=6))
    with pytest.raises(InputError, match="Unigram is not a registered architecture"):
        Checkpoint(captioner, Vocabulary(("a", "dog"))).save_pretrained(tmp_path)


def test_a_new_family_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Blip):
        """Another way to use a model."""

    family = Family("other", "another", Other, ("other_model",))
    monkeypatch.setattr(families, "FAMILIES", [family, *FAMILIES])
    assert find_family("other_model") is family
    assert find_family("blip").captioner is Blip
    assert find_family("never_heard_of").title == "chat"


def test_every_entry_has_a_title_a_description_and_its_needs() -> None:
    for name, entry in ARCHITECTURES.items():
        assert entry.title
        assert entry.description
        assert entry.needs
        assert entry.captioner.Config(words=10).words == 10
        assert name in PRESETS
    assert DEFAULT_CAPTIONER in shipped_captioners()
