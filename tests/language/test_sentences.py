from __future__ import annotations

import pytest

from captrial.language.sentences import first_sentence, first_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog runs.", "A dog runs."),
        ("A dog runs. It is brown.", "A dog runs."),
        ("a dog runs. it is brown.", "a dog runs."),
        ("A dog runs! Really?", "A dog runs!"),
        ("A dog on St. Mark's square. Sunny.", "A dog on St. Mark's square."),
        ("A house on Main St. A car passes.", "A house on Main St."),
        ("John F. Kennedy waves. Crowd.", "John F. Kennedy waves."),
        ("Plan B. The dog sleeps.", "Plan B."),
        ("A sign that says “stop.” It is red.", "A sign that says “stop.”"),
        ('A sign that says "Stop!" in red. It is new.', 'A sign that says "Stop!" in red.'),
        ("A dog, 3.5 metres away", "A dog, 3.5 metres away"),
        ("A dog runs\nIt is brown", "A dog runs"),
        ("  ", ""),
        ("A dog vs. a cat.", "A dog vs. a cat."),
        ("A dog vs. a cat. It barks.", "A dog vs. a cat."),
        ("A flag of the USA. It waves.", "A flag of the USA."),
        ("A flag of the U.S. It waves.", "A flag of the U.S."),
        ("A U.S. Army truck. It is green.", "A U.S. Army truck."),
        ("A man watching TV. He sits.", "A man watching TV."),
        ("Mr. Smith smiles. He waves.", "Mr. Smith smiles."),
        ("A cat, e.g. a tabby. It sits.", "A cat, e.g. a tabby."),
        ("Apples, pears, etc. on a table. A cup.", "Apples, pears, etc. on a table."),
        ("Apples, pears, etc. There is a cup.", "Apples, pears, etc."),
        ("The clock shows 5 p.m. on a tower. Birds fly.", "The clock shows 5 p.m. on a tower."),
        ("Platform no. 9. A train.", "Platform no. 9."),
        ("A work of art. It hangs on a wall.", "A work of art."),
        ("A dog ... and a cat. Both sleep.", "A dog ... and a cat."),
        ("1. A dog runs. 2. It barks.", "1. A dog runs."),
    ],
)
def test_first_sentence(text: str, expected: str) -> None:
    assert first_sentence(text) == expected


def test_first_words() -> None:
    assert first_words("A big  dog runs.", 2) == "A big"
    assert first_words("A big dog", 9) == "A big dog"
