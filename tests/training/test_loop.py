"""A stage ends when it gains no more, and what is kept is the best epoch, not the last."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from captrial.captioners import Captioner
from captrial.captioners.checkpoint import Checkpoint
from captrial.training.run import TrainingData, train
from training.twenty_images import SIZE, RandomFeatures, samples, vocabulary

QUICK = {"min_count": "1", "batch": "10", "captions": "1", "warmup": "0", "rate": "2e-3", "width": "32"}
Weights = dict[str, Tensor]
Run = Callable[..., tuple[list[str], list[Weights]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Trains with validations that give the scores told; returns the stage and the weights of every one of them."""

    def run(scores: list[float], **options: str) -> tuple[list[str], list[Weights]]:
        seen: list[Weights] = []

        def validation(captioner: Captioner, *_: object) -> Callable[[], float]:
            def validate() -> float:
                seen.append({name: weight.clone() for name, weight in captioner.state_dict().items()})
                return scores[len(seen) - 1]

            return validate

        monkeypatch.setattr("captrial.training.run.Validation", validation)
        images = samples()
        features, vision = RandomFeatures(len(vocabulary(images))), {"backbone": "random", "width": SIZE}
        train("att2in-small", TrainingData(images, images[:5], features, vision), tmp_path, {**QUICK, **options})
        with (tmp_path / "metrics.csv").open() as file:
            return [row["stage"] for row in csv.DictReader(file)], seen

    return run


def same(some: Weights, others: Weights) -> bool:
    return all(torch.equal(some[name], others[name]) for name in some)


def best(folder: Path) -> Weights:
    return Checkpoint.from_pretrained(folder / "best").captioner.state_dict()


@pytest.mark.parametrize(
    ("patience", "scores", "epochs"),
    [
        ("1", [0.2, 0.1], 2),
        ("2", [0.1, 0.3, 0.3, 0.2], 4),  # as good is not better
        ("2", [0.1, 0.3, 0.2, 0.4, 0.1, 0.3], 6),  # one that is better starts the count again
        ("3", [0.1, 0.3, 0.2, 0.2, 0.4, 0.1, 0.1], 7),  # the last epoch of the recipe
    ],
)
def test_a_stage_stops_after_so_many_validations_without_a_better_score(
    patience: str, scores: list[float], epochs: int, run: Run, tmp_path: Path
) -> None:
    stages, seen = run(scores, epochs="7", patience=patience)
    assert stages == ["xe"] * epochs
    number = scores.index(max(scores))
    assert same(best(tmp_path), seen[number])
    assert not any(same(best(tmp_path), other) for other in [*seen[:number], *seen[number + 1 :]])


def test_the_next_stage_goes_on_from_the_best_and_has_its_own_patience(run: Run, tmp_path: Path) -> None:
    """At a rate of 0 its weights stay those that it began with."""
    scores = [0.1, 0.5, 0.2, 0.2, 0.4, 0.4]
    stages, seen = run(scores, epochs="7", scst_epochs="7", patience="2", scst_rate="0", max_words="6")
    assert stages == ["xe"] * 4 + ["scst"] * 2
    assert same(seen[4], seen[1])
    assert same(best(tmp_path), seen[1])
