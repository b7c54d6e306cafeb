"""Our tokeniser against the COCO toolkit's own (Stanford's jar, through pycocoevalcap)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from captrial.language import tokenize_all

pytestmark = pytest.mark.needs("java")

# What captions are made of, and what people and programs put into them.
_ATOMS = r"""
    a b x s t n d m A B S X foo Foo don is US dog Dogs 1 2 5 10 12 1234 555 ' ' ’ ‘ ` " “ ” - - -- — . . . .. ... , , ;
    : ! ? / \ ( ) [ ] { } $ # @ % & &amp; * + = _ ~ ^ < > | n't 's 'll 're 've 'n inc Mr etc Ph.D st no fig U.S. e.g.
    a.m. Ill com .com .org www. http:// https:// me@a.org txt .jpg é ü 中 ½ ¼ ² € £ ¢ … ‐ cannot gonna wanna o' d' l'
    'em y'all '90s '90 'tis 'twas :) :-) :D ^_^ pm th nd &lt; &apos; &quot; &mdash; <b> </b> 😀 ❤ ٣ pro- anti- x_x C++
    AT&T M&M and/or 10:30 1,000 3.5 1/2 10-29-2011 (415) v. K. The A In t-shirt U.S.-led
"""
ATOMS = [*_ATOMS.split(), "\xad", "\u0301", "\xa0", "\t"]


def jar(captions: list[str]) -> list[str]:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    tokens: list[str] = PTBTokenizer().tokenize({0: [{"caption": caption} for caption in captions]})[0]
    return tokens


def every_caption(data: Path) -> Iterator[list[str]]:
    """The captions of every file under the data folder, in the order of the file."""
    images = json.loads((data / "flickr8k" / "dataset_flickr8k.json").read_text())["images"]
    yield [sentence["raw"] for image in images for sentence in image["sentences"]]
    yield [
        entry["caption"] for entry in json.loads((data / "coco" / "captions_val2017.json").read_text())["annotations"]
    ]
    for path in sorted((data / "captioners" / "karpathy_test").glob("*.json")):
        said = json.loads(path.read_text())
        yield (
            [caption for captions in said.values() for caption in captions]
            if isinstance(said, dict)
            else [entry["caption"] for entry in said]
        )
    scored = json.loads((data / "metrics_gold" / "coco_500.json").read_text())
    yield [caption for entry in scored for caption in (entry["caption"], *entry["refs"])]
    lines = (data / "metrics_gold" / "spice_tuples.jsonl").read_text().splitlines()
    yield [json.loads(line)["caption"] for line in lines]


def strange_captions(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    glue = ["", "", "", " "]
    return [
        "".join(chance.choice(ATOMS) + chance.choice(glue) for _ in range(chance.randint(1, 7))) for _ in range(count)
    ]


def differing(captions: list[str]) -> list[tuple[str, str, str]]:
    expected, ours = jar(captions), tokenize_all(captions, as_file=True)
    assert len(ours) == len(captions) == len(expected)
    return [row for row in zip(captions, expected, ours, strict=True) if row[1] != row[2]]


@pytest.mark.slow
@pytest.mark.needs("data")
def test_a_sample_of_captions(data: Path) -> None:
    captions = [caption for file in every_caption(data) for caption in file]
    plain = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ,.")
    odd = [caption for caption in captions if not plain.issuperset(caption)]
    assert differing([*captions[::40], *odd]) == []


@pytest.mark.slow
def test_strange_captions() -> None:
    assert differing(strange_captions(6_000, seed=0)) == []


@pytest.mark.slow
def test_captions_look_alike_without_neighbours() -> None:
    """With a line between any two captions, the jar cannot look from one into the next either."""
    captions = strange_captions(2_000, seed=1)
    apart = [line for caption in captions for line in (caption, "zz")]
    assert jar(apart)[::2] == tokenize_all(captions)


@pytest.mark.full
@pytest.mark.needs("data")
def test_every_caption(data: Path) -> None:
    assert [row for file in every_caption(data) for row in differing(file)] == []


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_strange_captions(seed: int) -> None:
    assert differing(strange_captions(40_000, seed)) == []
