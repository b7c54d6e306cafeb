"""A training run: a folder with its configuration, metrics, figure, environment, state and the best checkpoint.

    data = TrainingData(train, validation, store, store.vision)
    best = train("transformer-small", data, "runs/mine", {"epochs": "3"})

A run that was stopped continues; a folder that holds a run with other settings is refused.
"""

from __future__ import annotations

import dataclasses
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
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
from captrial.captioners.base import Captioner, evaluating
from captrial.captioners.checkpoint import Checkpoint, verify_checkpoint
from captrial.captioners.registry import create, find_architecture, find_preset, shipped_captioners
from captrial.captioners.trained import BATCH, BEST, caption_by_id, with_graphs
from captrial.errors import CaptrialError, DamagedError, DatasetError, InputError, MismatchError, did_you_mean
from captrial.files import content_hash, without_passwords
from captrial.folders import (
    LOCK,
    FolderVerifier,
    VerifiedFolder,
    check_files,
    damaged_files,
    lock_folder,
    read_checksums,
    refuse_foreign_folder,
    write_checked,
)
from captrial.language.vocabulary import Vocabulary
from captrial.metrics.ngram.cider import cider
from captrial.records import Sample
from captrial.training.attention_supervision import make_linking, make_targets
from captrial.training.data import Batch, CaptionData, tokenize_captions
from captrial.training.loop import METRICS, Trainer, read_metrics
from captrial.training.parallel import Ranks
from captrial.training.recipe import PAPERS, Recipe, split_options
from captrial.training.stages.plan import make_stages
from captrial.training.state import REMAKE, STATE, read_counters
from captrial.version import __version__
from captrial.vision.descriptions import identity
from captrial.vision.features.feature_store import verify_store
from captrial.vision.features.visual_features import FeatureSource

CONFIG, ENVIRONMENT = "run.json", "environment.json"
REGIONS = "regions.jsonl"  # of a detector, for weak supervision; made before the configuration is written
_OF_SCST = (
    "scst_rate",
    "scst_schedule",
    "scst_warmup",
    "scst_decay",
    "average",
    "scst_samples",
    "scst_by",
    "baseline",
    "count_end",
    "eta",
)
_HASHES = ("vocabulary", "data", "validation", "regions", "started_from")  # of the configuration
_SINCE = ("data", "validation", "regions", "started_from")  # not in folders of earlier versions


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The images of a run, with captions, and their features."""

    train: Sequence[Sample]
    validation: Sequence[Sample]
    features: FeatureSource
    vision: Mapping[str, Any]  # how the features were made: `Backbone.describe()`; kept in the checkpoint
    notes: Mapping[str, Any] = field(default_factory=dict)  # about the data, for people; kept in the checkpoint


@dataclass(frozen=True, eq=False)
class Validation:
    """CIDEr-D of greedy (or beam) captions of the validation images; document frequencies from their references."""

    captioner: Captioner
    vocabulary: Vocabulary
    features: FeatureSource
    samples: Sequence[Sample]
    beam: int = 1

    def __call__(self) -> float:
        """The score, as a fraction (1.0 is what papers print as 100)."""
        ids = [sample.id for sample in self.samples]
        captions = caption_by_id(self.captioner, self.vocabulary, self.features, ids, self.beam)
        return cider(captions, [sample.captions for sample in self.samples]).corpus


def count_empty_captions(best: Checkpoint, features: FeatureSource, samples: Sequence[Sample]) -> int:
    """How many of some images get an empty caption, as happens after very short training."""
    captions = caption_by_id(best.captioner, best.vocabulary, features, [sample.id for sample in samples], 1)
    return sum(not caption for caption in captions)


@dataclass(frozen=True, eq=False)
class BestCheckpoint:
    """The best captioner of a run, on disk; see `captrial.training.loop.BestCaptioner`."""

    path: Path
    checkpoint: Checkpoint
    validate: Callable[[], float]

    def save(self) -> None:
        """Write the present weights."""
        self.checkpoint.save_pretrained(self.path)

    def restore(self) -> None:
        """Load the weights written last."""
        best = Checkpoint.from_pretrained(self.path)
        self.checkpoint.captioner.load_state_dict(best.captioner.state_dict())


def train(
    preset: str,
    data: TrainingData,
    run: Path | str,
    options: Mapping[str, str] | None = None,
    *,
    start: Path | str | None = None,
    attention_targets: Callable[[Batch], Tensor] | None = None,
) -> Checkpoint:
    """Train a preset, or continue a run that was stopped; returns the best captioner by validation CIDEr.

    `options` are those of `--set`: fields of `Recipe` and sizes of the captioner. With `start` the weights and the
    vocabulary are those of another checkpoint: self-critical training after cross-entropy, or training on one's own
    images. With the option `supervision` "strong" or "weak" the training images' phrases or labelled regions supervise
    the attention, unless `attention_targets` are given.

    Under `torchrun` every process calls this alike; batches are shared among them, see `captrial.training.parallel`.
    """
    run, ranks = Path(run), Ranks.from_environment()
    with lock_folder(run, "training run") if ranks.is_first else nullcontext():
        check_run_folder(run)
        return _train(preset, data, run, ranks, options or {}, _Start(start, attention_targets))


def check_options(preset: str, options: Mapping[str, str]) -> tuple[Recipe, dict[str, Any]]:
    """The recipe and the captioner's sizes that `--set` options mean; raises `InputError` for what does not exist."""
    architecture = find_architecture(find_preset(preset).architecture).captioner
    return split_options(options, architecture, PAPERS.get(preset))


