"""Published checkpoints: files with the names and shapes of each project's code, random weights, small sizes.

That imported weights give the numbers of the projects' own code is shown by
`python -m benchmarks.parity.published_code`, which needs clones of the projects.
"""

from __future__ import annotations

import json
import os
import pickle
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.published import PUBLISHED, PlainObject, import_checkpoint, read_options, read_words
from captrial.captioners.trained import generate
from captrial.errors import InputError
from captrial.language.vocabulary import BOS, EOS, PAD, UNK
from captrial.vision.features.visual_features import Features
from cli.commands import answer

WORDS = ["a", "dog", "cat", "on", "UNK"]  # Luo's and X-LAN's: numbered from 1
SPECIAL_WORDS = ["<unk>", "<pad>", "<bos>", "<eos>", "a", " ", "dog", "\n ", "cat", "on"]  # M2's, with its white space
D, F, A = 16, 6, 5  # width, features, attention


def linear(name: str, out: int, into: int = D) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (out, into)
    yield f"{name}.bias", (out,)


def norm(name: str, weight: str = "weight", bias: str = "bias") -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.{weight}", (D,)
    yield f"{name}.{bias}", (D,)


def lstm(name: str, into: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight_ih", (4 * D, into)
    yield f"{name}.weight_hh", (4 * D, D)
    yield f"{name}.bias_ih", (4 * D,)
    yield f"{name}.bias_hh", (4 * D,)


def m2_names() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from (*linear("encoder.fc", D, F), *norm("encoder.layer_norm"))
    for layer in range(3):
        blocks = {f"encoder.layers.{layer}": ("mhatt",), f"decoder.layers.{layer}": ("self_att", "enc_att")}
        for place, attentions in blocks.items():
            for attention in attentions:
                for part in ("fc_q", "fc_k", "fc_v", "fc_o"):
                    yield from linear(f"{place}.{attention}.attention.{part}", D)
                yield from norm(f"{place}.{attention}.layer_norm")
            yield from (*linear(f"{place}.pwff.fc1", 20), *linear(f"{place}.pwff.fc2", D, 20))
            yield from norm(f"{place}.pwff.layer_norm")
        yield f"encoder.layers.{layer}.mhatt.attention.m_k", (1, 4, D)
        yield f"encoder.layers.{layer}.mhatt.attention.m_v", (1, 4, D)
        for gate in (1, 2, 3):
            yield from linear(f"decoder.layers.{layer}.fc_alpha{gate}", D, 2 * D)
        yield f"decoder.layers.{layer}.self_att.running_keys", (0, D)
    yield "decoder.word_emb.weight", (len(SPECIAL_WORDS), D)
    yield "decoder.pos_emb.weight", (55, D)
    yield "decoder.fc.weight", (len(SPECIAL_WORDS), D)
    yield "decoder.running_seq", (1,)


def transformer_names(geometry: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from linear("att_embed.0", D, F)
    for stack, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "src_attn"))):
        for layer in range(2):
            place = f"model.{stack}.layers.{layer}"
            for attention in attentions:
                for part in range(4):
                    yield from linear(f"{place}.{attention}.linears.{part}", D)
            yield from (*linear(f"{place}.feed_forward.w_1", 20), *linear(f"{place}.feed_forward.w_2", D, 20))
            for block in range(len(attentions) + 1):
                yield from norm(f"{place}.sublayer.{block}.norm", "a_2", "b_2")
            if geometry and stack == "encoder":
                for head in range(8):
                    yield from linear(f"{place}.self_attn.WGs.{head}", 1, 64)
        yield from norm(f"model.{stack}.norm", "a_2", "b_2")
    yield "model.tgt_embed.0.lut.weight", (len(WORDS) + 1, D)
    yield "model.tgt_embed.1.pe", (1, 5000, D)
    yield from linear("model.generator.proj", len(WORDS) + 1)


