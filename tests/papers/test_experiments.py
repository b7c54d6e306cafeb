"""What `papers.json` declares: every table and figure of the papers, and numbers that agree with themselves."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.papers.claims import paired_claim, unpaired_claim
from captrial.papers.experiments import Experiment, load_papers

# Figure 1 of Wan 2022 plots the literature; all other figures are declared. `spearman` is a sentence of Liu 2017.
SHOWN = {
    "cornia": {"tables": 4, "figures": {1, 2, 3, 4, 5}, "more": set()},
    "wan": {"tables": 4, "figures": set(range(2, 13)), "more": set()},
    "liu": {"tables": 4, "figures": set(range(1, 7)), "more": {"spearman"}},
}


@pytest.mark.parametrize("name", SHOWN)
def test_every_table_and_figure_is_declared(name: str) -> None:
    shown, experiments = SHOWN[name], load_papers()[name].experiments
    wanted = {f"table-{number}" for number in range(1, shown["tables"] + 1)}
    wanted |= {f"figure-{number}" for number in shown["figures"]} | shown["more"]
    assert sorted(experiment.key for experiment in experiments) == sorted(wanted)
    for experiment in experiments:
        assert experiment.how, experiment.key
        assert (experiment.kind == "described") == bool(experiment.see), experiment.key
        assert experiment.printed or not experiment.key.startswith("table"), experiment.key


@pytest.mark.parametrize(
    "experiment", [e for paper in load_papers().values() for e in paper.experiments if e.printed], ids=str
)
def test_printed_tables_are_rectangular(experiment: Experiment) -> None:
    assert experiment.printed is not None
    assert {len(row) for row in experiment.printed.rows} == {len(experiment.printed.columns)}


@pytest.mark.parametrize("key", ["table-2", "table-3", "table-4"])
def test_grounding_scores_rise_with_delta_but_for_the_misprint(key: str) -> None:
    printed = load_papers()["cornia"].experiment(key).printed
    assert printed is not None
    assert len(printed.rows) == 18
    falling = []
    for row in printed.rows:
        values = [float(cell.rstrip("†")) for cell in row[3:]]
        if values != sorted(values):
            falling.append(row)
    marked = [row for row in printed.rows if any(cell.endswith("†") for cell in row)]
    assert falling == marked
    assert [row[:3] for row in marked] == ([("ViT", "SMArT", "Integrated Gradients")] if key == "table-4" else [])


@pytest.mark.parametrize("key", ["table-3", "table-4"])
def test_rank_changes_are_old_minus_new(key: str) -> None:
    printed = load_papers()["wan"].experiment(key).printed
    assert printed is not None
    assert all(int(old) - int(new) == int(change) for _, _, old, new, change in printed.rows)
    for column in (2, 3):
        assert sorted(int(row[column]) for row in printed.rows) == list(range(1, 10))
    scores = [float(row[1]) for row in printed.rows]
    assert scores == sorted(scores, reverse=True)


def test_gains_in_the_text_of_003_are_those_of_its_table() -> None:
    printed = load_papers()["liu"].experiment("table-1").printed
    assert printed is not None
    gains = [100 * (float(correct) - float(base)) for _, _, base, correct in printed.rows]
    assert gains == pytest.approx([6.22, 11.14, 12.07, 18.19], abs=0.02)


def test_a_claim_holds_fails_or_is_undecided_by_its_paired_interval() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 200)
    second, groups = np.full(200, 0.5) + noise, list(range(200))
    for lead, expected in ((0.1, True), (-0.1, False), (0.0005, None)):
        first = second + lead + np.random.default_rng(1).normal(0, 0.05, 200)
        claim = paired_claim("first is larger", first, second, groups)
        assert claim.holds is expected
        assert claim.mark == {True: "✓", False: "✗", None: "?"}[expected]
        assert ("undecided" in claim.seen) is (expected is None)
    assert paired_claim("one image says nothing", np.array([0.9]), np.array([0.1]), ["a"]).holds is None


def test_undecided_claims_are_rarely_decided_by_chance() -> None:
    """Two captioners that are equal: at most about 5% of the claims are decided."""
    decided = 0
    for seed in range(60):
        both = np.random.default_rng(seed).normal(0.5, 0.2, (2, 150))
        decided += paired_claim("", both[0], both[1], list(range(150)), seed).holds is not None
    assert decided <= 8


def test_no_drop_is_a_claim_with_a_margin() -> None:
    values = np.random.default_rng(0).normal(0.5, 0.05, 400)
    groups = [str(number // 10) for number in range(400)]
    same, lower = (values, groups), (values - 0.2, groups)
    assert unpaired_claim("no drop", same, same, 0.05).holds is True
    assert unpaired_claim("no drop", lower, same, 0.05).holds is False
