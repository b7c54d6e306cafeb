from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captrial.errors import InputError
from captrial.judges import EndpointPropositions
from captrial.judges.answers import BadAnswerError
from captrial.judges.endpoint_propositions import located, read_statements
from captrial.judges.simulated_judge import ServerFault
from captrial.metrics import fact_reports, score
from judges.judged_competition import serving


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))


def described(body: dict[str, Any]) -> str:
    return str(body["messages"][1]["content"]).partition("\n")[2]


def by_sentence(number: int, body: dict[str, Any]) -> ServerFault:
    """A model that lists the sentences of a description."""
    parts = [part.strip() for part in described(body).split(".") if part.strip()]
    rows = [{"statement": f"there is {part.lower()}", "quote": part} for part in parts]
    return ServerFault(text=f"Here you are:\n{json.dumps({'statements': rows})}")


def test_statements_come_with_the_words_that_say_them() -> None:
    text = "A  brown dog runs. A cat sleeps."
    with serving(faults=by_sentence) as server:
        [found, empty, again] = EndpointPropositions(f"{server.base}#tiny")([text, " ", text])
        assert len(server.requests) == 1  # each text once, nothing for an empty one
    assert [item.text for item in found] == ["there is a brown dog runs", "there is a cat sleeps"]
    assert [text[start:end] for start, end in found[0].words] == ["A", "brown", "dog", "runs."]
    assert [text[start:end] for start, end in found[1].words] == ["A", "cat", "sleeps."]
    assert (empty, again) == ([], found)


def test_a_second_run_asks_nothing_and_another_model_is_asked() -> None:
    with serving(faults=by_sentence) as server:
        first = EndpointPropositions(f"{server.base}#tiny")(["A dog."])
        assert EndpointPropositions(f"{server.base}#tiny")(["A dog."]) == first
        assert len(server.requests) == 1
        EndpointPropositions(f"{server.base}#other")(["A dog."])
        assert [body["model"] for body in server.requests] == ["tiny", "other"]


def test_an_answer_of_a_wrong_form_is_asked_for_again() -> None:
    def faults(number: int, body: dict[str, Any]) -> ServerFault:
        return ServerFault(text="I cannot.") if number == 0 else by_sentence(number, body)

    with serving(faults=faults) as server:
        [found] = EndpointPropositions(f"{server.base}#tiny")(["A dog."])
        assert len(server.requests) == 2
        assert server.requests[1]["messages"][2]["content"] == "I cannot."
    assert [item.text for item in found] == ["there is a dog"]


def test_a_model_that_never_answers_is_an_error_and_what_was_answered_is_kept() -> None:
    def faults(number: int, body: dict[str, Any]) -> ServerFault:
        return ServerFault(text="no") if described(body) == "A cat." else by_sentence(number, body)

    with serving(faults=faults) as server:
        extract = EndpointPropositions(f"{server.base}#tiny", concurrency=1)
        texts = [f"A dog {number}." for number in range(4)]
        with pytest.raises(InputError, match=r"tiny gave no propositions of 'A cat\.' in 3 answers"):
            extract([*texts, "A cat."])  # four texts are one part, the cat is in the next
        asked = len(server.requests)
        extract(texts)
        assert len(server.requests) == asked


def test_a_quote_that_is_not_in_the_text_gives_the_words_of_the_statement() -> None:
    [found] = located(
        "A dog on a bed.", json.dumps({"statements": [{"statement": "the dog sleeps", "quote": "sleeping dog"}]})
    )
    assert found.words == ((2, 5),)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(
    st.sampled_from(["statements", "statement", "quote", "x"]), of)).map(json.dumps))  # fmt: skip
def test_any_answer_is_read_or_refused(answer: str) -> None:
    try:
        found = read_statements(answer)
    except BadAnswerError:
        return
    assert all(statement for statement, _ in found)
    for item in located("A dog on a bed.", answer):
        assert all(0 <= start < end <= 15 for start, end in item.words)


@pytest.mark.needs("minilm")
@pytest.mark.slow
def test_facts_and_its_reports_take_them() -> None:
    caption, references = "A man rides a horse. A cat sleeps.", ["A man rides a horse."]
    with serving(faults=by_sentence) as server:
        extract = EndpointPropositions(f"{server.base}#tiny")
        [report] = fact_reports([caption], [references], extract=extract)
        table = score({"1": caption}, {"1": references}, ["facts"], extract=extract)
    [mistake] = report.mistakes()
    assert [caption[start:end] for start, end in mistake.proposition.words] == ["A", "cat", "sleeps."]
    assert table.to_dict()["system"]["facts_recall"] == pytest.approx(1, abs=1e-3)
    assert any(note.startswith("propositions by tiny, compared by") for note in table.notes)
