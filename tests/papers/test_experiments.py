"""What `papers.json` declares: every table and figure of the papers, and numbers that agree with themselves."""

from __future__ import annotations

import pytest

from captrial.papers.experiments import Experiment, load_papers

# Figure 1 of Wan 2022 plots the literature; all other figures are declared. `spearman` is a sentence of Liu 2017.
SHOWN = {
    "grounding": {"tables": 4, "figures": {1, 2, 3, 4, 5}, "more": set()},
    "mad": {"tables": 4, "figures": set(range(2, 13)), "more": set()},
    "attention": {"tables": 4, "figures": set(range(1, 7)), "more": {"spearman"}},
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
    printed = load_papers()["grounding"].experiment(key).printed
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
    printed = load_papers()["mad"].experiment(key).printed
    assert printed is not None
    assert all(int(old) - int(new) == int(change) for _, _, old, new, change in printed.rows)
    for column in (2, 3):
        assert sorted(int(row[column]) for row in printed.rows) == list(range(1, 10))
    scores = [float(row[1]) for row in printed.rows]
    assert scores == sorted(scores, reverse=True)


def test_gains_in_the_text_of_003_are_those_of_its_table() -> None:
    printed = load_papers()["attention"].experiment("table-1").printed
    assert printed is not None
    gains = [100 * (float(correct) - float(base)) for _, _, base, correct in printed.rows]
    assert gains == pytest.approx([6.22, 11.14, 12.07, 18.19], abs=0.02)
