"""`make bench` finds every benchmark, each waits to be called, and one that fails does not hide the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks.measuring import compare

ROOT = Path(__file__).resolve().parent.parent
SHARED = ("__init__", "annotator_load", "stage_costs")  # parts of benchmarks
NAMES = sorted(
    f"{path.parent.name}.{path.stem}" for path in (ROOT / "benchmarks").glob("*/*.py") if path.stem not in SHARED
)
COMPARING = (
    "parity.attribution, parity.spice, parity.training_ranks, speed.annotate, speed.backbone, speed.busy_machine, "
    "speed.caption_files, "
    "speed.datasets, speed.decoding, speed.explain, speed.explain_photo, speed.meteor, speed.metrics, speed.pool, "
    "speed.scale, "
    "speed.selection, speed.semantic, speed.serving, speed.tokenizer, speed.toyworld, speed.training_step, speed.vlm"
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


def test_an_unknown_one_gets_the_list_of_all_that_compare(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["nonsense"]) == 2
    assert capsys.readouterr().err == f"no benchmark 'nonsense'; there are {COMPARING}\n"


def test_one_that_fails_is_named_after_the_table_of_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [compare("errors", "the goal", 0, 0, ""), compare("decoding", "a peer", 26.0, 10.0, "captions/s")]
    monkeypatch.setattr(bench, "rows_of", {"speed.meteor": None, "speed.decoding": rows}.get)
    assert bench.main(["speed.meteor", "speed.decoding"]) == 1
    said = capsys.readouterr()
    assert said.err == "\nfailed: speed.meteor\n"
    for cell in ("26 captions/s", "10 captions/s", "2.6 x", "–"):
        assert cell in said.out


@pytest.mark.slow
def test_a_benchmark_gives_its_rows_from_a_process_of_its_own() -> None:
    done = run("-m", "benchmarks", "speed.datasets")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pycocotools' C") == 3


@pytest.mark.slow
def test_each_has_a_main_that_waits_to_be_called() -> None:
    code = f"import importlib\nfor name in {NAMES}: importlib.import_module(f'benchmarks.{{name}}').main"
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
