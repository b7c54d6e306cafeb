"""Exports that are imported when first used: what is loaded, and functions with the name of their sub-package."""

from __future__ import annotations

import subprocess
import sys

import pytest

METRICS = ("spice", "meteor", "semantic")


def run(code: str) -> str:
    """What a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("name", METRICS)
def test_a_function_keeps_its_name_whatever_is_imported_first(name: str) -> None:
    print_it = f"import captrial.metrics; print(captrial.metrics.{name}.__name__, callable(captrial.metrics.{name}))"
    assert run(print_it) == f"{name} True"
    assert run(f"import captrial.metrics.{name}.{name}; {print_it}") == f"{name} True"
    assert run(f"from captrial.metrics import {name}; print(callable({name}))") == "True"


def test_a_score_by_n_grams_loads_no_parser_and_no_alignment() -> None:
    code = "import sys; import captrial.compete.ranking.pair_scores; from captrial.metrics import score\n"
    loaded = run(f"{code}print(*sorted(name for name in sys.modules if name.startswith('captrial.metrics')))").split()
    assert "captrial.metrics.ngram.cider" in loaded
    assert not [name for name in loaded if name.endswith((".wordlists", ".meteor.meteor", ".facts", ".clipscore"))]


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    import captrial.metrics

    with pytest.raises(AttributeError, match=r"captrial\.metrics.*'nonsense'"):
        captrial.metrics.nonsense  # noqa: B018
