"""The directory: every step atomic, repeatable, resumable; adding a model touches nothing; bad input is named."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captrial.cli.app import main
from captrial.compete import Competition, SelectionSettings
from captrial.compete.analysis.flip import flip_report
from captrial.compete.analysis.stability import measure_stability
from captrial.compete.ranking.result import rank_models
from captrial.compete.storage.labels import Labels
from captrial.errors import DamagedError, InputError, MismatchError, StateError
from captrial.language import tokenize_all
from captrial.report import write_competition_report
from compete import exact_selection, synthetic
from compete.competitions import Small


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_selection_follows_the_definition(small: Small) -> None:
    tokens = {}
    for name, path in small.files.items():
        rows = json.loads(path.read_text())
        texts = tokenize_all([row["caption"] for row in rows])
        tokens[name] = {str(row["image_id"]): text.split() for row, text in zip(rows, texts, strict=True)}
    for pair, expected in exact_selection.selection(tokens, 8).items():
        chosen = small.competition.original_selection(*pair)
        assert [*chosen.images, *chosen.reserve] == [image for image, _ in expected]
        assert [*chosen.similarity, *chosen.reserve_similarity] == [value for _, value in expected]


def test_opening_again_gives_the_same(small: Small) -> None:
    again = Competition.open(small.directory)
    assert again.models == small.competition.models
    assert again.selections() == small.competition.selections()
    assert again.selected_images() == sorted({image for s in again.selections().values() for image in s.images})
    assert again.captions_of(again.selected_images()[0]).keys() == set(again.models)


def test_a_second_new_is_refused_and_overwrites_nothing(small: Small) -> None:
    before = contents(small.directory)
    with pytest.raises(StateError, match="is a competition already"):
        Competition.create(small.directory, small.files)
    assert contents(small.directory) == before


def test_an_interrupted_new_can_be_run_again(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    directory = tmp_path / "interrupted"
    Competition.create(directory, files[0])
    (directory / "competition.json").unlink()  # the last file that is written
    assert Competition.create(directory, files[0]).models == tuple(files[0])


def test_a_directory_with_other_files_is_refused(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex\)"):
        Competition.create(tmp_path / "mine", files[0])


def test_a_folder_of_captions_in_the_directory_is_not_ours(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    """People keep their caption files where we would: they must be safe whatever goes wrong."""
    mine = tmp_path / "mine" / "captions"
    mine.mkdir(parents=True)
    for name, path in files[0].items():
        files[0][name] = path.rename(mine / path.name)
    before = contents(tmp_path / "mine")
    with pytest.raises(InputError, match="holds other files"):
        Competition.create(tmp_path / "mine", files[0])
    assert contents(tmp_path / "mine") == before


def test_selecting_twice_changes_no_byte(small: Small) -> None:
    before = contents(small.directory)
    assert small.competition.select() == []
    assert small.competition.select(SelectionSettings(8, 8)) == []
    assert contents(small.directory) == before


def test_other_settings_need_a_word(small: Small) -> None:
    with pytest.raises(StateError, match="k = 8"):
        small.competition.select(SelectionSettings(9, 9))
    assert len(small.competition.select(SelectionSettings(9, 9), again=True)) == 3
    assert all(len(found.images) == 9 for found in small.competition.selections().values())


def test_a_function_that_only_a_file_names_is_never_imported(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "foreign_code.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = SelectionSettings(8, 8, similarity="foreign_code:similarity")
    replace(small.competition.manifest, selection=kept).save(small.directory)
    reopened = Competition.open(small.directory)
    for k in (None, 8, 9):
        with pytest.raises(InputError, match="foreign_code:similarity, which captrial does not import"):
            reopened.select(k=k, again=True)
    with pytest.raises(SystemExit) as stopped:
        main(["compete", "select", str(small.directory), "--again", "--labels", "20"])
    assert stopped.value.code == 2
    assert "does not import" in " ".join(capsys.readouterr().err.split())


def test_k_holds_beside_settings(small: Small) -> None:
    small.competition.select(SelectionSettings(8, 8, diverse=True), k=5, again=True)
    chosen = small.competition.manifest.selection
    assert chosen is not None
    assert (chosen.k, chosen.diverse) == (5, True)


def test_the_design_of_d_alone_wants_no_labels_of_an_earlier_sample(small: Small) -> None:
    assert small.competition.sample("hybrid", 40) > len(small.competition.selected_images())
    assert small.competition.sample("discrepancy") == len(small.competition.selected_images())
    assert sorted(small.competition.images_to_label()) == small.competition.selected_images()
    assert "sample" not in small.competition.selection_json()


def test_rates_are_those_of_the_wave_that_the_labels_have_reached(small: Small) -> None:
    competition = small.competition
    selected = len(competition.selected_images())
    competition.sample("hybrid", selected + 12)
    competition.sample("hybrid", selected + 24, between=["model0", "model1"])
    design = competition.label_sample()
    assert design.order is not None
    truth = json.loads(small.references.read_text())
    labelled = {*competition.selected_images(), *design.sampled(6)}  # D has labels beyond the first wave's twelve
    assert len(labelled) > 12 > design.prefix(labelled)
    sample, scorer = competition.pool_sample(Labels({image: truth[image] for image in labelled}))
    place = {image: row for row, image in enumerate(design.images)}
    expected = design.order.waves[0][0][[place[image] for image in scorer.images]]
    np.testing.assert_array_equal(sample.rate, expected)


def test_the_flip_report_is_about_the_ranking_while_labels_are_partial(small: Small) -> None:
    competition = small.competition
    competition.sample("hybrid", len(competition.selected_images()) + 12)
    truth = json.loads(small.references.read_text())
    labels = Labels({image: truth[image] for image in competition.images_to_label()[:24]})
    scorer = competition.scorer(labels)
    pairwise = scorer.score("cider", frequencies=scorer.frequencies)
    assert len(set(pairwise.weights.tolist())) > 1
    ranked, flip = competition.rank("cider", labels), flip_report(pairwise)
    best, second, *_ = sorted(ranked.scores.tolist(), reverse=True)
    assert flip.winner == ranked.rows()[0]["model"]
    assert flip.margin == pytest.approx(best / second)


def test_analyses_leave_out_models_that_have_no_number_yet(small: Small, tmp_path: Path) -> None:
    truth = json.loads(small.references.read_text())
    labels = Labels({image: truth[image] for image in small.competition.selected_images()})
    before = small.competition.scorer(labels)
    newcomer = tmp_path / "newcomer.json"
    newcomer.write_text(json.dumps({image: f"something else {image}" for image in truth}))
    small.competition.add_model("newcomer", newcomer)
    small.competition.select()
    assert any(image not in labels.references for image in small.competition.selected_images())
    scorer = small.competition.scorer(labels)
    found, expected = flip_report(scorer.score("cider")), flip_report(before.score("cider"))
    assert (found.winner, found.removed, found.method) == (expected.winner, expected.removed, expected.method)
    assert dict(found.influential) == pytest.approx(dict(expected.influential))
    assert measure_stability(lambda k: scorer.score("cider", k)) == measure_stability(
        lambda k: before.score("cider", k)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = rank_models(scorer.score("cider")).rows()
    expected_rows = rank_models(before.score("cider")).rows()
    assert [row["bradley_terry_rank"] for row in rows] == [*(row["bradley_terry_rank"] for row in expected_rows), None]
    assert rows[-1]["bradley_terry"] is None
    write_competition_report(small.competition, labels, ["cider"], tmp_path / "report")


def test_the_metric_stands_beside_the_ranking_score_and_a_sentence_concludes(small: Small, tmp_path: Path) -> None:
    ranking = small.competition.rank("cider", small.references)
    scorer = small.competition.scorer(small.competition.labels(small.references))
    for row in ranking.rows():
        number = small.competition.models.index(row["model"])
        assert row["value"] == pytest.approx(scorer.score_on_own_images("cider", number))
    best = ranking.rows()[0]["model"]
    assert ranking.conclusion().startswith(f"{best} ")
    assert "of 3 captioners by CIDEr, on the images where captions differ most" in ranking.conclusion()
    page = small.competition.report(small.references, ["cider"], tmp_path / "page")
    assert ranking.conclusion() in page.read_text()


def test_an_interrupted_selection_is_taken_up(small: Small) -> None:
    expected = small.competition.selections()
    (small.directory / "selection" / "0-2.json").unlink()
    reopened = Competition.open(small.directory)
    assert reopened.selected_pairs() == [(0, 1), (1, 2)]
    with pytest.raises(StateError, match="no images are selected for model0 and model2"):
        reopened.selection(0, 2)
    assert reopened.select() == [(0, 2)]
    assert reopened.selections() == expected


def test_adding_a_model_leaves_every_byte_and_every_number(small: Small, tmp_path: Path) -> None:
    labels = small.competition.labels(small.references)
    before, p = contents(small.directory), small.competition.scorer(labels).score("cider").matrix()
    fourth = synthetic.captions(60, 4, seed=9)
    rows = [{"image_id": int(image), "caption": text} for image, text in fourth["model3"].items()]
    (tmp_path / "fourth.json").write_text(json.dumps(rows))
    small.competition.add_model("fourth", tmp_path / "fourth.json")
    assert small.competition.select() == [(0, 3), (1, 3), (2, 3)]
    after = contents(small.directory)
    changing = {"competition.json", "selection/captions.parquet", "checksums.json"}
    assert {name: data for name, data in after.items() if name in before and name not in changing} == {
        name: data for name, data in before.items() if name not in changing
    }
    grown = small.competition.scorer(labels).score("cider").matrix()
    assert grown.shape == (4, 4)
    assert (grown[:3, :3][p == p] == p[p == p]).all()
    small.competition.add_model("fourth", tmp_path / "fourth.json")  # the same again: nothing to do
    assert len(small.competition.models) == 4
    with pytest.raises(StateError, match="with other captions"):
        small.competition.add_model("fourth", small.files["model0"])


def test_an_added_model_has_a_pool_score_at_once_and_no_score_on_d_before_labels_of_its_own(
    small: Small, tmp_path: Path
) -> None:
    competition, truth = small.competition, json.loads(small.references.read_text())
    competition.sample("hybrid", 30)
    labelled = set(competition.images_to_label())
    (tmp_path / "labels.json").write_text(json.dumps({image: truth[image] for image in labelled}))
    before = competition.rank("cider", tmp_path / "labels.json").rows()
    own_images = {"value": None}  # the metric on a model's own images, which a new pair adds to
    fourth = synthetic.captions(60, 4, seed=9)["model3"]
    (tmp_path / "fourth.json").write_text(json.dumps(fourth))
    competition.add_model("fourth", tmp_path / "fourth.json")
    competition.select()
    own = [image for image in competition.images_to_label() if image not in labelled]
    *others, row = competition.rank("cider", tmp_path / "labels.json").rows()
    assert (row["model"], row["score"]) == ("fourth", None)
    assert [one | own_images for one in others] == [one | own_images for one in before]  # nothing else changes
    assert all(row["score"] is not None for row in competition.rank_pool("cider", tmp_path / "labels.json").rows())
    (tmp_path / "labels.json").write_text(json.dumps({image: truth[image] for image in labelled.union(own)}))
    assert all(row["score"] is not None for row in competition.rank("cider", tmp_path / "labels.json").rows())


@pytest.mark.parametrize("design", ["discrepancy", "hybrid"])
def test_a_replacement_without_a_label_yet_leaves_the_ranking(small: Small, tmp_path: Path, design: str) -> None:
    competition, truth = small.competition, json.loads(small.references.read_text())
    competition.sample(design, 30 if design == "hybrid" else None)
    labelled = set(competition.images_to_label())
    competition.mark_indescribable(max(labelled, key=lambda image: image in competition.selection(0, 1).images))
    assert set(competition.selected_images()) - labelled  # a reserve has moved up
    (tmp_path / "labels.json").write_text(json.dumps({image: truth[image] for image in labelled}))
    assert all(row["score"] is not None for row in competition.rank("cider", tmp_path / "labels.json").rows())


def test_missing_and_surplus_images_are_named(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    rows = json.loads(files[0]["model1"].read_text())
    files[0]["model1"].write_text(json.dumps(rows[2:]))
    with pytest.raises(MismatchError, match=r"model model1 has no caption for image 0 and 1 more.*--common"):
        Competition.create(tmp_path / "one", files[0])
    assert not (tmp_path / "one").exists()
    assert Competition.create(tmp_path / "two", files[0], common=True).manifest.image_count == 58
    files[0]["model1"].write_text(json.dumps([*rows, {"image_id": 999, "caption": "a dog"}]))
    with pytest.raises(MismatchError, match="has a caption that others lack for image 999"):
        Competition.create(tmp_path / "three", files[0])


def test_the_order_of_the_files_does_not_matter(tmp_path: Path, small: Small) -> None:
    for name in ("model1", "model2"):
        rows = json.loads(small.files[name].read_text())
        small.files[name].write_text(json.dumps(rows[::-1] if name == "model1" else rows[30:] + rows[:30]))
    shuffled = Competition.create(tmp_path / "shuffled", small.files)
    shuffled.select(SelectionSettings(8, 8), workers=2)
    assert shuffled.selections() == small.competition.selections()


def test_parquet_and_json_make_the_same_competition(tmp_path: Path, small: Small) -> None:
    parquet = {}
    for name, path in small.files.items():
        rows = json.loads(path.read_text())
        table = pa.table({"image_id": [row["image_id"] for row in rows], "caption": [row["caption"] for row in rows]})
        parquet[name] = tmp_path / f"{name}.parquet"
        pq.write_table(table, parquet[name])
    same = Competition.create(tmp_path / "parquet", parquet)
    same.select(SelectionSettings(8, 8))
    assert same.selections() == small.competition.selections()


def test_an_empty_parquet_file_is_refused(tmp_path: Path) -> None:
    table = pa.table({"image_id": pa.array([], pa.string()), "caption": pa.array([], pa.string())})
    for name in "ab":
        pq.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match="captions"):
        Competition.create(tmp_path / "empty", {name: tmp_path / f"{name}.parquet" for name in "ab"})


def test_changed_captions_are_noticed(small: Small) -> None:
    path = small.files["model1"]
    os.utime(path, ns=(1, 1))  # touched, not changed
    assert Competition.open(small.directory, check_sources=True).changed_sources() == []
    path.write_text(path.read_text().replace("standing", "resting"))
    with pytest.raises(StateError, match="captions of model1 have changed"):
        Competition.open(small.directory, check_sources=True)
    assert Competition.open(small.directory).changed_sources() == ["model1"]
    path.unlink()  # gone is not changed: the competition has its own copy
    assert Competition.open(small.directory, check_sources=True).models


def test_an_indescribable_image_leaves_every_pair_and_reserves_move_up(small: Small) -> None:
    competition = small.competition
    before = competition.selections()
    shared = max(competition.selected_images(), key=lambda image: sum(image in s.images for s in before.values()))
    competition.mark_indescribable(shared)
    competition.mark_indescribable(shared)
    for pair, active in competition.selections().items():
        assert shared not in active.images
        assert len(active.images) == 8
        if shared in before[pair].images:
            kept = [image for image in before[pair].images if image != shared]
            moved_up = next(image for image in before[pair].reserve if image != shared)
            assert list(active.images) == [*kept, moved_up]
            assert active.replaced == (shared,)
        else:
            assert active.images == before[pair].images
    assert Competition.open(small.directory).selections() == competition.selections()
    with pytest.raises(InputError, match="not among the selected"):
        competition.mark_indescribable("no such image")


def test_an_exhausted_reserve_leaves_a_smaller_set(small: Small) -> None:
    chosen = small.competition.original_selection(0, 1)
    for image in (*chosen.images, *chosen.reserve[:-3]):
        small.competition.mark_indescribable(image)
    active = small.competition.selection(0, 1)
    assert active.images == chosen.reserve[-3:]
    assert (active.wanted, active.reserve) == (8, ())


def test_labels_in_the_directory(small: Small) -> None:
    competition = small.competition
    truth = json.loads(small.references.read_text())
    images = competition.selected_images()
    lines = [json.dumps({"id": image, "captions": truth[image]}) for image in images[:-1]]
    (small.directory / "references.jsonl").write_text("\n".join(lines))
    assert competition.images_to_label() == images[-1:]
    with_one_bad = [*lines, json.dumps({"id": images[-1], "indescribable": True})]
    (small.directory / "references.jsonl").write_text("\n".join(with_one_bad) + "\n")
    assert images[-1] not in competition.selected_images()
    waiting = competition.images_to_label()
    assert set(waiting).isdisjoint(images)  # only replacements are left to label
    ranking = competition.rank("cider")
    assert len(ranking.rows()) == 3
    assert any("not fully labelled" in note for note in ranking.notes) == bool(waiting)


def test_ranking_needs_labels_and_a_selection(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    competition = Competition.create(tmp_path / "early", files[0])
    with pytest.raises(StateError, match="no images are selected yet"):
        competition.rank()
    competition.select(SelectionSettings(4, 4))
    with pytest.raises(StateError, match="no selected image has a reference caption"):
        competition.rank()


def test_the_better_model_wins(small: Small) -> None:
    labels = small.competition.labels(small.references)
    for metric in ("cider", "rouge_l", "bleu_4"):
        ranking = small.competition.rank(metric, labels)
        assert ranking.rows()[0]["model"] == "model0"


def test_broken_captions_are_listed_and_can_be_left_out(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    rows = json.loads(files[0]["model2"].read_text())
    rows[5]["caption"], rows[7]["caption"] = "", "a <unk> on the bed"
    files[0]["model2"].write_text(json.dumps(rows))
    competition = Competition.create(tmp_path / "broken", files[0])
    assert competition.broken() == [frozenset(), frozenset(), {"5", "7"}]
    assert "2 broken captions" in competition.manifest.models[2].problems[-1]
    competition.select(SelectionSettings(5, 5))
    assert "5" in competition.selection(0, 2).images  # an empty caption shares nothing with any other
    competition.select(SelectionSettings(5, 5, skip_broken=True), again=True)
    of_the_third = {
        p for s in (competition.selection(0, 2), competition.selection(1, 2)) for p in (*s.images, *s.reserve)
    }
    assert of_the_third.isdisjoint({"5", "7"})
    two = Competition.create(tmp_path / "two", {name: files[0][name] for name in ("model0", "model1")})
    two.select(SelectionSettings(5, 5, skip_broken=True))
    assert competition.selection(0, 1) == two.selection(0, 1)  # a third model's broken captions change nothing


def test_first_sentences_and_verbosity(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    from captrial.compete.storage.creation import verbosity_note

    rows = json.loads(files[0]["model2"].read_text())
    for row in rows:
        row["caption"] = (
            row["caption"].capitalize() + ". The light is warm. Behind it there are many trees and a house."
        )
    files[0]["model2"].write_text(json.dumps(rows))
    long = Competition.create(tmp_path / "long", files[0])
    assert "model2 writes" in (verbosity_note(long.manifest) or "")
    cut = Competition.create(tmp_path / "cut", files[0], first_sentence=True)
    assert verbosity_note(cut.manifest) is None
    cut.select(SelectionSettings(3, 3))
    assert all("warm" not in cut.captions_of(image)["model2"] for image in cut.selected_images())


def test_bad_directories_and_names(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    with pytest.raises(StateError, match="is not a competition"):
        Competition.open(tmp_path)
    with pytest.raises(InputError, match="at least two models"):
        Competition.create(tmp_path / "one", {"model0": files[0]["model0"]})
    with pytest.raises(InputError, match="cannot be read"):
        Competition.create(tmp_path / "two", {"a": tmp_path / "none.json", "b": tmp_path / "none.json"})
    with pytest.raises(InputError, match="no such folder of images"):
        Competition.create(tmp_path / "three", files[0], images=tmp_path / "nowhere")
    competition = Competition.create(tmp_path / "four", files[0])
    with pytest.raises(InputError, match="no model 'GPT'"):
        competition.selection("GPT", "model0")
    (tmp_path / "four" / "competition.json").write_text("{")
    with pytest.raises(DamagedError, match="has 1 bytes instead of"):
        Competition.open(tmp_path / "four")
    (tmp_path / "four" / "checksums.json").unlink()
    with pytest.raises(DamagedError, match="cannot be read as a competition"):
        Competition.open(tmp_path / "four")


def test_images_are_found_inside_the_root_only(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    from captrial.data.image_source import find_image

    root = tmp_path / "images"
    (root / "dogs").mkdir(parents=True)
    for name in ("42.jpg", "000000000007.jpg", "COCO_val2014_000000000008.jpg", "dogs/a.png"):
        (root / name).write_bytes(b"")
    (tmp_path / "secret.jpg").write_bytes(b"")
    (root / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    assert find_image(root, "42") == root / "42.jpg"
    assert find_image(root, "7") == root / "000000000007.jpg"
    assert find_image(root, "8") == root / "COCO_val2014_000000000008.jpg"
    assert find_image(root, "dogs/a.png") == root / "dogs" / "a.png"
    for outside in ("../secret", "../secret.jpg", str(tmp_path / "secret.jpg"), "link", "a\0b", "9"):
        assert find_image(root, outside) is None


def test_images_from_a_folder_and_from_a_pool(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> None:
    from PIL import Image

    from captrial.data.pools import build_pool

    generator = np.random.default_rng(0)
    folder = tmp_path / "images"
    for number in range(60):
        place = folder / ("even" if number % 2 == 0 else "odd")
        place.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 255, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).resize((96, 64), Image.Resampling.NEAREST).save(place / f"{number}.png")
    for name, path in files[0].items():
        rows = json.loads(path.read_text())
        for row in rows:
            row["image_id"] = f"{'even' if row['image_id'] % 2 == 0 else 'odd'}/{row['image_id']}.png"
        files[0][name].write_text(json.dumps(rows))
    build_pool([folder], tmp_path / "pool")
    for number, root in enumerate((folder, tmp_path / "pool")):
        competition = Competition.create(tmp_path / str(number), files[0], images=root)
        competition.select(SelectionSettings(6, 6, diverse=True))
        image = competition.selected_images()[0]
        assert competition.image_source is not None
        assert competition.image_source.path(image) == (folder / image).resolve()
        opened = competition.image_source.open(image)
        assert opened is not None
        assert opened.size == (96, 64)
        assert competition.image_source.open("nothing") is None
        assert {competition.class_of(name) for name in competition.selected_images()} == {"even", "odd"}


@pytest.mark.needs("minilm")
@pytest.mark.slow
@pytest.mark.parametrize("metric", ["semantic", "facts", "unsupported"])
def test_models_are_ranked_by_meaning(small: Small, metric: str) -> None:
    ranking = small.competition.rank(metric, small.competition.labels(small.references))
    assert ranking.rows()[0]["model"] == "model0"
