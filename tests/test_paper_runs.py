"""The papers' runs: the plan, one run from training to kept results, and the claims made from them."""

from __future__ import annotations

import gzip
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch

from captrial.captioners.registry import find_architecture, find_preset
from captrial.records import Box, ImageRef, Region, Sample
from captrial.training.recipe import PAPERS, split_options
from captrial.vision.features.feature_store import FeatureWriter
from captrial.vision.features.visual_features import Features
from captrial.vision.preprocess import Preprocess
from studies import paper_claims, paper_runs, paper_tables
from studies.paper_claims import PAGE, Claim, Side, replace_sections, sections
from studies.paper_runs import CAPTIONS, CURVE, GROUNDING, SUMMARY, Run, Work, plan
from studies.seed_comparison import compare_runs, compare_sets

WORDS = ("a dog runs on grass", "a cat sleeps on the sofa", "a man rides a red bike", "two girls eat cake")


def test_a_run_is_planned_once_and_after_the_run_it_continues() -> None:
    names = [run.name for run in plan()]
    assert len(set(names)) == len(names)
    for run in plan():
        if run.after is not None:
            assert names.index(run.after.name) < names.index(run.name)


def test_the_plan_has_what_the_papers_compare() -> None:
    planned = set(plan())
    for name in paper_runs.WAN:
        assert Run(name, "regions", "rl") in planned
    for name in paper_runs.CORNIA:
        for features in ("regions", "grid"):
            assert {Run(name, features, stage) for stage in ("xe", "rl")} <= planned
            assert {Run(name, features, "xe", seed) for seed in range(3)} <= planned


@pytest.mark.parametrize("run", plan(), ids=lambda run: run.name)
def test_the_settings_of_a_run_are_understood(run: Run) -> None:
    preset = find_preset(run.preset)
    recipe, sizes = split_options(run.options, find_architecture(preset.architecture).captioner, PAPERS.get(run.preset))
    assert recipe.seed == run.seed
    assert (recipe.epochs > 0) == (run.stage == "xe")
    assert not sizes or run.stage == "xe" or run.captioner == "disc"


def test_layers_are_those_of_cornia() -> None:
    layers = {name: paper_runs.SIZES[name]["encoder_layers"] for name in paper_runs.CORNIA}
    assert layers == {"transformer": 3, "smart": 2, "m2": 3}
    assert all(paper_runs.SIZES[name]["memory_slots"] == 40 for name in ("smart", "m2"))


def images(name: str, count: int) -> list[Sample]:
    return [Sample(ImageRef(f"{name}{n}"), (WORDS[n % 4], WORDS[n % 4] + " today")) for n in range(count)]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    """Stores of random features for a few images, and runs of a few seconds."""
    splits = {"train": images("train", 8), "val": images("val", 4), "test": images("test", 6)}
    monkeypatch.setattr(paper_runs, "flickr8k", lambda split, _mirrored=False: splits[split])
    monkeypatch.setattr(paper_runs, "coco", lambda: images("coco", 5))
    monkeypatch.setattr(paper_runs, "make_stores", lambda _work, _runs: None)  # there are no photographs to extract
    drawn = (Region(Box(0, 0, 50, 50), "dog"), Region(Box(50, 0, 100, 100), "bicycle"))
    boxed = [
        replace(sample, regions=drawn, image=replace(sample.image, width=100, height=100))
        for sample in images("coco", 5)
    ]
    monkeypatch.setattr(paper_runs, "boxed_coco", lambda: (boxed, ["dog", "bicycle"]))
    small = {"width": 16, "heads": 2, "hidden": 16, "min_count": 1, "batch": 4}
    monkeypatch.setitem(paper_runs.SIZES, "transformer", small)
    monkeypatch.setattr(paper_runs, "LENGTHS", {"short": {"epochs": 2, "scst_epochs": 1}})
    monkeypatch.setattr(paper_runs, "XE", {})
    monkeypatch.setattr(paper_runs, "RL", {"batch": 4})
    work = Work(tmp_path / "work", tmp_path / "results")
    stored = {"flickr8k": [sample for part in splits.values() for sample in part], "coco": images("coco", 5)}
    for name, samples in stored.items():
        with FeatureWriter(
            work.store(name, "regions"), {"backbone": "random", "width": 8, "preprocess": asdict(Preprocess())}
        ) as writer:
            elements = torch.randn(len(samples), 3, 8, generator=torch.Generator().manual_seed(0))
            mask = torch.ones(len(samples), 3, dtype=torch.bool)
            boxes = torch.tensor([[0, 0, 0.5, 1], [0.5, 0, 1, 1], [0, 0, 1, 1]]).expand(len(samples), 3, 4)
            writer.add([sample.id for sample in samples], Features(elements, mask, boxes))
    return work


