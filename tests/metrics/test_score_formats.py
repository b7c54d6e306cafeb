"""Tables of scores: who beats how many, by how much, and values as the registry shows them."""

from __future__ import annotations

from captrial.metrics import score
from captrial.metrics.score_formats import comparisons, differences, shown, winner, wins

REFERENCES = {str(n): [f"a dog runs over the grass {n % 7}", f"a brown dog on grass {n % 7}"] for n in range(40)}
GOOD = {image: texts[0] for image, texts in REFERENCES.items()}
SAME = dict(GOOD)
BAD = dict.fromkeys(REFERENCES, "two people sit in a boat")


def test_wins_and_differences_of_three_systems_agree_with_the_tests() -> None:
    table = score({"good": GOOD, "same": SAME, "bad": BAD}, REFERENCES, ["bleu_1"])
    tested = comparisons(table)
    assert {(row.first, row.second): winner(table, row) for row in tested} == {
        ("good", "same"): None, ("good", "bad"): "good", ("same", "bad"): "same"
    }  # fmt: skip
    assert wins(table, tested) == [["good", "1–1–0"], ["same", "1–1–0"], ["bad", "0–0–2"]]
    rows = {row[0]: row[1:] for row in differences(table, tested)}
    assert rows["good"][0] == ""
    assert rows["good"][1] == "+0.0"
    assert rows["bad"][0] == rows["bad"][1]
    assert rows["bad"][0].startswith("-")
    assert rows["good"][2] == rows["bad"][0].replace("-", "+")
    assert rows["good"][2].endswith("*")


def test_less_is_better_where_the_registry_says_so() -> None:
    stuttering = dict.fromkeys(REFERENCES, "a dog dog dog")
    table = score({"plain": GOOD, "stuttering": stuttering}, REFERENCES, ["repetition"])
    tested = comparisons(table)
    assert wins(table, tested) == [["plain", "1–0–0"], ["stuttering", "0–0–1"]]
    assert differences(table, tested)[1] == ["stuttering", "+100.0*", ""]


def test_values_have_the_scale_of_their_column() -> None:
    assert shown(0.25, "cider") == "25.0"
    assert shown(0.25, "nw", "+") == "+0.250"