@dataclass(frozen=True)
class _Start:
    """What a run begins with: the weights of another checkpoint, and targets for its attention, each optional."""

    checkpoint: Path | str | None
    attention_targets: Callable[[Batch], Tensor] | None


def _train(
    preset: str, data: TrainingData, run: Path, ranks: Ranks, options: Mapping[str, str], begin: _Start
) -> Checkpoint:
    start, attention_targets = begin.checkpoint, begin.attention_targets
    recipe, sizes = check_options(preset, options)
    ranks = ranks.on(recipe.device)
    if not data.train or not data.validation:
        raise DatasetError(f"{len(data.train)} training and {len(data.validation)} validation images; both are needed")
    torch.manual_seed(recipe.seed)
    vocabulary, captioner = (
        _new(preset, data, recipe, sizes) if start is None else _continue_from(start, preset, data.vision, sizes)
    )
    begun = None if start is None else content_hash(save(captioner.state_dict()))
    config = {
        "preset": preset,
        "recipe": dataclasses.asdict(recipe),
        "sizes": dict(sizes),
        "vision": dict(data.vision),
        "vocabulary": vocabulary.fingerprint,
        **_data_hashes(data, recipe.supervision != "implicit"),
        "started_from": begun,
    }
    refuse_another(run, config)
    features = with_graphs(captioner, vocabulary, data.features)
    with evaluating(captioner), torch.no_grad():
        captioner.encode(features.get([data.train[0].id]))  # fails at once if the features lack what it needs
    captions = CaptionData(data.train, vocabulary, features, recipe.captions, recipe.max_words)
    critic = RetrievalCritic(captioner.config) if isinstance(captioner, Disc) else None
    models = nn.ModuleDict({"captioner": captioner, **({"critic": critic} if critic else {})}).to(ranks.device)
    learnt = None if start is None else captioner
    linking = make_linking(recipe, learnt, vocabulary)
    supervised = (recipe.supervision, data.train, data.vision, linking, recipe.masks)
    targets = attention_targets or make_targets(*supervised)
    stages = make_stages(captioner, captions, recipe, targets, critic, goes_on=start is not None)
    checkpoint = Checkpoint(captioner, vocabulary, data.vision, {"preset": preset, **data.notes})
    validate = Validation(captioner, vocabulary, features, data.validation, recipe.beam)
    if ranks.is_first:  # the settings are valid: from now on the folder refuses others
        write_configuration(run, config)
    best = BestCheckpoint(run / BEST, checkpoint, validate)
    Trainer(run, models, stages, captions, best, recipe.loop(), ranks).train()
    if ranks.is_first:
        draw_metrics(run)
    ranks.wait()
    return Checkpoint.from_pretrained(run / BEST)