def test_runs_are_trained_in_order_and_kept(work: Work, tmp_path: Path) -> None:
    first, second = Run("transformer", "regions"), Run("transformer", "regions", "rl")
    paper_runs.run_all([second, first], work)  # the second waits for the first
    for run in (first, second):
        kept = orjson.loads((work.results / run.name / SUMMARY).read_bytes())
        rows = paper_runs.read_captions(run, work.results)
        assert [row["set"] for row in rows] == ["flickr8k"] * 6 + ["coco"] * 5
        of_test = [float(row["cider"]) for row in rows if row["set"] == "flickr8k"]
        assert np.mean(of_test) == pytest.approx(kept["scores"]["flickr8k"]["cider"], rel=1e-4)
        assert kept["epochs"] == len((work.results / run.name / CURVE).read_text().splitlines()) - 1
        assert kept["processor_seconds"] > 0
        assert all("free_caption" in row for row in rows)  # may be empty: hardly anything was learnt
        assert set(kept["validation_cider"]) == {"greedy", "0.7", "1.0"}
    grounded = gzip.decompress((work.results / second.name / GROUNDING).read_bytes()).decode().splitlines()
    assert len(grounded) == 1 + 3 * 5  # methods x images
    assert not (work.results / first.name / GROUNDING).exists()
    assert "2 epochs" not in paper_runs.progress(work)
    assert paper_runs.table(work.results).count("\n") == 3

    before = (work.results / first.name / CAPTIONS).stat().st_mtime_ns
    paper_runs.run_all([first], work)  # what is finished is not repeated
    assert (work.results / first.name / CAPTIONS).stat().st_mtime_ns == before

    there = tmp_path / "there"
    (work.results / second.name / SUMMARY).rename(tmp_path / "unfinished")
    assert paper_runs.collect(work.results, there) == [first.name]
    (tmp_path / "unfinished").rename(work.results / second.name / SUMMARY)
    assert paper_runs.collect(work.results, there) == [second.name]
    assert paper_runs.table(there) == paper_runs.table(work.results)


def test_a_pool_for_the_competition_is_exported(work: Work, tmp_path: Path) -> None:
    run = Run("ort", "regions", "rl")
    folder = work.results / run.name
    folder.mkdir(parents=True)
    (folder / CAPTIONS).write_bytes(gzip.compress(b"set,image_id,caption\ncoco,coco1,a dog\n"))
    (folder / SUMMARY).write_text("{}")
    assert paper_runs.export(tmp_path / "pool", work.results) == ["ORT"]
    assert orjson.loads((tmp_path / "pool" / "ORT.json").read_bytes()) == {"coco/coco1": "a dog"}
    assert orjson.loads((tmp_path / "pool" / "references.json").read_bytes())["coco/coco1"][0] == WORDS[1]


