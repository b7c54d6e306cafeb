from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from captrial.language.morphology import always_nouns, not_nouns, singular_forms
from captrial.language.nouns import analyse, nouns, pipeline, pipeline_version
from captrial.language.tokenizer import tokenize_all

CAPTIONS = [
    "Two men riding brown horses on the beach.",
    "A woman with sunglasses and her children are eating cookies.",
    "People looking at vases, knives and a pair of scissors on the shelves.",
    "The geese and the sheep are near some buses.",
    "Someone is holding something.",
    "a man standing in the snow with his skis",
    "A dog.",
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path))


def spacy_nouns(doc: Any) -> list[int]:
    """Indices of spaCy's nouns after our two lists of exceptions."""
    tagged = (token for token in doc if token.pos_ in ("NOUN", "PROPN") or token.text in always_nouns())
    return [token.i for token in tagged if token.text not in not_nouns()]


def full_pipeline(texts: list[str]) -> list[Any]:
    """What spaCy says with all its own rules, on our tokens."""
    from spacy.tokens import Doc

    nlp = pipeline()
    return list(nlp.pipe(Doc(nlp.vocab, words=tokens.split()) for tokens in tokenize_all(texts)))


def test_nouns_are_singular_and_in_order() -> None:
    assert nouns(CAPTIONS) == [
        ["man", "horse", "beach"],
        ["woman", "sunglasses", "child", "cookie"],
        ["person", "vase", "knife", "pair", "scissors", "shelf"],
        ["goose", "sheep", "bus"],
        [],
        ["man", "snow", "ski"],
        ["dog"],
    ]


def test_analysis_is_aligned_with_our_tokens() -> None:
    (one,) = analyse(["A young woman rides two big horses!"])
    assert one.tokens == ("a", "young", "woman", "rides", "two", "big", "horses")
    assert one.tags == ("DT", "JJ", "NN", "VBZ", "CD", "JJ", "NNS")
    assert one.lemmas == ("a", "young", "woman", "ride", "two", "big", "horse")
    assert one.nouns == (2, 6)
    assert one.phrases == ((0, 3), (4, 7))


def test_texts_without_words() -> None:
    assert nouns(["", "...", "a dog"]) == [[], [], ["dog"]]
    assert analyse([]) == []
    assert analyse(["!"])[0].phrases == ()


def test_both_depths_agree_and_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = analyse(CAPTIONS)
    monkeypatch.setattr("captrial.language.nouns.pipeline", pytest.fail)  # only the cache may answer, without spaCy
    pipeline_version.cache_clear()
    assert analyse(CAPTIONS) == parsed
    assert nouns(CAPTIONS) == [list(one.noun_lemmas) for one in parsed]


def test_the_cache_depends_on_the_pipeline() -> None:
    assert pipeline().meta["version"] in pipeline_version()
    assert "spacy" in pipeline_version()


def test_same_nouns_and_phrases_as_spacys_own_rules() -> None:
    for one, doc in zip(analyse(CAPTIONS), full_pipeline(CAPTIONS), strict=True):
        spacy = spacy_nouns(doc)
        assert list(one.nouns) == spacy
        assert one.phrases == tuple(
            (c.start, c.end) for c in doc.noun_chunks if set(range(c.start, c.end)) & set(spacy)
        )


def test_the_repairs_are_lemmas_of_themselves() -> None:
    """No chain in the table, and no word that it both repairs and rejects."""
    forms = singular_forms()
    assert not [lemma for lemma in forms.values() if forms.get(lemma, lemma) != lemma]
    assert not set(forms) & not_nouns()
    assert not always_nouns() & not_nouns()


@pytest.mark.needs("data")
@pytest.mark.slow
def test_captions_of_coco(data: Path) -> None:
    annotations = orjson.loads((data / "coco/captions_val2017.json").read_bytes())["annotations"]
    captions = [one["caption"] for one in annotations[:800]]
    analyses = analyse(captions)
    same = 0
    for one, doc in zip(analyses, full_pipeline(captions), strict=True):
        spacy = spacy_nouns(doc)
        same += list(one.nouns) == spacy
    assert same >= 798  # the few others hang on the parse ("ca" in "ca n't")
    found = Counter(noun for one in analyses for noun in one.noun_lemmas)
    plurals = [noun for noun in found if noun.endswith("s") and noun[:-1] in found and noun not in singular_forms()]
    assert sum(found[noun] for noun in plurals) < 0.001 * found.total(), plurals


def test_every_token_has_a_lemma() -> None:
    """Odd tokens too: a lemma that spaCy leaves empty, or with blanks in it, must not shift those after it."""
    for analysis in analyse(["\u00d7_ dog", "a \u00a0 cat", "_ __ ___ men", "' '' ` dogs"], phrases=False):
        assert len(analysis.tokens) == len(analysis.tags) == len(analysis.lemmas)