def _new(preset: str, data: TrainingData, recipe: Recipe, sizes: Mapping[str, Any]) -> tuple[Vocabulary, Captioner]:
    """A vocabulary of the training captions and an untrained captioner."""
    words = (caption for captions in tokenize_captions(data.train) for caption in captions)
    vocabulary = Vocabulary.build(words, recipe.min_count)
    captioner = create(preset, words=len(vocabulary), features=int(data.vision["width"]), **sizes)
    if captioner.config.standardise:
        ids = [sample.id for sample in data.train]
        captioner.learn_standard(data.features.get(ids[at : at + BATCH]) for at in range(0, len(ids), BATCH))
    return vocabulary, captioner


def find_start(start: Path | str) -> Path:
    """The checkpoint folder that `--from` names: a checkpoint, a run, or a shipped captioner by name."""
    path = Path(start).expanduser()
    shipped = shipped_captioners()
    if not path.exists() and str(start) in shipped:
        return shipped[str(start)]
    if not path.is_dir():
        raise InputError(
            f"--from {start}: no such folder; give a run, a checkpoint, or one of {', '.join(shipped)}"
            f"{did_you_mean(str(start), shipped)}"
        )
    return path / BEST if (path / BEST).is_dir() else path


def _continue_from(
    start: Path | str, preset: str, vision: Mapping[str, Any], sizes: Mapping[str, Any]
) -> tuple[Vocabulary, Captioner]:
    """Vocabulary and captioner of a checkpoint; refused where its architecture or its features are others.

    Disc also continues from an Att2in: it is the same network until its critic is used.
    """
    checkpoint = Checkpoint.from_pretrained(find_start(start))
    captioner, architecture = checkpoint.captioner, find_architecture(find_preset(preset).architecture).captioner
    if type(captioner) is Att2in and architecture is Disc:
        first, critic = captioner, {name: value for name, value in sizes.items() if name.startswith("critic_")}
        captioner = create(preset, **first.describe(), **critic)  # type: ignore[arg-type]
        captioner.load_state_dict(first.state_dict())
        sizes = {name: value for name, value in sizes.items() if name not in critic}
    if type(captioner) is not architecture:
        raise MismatchError(f"{start} is a {type(captioner).__name__}, not a {architecture.__name__}")
    if identity(vision) != identity(checkpoint.vision):
        raise MismatchError(f"{start} was trained on features made in another way than these")
    if sizes:
        raise MismatchError(f"--set {next(iter(sizes))}: the sizes are those of {start}, which this run continues")
    return checkpoint.vocabulary, captioner


def _data_hashes(data: TrainingData, supervised: bool) -> dict[str, str]:
    rows: dict[str, list[object]] = {
        "data": [(sample.id, sample.captions) for sample in data.train],
        "validation": [(sample.id, sample.captions) for sample in data.validation],
        "regions": [repr((sample.regions, sample.phrases)) for sample in data.train if supervised],
    }
    return {name: content_hash(orjson.dumps(part)) for name, part in rows.items()}


def check_run_folder(run: Path) -> None:
    """Refuse a folder that holds something else than a training run; call it before any work."""
    refuse_foreign_folder(run, ours=lambda folder: _is_run(folder) or _begun(folder))


def _begun(folder: Path) -> bool:
    """Whether a run was stopped before it wrote its configuration: there is nothing but features and regions."""
    return {path.name for path in folder.iterdir()} <= {"features", REGIONS, LOCK}


