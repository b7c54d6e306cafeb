"""Every function of captrial that parses a file is run by a case of `test_fuzzing`, or stands below with a reason."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import captrial
from malformed import malformed
from test_fuzzing import CASES

SOURCE = Path(captrial.__file__).parent
PARSERS = {
    "json.load", "json.loads", "orjson.loads", "csv.reader", "csv.DictReader", "ElementTree.fromstring", "read_json",
    "pickle.load", "pickle.loads", "np.load", "np.fromfile", "np.memmap", "read_npz", "map_npy", "NpzArchive",
    "torch.load", "load_file", "safe_open", "h5py.File", "Image.open", "pq.read_table", "pq.ParquetFile",
    "pa.parquet.ParquetFile", "pyarrow.parquet.read_table", "tarfile.open", "zipfile.ZipFile", "ZipFile", "gzip.open",
    "sqlite3.connect", "yaml.safe_load",
}  # fmt: skip
SHIPPED = "reads a file of the package"
WHEEL = "reads a file of an installed wheel, which its checksum or the installation vouches for"
OWN = "reads what this or a parent process wrote a moment before"
CACHED = "its values come through the text cache, which is fuzzed"
WRITES = "writes"
NOT_FUZZED = {
    "annotate/database/transactions:copy_to": WRITES,
    "annotate/live_ranking:_in_subprocess": OWN,
    "annotate/service:last_address": "a setting of a database, whose values only this service writes",
    "captioners/published:read_options": "values of --set, which test_hostile_options attacks",
    "captioners/registry:shipped_notes": SHIPPED,
    "data/datasets/webdataset:_next_shard": WRITES,
    "demo/demo_page:write_demo_page": OWN,
    "demo/demonstration:run": OWN,
    "demo/photograph_trial:photograph_references": SHIPPED,
    "demo/photograph_trial:read_photograph_trial": OWN,
    "engines/jobs/ground:read_sample": OWN,
    "engines/local:_load_job": OWN,
    "engines/ray:__call__": OWN,
    "engines/ray:do": OWN,
    "grounding/score:_calibration": SHIPPED,
    "judges/judging:_cached": CACHED,
    "judges/simulated_judge:_text": OWN,
    "judges/simulated_judge:do_POST": OWN,
    "language/vectors:words": WHEEL,
    "metrics/meteor/resources:_load": WHEEL,
    "metrics/semantic/propositions:_read": CACHED,
    "metrics/spice/spice:scene_tuples": CACHED,
    "metrics/wordnet:read_wordnet": WHEEL,
    "papers/experiments:load_papers": SHIPPED,
    "vision/backbones/efficientnet:_read": WHEEL,
}


def readers() -> dict[tuple[str, int], str]:
    """The functions that call a parser: file and first line -> `module:function`."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for function in _functions(ast.parse(path.read_text())):
            if any(_is_parser(node) for node in _own_nodes(function)):
                line = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
                found[str(path), line] = f"{path.relative_to(SOURCE).with_suffix('').as_posix()}:{function.name}"
    return found


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _own_nodes(child)


def _is_parser(node: ast.AST) -> bool:
    """Whether a parser is called, or handed on, as in `map(orjson.loads, lines)`."""
    return isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in PARSERS


def forget() -> None:
    """Empty what functions remember from other tests, so that readers read again."""
    for name, module in list(sys.modules.items()):
        if name.startswith("captrial."):
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def run_by_cases() -> set[tuple[str, int]]:
    called: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    for case in CASES.values():
        files = case.files()
        with malformed(files, []) as folder:
            before = sys.getprofile()
            sys.setprofile(note)
            try:
                case.read(folder)
            finally:
                sys.setprofile(before)
    return called


@pytest.mark.slow
def test_every_reader_is_fuzzed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path))
    forget()
    found, called = readers(), run_by_cases()
    missing = {name for place, name in found.items() if place not in called}
    assert not missing - set(NOT_FUZZED), "add a line to CASES of test_fuzzing, or a reason to NOT_FUZZED"
    # A case may come by a file of the package as well, depending on what is cached: only names that are gone fail.
    assert not set(NOT_FUZZED) - set(found.values()), "these are no readers any more: remove them from NOT_FUZZED"
