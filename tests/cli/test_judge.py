"""`captrial judge`: the command line of a run, its exit codes, and what is refused before anything is sent."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from captrial.cli.app import main
from captrial.judges import RUBRICS, SimulatedJudge, read_verdicts
from captrial.judges.simulated_judge import Faults, ServerFault
from cli.commands import answer, run_captrial
from judges.judged_competition import IMAGES, make_competition, serving


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))


def ending(line: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(line)
    return ended.value.code


def test_a_run_and_the_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = str(make_competition(tmp_path).directory)
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"org/tiny": {"prompt": 100, "completion": 1000}}))
    with serving() as server:
        line = ["judge", "run", directory, "--judge", f"{server.base}#org/tiny", "--prices", str(prices)]
        found = answer(capsys, line)
        assert (found["verdicts"], found["missing"], found["cost"]) == (2 * IMAGES, 0, pytest.approx(0.15 * 2 * IMAGES))
        assert answer(capsys, line)["requests"] == 0
        run_captrial(line)
        assert "12 questions" in capsys.readouterr().out
    assert {one.judge for one in read_verdicts(directory)} == {"org-tiny"}


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = str(make_competition(tmp_path).directory)
    with serving(faults=lambda *_: ServerFault(401, body=b"no key")) as server:
        line = ["judge", "run", directory, "--judge", f"{server.base}#tiny"]
        assert ending(line) == 2
        assert "check the key" in capsys.readouterr().err
        server.faults = lambda *_: ServerFault(400, body=b"too long")
        assert ending(line) == 1
        assert "12 of 12 questions have no verdict" in capsys.readouterr().err
        assert ending([*line, "--budget", "5", "--prompt-price", "1000000"]) == 1
        assert "budget" in capsys.readouterr().err


def test_what_is_refused_before_anything_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = str(make_competition(tmp_path).directory)
    for options, said in {
        ("--judge", "https://judge.example/v1#m"): "--send-images",
        ("--judge", "gpt-4o"): "https://api.openai.com/v1; allow it with --send-images",
        ("--judge", "http://127.0.0.1:9/v1#m", "--budget", "5"): "--budget needs prices",
        ("--judge", "http://127.0.0.1:9/v1#m", "--budget", "nan", "--prompt-price", "1"): "above 0",
        ("--judge", "http://127.0.0.1:9/v1#m", "--prompt-price", "-1"): "a price of -1.0",
        ("--judge", "http://127.0.0.1:9/v1#m", "--rubric", str(tmp_path / "none")): "judge rubric",
        ("--judge", "http://127.0.0.1:9/v1"): "name the model",
    }.items():
        assert ending(["judge", "run", directory, *options]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert read_verdicts(directory) == []


def test_a_model_without_an_address_is_asked_at_openai_base_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(make_competition(tmp_path).directory)
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base + "/")
        found = answer(capsys, ["judge", "run", directory, "--judge", "tiny", "--limit", "2"])
    assert found["verdicts"] == 4


def test_the_rubric_can_be_edited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_captrial(["judge", "rubric"])
    printed = capsys.readouterr().out
    assert printed == RUBRICS["pairs"]
    run_captrial(["judge", "rubric", "--mode", "grade"])
    assert capsys.readouterr().out == RUBRICS["grade"]
    (tmp_path / "r.txt").write_text(printed + "Prefer captions that name colours.\n")
    directory = str(make_competition(tmp_path).directory)
    with serving() as server:
        run_captrial(["judge", "run", directory, "--judge", f"{server.base}#t", "--rubric", str(tmp_path / "r.txt")])
        assert "name colours" in server.requests[0]["messages"][0]["content"]


def vote(directory: str, count: int) -> None:
    """People prefer `plain` on nine of ten images."""
    lines = [
        {"image": str(n), "model_a": "plain", "model_b": "wrong", "preferred": "wrong" if n % 10 == 3 else "plain"}
        for n in range(count)
    ]
    (Path(directory) / "judgements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_rank_and_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = str(make_competition(tmp_path, 120).directory)
    references = str(tmp_path / "references.json")
    assert ending(["judge", "rank", directory]) == 2
    assert "captrial judge run" in capsys.readouterr().err
    with serving(SimulatedJudge(accuracy=0.9, position_bias=0.2)) as server:
        run_captrial(["judge", "run", directory, "--judge", f"{server.base}#tiny"])
    assert ending(["judge", "rank", directory]) == 2
    assert "JUDGE ONLY" in capsys.readouterr().err
    run_captrial(["judge", "rank", directory, "--judge-only"])
    assert capsys.readouterr().out.count("JUDGE ONLY") >= 2
    assert ending(["judge", "compare", directory]) == 2
    vote(directory, 30)
    found = answer(capsys, ["judge", "rank", directory])
    assert (found["judge_only"], found["votes"], found["items"]) == (False, 30, 120)
    assert found["ranking"][0]["model"] == "plain"  # type: ignore[index]
    run_captrial(["judge", "compare", directory])
    assert "too few to tell" in capsys.readouterr().out
    vote(directory, 80)
    compared = answer(capsys, ["judge", "compare", directory, "--metrics", "cider,bleu", "--references", references])
    judges = {one["name"]: one for one in compared["judges"]}  # type: ignore[attr-defined]
    assert set(judges) == {"tiny", "cider", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "longer caption"}
    assert judges["tiny"]["enough"]
    assert judges["tiny"]["position_bias"]["low"] > 0
    run_captrial(["judge", "rank", directory])
    assert "Settled" in capsys.readouterr().out


PAGE = Path(__file__).parents[2] / "docs" / "judges.md"


def sees(folder: Path) -> Faults:
    """Knows which caption has more words in common with the references of its image; ties are ties."""
    read = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("mine", "theirs", "references")}
    images = {frozenset((read["mine"][image], read["theirs"][image])): image for image in read["references"]}
    judge = SimulatedJudge(accuracy=0.9)

    def likeness(caption: str, image: str) -> float:
        words, others = set(caption.split()), [set(text.split()) for text in read["references"][image]]
        return max(len(words & other) / len(words | other) for other in others)

    def answer(_: int, body: dict[str, Any]) -> ServerFault:
        said = re.findall(r"^The (?:first|second) caption: (.*)$", body["messages"][1]["content"][0]["text"], re.M)
        first, second = map(json.loads, said)
        like = [likeness(caption, images[frozenset((first, second))]) for caption in (first, second)]
        choice = "tie" if like[0] == like[1] else judge.choose(first, second, like[0] > like[1])
        return ServerFault(text=json.dumps({"reason": "simulated", "better": choice}))

    return answer


def test_the_page_opens_with_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`CAPTRIAL_WRITE_PAGES=1 pytest tests/cli/test_judge.py` puts it there."""
    commands = re.search(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert commands is not None
    lines = [line.split() for line in commands[1].splitlines()]
    assert lines[:2] == [["captrial", "sample", "try"], ["cd", "try"]]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run_captrial(["sample", "try"])
    monkeypatch.chdir(tmp_path / "try")
    with serving(faults=sees(tmp_path / "try")) as server:
        for line in lines[2:]:
            capsys.readouterr()
            run_captrial([word.replace("http://127.0.0.1:8000/v1", server.base) for word in line[1:]])
    printed = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
    before, shown, after = re.split(
        r"(?<=<!-- output -->\n```text\n)(.*?)(?=```)", PAGE.read_text(), maxsplit=1, flags=re.DOTALL
    )
    if os.environ.get("CAPTRIAL_WRITE_PAGES"):
        PAGE.write_text(before + printed + after)
    else:
        assert shown == printed


def test_nothing_to_ask_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_competition(tmp_path).directory
    for path in (tmp_path / "images").iterdir():
        path.unlink()
    with serving() as server:
        assert ending(["judge", "run", str(directory), "--judge", f"{server.base}#tiny"]) == 1
    assert "nothing could be asked" in capsys.readouterr().err
