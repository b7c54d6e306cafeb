"""The sentence encoder: equal to the plain loop, the same in any batch, nothing truncated, kept on disk."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from captrial.errors import InputError, MissingExtraError
from captrial.metrics.semantic.sentence_encoder import SentenceEncoder

pytestmark = [pytest.mark.needs("minilm"), pytest.mark.slow]
TEXTS = [
    "A man rides a horse.",
    "Someone is riding an animal.",
    "Two pizzas on a table",
    "a",
    "",
    "A dog, a cat & a 犬.",
]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))


def plain(texts: list[str]) -> np.ndarray:
    """The model as its card describes it: one padded batch in float32, mean pooling, unit length."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = SentenceEncoder().folder
    inputs = AutoTokenizer.from_pretrained(folder)(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = AutoModel.from_pretrained(folder).eval()(**inputs).last_hidden_state
    mask = inputs["attention_mask"][..., None].float()
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()


def test_vectors_are_those_of_the_plain_loop() -> None:
    cosines = (SentenceEncoder().encode(TEXTS) * plain(TEXTS)).sum(axis=1)
    np.testing.assert_allclose(cosines, 1, atol=5e-4)  # bfloat16 where the processor has it


def test_a_text_has_the_same_bits_in_any_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"{text} number {n}" for n in range(30) for text in TEXTS]
    together = SentenceEncoder().encode(many)
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "another"))
    encoder = SentenceEncoder()
    alone = np.concatenate([encoder.encode([text]) for text in many[:20]])
    assert (together[:20] == alone).all()
    assert (encoder.encode([*many[::-1]])[::-1] == together).all()


@pytest.mark.parametrize("length", [1, 7, 100])
def test_neither_batch_nor_threads_change_a_bit_before_vectors_are_rounded(length: int) -> None:
    import torch

    encoder = SentenceEncoder()
    same = [f"{word} " * length for word in ("dog", "cat", "man")]
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append([of.vectors for of in encoder.encode_tokens(same)])
            found.append([encoder.encode_tokens([text])[0].vectors for text in same])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all((one == two).all() for one, two in zip(found[0], other, strict=True))


def test_a_second_run_loads_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    first = SentenceEncoder().encode(TEXTS * 2)
    monkeypatch.setattr(import_module("captrial.metrics.semantic.sentence_encoder"), "_Network", None)
    assert (SentenceEncoder().encode(TEXTS * 2) == first).all()
    with pytest.raises(TypeError):  # a text that is not stored needs the model
        SentenceEncoder().encode(["another text"])


def test_the_end_of_a_long_text_counts() -> None:
    encoder = SentenceEncoder()
    start = "a street with cars and houses and people " * 60  # about 480 tokens; the model reads 256
    ends = [start + "and one elephant " * 20, start + "and a red bicycle " * 20]
    vectors = encoder.encode([*ends, "one elephant"])
    assert vectors[0] @ vectors[2] > vectors[1] @ vectors[2] + 0.05
    tokens = encoder.encode_tokens(ends[:1])[0]
    assert ends[0][slice(*tokens.spans[-1])] == "elephant"
    assert len(tokens.vectors) == len(tokens.spans) > 500


def test_models_by_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(SentenceEncoder().folder, folder)
    given = SentenceEncoder(str(folder))
    assert (given.encode(TEXTS) == SentenceEncoder().encode(TEXTS)).all()
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    assert not np.allclose(SentenceEncoder(str(folder)).encode(["a dog"]), given.encode(["a dog"]), atol=0.01)
    pooling.write_text(json.dumps({"pooling_mode_lasttoken": True}))
    with pytest.raises(InputError, match="pools by pooling_mode_lasttoken; mean and CLS"):
        SentenceEncoder(str(folder)).encode(["a dog"])
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Dense"}]))
    with pytest.raises(InputError, match="a module Dense"):
        SentenceEncoder(str(folder)).encode(["a cat"])
    with pytest.raises(InputError, match="no such folder"):
        SentenceEncoder("./not/there")


def test_pooling_as_sentence_transformers_writes_it_now(tmp_path: Path) -> None:
    folder = shutil.copytree(SentenceEncoder().folder, tmp_path / "model")
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"pooling_mode_cls_token": True}))
    cls = SentenceEncoder(str(folder)).encode(TEXTS)
    for named in ("cls", ["cls"]):
        pooling.write_text(json.dumps({"embedding_dimension": 384, "pooling_mode": named}))
        assert (SentenceEncoder(str(folder)).encode(TEXTS) == cls).all()
    for other in ("lasttoken", ["mean", "max"], 3):
        pooling.write_text(json.dumps({"pooling_mode": other}))
        with pytest.raises(InputError, match="mean and CLS pooling are supported"):
            SentenceEncoder(str(folder))


def test_a_model_that_says_no_length_and_counts_positions_from_behind_the_padding(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, RobertaConfig, RobertaModel

    tokenizer = AutoTokenizer.from_pretrained(SentenceEncoder().folder)
    tokenizer.model_max_length = 10**30  # as transformers writes "not known"
    tokenizer.save_pretrained(tmp_path)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = RobertaConfig(**sizes, vocab_size=len(tokenizer), max_position_embeddings=34, pad_token_id=1)
    RobertaModel(config).save_pretrained(tmp_path)
    encoder = SentenceEncoder(str(tmp_path))
    assert len(encoder.encode_tokens(["a dog " * 100])[0].vectors) == 200  # in windows of 32, none of them too long
    assert np.isfinite(encoder.encode(["a dog " * 100])).all()


def test_half_a_surrogate_pair_is_a_sign_like_any_other() -> None:
    encoder = SentenceEncoder()
    assert (encoder.encode(["a\ud800b"]) == encoder.encode(["a?b"])).all()
    spans = encoder.encode_tokens(["a dog \ud800 runs"])[0].spans
    assert "a dog \ud800 runs"[slice(*spans[-1])] == "runs"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"captrial\[semantic\]"):
        SentenceEncoder()
