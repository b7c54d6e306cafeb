from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.errors import InputError
from captrial.metrics.ngram.cider import cider
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from compete import synthetic

captions = st.lists(st.sampled_from(["a", "dog", "cat", "runs", "on", "the", "grass"]), max_size=7).map(" ".join)


images = st.lists(st.lists(captions, min_size=1, max_size=3), min_size=1, max_size=12)


@settings(max_examples=60)
@given(images, st.lists(st.integers(0, 3), min_size=12, max_size=12), st.randoms())
def test_document_frequencies_merge_exactly_in_any_order(
    known: list[list[str]], owner: list[int], random: object
) -> None:
    shards = [[of for of, who in zip(known, owner, strict=False) if who == shard] for shard in range(4)]
    tables = [DocumentFrequencies.of(shard) for shard in shards if shard]
    whole, merged = DocumentFrequencies.of(known), DocumentFrequencies.merge(tables)
    random.shuffle(tables)  # type: ignore[attr-defined]
    again = DocumentFrequencies.merge(tables)
    assert merged.images == again.images == whole.images
    assert merged.words == again.words or len({table.words for table in tables}) == 1
    found = merged.lookup(whole.keys, whole.words)
    for order in range(4):
        assert np.array_equal(merged.keys[order], again.keys[order])
        assert np.array_equal(merged.documents[order], again.documents[order])
        kept = whole.documents[order] > 0  # a word of nobody may stand in the vocabulary
        assert np.array_equal(merged.documents[order][found[order][kept]], whole.documents[order][kept])
        assert merged.documents[order].sum() == whole.documents[order].sum()


def test_merged_tables_score_as_the_whole_one(tmp_path: Path) -> None:
    texts = synthetic.captions(60, 1)
    known = [[text, f"{text} today"] for text in texts["truth"].values()]
    said = list(texts["model0"].values())
    tables = [DocumentFrequencies.of(known[start : start + 7]) for start in range(0, 60, 7)]
    tables[0].save(tmp_path / "one.npz")
    merged = DocumentFrequencies.merge([DocumentFrequencies.load(tmp_path / "one.npz"), *tables[1:]])
    one, other = cider(said, known), cider(said, known, merged)
    np.testing.assert_allclose(other.per_image, one.per_image, rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="no table"):
        DocumentFrequencies.merge([])


def saved(**changes: object) -> dict[str, object]:
    """The arrays of a table, some of them changed."""
    stream = io.BytesIO()
    DocumentFrequencies.of([["a dog runs", "a dog"], ["a cat"]]).write(stream)
    stream.seek(0)
    with np.load(stream) as file:
        arrays = dict(file)
    for name, value in changes.items():
        arrays[name] = value(arrays[name]) if callable(value) else value
    return arrays


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"images": np.array(-5)}, "-5 images"),
        ({"images": np.array(0)}, "0 images"),
        ({"images": np.array(float("nan"))}, "cannot convert float NaN"),
        ({"images": np.array(float("inf"))}, "infinity"),
        ({"images": np.array([1, 2])}, "not a table"),
        ({"documents_1": lambda counts: -counts}, "counts outside 0 to 2"),
        ({"documents_2": lambda counts: counts + 2}, "counts outside 0 to 2"),
        ({"documents_1": lambda counts: counts.astype(float) * np.nan}, "no whole numbers"),
        ({"documents_1": lambda counts: counts[:-1]}, "n-grams, but"),
        ({"keys_2": lambda keys: keys[::-1]}, "out of order"),
        ({"keys_2": lambda keys: keys * 1000}, "unknown words"),
        ({"keys_3": lambda keys: keys - 100}, "unknown words"),
        ({"keys_1": lambda keys: keys.reshape(-1, 1)}, "no whole numbers"),
        ({"words": np.frombuffer(b"\xff\xfe", np.uint8)}, "not a table"),
        ({"format": np.array("another")}, "another format"),
        ({"format": np.zeros((50, 50))}, "another format"),
    ],
)
def test_tables_that_contradict_themselves_are_refused(changes: dict[str, object], reason: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "table.npz", **saved())
    assert DocumentFrequencies.load(tmp_path / "table.npz").images == 2
    np.savez(tmp_path / "table.npz", **saved(**changes))
    with pytest.raises(InputError, match=reason):
        DocumentFrequencies.load(tmp_path / "table.npz")


def test_damaged_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    DocumentFrequencies.of([["a dog runs", "a dog"], ["a cat"]]).save(path)
    content = path.read_bytes()
    for length in range(0, len(content), 31):
        path.write_bytes(content[:length])
        with pytest.raises(InputError, match="not a table of document frequencies"):
            DocumentFrequencies.load(path)
    path.unlink()
    with pytest.raises(InputError, match="No such file"):
        DocumentFrequencies.load(path)
