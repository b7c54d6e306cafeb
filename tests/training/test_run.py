"""Training runs: they learn, they can be killed and continued, and every architecture memorises twenty captions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from captrial.captioners import ARCHITECTURES, PRESETS, Captioner, create
from captrial.captioners.architectures.disc import Disc, RetrievalCritic
from captrial.captioners.architectures.sgae import Sgae
from captrial.captioners.architectures.stack_cap import StackCap
from captrial.captioners.base import evaluating
from captrial.captioners.checkpoint import Checkpoint
from captrial.decoding import greedy
from captrial.decoding.protocol import BOS, EOS, PAD
from captrial.errors import InputError, MismatchError
from captrial.language.vocabulary import UNK, Vocabulary
from captrial.metrics.spice import scene_tuples
from captrial.records import Sample
from captrial.training.data import CaptionData
from captrial.training.loop import Trainer
from captrial.training.losses import cross_entropy
from captrial.training.recipe import PAPERS, Recipe, split_options
from captrial.training.run import TrainingData, train
from captrial.training.schedules import Schedule
from captrial.training.stages.base import CrossEntropy, SelfCritical, Stage
from captrial.training.stages.disc_stages import Discriminate, TrainCritic
from captrial.training.stages.plan import make_stages
from captrial.training.stages.sgae_stages import SentenceStage, graph_tensors
from captrial.training.state import STATE, read_counters
from captrial.vision.features.visual_features import Features, FeatureSource
from training.twenty_images import SIZE, RandomFeatures, samples, vocabulary

VISION = {"backbone": "random", "width": SIZE}
QUICK = {"min_count": "1", "batch": "7", "captions": "2", "warmup": "2", "rate": "2e-3", "save_every": "0"}


SMALLER = {"width": 96, "hidden": 192, "heads": 4, "attention": 64, "embedding": 64, "dictionary": 200}


def without_dropout(preset: str, words: int) -> Captioner:
    """A small captioner without dropout, the same every time."""
    fields = dataclasses.fields(ARCHITECTURES[PRESETS[preset].architecture].captioner.Config)
    off = {field.name: 0.0 for field in fields if "dropout" in field.name}
    sizes = {field.name: SMALLER[field.name] for field in fields if field.name in SMALLER}
    torch.manual_seed(0)
    return create(preset, words=words, features=SIZE, **off, **sizes)


def optimise(stage: Stage, data: CaptionData, steps: int, until: float = float("-inf")) -> float:
    """Plain steps on the whole data as one batch; returns the last loss."""
    parameters = list(stage.parameters())
    optimizer = torch.optim.Adam(parameters, betas=(0.9, 0.98))
    batch = data.batch(np.arange(len(data)), np.random.default_rng(0))
    value = float("inf")
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = stage.schedule.at(step)
        loss, _ = stage.loss(batch, 0)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        value = float(loss.detach())
        if value < until:
            break
    return value


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_memorises_twenty_captions(architecture: str) -> None:
    """One caption an image, dropout and smoothing off: under 0.05 nats a word, and every caption comes back.

    All stages of an architecture take part: SGAE's sentences, Disc's critic and the reward it speaks in.
    Images of those that read boxes or graphs come in pairs that nothing else tells apart.
    """
    images = samples()
    words = vocabulary(images)
    captioner = without_dropout(f"{architecture}-small", len(words))
    features = RandomFeatures(len(words), twins=architecture in ("ort", "sgae"))
    data = CaptionData(images, words, features, captions=1)
    disc = isinstance(captioner, Disc)
    steps = Recipe(
        epochs=600, scst_epochs=10 * disc, critic_epochs=80, sentence_epochs=30, dictionary_epochs=30, batch=20,
        smoothing=0.0, schedule="constant", rate=3e-3, warmup=20, scst_rate=1e-4,
    )  # fmt: skip
    critic = RetrievalCritic(captioner.config) if disc else None
    heads = getattr(captioner.config, "stages", 1)
    for stage in make_stages(captioner, data, steps, critic=critic):
        optimise(stage, data, stage.epochs, until=0.004 * heads if stage.name == "xe" else float("-inf"))
    batch = data.batch(np.arange(20), np.random.default_rng(0))
    wanted = [sample.captions[0] for sample in images]
    with torch.no_grad():
        memory = captioner.eval().encode(batch.features)
        for number, forced in enumerate(captioner.teacher_force_stages(batch.inputs, memory)):
            assert float(cross_entropy(forced.logits, batch.targets)) < 0.05
            model = captioner.at_stage(number) if isinstance(captioner, StackCap) else captioner
            assert [" ".join(words.decode(ids)) for ids in greedy(model, memory).best()] == wanted
        if critic is not None:  # it knows every caption's image
            kept = critic.loss(critic.embed_images(batch.features), critic.embed_captions(batch.tokens[:, 0, 1:]))
            assert float(kept.mean()) < 0.1


def test_sgae_learns_through_its_sentence_stages() -> None:
    images = samples()
    words = vocabulary(images)
    captioner = without_dropout("sgae-small", len(words))
    assert isinstance(captioner, Sgae)
    data = CaptionData(images, words, RandomFeatures(len(words)), captions=1)
    graphs = [scene_tuples(list(sample.captions)) for sample in images]
    for use_dictionary in (False, True):
        stage = SentenceStage(captioner, 1, Schedule("constant", 2e-3, warmup=5), graphs, words, use_dictionary)
        first = optimise(stage, data, 1)
        assert optimise(stage, data, 40) < 0.5 * first
    before = captioner.dictionary.detach().clone()
    optimise(SentenceStage(captioner, 1, Schedule("constant", 2e-3), graphs, words, True), data, 2)
    assert not torch.equal(before, captioner.dictionary)


def test_graphs_of_sentences() -> None:
    words = vocabulary(samples())
    graphs = graph_tensors([[("dog",), ("house", "red"), ("dog", "house", "near to")], []], words)
    assert graphs.objects.tolist() == [[words["dog"], words["house"]], [3, -1]]
    assert graphs.relations[0].tolist() == [[0, 1, words["near"]]]
    assert (graphs.relations[1] == -1).all()
    assert graphs.attributes[0].tolist() == [[-1], [words["red"]]]


def test_disc_trains_its_critic_and_is_rewarded_for_discriminating() -> None:
    images = samples()
    words = vocabulary(images)
    captioner = without_dropout("disc-small", len(words))
    assert isinstance(captioner, Disc)
    features = RandomFeatures(len(words))
    data = CaptionData(images, words, features, captions=1)
    critic = RetrievalCritic(captioner.config)
    loss = optimise(TrainCritic(critic, 1, Schedule("constant", 5e-3, warmup=5)), data, 80, until=0.02)
    assert loss < 0.1
    stage = Discriminate(
        captioner, 1, Schedule("constant", 1e-3), lambda tokens, rows: torch.zeros(tokens.shape[:2]), critic=critic
    )
    batch = data.batch(np.arange(20), np.random.default_rng(0))
    right = batch.tokens[:, :, 1:]
    reward = stage._with_critic(stage.reward, batch)
    assert reward(right, batch.rows).mean() > reward(right.roll(1, 0), batch.rows).mean() + 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "steps", "rate"),
    [("transformer-small", 30, 3e-4), ("stack_cap-small", 60, 1e-3), ("disc-small", 40, 3e-4)],
)
def test_self_critical_training_raises_the_reward(preset: str, steps: int, rate: float) -> None:
    images = samples(captions=3)
    words = vocabulary(images)
    captioner = without_dropout(preset, len(words))
    features = RandomFeatures(len(words))
    data = CaptionData(images, words, features, captions=3)
    heads = getattr(captioner.config, "stages", 1)
    imitate = CrossEntropy(captioner, 1, Schedule("constant", 3e-3, warmup=10), smoothing=0.0)
    optimise(imitate, data, 200, until=0.5 * heads)  # good enough to be rewarded, not yet sure of itself
    critic = RetrievalCritic(captioner.config) if isinstance(captioner, Disc) else None
    recipe = Recipe(
        epochs=0, scst_epochs=1, scst_by="sampling", baseline="others", scst_rate=rate, warmup=1, critic_weight=0.0
    )
    stage = make_stages(captioner, data, recipe, critic=critic)[-1]
    batch = data.batch(np.arange(20), np.random.default_rng(0))
    torch.manual_seed(0)
    before = np.mean([stage.loss(batch, 0)[1]["reward"] for _ in range(3)])
    optimise(stage, data, steps)
    after = np.mean([stage.loss(batch, 0)[1]["reward"] for _ in range(3)])
    assert after > 1.1 * before


@pytest.mark.slow
def test_self_critical_training_on_the_beam_raises_the_reward_of_its_captions() -> None:
    """The beam's five differ, whatever is learnt: what has to gain is the greedy caption."""
    images = samples(captions=3)
    words = vocabulary(images)
    captioner = without_dropout("transformer-small", len(words))
    data = CaptionData(images, words, RandomFeatures(len(words)), captions=3)
    optimise(CrossEntropy(captioner, 1, Schedule("constant", 3e-3, warmup=10), smoothing=0.1), data, 200, until=1.2)
    (stage,) = make_stages(captioner, data, Recipe(epochs=0, scst_epochs=1, scst_rate=3e-4, warmup=1))
    assert isinstance(stage, SelfCritical)
    batch = data.batch(np.arange(20), np.random.default_rng(0))

    def reward() -> float:
        with torch.no_grad():
            said = greedy(captioner, captioner.encode(batch.features), **stage.decoding_options()).tokens
        return float(stage.reward(said, batch.rows).mean())

    before = reward()
    optimise(stage, data, 30)
    assert reward() > 1.1 * before


