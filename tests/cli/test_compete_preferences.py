"""`captrial compete` by preferences: from a file alone, in a directory with judgements alone, and beside references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captrial.cli import main
from captrial.compete import Judgement
from compete.competitions import Small
from studies.simulated_judging import World


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["compete", *map(str, words)])
    captured = capsys.readouterr()
    assert (stopped.value.code or 0) == code, captured.err
    return captured.out + captured.err


def run_json(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    return json.loads(run(capsys, *words, "--json"))


def write(path: Path, judgements: list[Judgement]) -> Path:
    names = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}
    lines = ["question_id,model_a,model_b,winner"]
    lines += [f"{one.image},{one.first},{one.second},{names[one.outcome]}" for one in judgements]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def battles(tmp_path: Path) -> Path:
    world = World(models=3, spread=0.5, gap=0.5, nu=0.3)
    return write(tmp_path / "battles.csv", world.judgements(80, np.random.default_rng(0)))


def test_a_file_is_ranked_without_a_directory(
    battles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_json(capsys, "rank", "--preferences", battles)
    assert [row["model"] for row in found["ranking"]] == ["m0", "m1", "m2"]
    assert (found["metric"], found["judgements"], found["images"]) == ("preferences", 240, 80)
    assert "ranking by 240 judgements on 80 images" in run(capsys, "rank", "--preferences", battles)
    assert "multiplies the odds" in run(capsys, "rank", "--preferences", battles, "--control", "position")
    assert "m0 is the best" in run(capsys, "plan", "--preferences", battles)
    assert run_json(capsys, "plan", "--preferences", battles)["settled"] is True
    assert "m0 wins" in run(capsys, "flip", "--preferences", battles)
    run(capsys, "report", "--preferences", battles, "--out", tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Which of 3 captioners is preferred?" in page
    assert (tmp_path / "out" / "figures" / "preference_pairs.svg").is_file()


def test_judgements_alone_rank_a_competition(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for pair in small.competition.selected_pairs():
        first, second = (small.competition.models[index] for index in pair)
        for number, image in enumerate(small.competition.selection(*pair).images[:7]):
            shown = [first, second] if number % 2 else [second, first]
            lines.append({"image": image, "model_a": shown[0], "model_b": shown[1], "preferred": first})
    (small.directory / "judgements.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = run_json(capsys, "rank", small.directory)
    assert [row["model"] for row in found["ranking"]] == ["model0", "model1", "model2"]
    assert "captions shown in either place" in run(capsys, "rank", small.directory, "--control", "position")
    same = run(capsys, "rank", small.directory, "--control", "length", code=2)  # all have six words
    assert "cannot control for length: lengths follow" in same
    plan = run_json(capsys, "plan", small.directory)
    judged = {(line["image"], line["model_a"], line["model_b"]) for line in lines}
    for image, one, other in plan["next_pairs"]:
        assert (image, one, other) not in judged
        assert (image, other, one) not in judged
    assert "makes another model than model0 win" in run(capsys, "flip", small.directory)  # it won everything
    assert run_json(capsys, "flip", small.directory)["metric"] == "preferences"
    run(capsys, "report", small.directory)
    assert "Which of 3 captioners is preferred?" in (small.directory / "report" / "index.html").read_text()
    out = small.directory.parent / "both"
    run(capsys, "report", small.directory, "--references", small.references, "--metrics", "cider", "--out", out)
    page = (out / "index.html").read_text()
    assert '<a href="#preferences">Preferences</a>' in page
    assert "Which of 3 captioners is best on these images?" in page
    alone = run_json(capsys, "rank", small.directory, "--references", small.references, "--metric", "preferences")
    assert alone == found


def test_judgements_that_connect_nothing_do_not_stop_the_ranking(
    small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = {
        "image": small.competition.selected_images()[0],
        "model_a": "model1",
        "model_b": "model1",
        "winner": "tie",
    }
    (small.directory / "judgements.jsonl").write_text(json.dumps(judged))
    shown = run(capsys, "rank", small.directory, "--references", small.references)
    assert "ranking by CIDEr" in shown
    assert "no ranking by preferences" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give a competition's directory, or judgements by --preferences FILE"),
        (("--preferences", "absent.csv"), "absent.csv: no such file"),
        (("--preferences", "{battles}", "--control", "style"), "choose from length, position"),
        (
            ("--preferences", "{battles}", "--control", "length"),
            "give columns words_a and words_b, a table by --lengths FILE",
        ),
        (("--preferences", "{empty}"), "has no judgements"),
    ],
)
def test_mistakes(
    battles: Path, tmp_path: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.csv").write_text("")
    given = [word.format(battles=battles, empty=tmp_path / "empty.csv") for word in words]
    shown = " ".join(run(capsys, "rank", *given, code=2).split())
    assert message in shown


def test_a_competition_names_models_it_does_not_have(
    small: Small, battles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run(capsys, "rank", small.directory, "--preferences", battles, code=2)
    assert "is not a model of this competition" in " ".join(shown.split())
