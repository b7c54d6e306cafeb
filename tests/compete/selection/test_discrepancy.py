"""Selection against full sorts: ties abound, and neither workers, blocks nor input order may matter."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.compete.selection.discrepancy import RankedImages, SearchOptions, merge, select, select_diverse
from captrial.compete.selection.registry import CaptionSimilarity
from captrial.compete.storage.caption_pool import CaptionPool
from captrial.compete.storage.selection_files import PairSelection
from captrial.errors import InputError
from compete import exact_selection

SYSTEMS = ["ER-SAN", "PureT-SCST", "Vinyals-et-al-2017", "Mun-et-al-2017"]


def split(texts: list[str]) -> list[str]:
    return texts


def as_pairs(found: list[PairSelection]) -> dict[tuple[str, str], list[tuple[str, float]]]:
    return {
        pair.models: [
            *zip(pair.images, pair.similarity, strict=True),
            *zip(pair.reserve, pair.reserve_similarity, strict=True),
        ]
        for pair in found
    }


caption = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6).map(" ".join)


@st.composite
def pools(draw: st.DrawFn) -> dict[str, dict[str, str]]:
    images = draw(st.lists(st.integers(0, 10**6).map(str), min_size=1, max_size=25, unique=True))
    models = ["A", "B", "C"][: draw(st.integers(2, 3))]
    return {model: {image: draw(caption) for image in images} for model in models}


@settings(max_examples=60, deadline=None)
@given(pools(), st.integers(1, 8), st.integers(1, 9), st.integers(1, 3), st.integers(0, 5), st.randoms())
def test_equals_a_full_sort(captions, k, block, workers, seed, random) -> None:  # type: ignore[no-untyped-def]
    images = list(captions["A"])
    random.shuffle(images)
    shuffled = {model: [texts[image] for image in images] for model, texts in captions.items()}
    found = select(
        CaptionPool(images, shuffled, block=block), k, options=SearchOptions(seed=seed, workers=workers, tokenize=split)
    )
    tokens = {model: {image: text.split() for image, text in texts.items()} for model, texts in captions.items()}
    assert as_pairs(found) == exact_selection.selection(tokens, k, seed)
    assert all(len(pair.images) == min(k, len(images)) for pair in found)


@pytest.mark.slow
def test_everything_tied_is_ordered_by_hash_alone() -> None:
    images = [f"{number}.jpg" for number in range(5000)]
    captions = {"A": ["a"] * 5000, "B": ["b"] * 5000}
    found = as_pairs(
        select(CaptionPool(images, captions, block=512), 30, options=SearchOptions(workers=2, tokenize=split))
    )
    tokens = {model: dict.fromkeys(images, texts[0].split()) for model, texts in captions.items()}
    assert found == exact_selection.selection(tokens, 30)


@pytest.mark.slow
@pytest.mark.needs("data")
@pytest.mark.parametrize("workers", [1, 3])
def test_real_captions(data: Path, workers: int) -> None:
    folder = data / "captioners" / "karpathy_test"
    captions = {
        name: {
            str(row["image_id"]): row["caption"].lower() for row in json.loads((folder / f"{name}.json").read_text())
        }
        for name in SYSTEMS
    }
    images = sorted(captions[SYSTEMS[0]], reverse=workers > 1)
    pool = CaptionPool(images, {name: [texts[p] for p in images] for name, texts in captions.items()}, block=1700)
    found = select(pool, 70, options=SearchOptions(workers=workers, tokenize=split))
    tokens = {name: {image: text.split() for image, text in texts.items()} for name, texts in captions.items()}
    assert as_pairs(found) == exact_selection.selection(tokens, 70)


def test_only_new_pairs_are_searched_when_asked() -> None:
    images = [str(number) for number in range(40)]
    captions = {name: [f"{name} sees {number % 7} things" for number in range(40)] for name in "xyz"}
    pool = CaptionPool(images, captions)
    everything = as_pairs(select(pool, 5, options=SearchOptions(tokenize=split)))
    fresh = as_pairs(select(pool, 5, options=SearchOptions([(0, 2), (1, 2)], tokenize=split)))
    assert fresh == {pair: everything[pair] for pair in [("x", "z"), ("y", "z")]}


def test_shards_merge_to_the_same_order() -> None:
    generator = np.random.default_rng(0)
    keys = generator.integers(0, 2, (60, 5)).astype(np.int64)
    ids, ties = np.array([f"{n:02}" for n in range(60)], object), generator.integers(0, 4, 60).astype(np.uint64)
    parts = [RankedImages(ids[at::4], keys[at::4], ties[at::4]) for at in range(4)]
    merged = merge([merge(parts[:2], 20), merge(parts[2:], 20)], 20)
    expected = sorted(range(60), key=lambda row: (*keys[row], ties[row], ids[row]))[:20]
    assert merged.ids.tolist() == [ids[row] for row in expected]


def test_another_similarity_keeps_ngsm_for_its_ties() -> None:
    pool = CaptionPool(["1", "2", "3"], {"A": ["a b", "a b", "a b"], "B": ["a b", "c d", "a d"]})
    lengths = select(
        pool, 3, options=SearchOptions(similarity=lambda first, second: [0.5] * len(first), tokenize=split)
    )[0]
    assert lengths.images == ("2", "3", "1")
    assert lengths.similarity == (0.5, 0.5, 0.5)


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="model B has 1 captions for 2 images"):
        CaptionPool(["1", "2"], {"A": ["a", "b"], "B": ["a"]})
    with pytest.raises(InputError, match="k must be at least 1"):
        select(CaptionPool(["1"], {"A": ["a"], "B": ["a"]}), 0)


def test_near_duplicates_are_passed_over() -> None:
    images = [str(number) for number in range(40)]
    one = ["red green blue black white"] * 20 + [f"one{number} two{number}" for number in range(20)]
    two = ["dog cat bird cow horse"] * 20 + [f"three{number} four{number}" for number in range(20)]
    pool = CaptionPool(images, {"A": one, "B": two}, block=7)
    plain = select(pool, 10, 0, SearchOptions(tokenize=split))[0]
    diverse = select_diverse(pool, 10, 5, SearchOptions(tokenize=split))[0]
    repeated = {image for image in images[:20] if image in (*diverse.images, *diverse.reserve)}
    assert len(repeated) == 1
    assert sum(image in images[:20] for image in plain.images) > 1
    order = select(pool, 40, 0, SearchOptions(tokenize=split))[0].images
    places = [order.index(image) for image in (*diverse.images, *diverse.reserve)]
    assert places == sorted(places)  # the order itself is unchanged
    assert (len(diverse.images), len(diverse.reserve)) == (10, 5)


def test_look_alike_images_are_passed_over() -> None:
    images = [str(number) for number in range(12)]
    captions = {name: [f"{name}{number} is here" for number in range(12)] for name in "AB"}
    looks = {image: 0xFFFF << 16 * (int(image) // 4) for image in images}
    found = select_diverse(
        CaptionPool(images, captions), 12, options=SearchOptions(tokenize=split), fingerprint=looks.get
    )[0]
    assert len(found.images) == 3


@pytest.mark.parametrize(
    ("similarity", "message"),
    [
        (lambda first, second: 0.5, "one number for each pair"),
        (lambda first, second: [0.5], "one number for each pair"),
        (lambda first, second: [0.5, np.nan], "image 2: nan cannot be a similarity"),
        (lambda first, second: [0.5, 1e7], "image 2: 10000000.0 cannot be a similarity"),
    ],
)
def test_a_similarity_that_makes_no_sense_is_said(similarity: CaptionSimilarity, message: str) -> None:
    pool = CaptionPool(["1", "2"], {"A": ["a dog", "a cat"], "B": ["a dog", "a tree"]})
    with pytest.raises(InputError, match=message):
        select(pool, 1, options=SearchOptions(similarity=similarity, tokenize=split))