def simulate(effect: float, seeds: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores of two captioners: images are hard or easy for both, runs are lucky, and every caption is noisy."""
    easy = generator.normal(0.6, 0.5, 200)
    liking = generator.normal(effect, 0.3, 200)  # how much more the first captioner gets on each image
    sides = []
    for shift in (liking, np.zeros(200)):
        luck = generator.normal(0, 0.015, (seeds, 1))
        sides.append(easy + shift + luck + generator.normal(0, 0.3, (seeds, 200)))
    return sides[0], sides[1]


@pytest.mark.parametrize("seeds", [3, 5])
def test_the_interval_covers_images_and_seeds(seeds: int) -> None:
    """1 500 draws: the share that covers must be 95% within four standard errors, or above."""
    generator = np.random.default_rng(0)
    found = [compare_runs(*simulate(0.05, seeds, generator)) for _ in range(1500)]
    covered = np.mean([part.low <= 0.05 <= part.high for part in found])
    assert 0.95 - 4 * np.sqrt(0.95 * 0.05 / 1500) < covered < 0.99


def test_a_claim_without_effect_is_rarely_decided() -> None:
    generator = np.random.default_rng(1)
    verdicts = [compare_runs(*simulate(0.0, 3, generator)).verdict for _ in range(800)]
    assert np.mean([verdict is not None for verdict in verdicts]) < 0.08
    clear = [compare_runs(*simulate(0.3, 3, generator)).verdict for _ in range(50)]
    assert all(clear)


def test_one_seed_decides_nothing() -> None:
    first, second = simulate(0.3, 1, np.random.default_rng(0))
    found = compare_runs(first, second)
    assert found.low > 0
    assert found.verdict is None
    assert compare_runs(second.repeat(3, 0), first.repeat(3, 0)).verdict is False


def test_the_interval_between_two_sets_covers_images_and_seeds() -> None:
    """One captioner on rooms and on other images: seeds are lucky on both, and a little luckier on one."""
    generator, true, found = np.random.default_rng(2), -0.03, []
    for _ in range(1500):
        luck = generator.normal(0, 0.02, (3, 1))
        rooms = generator.normal(0.4 + true, 0.08, 16) + luck + generator.normal(0, 0.03, (3, 16))
        images = generator.normal(0.4, 0.3, 200) + luck + generator.normal(0, 0.01, (3, 1))
        found.append(compare_sets(rooms, images + generator.normal(0, 0.2, (3, 200)), margin=0.02))
    covered = np.mean([part.low <= true <= part.high for part in found])
    assert 0.95 - 4 * np.sqrt(0.95 * 0.05 / 1500) < covered < 0.99
    assert np.mean([part.verdict is True for part in found]) < 0.05  # the drop is larger than the margin
    clear = compare_sets(rooms - 0.3, images.repeat(1, 0), margin=0.02)
    assert clear.verdict is False
    assert compare_sets(rooms + 0.3, images, margin=0.02).verdict


def test_every_claim_is_about_planned_runs() -> None:
    for claim in paper_claims.claims():
        for side in (claim.first, claim.second):
            assert side.runs(plan()), claim.text


def test_a_side_takes_the_seeds_that_all_its_captioners_have() -> None:
    run = Run("m2", "regions")
    others = [replace(run, seed=1), replace(run, features="grid"), replace(run, stage="rl")]
    assert Side(("m2",), "regions", "xe").runs([run, *others]) == [[run], [others[0]]]
    other = Run("ort", "regions")
    assert Side(("m2", "ort"), "regions", "xe").runs([run, *others, other]) == [[run, other]]


def keep_scores(run: Run, scores: list[float], free: list[str], results: Path) -> None:
    """A kept run with these CIDEr values, written in another order each time."""
    lines = [f"coco,{n},x,{text},{score}" for n, (score, text) in enumerate(zip(scores, free, strict=True))]
    lines = [*lines, "flickr8k,9,x,x,9"]
    folder = results / run.name
    folder.mkdir(parents=True)
    content = "\n".join(["set,image_id,caption,free_caption,cider", *lines[:: 1 if run.seed else -1]])
    (folder / CAPTIONS).write_bytes(gzip.compress(content.encode()))
    (folder / SUMMARY).write_text("{}")


def test_a_claim_is_measured_on_the_kept_images(tmp_path: Path) -> None:
    """By hand: means over captioners, then over images and seeds; 0.2 - 0.1 = 0.1."""
    first = {0: [0.1, 0.2, 0.3], 1: [0.3, 0.2, 0.1], 2: [0.2, 0.2, 0.2]}
    repeated = ["a dog dog dog", "a dog", "a cat"]
    for seed, scores in first.items():
        keep_scores(Run("ort", "regions", "rl", seed), scores, repeated, tmp_path)
        keep_scores(Run("m2", "regions", "rl", seed), [0.1, 0.1, 0.1], ["a"] * 3, tmp_path)
        keep_scores(Run("smart", "regions", "rl", seed), [0.3, 0.3, 0.3], ["a"] * 3, tmp_path)
    kept = list(paper_runs.read_summaries(tmp_path))
    assert len(kept) == 9
    sides = Side(("ort",), "regions", "rl"), Side(("m2",), "regions", "rl")
    found = paper_claims.measure(Claim("", "", *sides, images=("coco",)), kept, tmp_path)
    assert found is not None
    assert (found.value, found.seeds) == (pytest.approx(0.1), (3, 3))
    several = Claim("", "", sides[0], Side(("m2", "smart"), "regions", "rl"), images=("coco",))
    averaged = paper_claims.measure(several, kept, tmp_path)
    assert averaged is not None
    assert averaged.value == pytest.approx(0, abs=1e-12)
    counted = paper_claims.measure(Claim("", "", *sides, metric="repetition", images=("coco",)), kept, tmp_path)
    assert counted is not None
    assert counted.value == pytest.approx(1 / 3)


def test_the_results_page_has_what_the_kept_runs_say() -> None:
    """After a run was kept: `python -m studies.paper_claims write`."""
    page = PAGE.read_text()
    assert replace_sections(page, sections()) == page


def test_a_stage_whose_weights_are_gone_is_trained_again(work: Work) -> None:
    first, second = Run("transformer", "regions", "xe"), Run("transformer", "regions", "rl")
    (work.results / first.name).mkdir(parents=True)
    (work.results / first.name / SUMMARY).write_text("{}")  # kept by a session whose run folder is gone
    assert paper_runs.with_predecessors([second], work) == [first, second]
    paper_runs.run_all([second], work)
    assert orjson.loads((work.results / first.name / SUMMARY).read_bytes())["stage"] == "xe"
    assert work.has_weights(second)
    assert paper_runs.with_predecessors([second], work) == [second]


def keep_grounding(run: Run, scores: list[float], results: Path) -> None:
    """Kept GroundingScores of a run by one method; NaN where a caption has no nouns, ' before negative ones."""
    header = "method,image_id,score_0,score_∞,checkable_0,null_random,null_largest,null_centre,null_prior"
    lines = [f"saliency,{n},{f'{chr(39)}{s}' if s < 0 else s},1,{s},0.1,0.3,0.2,0" for n, s in enumerate(scores)]
    lines += [f"{method},{n},0.5,1,0.5,0.1,0.3,0.2,0" for method in paper_runs.GROUNDING_METHODS[1:] for n in range(2)]
    folder = results / run.name
    folder.mkdir(parents=True)
    (folder / GROUNDING).write_bytes(gzip.compress("\n".join([header, *lines]).encode()))
    measured = dict.fromkeys(paper_tables.COLUMNS.values(), 0.25 + run.seed / 100)
    (folder / SUMMARY).write_bytes(orjson.dumps({"scores": {"flickr8k": measured}}))


def test_the_tables_of_cornia_are_means_over_seeds(tmp_path: Path) -> None:
    for seed in range(3):
        keep_grounding(Run("m2", "regions", "rl", seed), [0.4 + seed / 10, -0.1, float("nan")], tmp_path)
        keep_grounding(Run("transformer", "regions", "rl", seed), [0.1, 0.1, 0.9], tmp_path)
    keep_grounding(Run("smart", "regions", "rl", 0, "long"), [0.0, 0.0, 0.0], tmp_path)  # no part of the comparison
    rows = [line.strip("| ").split(" | ") for line in paper_tables.captions_table(tmp_path).splitlines()[2:]]
    assert [row[:4] for row in rows] == [["regions", name, "XE + RL", "3"] for name in ("Transformer", "M2")]
    assert rows[1][4:6] == ["26.0 ± 1.0", "26.0 ± 1.0"]
    assert rows[1][-1] == "131.2"
    found = [line.strip("| ").split(" | ") for line in paper_tables.grounding_table(tmp_path).splitlines()[2:]]
    saliency = next(row for row in found if row[1:3] == ["M2", "Saliency"])
    assert saliency[4] == "20.0"  # of 0.5 and -0.1; the third caption has no score
    assert saliency[7:11] == ["10.0", "30.0", "20.0", "0.0"]
    assert saliency[11].startswith("-0.143 [")  # (0.2 - 0.3) / (1 - 0.3)
    assert saliency[11].endswith("(largest)")


def test_grounding_claims_leave_captions_without_a_score_out(tmp_path: Path) -> None:
    for seed in range(3):
        keep_grounding(Run("m2", "regions", "rl", seed), [0.5, -0.1, float("nan"), 0.3], tmp_path)
        keep_grounding(Run("transformer", "regions", "rl", seed), [0.1, -0.2, 0.9, 0.2], tmp_path)
    sides = Side(("m2",), "regions", "rl"), Side(("transformer",), "regions", "rl")
    claim = Claim("", "", *sides, metric=paper_claims.grounding_by("saliency"), images=("coco",))
    found = paper_claims.measure(claim, list(paper_runs.read_summaries(tmp_path)), tmp_path)
    assert found is not None
    assert (found.value, found.seeds) == (pytest.approx(0.2), (3, 3))
