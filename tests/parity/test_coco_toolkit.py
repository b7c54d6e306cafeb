"""BLEU-1..4, ROUGE-L and CIDEr from raw captions, equal to pycocoevalcap with its Java tokeniser: corpus and images."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from captrial.data import read_captions, read_references
from captrial.metrics import score

SYSTEMS = [
    "ER-SAN",
    "ETN-RL",
    "GAT",
    "Mun-et-al-2017",
    "Paddle-UpDown",
    "PureT-SCST",
    "SATIC",
    "Shetty-et-al-2017",
    "Vinyals-et-al-2017",
]
PUBLISHED = {  # by the original Java tools, x100, of this very split
    "PureT-SCST": {"bleu_1": 82.1, "bleu_4": 40.9, "rouge_l": 60.1, "cider": 138.2},
    "Paddle-UpDown": {"bleu_1": 76.1, "bleu_4": 35.0, "rouge_l": 56.2, "cider": 110.7},
}
WITHIN = 1e-10

pytestmark = pytest.mark.needs("java", "data")


def tokenized(texts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """By the Java tokeniser."""
    return PTBTokenizer().tokenize({key: [{"caption": text} for text in row] for key, row in texts.items()})


def theirs(captions: Mapping[str, str], references: Mapping[str, list[str]]) -> dict[str, tuple[float, np.ndarray]]:
    """Corpus and image values of the toolkit, by our names; references come tokenised."""
    candidates = tokenized({key: [text] for key, text in captions.items()})
    totals, images = Bleu(4).compute_score(references, candidates, verbose=0)
    found = {f"bleu_{n + 1}": (totals[n], np.array(images[n])) for n in range(4)}
    found["rouge_l"] = Rouge().compute_score(references, candidates)
    found["cider"] = Cider().compute_score(references, candidates)
    return found


def check(data: Path, systems: Sequence[str], images: slice) -> None:
    folder = data / "captioners" / "karpathy_test"
    references = dict(list(read_references(folder / "references.json").items())[images])
    captions = {name: read_captions(folder / f"{name}.json").to_dict() for name in systems}
    captions = {name: {image: said[image] for image in references} for name, said in captions.items()}
    ours = score(captions, references, metrics=["bleu", "rouge", "cider"])
    cooked = tokenized(references)
    for name in systems:
        for column, (total, per_image) in theirs(captions[name], cooked).items():
            found = ours.scores[name][column]
            assert found.corpus == pytest.approx(total, abs=WITHIN), (name, column)
            np.testing.assert_allclose(found.per_image, per_image, atol=WITHIN, err_msg=f"{name} {column}")


@pytest.mark.slow
def test_two_systems_on_some_images(data: Path) -> None:
    check(data, ["PureT-SCST", "Shetty-et-al-2017"], slice(0, 500))


@pytest.mark.full
def test_nine_systems_on_all_images(data: Path) -> None:
    check(data, SYSTEMS, slice(None))


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values(data: Path, name: str) -> None:
    folder = data / "captioners" / "karpathy_test"
    captions, references = (
        json.loads((folder / f"{name}.json").read_bytes()),
        read_references(folder / "references.json"),
    )
    said = {str(row["image_id"]): row["caption"] for row in captions}
    found = score(said, references, metrics=["bleu", "rouge", "cider"]).to_dict()["system"]
    for column, value in PUBLISHED[name].items():
        assert round(100 * (found[column] or 0), 1) == value