def read_configuration(run: Path) -> dict[str, Any]:
    """The content of `run.json`."""
    check_files(run, REMAKE, [CONFIG])
    path = run / CONFIG
    try:
        stored = orjson.loads(path.read_bytes())
        _comparable(stored)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(path, f"is not the configuration of a run ({error})", REMAKE) from None
    return dict(stored)


def refuse_another(run: Path, config: Mapping[str, Any]) -> None:
    """Refuse a folder that holds a run with another configuration, naming what differs."""
    path = run / CONFIG
    if not path.exists():
        return
    stored, wanted = (_comparable(each) for each in (read_configuration(run), orjson.loads(orjson.dumps(config))))
    for name, value in wanted.items():
        if stored.get(name) != value and not (name in _SINCE and name not in stored):
            before = stored.get(name)
            plain = isinstance(value, int | float | str) and name not in _HASHES
            uses = f"{name}={before}, not {value}" if plain else f"another {name} (see {path.name})"
            raise MismatchError(f"{run} uses {uses}; choose another --out")


def write_configuration(run: Path, config: Mapping[str, Any]) -> None:
    """Write what defines the run, and its environment."""
    environment = {
        "captrial": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "command": [without_passwords(argument) for argument in sys.argv],
    }
    with write_checked(run) as staging:
        for name, document in ((CONFIG, config), (ENVIRONMENT, environment)):
            (staging / name).write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))


def _comparable(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration flat and without what makes no difference.

    Options of the recipe that one of two versions did not know have their defaults; those of self-critical training
    mean nothing where there is none.
    """
    defaults = orjson.loads(orjson.dumps(dataclasses.asdict(Recipe())))
    recipe = {**defaults, **{name: value for name, value in config["recipe"].items() if name in defaults}}
    idle = _OF_SCST if not recipe["scst_epochs"] else ()
    rest = {name: value for name, value in config.items() if name != "recipe"}
    ignored = (*idle, "device")
    return {**rest, "vision": identity(config["vision"]), **{k: v for k, v in recipe.items() if k not in ignored}}


def draw_metrics(run: Path) -> None:
    """Draw `metrics.csv` of a run as `metrics.png`."""
    rows = read_metrics(run / METRICS)
    figure = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left = figure.add_subplot()
    right = left.twinx()
    for column, axis, colour in (
        ("loss", left, "tab:blue"),
        ("reward", left, "tab:green"),
        ("cider", right, "tab:red"),
    ):
        points = [(row["seconds"] / 60, row[column]) for row in rows if {"seconds", column} <= row.keys()]
        if points:
            axis.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, label=column)
    left.set_xlabel("minutes")
    left.set_ylabel("loss, reward")
    right.set_ylabel("validation CIDEr")
    if left.lines or right.lines:  # a damaged table may have no row left
        figure.legend(loc="outside upper center", ncols=3)
    with write_checked(run) as staging:
        figure.savefig(staging / "metrics.png", dpi=120)


def verify_run(run: Path | str) -> VerifiedFolder:
    """Check the files of a run, its best checkpoint, and its features where it has its own."""
    run = Path(run)
    problems = damaged_files(run, REMAKE)
    files = len(read_checksums(run, lenient=True))
    for folder, verify in ((run / BEST, verify_checkpoint), (run / "features", verify_store)):
        if folder.is_dir():
            found = verify(folder)
            problems, files = [*problems, *found.problems], files + found.files
    try:
        read_configuration(run)
        if (run / STATE).is_file():
            read_counters(run / STATE)
    except CaptrialError as error:
        problems.append(str(error))
    return VerifiedFolder(RUN.name, files, tuple(dict.fromkeys(problems)))


def _is_run(folder: Path) -> bool:
    path = folder / CONFIG
    return path.is_file() and b'"preset"' in path.read_bytes()[:100_000]


RUN = FolderVerifier("training run", _is_run, verify_run)