def recurrent_names(kind: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "embed.0.weight", (len(WORDS) + 1, D)
    yield from (*linear("att_embed.0", D, F), *linear("logit", len(WORDS) + 1))
    if kind == "aoa":
        yield from (*linear("ctx2att", 2 * D), *lstm("core.att_lstm", 2 * D), *linear("core.att2ctx.0", 2 * D, 2 * D))
        yield from (*norm("core.attention.norm", "a_2", "b_2"), *linear("core.attention.linears.0", D))
        for layer in range(2):
            place = f"refiner.layers.{layer}"
            for part in range(3):
                yield from linear(f"{place}.self_attn.linears.{part}", D)
            yield from linear(f"{place}.self_attn.aoa_layer.0", 2 * D, 2 * D)
            yield from norm(f"{place}.sublayer.0.norm", "a_2", "b_2")
        yield from norm("refiner.norm", "a_2", "b_2")
        return
    yield from (*linear("ctx2att", A), *linear("core.attention.h2att", A), *linear("core.attention.alpha_net", 1, A))
    if kind == "att2in":
        yield from (*linear("core.a2c", 2 * D), *linear("core.i2h", 5 * D), *linear("core.h2h", 5 * D))
    else:
        yield from (*linear("fc_embed.0", D, F), *lstm("core.att_lstm", 3 * D), *lstm("core.lang_lstm", 2 * D))


def x_lan_names() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "word_embed.0.weight", (len(WORDS) + 1, D)
    yield from (*linear("att_embed.0", D, F), *linear("logit", len(WORDS) + 1))
    yield from (*lstm("att_lstm", 2 * D), *linear("att2ctx.0", 2 * D, 2 * D))
    places = [*(f"encoder_layers.layers.{layer}" for layer in range(2)), "attention.layers.0"]
    for place in (f"{place}.encoder_attn" for place in places):
        for part in ("q", "k", "v1", "v2"):
            yield from (*linear(f"{place}.in_proj_{part}.0", D), *norm(f"{place}.in_proj_{part}.2"))
        yield from linear(f"{place}.attn_net.attention_basic.0", 3, 4)
        yield from linear(f"{place}.attn_net.attention_last", 1, 3)
        yield from linear(f"{place}.attn_net.attention_last2", 4, 3)
    for layer in range(2):
        yield from linear(f"encoder_layers.bifeat_emb.{layer}.0", D, 2 * D)
        yield from norm(f"encoder_layers.layer_norms.{layer}")
    yield from (*linear("encoder_layers.proj", D, 3 * D), *norm("encoder_layers.layer_norm"))
    yield from (*linear("attention.proj", D, 2 * D), *norm("attention.layer_norm"))


NAMES = {
    "m2": m2_names,
    "ort": lambda: transformer_names(True),
    "aoa": lambda: recurrent_names("aoa"),
    "x_lan": x_lan_names,
    "att2in": lambda: recurrent_names("att2in"),
    "top_down": lambda: recurrent_names("top_down"),
    "transformer": lambda: transformer_names(False),
}


VECTORS = ("embed.0.weight", "word_embed.0.weight", "decoder.word_emb.weight", "model.tgt_embed.0.lut.weight")


def weights_of(kind: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) / 2 for name, shape in NAMES[kind]()}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Where the weights and the vocabulary of a kind go."""
    return tmp_path / "model.pth", tmp_path / "words.json"


def write(kind: str, files: tuple[Path, Path]) -> dict[str, Tensor]:
    theirs = weights_of(kind)
    prefix = "module." if kind == "x_lan" else ""  # it is trained on several GPUs
    torch.save({prefix + name: value for name, value in theirs.items()}, files[0])
    words = SPECIAL_WORDS if kind == "m2" else {"ix_to_word": {str(n): word for n, word in enumerate(WORDS, 1)}}
    files[1].write_text(json.dumps(words))
    return theirs


def features(kind: str) -> Features:
    torch.manual_seed(1)
    boxes = torch.rand(2, 4, 2, 2).sort(2).values.flatten(2)
    return Features(torch.randn(2, 4, F), torch.ones(2, 4, dtype=torch.bool), boxes)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_an_imported_checkpoint_is_one_of_ours(kind: str, files: tuple[Path, Path], tmp_path: Path) -> None:
    theirs = write(kind, files)
    import_checkpoint(kind, *files).save_pretrained(tmp_path / "made")
    made = Checkpoint.from_pretrained(tmp_path / "made")
    assert set(made.vocabulary) == {"a", "dog", "cat", "on"}
    vectors = next(value for name, value in made.captioner.state_dict().items() if name.startswith("words."))
    own = theirs[next(name for name in VECTORS if name in theirs)]
    names = SPECIAL_WORDS if kind == "m2" else ["", *WORDS]
    assert torch.equal(vectors[made.vocabulary["dog"]], own[names.index("dog")])
    assert torch.equal(vectors[UNK], own[names.index("<unk>" if kind == "m2" else "UNK")])
    memory = made.captioner.encode(features(kind))
    with torch.no_grad():
        said = generate(made.captioner, made.vocabulary, memory, beam=2, max_words=6)
        logits = made.captioner.teacher_force(torch.tensor([[[BOS, made.vocabulary["a"]]]] * 2), memory).logits
    assert len(said) == 2
    assert logits.isfinite().all()
    if kind != "m2":  # their row 0 begins captions and ends them
        assert torch.equal(vectors[BOS], own[0])
        assert logits[..., [PAD, BOS]].max() < -1e3
        assert logits.softmax(-1)[..., EOS].min() > 0


def test_att2in_computes_what_its_equations_say(files: tuple[Path, Path]) -> None:
    """Rennie et al. 2017 on their tensors: gates in, forget, out; the attended vector enters the candidates."""
    w = write("att2in", files)
    made, seen = import_checkpoint("att2in", *files), features("att2in")

    def affine(name: str, x: Tensor) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    regions = affine("att_embed.0", seen.elements).relu()
    h = c = torch.zeros(2, D)
    for word in (0, 2):  # the beginning, then "dog"
        scores = affine(
            "core.attention.alpha_net",
            torch.tanh(affine("ctx2att", regions) + affine("core.attention.h2att", h)[:, None]),
        )
        attended = (scores.softmax(1) * regions).sum(1)
        sums = affine("core.i2h", w["embed.0.weight"][word].relu().expand(2, -1)) + affine("core.h2h", h)
        new, old, out = sums[:, : 3 * D].sigmoid().chunk(3, 1)
        candidates = (sums[:, 3 * D :] + affine("core.a2c", attended)).chunk(2, 1)
        c = old * c + new * torch.maximum(*candidates)
        h = out * c.tanh()
    theirs = affine("logit", h).log_softmax(-1)
    with torch.no_grad():
        logits = made.captioner(seen, torch.tensor([[[BOS, made.vocabulary["dog"]]]] * 2)).logits[:, 0, 1]
    ours = logits.log_softmax(-1)[:, [EOS, *(made.vocabulary[word] for word in WORDS)]]
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_files_that_do_not_fit_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    write("att2in", files)
    with pytest.raises(InputError, match=r"no kind 'sat'.*m2, ort"):
        import_checkpoint("sat", *files)
    with pytest.raises(InputError, match="another kind"):
        import_checkpoint("m2", *files)
    with pytest.raises(InputError, match="lacks embed_mean"):
        import_checkpoint("top_down", *files)
    with pytest.raises(InputError, match=r"6 wide.*8 wide"):
        import_checkpoint("att2in", *files, vision={"width": 8})
    files[1].write_text(json.dumps(WORDS[1:]))
    with pytest.raises(InputError, match=r"words for 5 vectors, and .* has 6"):
        import_checkpoint("att2in", *files)
    files[0].write_bytes(b"not weights")
    with pytest.raises(InputError, match="--allow-pickle"):
        import_checkpoint("att2in", *files)
    with pytest.raises(InputError, match="--set heads: write KEY=VALUE"):
        read_options(["heads"])
    weights = weights_of("transformer")
    torch.save({**weights, "extra.weight": torch.ones(2)}, files[0])
    files[1].write_text(json.dumps(WORDS))
    with pytest.raises(InputError, match=r"has extra\.weight"):
        import_checkpoint("transformer", *files)
    assert read_options(["heads=4"]) == {"heads": 4}
    del weights["att_embed.0.bias"]
    torch.save(weights, files[0])
    with pytest.raises(InputError, match=r"lacks embed\.bias"):
        import_checkpoint("transformer", *files)


def test_pickles_are_read_only_when_asked(files: tuple[Path, Path], tmp_path: Path) -> None:
    """M2 saves the state of random generators beside its weights; its vocabulary is an object of a class of its own."""
    write("m2", files)
    torch.save({"state_dict": weights_of("m2"), "random_rng_state": random.Random(0)}, files[0])
    with pytest.raises(InputError, match="--allow-pickle"):
        import_checkpoint("m2", *files)
    assert import_checkpoint("m2", *files, allow_pickle=True).vocabulary["dog"] > UNK
    words = tmp_path / "vocab.pkl"
    words.write_bytes(pickle.dumps({"vocab": {"2": "dog", "1": "a"}}, 2))
    with pytest.raises(InputError, match="--allow-pickle"):
        read_words(words)
    assert read_words(words, allow_pickle=True) == ["a", "dog"]
    vocabulary = PlainObject()
    vocabulary.itos = SPECIAL_WORDS  # type: ignore[attr-defined]
    words.write_bytes(pickle.dumps(vocabulary).replace(b"PlainObject", b"SomeVocabul"))  # a class that is nowhere
    assert read_words(words, allow_pickle=True) == SPECIAL_WORDS


class Touch:
    """An object whose pickle calls a function that makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mknod, (str(self.path), 0o600)


def test_a_vocabulary_never_runs_code(tmp_path: Path) -> None:
    words = tmp_path / "vocab.pkl"
    words.write_bytes(pickle.dumps({"itos": ["a"], "more": Touch(tmp_path / "ran")}))
    assert read_words(words, allow_pickle=True) == ["a"]
    assert not (tmp_path / "ran").exists()


def test_words_a_line(tmp_path: Path) -> None:
    (tmp_path / "vocabulary.txt").write_text("a\ndog\n")
    assert read_words(tmp_path / "vocabulary.txt") == ["a", "dog"]
    (tmp_path / "words.json").write_text('{"words": 3}')
    with pytest.raises(InputError, match="no words under"):
        read_words(tmp_path / "words.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_words(tmp_path / "nothing.txt")


def test_the_command(files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("ort", files)
    line = ["models", "import", "ort", str(files[0]), "--vocabulary", str(files[1]), "--out", str(tmp_path / "made")]
    found = answer(capsys, [*line, "--set", "legacy_extra_skip=true"])
    assert found["words"] == 8
    config = json.loads((tmp_path / "made" / "config.json").read_text())
    assert config["options"]["legacy_extra_skip"] is True
    assert config["options"]["heads"] == 8
    assert config["options"]["first_position"] == 0