def run_to_the_end(out: Path, preset: str = "transformer-small", **options: str) -> None:
    images = samples(captions=3)
    words = vocabulary(images)
    chosen = {**QUICK, "epochs": "2", "scst_epochs": "1", "scst_rate": "1e-4", **options}
    train(preset, TrainingData(images, images[:5], RandomFeatures(len(words)), VISION), out, chosen)


def everything_of(run: Path) -> dict[str, torch.Tensor]:
    """Weights, their average, optimiser moments and counters at the end of a run, and the best weights."""
    counters = dataclasses.asdict(read_counters(run / STATE))
    numbers = [value for name, value in counters.items() if name not in ("seconds", "processor", "scores", "logged")]
    best = Checkpoint.from_pretrained(run / "best").captioner.state_dict()
    counted = torch.tensor([*numbers, *counters["scores"]])
    return {**load_file(run / STATE), **{f"best/{name}": value for name, value in best.items()}, "counters": counted}


class Likelihood:
    """A validation that changes with every step, unlike CIDEr's of captions that are all wrong yet."""

    def __init__(self, captioner: Captioner, words: Vocabulary, features: FeatureSource, images: Any, _: int) -> None:
        self.data = CaptionData(images, words, features, captions=3)
        self.stage = CrossEntropy(captioner, 1, Schedule())

    def __call__(self) -> float:
        with evaluating(self.stage.captioner), torch.no_grad():
            loss, _ = self.stage.loss(self.data.batch(np.arange(len(self.data)), np.random.default_rng(0)), 0)
        return float(torch.exp(-loss))


