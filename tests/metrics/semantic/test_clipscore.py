"""CLIPScore: the formula on given vectors, and the whole path on a tiny random checkpoint written here."""

from __future__ import annotations

import json
import shutil
import string
from pathlib import Path

import numpy as np
import pytest

from captrial.errors import ImageError, InputError
from captrial.metrics import Corpus, clip_score
from captrial.metrics.semantic.clipscore import PROMPT, ClipCheckpoint, ClipEncoder, ClipState, clip_values


def test_formula() -> None:
    seen = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    said = np.array([[0.6, 0.8], [-1.0, 0.0], [1.0, 0.0]])
    known = np.array([[1.0, 0.0], [0.6, 0.8], [1.0, 0.0], [-1.0, 0.0]])
    values = clip_values(seen, said, known, np.array([2, 1, 1]))
    np.testing.assert_allclose(values["clip_score"], [2.5 * 0.6, 0.0, 0.0])
    # best reference cosine 1, so 2 * 1.5 * 1 / 2.5; nothing positive: 0
    np.testing.assert_allclose(values["ref_clip_score"], [1.2, 0.0, 0.0])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLIP of 32 dimensions with random weights, saved as transformers saves one."""
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("clip")
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    words = [chr(code) for code in range(33, 127)]
    vocabulary = {token: number for number, token in enumerate([*words, *(word + "</w>" for word in words)])}
    vocabulary |= {"<|startoftext|>": len(vocabulary), "<|endoftext|>": len(vocabulary) + 1}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    end = vocabulary["<|endoftext|>"]
    text = {**small, "vocab_size": len(vocabulary), "max_position_embeddings": 40, "eos_token_id": end}
    vision = {**small, "image_size": 32, "patch_size": 8}
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=32)
    transformers.CLIPModel(config).save_pretrained(folder)
    transformers.CLIPTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt")).save_pretrained(folder)
    size = {"crop_size": {"height": 32, "width": 32}, "size": {"shortest_edge": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "CLIPImageProcessor", **size}))
    return folder


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Path]:
    from PIL import Image

    rng = np.random.default_rng(0)
    paths = {name: tmp_path / f"{name}.png" for name in ("1", "2")}
    for path in paths.values():
        Image.fromarray(rng.integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(path)
    return paths


@pytest.mark.slow
def test_equals_the_model_called_by_hand(checkpoint: Path, images: dict[str, Path]) -> None:
    import torch
    from PIL import Image
    from transformers import AutoTokenizer, CLIPModel
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    corpus = Corpus(["1", "2"], ["a dog", "a cat"], [["a dog runs"], ["cats", "two"]])
    scores = clip_score(corpus, images=images, checkpoint=str(checkpoint))

    model, tokenizer = CLIPModel.from_pretrained(checkpoint), AutoTokenizer.from_pretrained(checkpoint)
    pixels = CLIPImageProcessorPil.from_pretrained(checkpoint)(
        images=[Image.open(path).convert("RGB") for path in images.values()], return_tensors="pt"
    )
    tokens = tokenizer([PROMPT + text for text in corpus.candidates], padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**pixels, **tokens)
    cosines = (output.image_embeds * output.text_embeds).sum(-1).numpy()
    np.testing.assert_allclose(scores.per_image, 2.5 * np.maximum(cosines, 0), atol=1e-6)
    assert set(scores.parts) == {"ref_clip_score"}
    assert np.isfinite(scores.parts["ref_clip_score"].corpus)


@pytest.mark.slow
def test_mistakes(checkpoint: Path, images: dict[str, Path], tmp_path: Path) -> None:
    corpus = Corpus(["1", "2"], ["a dog " * 100, ""], [["a"], ["b"]])  # longer than the model reads; empty
    assert np.isfinite(clip_score(corpus, images=images, checkpoint=str(checkpoint)).corpus)
    with pytest.raises(InputError, match="'2' has no image"):
        clip_score(corpus, images={"1": images["1"]}, checkpoint=str(checkpoint))
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"broken\.png"):
        clip_score(corpus, images={**images, "2": tmp_path / "broken.png"}, checkpoint=str(checkpoint))
    with pytest.raises(InputError, match="no transformers checkpoint"):
        clip_score(corpus, images=images, checkpoint=str(tmp_path))
    shutil.copytree(checkpoint, tmp_path / "other")
    (tmp_path / "other" / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match="is a bert, not a CLIP checkpoint"):
        ClipEncoder(str(tmp_path / "other"))


@pytest.mark.slow
def test_a_caption_longer_than_clip_reads_is_scored_in_chunks(checkpoint: Path) -> None:
    encoder = ClipEncoder(str(checkpoint))  # reads 40 tokens: a token a letter here, 14 of them for the prompt
    text = "one dog runs over green grass and two cats sleep"
    chunks = encoder._chunks(text)
    assert " ".join(chunks) == text
    assert len(chunks) > 1
    assert encoder._chunks("a dog") == ["a dog"]
    weights = np.array([len(chunk.split()) for chunk in chunks])
    mean = (encoder.texts(chunks) * weights[:, None]).sum(axis=0)
    vectors = encoder.texts(["a dog", text, text + " here"])
    np.testing.assert_allclose(vectors[1], mean / np.linalg.norm(mean), atol=1e-6)
    np.testing.assert_allclose(vectors[0], encoder.texts(["a dog"])[0], atol=1e-6)
    assert not np.allclose(vectors[1], vectors[2])


@pytest.mark.slow
def test_a_caption_that_grows_past_what_clip_reads_brings_no_jump(checkpoint: Path) -> None:
    encoder = ClipEncoder(str(checkpoint))
    words = [*string.ascii_lowercase, *"abcd"]
    growing = [" ".join(words[:count]) for count in range(15, 31)]
    chunks = [len(encoder._chunks(text)) for text in growing]
    at = chunks.index(2) - 1  # the last caption that is read whole
    assert chunks[0] == 1
    vectors = encoder.texts(growing)
    count = len(growing[at].split())
    # One word more is one part of `count` + 1, whatever its vector.
    assert np.linalg.norm(vectors[at + 1] - vectors[at]) <= 2 / count
    assert not np.allclose(vectors[at + 1], vectors[at])


@pytest.mark.slow
def test_other_weights_of_clip_with_their_own_factor_as_pac_s(checkpoint: Path, images: dict[str, Path]) -> None:
    corpus = Corpus.prepare({"1": "a dog", "2": "two cats"}, {"1": ["a dog"], "2": ["cats", "two cats"]})
    plain = ClipState.of(corpus, images=images, checkpoint=str(checkpoint))
    other = ClipState.of(corpus, images=images, checkpoint=f"{checkpoint}?weight=2")
    first, second = plain.scores().per_image, other.scores().per_image
    assert first.max() > 0
    np.testing.assert_allclose(second, first * 2 / 2.5)
    assert "weight 2.5; texts of more than 40 tokens in chunks" in plain.notes[0]
    assert "weight 2;" in other.notes[0]


@pytest.mark.slow
def test_a_checkpoint_without_some_weights_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(checkpoint, tmp_path / "part")
    weights = load_file(folder / "model.safetensors")
    del weights["text_projection.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="lacks the weights text_projection"):
        ClipEncoder(str(folder))


@pytest.mark.slow
def test_a_pickle_is_read_only_where_it_is_asked_for(checkpoint: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    folder = shutil.copytree(checkpoint, tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"only pytorch_model\.bin, a pickle.*allow_pickle=true"):
        ClipEncoder(str(folder))
    asked = ClipCheckpoint.parse(f"{folder}?allow_pickle=true&weight=2")
    assert (asked.weight, asked.pickle) == (2, True)
    texts = ["a dog", "two cats"]
    pickled, safe = ClipEncoder(asked.source, asked.pickle), ClipEncoder(str(checkpoint))
    np.testing.assert_array_equal(pickled.texts(texts), safe.texts(texts))


@pytest.mark.parametrize(
    "name",
    ["clip?weight=0", "clip?weight=nan", "clip?weight=x", "clip?w=2", "?weight=2", "clip?", "clip?allow_pickle=1"],
)
def test_wrong_settings_of_a_checkpoint(name: str) -> None:
    with pytest.raises(InputError, match="weight=NUMBER"):
        ClipCheckpoint.parse(name)
