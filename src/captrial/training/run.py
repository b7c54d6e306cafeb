"""A training run: a folder with its configuration, metrics, figure, environment, state and the best checkpoint."""

from __future__ import annotations

import dataclasses
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import torch
from torch import Tensor, nn

from captrial.captioners.att2in import Att2in
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.contract import Captioner
from captrial.captioners.disc import Disc, RetrievalCritic
from captrial.captioners.picture_graphs import with_graphs
from captrial.captioners.registry import create, find_architecture, find_preset
from captrial.errors import DatasetError, MismatchError
from captrial.files import atomic_write
from captrial.language.vocabulary import Vocabulary
from captrial.records import Sample
from captrial.training.batches import Batch, CaptionData, FeatureSource, tokenize_captions
from captrial.training.evaluate import Validation
from captrial.training.figure import draw_metrics
from captrial.training.loop import Trainer
from captrial.training.parallel import Ranks
from captrial.training.recipe import Recipe, make_stages, split_options
from captrial.training.supervision import make_targets
from captrial.version import __version__
from captrial.vision.identity import identity

BEST, CONFIG, ENVIRONMENT = "best", "run.json", "environment.json"


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
    own pictures after somebody else's. With the option `supervision` "strong" or "weak" the training samples' phrases
    or labelled regions supervise the attention, unless `attention_targets` are given.

    Under `torchrun` every process calls this alike; batches are shared among them, see `captrial.training.parallel`.
    """
    run, ranks = Path(run), Ranks.from_environment()
    run.mkdir(parents=True, exist_ok=True)
    architecture = find_architecture(find_preset(preset).architecture).captioner
    recipe, sizes = split_options(options or {}, architecture)
    if not train_samples or not val_samples:
        raise DatasetError(f"{len(train_samples)} training and {len(val_samples)} validation pictures; both are needed")
    torch.manual_seed(recipe.seed)
    if start is None:
        vocabulary = Vocabulary.build(
            (caption for captions in tokenize_captions(train_samples) for caption in captions), recipe.min_count
        )
        captioner = create(preset, words=len(vocabulary), features=int(vision["width"]), **sizes)
    else:
        vocabulary, captioner = _continue_from(start, preset, vision, sizes)
    config = _configuration(run, preset, recipe, sizes, vision, vocabulary)
    features = with_graphs(captioner, vocabulary, features)
    data = CaptionData(train_samples, vocabulary, features, recipe.captions, recipe.max_words)
    critic = RetrievalCritic(captioner.config) if isinstance(captioner, Disc) else None
    models = nn.ModuleDict({"captioner": captioner, **({"critic": critic} if critic else {})}).to(ranks.device)
    targets = attention_targets or make_targets(recipe.supervision, train_samples, vision)
    stages = make_stages(captioner, data, recipe, targets, critic)
    keeper = _BestKeeper(run / BEST, captioner, vocabulary, vision, {"preset": preset, **(notes or {})})
    validate = Validation(captioner, vocabulary, features, val_samples, recipe.beam)
    if ranks.is_first:  # when nothing can be wrong with the settings any more: others would be refused in this folder
        _write_configuration(run, config)
    trainer = Trainer(run, models, stages, data, recipe.loop(), validate, keeper.keep, keeper.restore, ranks)
    trainer.train()
    if ranks.is_first:
        draw_metrics(run)
    ranks.wait()
    return Checkpoint.from_pretrained(run / BEST)


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


def _configuration(
    run: Path,
    preset: str,
    recipe: Recipe,
    sizes: Mapping[str, Any],
    vision: Mapping[str, Any],
    vocabulary: Vocabulary,
) -> dict[str, Any]:
    """What defines the run; refused where the folder holds one that was started with other settings."""
    config = {
        "preset": preset,
        "recipe": dataclasses.asdict(recipe),
        "sizes": dict(sizes),
        "vision": dict(vision),
        "vocabulary": vocabulary.fingerprint,
    }
    path = run / CONFIG
    if path.exists() and not _same_run(orjson.loads(path.read_bytes()), orjson.loads(orjson.dumps(config))):
        raise MismatchError(f"{run} was begun with other settings or data (see {path.name}); choose another --out")
    return config


def _write_configuration(run: Path, config: Mapping[str, Any]) -> None:
    """Write what defines the run, and what it runs on."""
    atomic_write(run / CONFIG, orjson.dumps(config, option=orjson.OPT_INDENT_2))
    environment = {
        "captrial": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "command": sys.argv,
    }
    atomic_write(run / ENVIRONMENT, orjson.dumps(environment, option=orjson.OPT_INDENT_2))


def _same_run(stored: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether two configurations mean the same run; options that one of two versions did not know have defaults."""
    defaults = orjson.loads(orjson.dumps(dataclasses.asdict(Recipe())))
    stored = {**stored, "recipe": {**defaults, **{k: v for k, v in stored["recipe"].items() if k in defaults}}}
    one, other = (
        {**config, "vision": identity(config["vision"]), "recipe": _that_matter(config["recipe"])}
        for config in (stored, wanted)
    )
    return one == other


def _that_matter(recipe: dict[str, Any]) -> dict[str, Any]:
    """Options without those of self-critical training where there is none."""
    idle = ("scst_rate", "scst_samples", "scst_by", "baseline", "count_end") if not recipe["scst_epochs"] else ()
    return {name: value for name, value in recipe.items() if name not in idle}