class KilledError(Exception):
    """Stands for a kill: training stops at once, wherever it is."""


@pytest.mark.parametrize(
    ("preset", "where", "times", "options"),
    [
        ("transformer-small", "_step", 1, {}),
        ("transformer-small", "_step", 5, {}),
        ("transformer-small", "_step", 8, {"average": "0.9"}),
        ("transformer-small", "_validate", 1, {"save_every": "0"}),  # an epoch's last step is saved, its row is not
        ("transformer-small", "_save", 4, {"save_every": "0"}),  # its row is written, the epoch's end is not saved
        ("transformer-small", "_save", 4, {"save_every": "99"}),  # a best of the new stage is kept, its state is not
        ("disc-small", "_step", 5, {"critic_epochs": "1", "epochs": "1", "average": "0.9"}),
        ("disc-small", "_step", 8, {"critic_epochs": "1", "epochs": "1"}),
        ("sgae-small", "_step", 5, {"sentence_epochs": "1", "dictionary_epochs": "1", "epochs": "1"}),
    ],
)
def test_a_killed_run_continues_to_the_same_weights(
    preset: str, where: str, times: int, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("captrial.training.run.Validation", Likelihood)
    run_to_the_end(tmp_path / "whole", preset, **options)
    real, count = getattr(Trainer, where), 0

    def killed(self: Trainer, *arguments: object) -> object:
        nonlocal count
        count += 1
        if count > times:
            raise KilledError
        return real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, where, killed)
        with pytest.raises(KilledError):
            run_to_the_end(tmp_path / "killed", preset, **options)
    run_to_the_end(tmp_path / "killed", preset, **options)
    whole, continued = everything_of(tmp_path / "whole"), everything_of(tmp_path / "killed")
    assert whole.keys() == continued.keys()
    assert [name for name in whole if not torch.equal(whole[name], continued[name])] == []
    rows = [(tmp_path / name / "metrics.csv").read_text().splitlines() for name in ("whole", "killed")]
    logged = [[[*cells[:3], *cells[4:-1]] for row in part for cells in [row.split(",")]] for part in rows]  # no times
    assert logged[0] == logged[1]  # also the loss of the epoch that was killed: it covers all its steps


