"""A training run: a folder with its configuration, metrics, figure, environment, state and the best checkpoint."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from safetensors.torch import save
from torch import Tensor, nn

from captrial.captioners.architectures.att2in import Att2in
from captrial.captioners.architectures.disc import Disc, RetrievalCritic
from captrial.captioners.base import Captioner
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import create, find_architecture, find_preset
from captrial.captioners.trained import with_graphs
from captrial.errors import DatasetError, MismatchError
from captrial.files import atomic_path, content_hash
from captrial.language.vocabulary import Vocabulary
from captrial.records import Sample
from captrial.training.data import (
    Batch,
    CaptionData,
    tokenize_captions,
)
from captrial.training.loop import METRICS, Trainer
from captrial.training.paper_recipes import PAPERS
from captrial.training.parallel import Ranks
from captrial.training.recipe import make_stages, split_options
from captrial.training.run_configuration import refuse_another, write_configuration
from captrial.training.stages.stages import evaluating
from captrial.training.supervision.supervision import make_linking, make_targets
from captrial.training.validation import Validation
from captrial.vision.descriptions import identity
from captrial.vision.features.visual_features import FeatureSource

# The figure of a training run: loss and reward on the left axis, validation CIDEr on the right.


def draw_metrics(run: Path) -> None:
    """Draw `metrics.csv` of a run as `metrics.png`."""
    with (run / METRICS).open(newline="") as file:
        rows = list(csv.DictReader(file))
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left = figure.add_subplot()
    right = left.twinx()
    for column, axis, colour in (
        ("loss", left, "tab:blue"),
        ("reward", left, "tab:green"),
        ("cider", right, "tab:red"),
    ):
        points = [(float(row["seconds"]) / 60, float(row[column])) for row in rows if row[column]]
        if points:
            axis.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, label=column)
    left.set_xlabel("minutes")
    left.set_ylabel("loss, reward")
    right.set_ylabel("validation CIDEr")
    figure.legend(loc="outside upper center", ncols=3)
    with atomic_path(run / "metrics.png") as temporary:
        figure.savefig(temporary, dpi=120)


BEST = "best"


def train(
    preset: str,
    train_samples: Sequence[Sample],
    val_samples: Sequence[Sample],
    features: FeatureSource,
    vision: Mapping[str, Any],
    run: Path | str,
    options: Mapping[str, str] | None = None,
    *,
    start: Path | str | None = None,
    attention_targets: Callable[[Batch], Tensor] | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """Train a preset, or continue a run that was stopped; returns the best captioner by validation CIDEr.

    `vision` says how the features were made (`Backbone.describe()`); it is kept in the checkpoint. With `start` the
    weights and the vocabulary are those of another checkpoint: self-critical training after cross-entropy, or one's
    own images after somebody else's. With the option `supervision` "strong" or "weak" the training samples' phrases
    or labelled regions supervise the attention, unless `attention_targets` are given.

    Under `torchrun` every process calls this alike; batches are shared among them, see `captrial.training.parallel`.
    """
    run, ranks = Path(run), Ranks.from_environment()
    run.mkdir(parents=True, exist_ok=True)
    architecture = find_architecture(find_preset(preset).architecture).captioner
    recipe, sizes = split_options(options or {}, architecture, PAPERS.get(preset))
    if not train_samples or not val_samples:
        raise DatasetError(f"{len(train_samples)} training and {len(val_samples)} validation images; both are needed")
    torch.manual_seed(recipe.seed)
    if start is None:
        vocabulary = Vocabulary.build(
            (caption for captions in tokenize_captions(train_samples) for caption in captions), recipe.min_count
        )
        captioner = create(preset, words=len(vocabulary), features=int(vision["width"]), **sizes)
    else:
        vocabulary, captioner = _continue_from(start, preset, vision, sizes)
    supervised = recipe.supervision != "implicit"
    config = {
        "preset": preset,
        "recipe": dataclasses.asdict(recipe),
        "sizes": dict(sizes),
        "vision": dict(vision),
        "vocabulary": vocabulary.fingerprint,
        "data": _hash_of([(sample.id, sample.captions) for sample in train_samples]),
        "validation": _hash_of([(sample.id, sample.captions) for sample in val_samples]),
        "regions": _hash_of([repr((sample.regions, sample.phrases)) for sample in train_samples if supervised]),
        "started_from": None if start is None else content_hash(save(captioner.state_dict())),
    }
    refuse_another(run, config)
    features = with_graphs(captioner, vocabulary, features)
    with evaluating(captioner), torch.no_grad():
        captioner.encode(features.get([train_samples[0].id]))  # says at once if the features lack what it needs
    data = CaptionData(train_samples, vocabulary, features, recipe.captions, recipe.max_words)
    critic = RetrievalCritic(captioner.config) if isinstance(captioner, Disc) else None
    models = nn.ModuleDict({"captioner": captioner, **({"critic": critic} if critic else {})}).to(ranks.device)
    learnt = None if start is None else captioner
    linking = make_linking(recipe.links, learnt, vocabulary) if recipe.supervision == "weak" else None
    targets = attention_targets or make_targets(recipe.supervision, train_samples, vision, linking)
    stages = make_stages(captioner, data, recipe, targets, critic, goes_on=start is not None)
    keeper = _BestKeeper(run / BEST, captioner, vocabulary, vision, {"preset": preset, **(notes or {})})
    validate = Validation(captioner, vocabulary, features, val_samples, recipe.beam)
    if ranks.is_first:  # when nothing can be wrong with the settings any more: others would be refused in this folder
        write_configuration(run, config)
    trainer = Trainer(run, models, stages, data, recipe.loop(), validate, keeper.keep, keeper.restore, ranks)
    trainer.train()
    if ranks.is_first:
        draw_metrics(run)
    ranks.wait()
    return Checkpoint.from_pretrained(run / BEST)


def _hash_of(rows: Sequence[object]) -> str:
    return content_hash(orjson.dumps(rows))


def _continue_from(
    start: Path | str, preset: str, vision: Mapping[str, Any], sizes: Mapping[str, Any]
) -> tuple[Vocabulary, Captioner]:
    """Vocabulary and captioner of a checkpoint; refused where it is another architecture or sees other features.

    Disc also goes on from an Att2in: it is the same network until its critic is asked.
    """
    best = Path(start) / BEST
    checkpoint = Checkpoint.from_pretrained(best if best.is_dir() else start)
    captioner, architecture = checkpoint.captioner, find_architecture(find_preset(preset).architecture).captioner
    if type(captioner) is Att2in and architecture is Disc:
        begun, critic = captioner, {name: value for name, value in sizes.items() if name.startswith("critic_")}
        captioner = create(preset, **begun.describe(), **critic)  # type: ignore[arg-type]
        captioner.load_state_dict(begun.state_dict())
        sizes = {name: value for name, value in sizes.items() if name not in critic}
    if type(captioner) is not architecture:
        raise MismatchError(f"{start} is a {type(captioner).__name__}, not a {architecture.__name__}")
    if identity(vision) != identity(checkpoint.vision):
        raise MismatchError(f"{start} was trained on features made in another way than these")
    if sizes:
        raise MismatchError(f"--set {next(iter(sizes))}: the sizes of a captioner that goes on are those of {start}")
    return checkpoint.vocabulary, captioner


class _BestKeeper:
    """Writes the best captioner of a run and puts its weights back."""

    def __init__(
        self, path: Path, captioner: Captioner, vocabulary: Vocabulary, vision: Mapping[str, Any], notes: dict[str, Any]
    ) -> None:
        self.path, self.checkpoint = path, Checkpoint(captioner, vocabulary, vision, notes)

    def keep(self) -> None:
        self.checkpoint.save_pretrained(self.path)

    def restore(self) -> None:
        best = Checkpoint.from_pretrained(self.path)
        self.checkpoint.captioner.load_state_dict(best.captioner.state_dict())
