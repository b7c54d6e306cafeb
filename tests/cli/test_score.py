"""`captrial score` as it is typed: JSON and nothing else on stdout, mistakes named, tables for people."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from captrial.cli.app import main
from captrial.metrics.score_inputs import system_names
from judges.judged_competition import serving
from judges.test_endpoint_propositions import by_sentence

REFERENCES = {"1": ["A man rides a horse.", "a person on a horse"], "2": ["A cat sleeps."], "3": ["Two dogs run."]}
GOOD = {"1": "a man rides a horse", "2": "a cat sleeps", "3": "dogs run"}
BAD = {"1": "a cat", "2": "a horse", "3": "a man"}
METRICS = ["--metrics", "bleu,rouge,cider"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write(tmp_path / "refs.json", REFERENCES)
    write(tmp_path / "good.json", [{"image_id": int(key), "caption": text} for key, text in GOOD.items()])
    write(tmp_path / "bad.json", BAD)
    return tmp_path


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(stopped.value.code or 0), out, err


def test_json_is_all_there_is_on_stdout(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys,
        "score",
        files / "good.json",
        files / "bad.json",
        "--references",
        files / "refs.json",
        *METRICS,
        "--json",
    )
    assert code == 0, err
    found = json.loads(out)
    assert list(found) == ["good", "bad"]
    assert list(found["good"]) == ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"]
    assert 0.5 < found["good"]["bleu_1"] <= 1  # fractions
    assert found["good"]["cider"] > found["bad"]["cider"]
    assert not err


def test_tables_for_people(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    systems = [files / "good.json", files / "bad.json"]
    code, out, _ = run(capsys, "score", *systems, "-r", files / "refs.json", *METRICS)
    assert code == 0
    assert "Scores on 3 images" in out
    assert "±" in out
    assert "Who beats whom" in out
    third = write(files / "third.json", {**GOOD, "2": "a cat"})
    _, out, _ = run(capsys, "score", *systems, third, "-r", files / "refs.json", *METRICS)
    assert "Who beats how many" in out
    assert "cider: row minus column" in out
    _, out, _ = run(capsys, "score", third, "-r", files / "refs.json", *METRICS)
    assert "Who beats" not in out
    alone = write(files / "alone.json", {"2": "a cat"})
    _, out, _ = run(capsys, "score", *systems, alone, "-r", files / "refs.json", *METRICS)
    assert "no interval over one image" in out
    assert "±" not in out
    assert "Who beats" not in out


def test_a_narrow_terminal_gets_several_tables(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("captrial.cli.output.console.width", 50)
    columns = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"]
    code, out, _ = run(capsys, "score", files / "good.json", files / "bad.json", "-r", files / "refs.json", *METRICS)
    assert code == 0
    scores, _ = out.split("Who beats whom")
    heads = [line.strip("┃").split("┃") for line in scores.splitlines() if "system" in line]
    assert [name.strip() for head in heads for name in head[1:]] == columns  # whole, each once
    assert len(heads) > 1
    assert max(map(len, scores.splitlines()[:12])) <= 50


def test_per_image_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out_file = files / "out" / "scores.parquet"
    run(capsys, "score", files / "good.json", "-r", files / "refs.json", *METRICS, "--per-image", out_file, "--json")
    table = pq.read_table(out_file)
    assert table.column_names == ["system", "image_id", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"]
    assert table["image_id"].to_pylist() == ["1", "2", "3"]


def test_per_image_formats(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["score", files / "good.json", "-r", files / "refs.json", *METRICS, "--json", "--per-image"]
    code, _, err = run(capsys, *line, files / "scores.csv")
    assert code == 0, err
    assert (files / "scores.csv").read_text().splitlines()[0].startswith('"system","image_id","bleu_1"')
    code, out, err = run(capsys, *line, files / "scores.xlsx")
    assert (code, out) == (2, "")
    assert ".parquet or .csv" in err


def test_captions_in_other_languages_are_noticed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    german = write(files / "german.json", {**GOOD, "2": "eine Katze schläft auf dem Bett"})
    code, out, err = run(capsys, "score", german, "-r", files / "refs.json", *METRICS, "--json")
    assert code == 0
    assert json.loads(out)
    assert "german.json: 1 of 3 captions do not look English (the first: id 2, 'eine Katze" in err
    assert "refs.json" not in err


def test_mistakes_are_reported_and_strict_refuses_them(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = write(files / "odd.json", {"1": "a man", "2": "  ", "9": "who knows"})
    code, out, err = run(capsys, "score", odd, "-r", files / "refs.json", *METRICS, "--json")
    assert code == 0
    assert list(json.loads(out)) == ["odd"]
    for words in ("1 unknown id", "1 empty caption", "1 image without a caption", "2 of 3 images"):
        assert words in err
    code, out, err = run(capsys, "score", odd, "-r", files / "refs.json", *METRICS, "--json", "--strict")
    assert (code, out) == (2, "")
    assert "odd.json" in err


def test_two_captions_for_an_id(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"image_id": 1, "caption": "a"}, {"image_id": 1, "caption": "b"}]
    code, _, err = run(capsys, "score", write(files / "twice.json", rows), "-r", files / "refs.json", *METRICS)
    assert code == 2
    assert "image_id 1 has two captions" in err.replace("\n", " ")


def test_systems_that_share_no_image(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = write(files / "one.json", {"1": "a"}), write(files / "two.json", {"2": "a"})
    code, _, err = run(capsys, "score", one, two, "-r", files / "refs.json", *METRICS)
    assert code == 2
    assert "no image has a caption of every system" in err


def test_long_captions_are_noticed_and_can_be_cut(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = {
        key: f"{text}. " + "It is a very long and winding description of nothing. " * 5 for key, text in GOOD.items()
    }
    path = write(files / "vlm.json", long)
    base = ["score", path, "-r", files / "refs.json", *METRICS, "--json"]
    _, out, err = run(capsys, *base)
    assert "--first-sentence" in err
    punished = json.loads(out)["vlm"]["cider"]
    _, out, err = run(capsys, *base, "--first-sentence")
    assert not err
    fair = json.loads(out)["vlm"]["cider"]
    _, out, _ = run(capsys, "score", files / "good.json", "-r", files / "refs.json", *METRICS, "--json")
    assert punished < fair == pytest.approx(json.loads(out)["good"]["cider"])
    _, out, err = run(capsys, *base, "--max-words", 5)
    assert not err
    assert json.loads(out)["vlm"]["cider"] > punished


def test_document_frequencies_saved_and_used(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = files / "df.npz"
    base = ["score", files / "good.json", "-r", files / "refs.json", "-m", "cider", "--json"]
    _, first, _ = run(capsys, *base, "--save-frequencies", table)
    _, second, _ = run(capsys, *base, "--frequencies", table)
    assert json.loads(second)["good"]["cider"] == pytest.approx(json.loads(first)["good"]["cider"], abs=1e-12)
    single = write(files / "single.json", {"1": GOOD["1"]})
    _, out, err = run(capsys, "score", single, "-r", write(files / "r1.json", {"1": REFERENCES["1"]}), *base[4:])
    assert json.loads(out)["single"]["cider"] == 0
    assert "one image" in err


def test_objects_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = write(files / "objects.json", {"1": ["horse", "person"], "2": ["cat"], "3": ["dog"]})
    base = ["score", files / "bad.json", "-r", files / "refs.json", "-m", "chair,coverage", "--json", "--objects"]
    code, out, err = run(capsys, *base, objects)
    assert code == 0, err
    assert json.loads(out)["bad"]["chair_s"] == 1  # a cat, a horse, a man: all in the wrong image
    code, _, err = run(capsys, *base, write(files / "wrong.json", {"1": "horse"}))
    assert code == 2
    assert "wrong.json" in err


def test_unknown_metric_and_missing_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "score", files / "good.json", "-r", files / "refs.json", "-m", "blue")[0] == 2
    assert run(capsys, "score", files / "none.json", "-r", files / "refs.json")[0] == 2


def test_names_of_systems(tmp_path: Path) -> None:
    a, b, c = tmp_path / "a" / "out.json", tmp_path / "b" / "out.json", tmp_path / "b" / "other.json"
    assert system_names([a, c]) == ["out", "other"]
    assert system_names([a, b, c]) == ["a", "b", "other"]
    assert system_names([b, tmp_path / "b" / "out.csv"]) == [str(b), str(tmp_path / "b" / "out.csv")]


def test_formats_for_papers_and_programs(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"Our model_1={files / 'good.json'}", f"x^2={files / 'bad.json'}"]
    line = ["score", *names, "-r", files / "refs.json", "-m", "BLEU-4,CIDEr,rouge-l", "--format"]
    _, out, _ = run(capsys, *line, "markdown")
    assert out.startswith("| system | BLEU-4 | CIDEr | ROUGE-L |\n| --- |")
    assert "| Our model_1 | " in out
    _, out, _ = run(capsys, *line, "latex")
    assert "Our model\\_1 & " in out
    assert "x\\textasciicircum{}2 & " in out
    assert "$\\pm$" in out
    assert out.count("\\\\\n") == 3
    _, out, _ = run(capsys, *line, "csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert [row["system"] for row in rows] == ["Our model_1", "x^2"]
    assert float(rows[0]["cider_low"]) <= float(rows[0]["cider"]) <= float(rows[0]["cider_high"])
    code, out, _ = run(capsys, *line, "json")
    found = json.loads(out)
    assert (code, found["images"]) == (0, 3)
    assert float(rows[0]["cider"]) == pytest.approx(found["systems"]["Our model_1"]["cider"]["value"])
    assert {row["metric"] for row in found["comparisons"]} == {"bleu_4", "cider", "rouge_l"}
    assert all(0 <= row["permutation_p"] <= 1 and row["low"] <= row["high"] for row in found["comparisons"])


def test_names_given_twice_are_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "score", f"bad={files / 'good.json'}", files / "bad.json", "-r", files / "refs.json")
    assert code == 2
    assert "two systems are named bad" in err
    odd = write(files / "a=b.json", GOOD)
    code, out, _ = run(capsys, "score", odd, "-r", files / "refs.json", "-m", "cider", "--json")
    assert (code, list(json.loads(out))) == (0, ["a=b"])
    code, out, _ = run(capsys, "score", f"c={odd}", "-r", files / "refs.json", "-m", "cider", "--json")
    assert (code, list(json.loads(out))) == (0, ["c"])


@pytest.mark.needs("minilm")
@pytest.mark.slow
def test_scores_by_meaning_on_the_command_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["score", files / "good.json", files / "bad.json", "-r", files / "refs.json", "-m", "semantic,facts,words"]
    code, out, err = run(capsys, *line, "--json")
    assert code == 0, err
    good, bad = json.loads(out)["good"], json.loads(out)["bad"]
    assert good["semantic"] > bad["semantic"]
    assert good["facts"] > bad["facts"]
    assert good["unsupported"] < bad["unsupported"]
    _, tokens, _ = run(capsys, *line, "--match", "tokens", "--json")
    assert json.loads(tokens)["good"]["semantic"] != good["semantic"]
    _, workers, _ = run(capsys, *line, "--workers", "2", "--json")
    assert json.loads(workers) == json.loads(out)
    code, _, err = run(capsys, *line, "--encoder", "./nowhere")
    assert code == 2
    assert "no such folder" in err


@pytest.mark.needs("minilm")
@pytest.mark.slow
def test_propositions_of_a_language_model(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))
    line = ["score", files / "good.json", "-r", files / "refs.json", "-m", "facts", "--json"]
    with serving(faults=by_sentence) as server:
        address = f"{server.base}#tiny"
        code, out, err = run(capsys, *line, "--propositions", address)
        asked = len(server.requests)
        _, workers, _ = run(capsys, *line, "--propositions", address, "--workers", "2")
        assert asked == len(server.requests) > 0  # by the workers too: from the cache
    assert (code, json.loads(workers)) == (0, json.loads(out))
    assert "propositions by tiny" in err
    _, parsed, _ = run(capsys, *line)
    assert json.loads(parsed) != json.loads(out)
    code, _, err = run(capsys, *line, "--propositions", "http://127.0.0.1:1/v1")
    assert code == 2
    assert "name the model after a #" in err