def test_weights_are_averaged_from_self_critical_training_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An average that began with random weights would stay near them, and be kept."""
    begun: list[str] = []
    real = Trainer._train_stage

    def noted(self: Trainer, stage: Stage, optimizer: torch.optim.Optimizer) -> None:
        begun.append(f"{stage.name} {'averaged' if self.average else 'plain'}")
        real(self, stage, optimizer)

    monkeypatch.setattr(Trainer, "_train_stage", noted)
    run_to_the_end(tmp_path, average="0.999")
    assert begun == ["xe plain", "scst averaged"]


def test_the_standard_of_the_training_images_is_kept_with_the_weights(tmp_path: Path) -> None:
    features = RandomFeatures(len(vocabulary(samples())))
    data = TrainingData(samples(), samples()[:4], features, VISION)
    options = {**QUICK, "epochs": "1", "standardise": "true", "width": "24", "hidden": "32"}
    best = train("transformer-small", data, tmp_path / "run", options).captioner
    rows = features.get([sample.id for sample in data.train]).elements.flatten(0, 1)
    assert torch.allclose(best.element_mean, rows.mean(0), atol=1e-3)
    assert torch.allclose(best.element_spread, rows.std(0, correction=0), rtol=1e-2)
    more = {**QUICK, "epochs": "1"}
    further = train("transformer-small", data, tmp_path / "more", more, start=tmp_path / "run" / "best").captioner
    assert torch.equal(further.element_mean, best.element_mean)


def test_bfloat16_trains(tmp_path: Path) -> None:
    run_to_the_end(tmp_path, autocast="true", epochs="1")
    weights = Checkpoint.from_pretrained(tmp_path / "best").captioner.state_dict()
    assert all(weight.isfinite().all() and weight.dtype == torch.float32 for weight in weights.values())


def test_a_run_goes_on_after_a_kill_before_its_first_row_was_written(tmp_path: Path) -> None:
    run_to_the_end(tmp_path, epochs="1", scst_epochs="0")
    (tmp_path / STATE).unlink()
    (tmp_path / "metrics.csv").write_text("")
    run_to_the_end(tmp_path, epochs="1", scst_epochs="0")
    assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize("end", ["xe,2", "xe,2,", "xe,2,99999999999,", "xe,\u0662,\u0662,1,1,1,1,1,1,1,1", "\0\0\0"])
def test_a_row_of_the_log_that_was_cut_does_not_block_a_run(end: str, tmp_path: Path) -> None:
    run_to_the_end(tmp_path, epochs="1", scst_epochs="0")
    whole = (tmp_path / "metrics.csv").read_text()
    (tmp_path / "metrics.csv").write_text(whole + end)
    run_to_the_end(tmp_path, epochs="1", scst_epochs="0")
    assert (tmp_path / "metrics.csv").read_text() == whole


def test_a_log_of_an_earlier_version_keeps_its_rows(tmp_path: Path) -> None:
    run_to_the_end(tmp_path, epochs="1", scst_epochs="0")
    log = tmp_path / "metrics.csv"
    header, row = (line.split(",") for line in log.read_text().splitlines())
    log.write_text("\n".join(",".join(cells[:-1]) for cells in (header, row)) + "\n")  # before `processor` was added
    run_to_the_end(tmp_path, epochs="1", scst_epochs="0")
    assert log.read_text().splitlines() == [",".join(header), ",".join([*row[:-1], ""])]


def test_a_run_folder_is_complete_and_refuses_other_settings(tmp_path: Path) -> None:
    run_to_the_end(tmp_path / "run", scst_epochs="0")
    for name in ("run.json", "environment.json", "metrics.csv", "metrics.png", "best/config.json"):
        assert (tmp_path / "run" / name).stat().st_size > 0
    with pytest.raises(MismatchError, match=r"uses seed=\d+, not \d+"):
        run_to_the_end(tmp_path / "run", scst_epochs="0", seed="1")
    images = samples(captions=3)
    features, chosen = RandomFeatures(len(vocabulary(images))), {**QUICK, "epochs": "2"}
    with pytest.raises(MismatchError, match="uses another validation"):
        train("transformer-small", TrainingData(images, images[:6], features, VISION), tmp_path / "run", chosen)
    with pytest.raises(InputError, match="no such option"):
        run_to_the_end(tmp_path / "other", depth="3")
    with pytest.raises(InputError, match="not a int"):
        run_to_the_end(tmp_path / "other", epochs="many")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": "0"}, "batch=0: must be a number of at least 1"),
        ({"rate": "nan"}, "rate=nan: must be a number of at least 0"),
        ({"epochs": "0", "scst_epochs": "0"}, "nothing to train"),
        ({"schedule": "linear"}, "no schedule 'linear'"),
        ({"scst_samples": "1"}, "one sample has nothing to be compared with"),
        ({"average": "0.9", "scst_epochs": "0"}, "average=0.9: is of self-critical"),
        ({"beta": "1.5"}, "beta=1.5: must be under 1"),
        ({"max_words": "128"}, "max_words=128: must be under 128"),
        ({"links": "own"}, "links=own: is of weak supervision"),
        ({"supervision": "some"}, "supervision=some"),
        ({"average": "1"}, "average=1.0: must be under 1"),
    ],
)
def test_a_wrong_setting_is_an_error_and_leaves_the_folder_free(
    options: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        run_to_the_end(tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_noam_depends_on_the_width_of_the_captioner() -> None:
    images = samples(6)
    words = vocabulary(images)
    data = CaptionData(images, words, RandomFeatures(len(words)), captions=1)
    for preset, width in (("transformer-small", 192), ("att2in-small", 256)):
        captioner = create(preset, words=len(words), features=SIZE)
        stage = make_stages(captioner, data, Recipe(schedule="noam", rate=1.0))[0]
        assert stage.schedule.width == width


def test_features_may_have_moved_when_a_run_continues(tmp_path: Path) -> None:
    images = samples(captions=3)
    features = RandomFeatures(len(vocabulary(images)))

    def run(out: str, source: str, start: Path | None = None) -> None:
        vision = {**VISION, "source": source}
        options = {**QUICK, "epochs": "1"}
        train("att2in-small", TrainingData(images, images[:5], features, vision), tmp_path / out, options, start=start)

    run("first", "/here")
    run("first", "/there")
    run("second", "/there", tmp_path / "first")
    other = TrainingData(images, images, features, {**VISION, "backbone": "other"})
    with pytest.raises(MismatchError, match="made in another way"):
        train("att2in-small", other, tmp_path / "third", QUICK, start=tmp_path / "first")


def test_the_average_of_the_weights_is_validated_and_kept(tmp_path: Path) -> None:
    images = samples(captions=3)
    features = RandomFeatures(len(vocabulary(images)))

    def run(out: str, start: Path | None = None, **options: str) -> dict[str, torch.Tensor]:
        options = {**QUICK, "scst_rate": "2e-3", "patience": "9", **options}
        best = train(
            "att2in-small", TrainingData(images, images[:5], features, VISION), tmp_path / out, options, start=start
        )
        return best.captioner.state_dict()

    begun = run("begun", epochs="5")
    moved, held = (
        run(f"on-{average}", tmp_path / "begun", epochs="0", scst_epochs="1", average=average)
        for average in ("0", "0.999999")
    )
    assert all(torch.allclose(held[name], begun[name], atol=1e-5) for name in begun)
    assert not all(torch.allclose(moved[name], begun[name], atol=1e-3) for name in begun)


def test_another_start_or_other_data_is_another_run(tmp_path: Path) -> None:
    images = samples(captions=3)
    features = RandomFeatures(len(vocabulary(images)))

    def run(out: str, data: list[Sample], seed: str = "0", start: str | None = None) -> None:
        options = {**QUICK, "epochs": "1", "seed": seed if start is None else "0"}
        begun = tmp_path / start if start else None
        train("att2in-small", TrainingData(data, images[:5], features, VISION), tmp_path / out, options, start=begun)

    for seed in ("1", "2"):
        run(f"begun-{seed}", images, seed)
    run("on", images, start="begun-1")
    run("on", images, start="begun-1")
    with pytest.raises(MismatchError, match="another started_from"):
        run("on", images, start="begun-2")
    with pytest.raises(MismatchError, match="another data"):
        run("on", images[1:], start="begun-1")


def test_a_captioner_that_goes_on_has_its_sentence_stages_behind_it() -> None:
    images = samples(6)
    words = vocabulary(images)
    data = CaptionData(images, words, RandomFeatures(len(words)), captions=1)
    captioner = create("sgae-small", words=len(words), features=SIZE)
    recipe = Recipe(epochs=0, scst_epochs=1)
    assert [stage.name for stage in make_stages(captioner, data, recipe)] == ["sentences", "dictionary", "scst"]
    assert [stage.name for stage in make_stages(captioner, data, recipe, goes_on=True)] == ["scst"]


def test_features_that_lack_what_a_captioner_needs_leave_the_folder_free(tmp_path: Path) -> None:
    images = samples(6)
    features = RandomFeatures(len(vocabulary(images)))

    class Grid:
        def get(self, ids: Sequence[str]) -> Features:
            return dataclasses.replace(features.get(ids), relations=None, attributes=None)

    with pytest.raises(InputError, match="region-detector"):
        train("sgae-small", TrainingData(images, images, Grid(), VISION), tmp_path / "run", QUICK)
    assert not (tmp_path / "run").exists()


def test_a_caption_that_is_cut_does_not_end(tmp_path: Path) -> None:
    """Nobody says "a dog on a" and stops; references stay whole."""
    images = samples(6)
    words = vocabulary(images)
    whole = CaptionData(images, words, RandomFeatures(len(words)), captions=1)
    longest = max(len(caption) - 2 for captions in whole.token_ids for caption in captions)
    cut = CaptionData(images, words, RandomFeatures(len(words)), captions=1, max_words=longest - 1)
    assert cut.token_ids == whole.token_ids
    batches = [data.batch(np.arange(6), np.random.default_rng(0)).tokens for data in (whole, cut)]
    for long, short in zip(batches[0].flatten(0, 1).tolist(), batches[1].flatten(0, 1).tolist(), strict=True):
        said = [token for token in long if token != PAD]
        kept = [token for token in short if token != PAD]
        assert kept == (said if len(said) - 2 < longest else said[:longest])
        assert (EOS in kept) == (len(said) - 2 < longest)


@pytest.mark.parametrize("preset", PAPERS)
def test_recipes_of_papers_are_recipes(preset: str) -> None:
    captioner = ARCHITECTURES[PRESETS[preset].architecture].captioner
    recipe, _ = split_options({"scst_epochs": "1"}, captioner, PAPERS[preset])
    assert split_options({"rate": "3"}, captioner, PAPERS[preset])[0].rate == 3
    Schedule(recipe.schedule), Schedule(recipe.scst_schedule)  # type: ignore[arg-type]


def test_paper_sized_presets_have_a_recipe_and_small_ones_do_not() -> None:
    assert set(PAPERS) - {"disc-small"} == {name for name in PRESETS if not name.endswith("-small")}


def test_disc_trains_its_critic_first() -> None:
    images = samples(6)
    words = vocabulary(images)
    data = CaptionData(images, words, RandomFeatures(len(words)), captions=1)
    captioner = without_dropout("disc-small", len(words))
    assert isinstance(captioner, Disc)
    recipe, _ = split_options({}, Disc, PAPERS["disc-small"])
    stages = make_stages(captioner, data, recipe, critic=RetrievalCritic(captioner.config))
    assert [stage.name for stage in stages] == ["critic", "xe", "disc"]
    with pytest.raises(InputError, match="att2in"):
        make_stages(captioner, data, Recipe(), critic=RetrievalCritic(captioner.config))


def test_schedules_of_a_recipe() -> None:
    images = samples(6)
    words = vocabulary(images)
    data = CaptionData(images, words, RandomFeatures(len(words)), captions=1)
    captioner = create("transformer-small", words=len(words), features=SIZE)
    recipe = Recipe(schedule="noam", warmup=10_000, batch=2, decay_every=4, scst_epochs=1, scst_schedule="plateau",
                    scst_decay=0.5)  # fmt: skip
    imitate, critical = make_stages(captioner, data, recipe)
    assert imitate.schedule.warmup == 10_000  # where the curve peaks, however short the stage
    assert imitate.schedule.every == 4 * 3
    assert critical.schedule.at(100, [3, 2, 2, 2]) == pytest.approx(0.5 * recipe.scst_rate)


def test_disc_goes_on_from_an_att2in(tmp_path: Path) -> None:
    images = samples(captions=3)
    features = RandomFeatures(len(vocabulary(images)))

    def run(preset: str, out: str, options: dict[str, str], start: Path | None = None) -> None:
        train(
            preset,
            TrainingData(images, images[:5], features, VISION),
            tmp_path / out,
            {**QUICK, **options},
            start=start,
        )

    run("att2in-small", "begun", {"epochs": "1"})
    rest = {"epochs": "0", "critic_epochs": "1", "scst_epochs": "1", "scst_rate": "0", "warmup": "0"}
    run("disc-small", "went_on", rest, tmp_path / "begun")
    before, after = (Checkpoint.from_pretrained(tmp_path / out / "best").captioner for out in ("begun", "went_on"))
    assert isinstance(after, Disc)
    assert all(torch.equal(after.state_dict()[name], weight) for name, weight in before.state_dict().items())
    run("disc-small", "own_critic", {**rest, "critic_width": "24"}, tmp_path / "begun")
    with pytest.raises(MismatchError, match="--set width: the sizes"):
        run("disc-small", "wider", {**rest, "width": "64"}, tmp_path / "begun")
    with pytest.raises(MismatchError, match="not a"):
        run("top_down-small", "other", rest, tmp_path / "begun")


def test_self_critical_training_leaves_words_alone_that_it_never_samples() -> None:
    """What cannot be sampled is never corrected: normalised over, it would slowly take all the probability."""
    images = samples(6)
    words = vocabulary(images)
    data = CaptionData(images, words, RandomFeatures(len(words)), captions=1)
    captioner = create("show_attend_tell-small", words=len(words), features=SIZE)
    stage = make_stages(captioner, data, Recipe(epochs=0, scst_epochs=1))[0]
    loss, _ = stage.loss(data.batch(np.arange(6), np.random.default_rng(0)), 0)
    loss.backward()  # type: ignore[no-untyped-call]
    gradient = captioner.head.bias.grad  # type: ignore[union-attr]
    assert torch.equal(gradient[[PAD, BOS, UNK]], torch.zeros(3))
    assert gradient.abs().sum() > 0
    assert gradient.isfinite().all()
