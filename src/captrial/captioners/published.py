"""Published checkpoints of other projects as checkpoints of this one: weights renamed, words renumbered.

`import_checkpoint("m2", "meshed_memory_transformer.pth", "vocab.pkl", allow_pickle=True)` returns a `Checkpoint`. Sizes
are read off the weights; what weights cannot tell (the number of heads) is that of the published models, or an option.
`PUBLISHED` lists the projects whose code is known: its names and shapes, the order of gates and halves, the layer norm
with an unbiased deviation, positions from 0 or 1. A tensor that the code does not have, or lacks, is an error.

Weights are read without running anything that a pickle may hold. Only with `allow_pickle` is a file of weights read
that holds other objects too (torch then runs what the file asks for), and a pickled vocabulary (of which only plain
data is read; classes that it names are never imported).
"""

from __future__ import annotations

import io
import pickle
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from captrial.captioners.architectures.transformer import MAX_WORDS, sinusoids
from captrial.captioners.base import Captioner
from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.registry import build
from captrial.errors import InputError
from captrial.language.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary

Weights = dict[str, Tensor]
NEVER = -1e4  # the logit of a word that their model does not have
UNKNOWN = ("UNK", "<unk>")


@dataclass(frozen=True)
class PublishedKind:
    """A project's checkpoints: how their names become ours, and what sizes they have."""

    title: str
    source: str  # the project's repository
    architecture: str
    names: tuple[tuple[str, str], ...]  # regular expressions applied to their names one after the other
    sizes: Callable[[Weights], dict[str, Any]]  # of our weights, to options of the architecture
    options: Mapping[str, Any] = field(default_factory=dict)  # what weights cannot tell
    own_specials: bool = False  # PAD, BOS, EOS and UNK are words of its vocabulary; else row 0 begins and ends captions
    left_out: str = "^$"  # their tensors that are not weights


_ATTENTION = ((r"\.fc_q\.", ".query."), (r"\.fc_k\.", ".key."), (r"\.fc_v\.", ".value."), (r"\.fc_o\.", ".out."))
_LINEARS = tuple((rf"\.linears\.{place}\.", f".{name}.") for place, name in enumerate(("query", "key", "value", "out")))
_NORMS = ((r"\.a_2$", ".weight"), (r"\.b_2$", ".bias"))
_M2 = (
    (r"^encoder\.fc\.", "embed."),
    (r"^encoder\.layer_norm\.", "embed_norm."),
    (r"^(encoder|decoder)\.layers\.", r"\1."),
    (r"^decoder\.word_emb\.", "words."),
    (r"^decoder\.pos_emb\.weight", "positions"),
    (r"^decoder\.fc\.", "head."),
    (r"\.mhatt\.attention\.m_k$", ".attention.memory_keys"),
    (r"\.mhatt\.attention\.m_v$", ".attention.memory_values"),
    (r"\.mhatt\.attention\.", ".attention."),
    (r"\.mhatt\.layer_norm\.", ".residual_1.norm."),
    (r"\.self_att\.attention\.", ".self_attention."),
    (r"\.self_att\.layer_norm\.", ".residual_1.norm."),
    (r"\.enc_att\.attention\.", ".cross_attention."),
    (r"\.enc_att\.layer_norm\.", ".residual_2.norm."),
    (r"\.fc_alpha1\.", ".gates.0."),
    (r"\.fc_alpha2\.", ".gates.1."),
    (r"\.fc_alpha3\.", ".gates.2."),
    (r"^(encoder.*)\.pwff\.layer_norm\.", r"\1.residual_2.norm."),
    (r"^(decoder.*)\.pwff\.layer_norm\.", r"\1.residual_3.norm."),
    (r"\.pwff\.fc1\.", ".feed_forward.0."),
    (r"\.pwff\.fc2\.", ".feed_forward.3."),
    *_ATTENTION,
)
_ANNOTATED_TRANSFORMER = (
    (r"^att_embed\.0\.", "embed."),
    (r"^model\.generator\.proj\.", "head."),
    (r"^model\.tgt_embed\.0\.lut\.", "words."),
    (r"^model\.(encoder|decoder)\.norm\.", r"\1_norm."),
    (r"^model\.(encoder|decoder)\.layers\.", r"\1."),
    (r"^encoder\.(\d+)\.self_attn\.WGs\.(\d+)\.", r"geometry.\1.\2."),
    (r"^(encoder\.\d+)\.self_attn\.", r"\1.attention."),
    (r"^(decoder\.\d+)\.self_attn\.", r"\1.self_attention."),
    (r"^(decoder\.\d+)\.src_attn\.", r"\1.cross_attention."),
    (r"\.feed_forward\.w_1\.", ".feed_forward.0."),
    (r"\.feed_forward\.w_2\.", ".feed_forward.3."),
    (r"\.sublayer\.0\.norm", ".residual_1.norm"),
    (r"\.sublayer\.1\.norm", ".residual_2.norm"),
    (r"\.sublayer\.2\.norm", ".residual_3.norm"),
    *_LINEARS,
    *_NORMS,
)
_RECURRENT = (
    (r"^embed\.0\.", "words.0."),
    (r"^att_embed\.0\.", "embed.0."),
    (r"^fc_embed\.0\.", "embed_mean.0."),
    (r"^logit\.", "head."),
    (r"^ctx2att\.", "attention.value."),
    (r"^core\.attention\.h2att\.", "attention.query."),
    (r"^core\.attention\.alpha_net\.", "attention.score."),
)
_AOA = (
    (r"^embed\.0\.", "words.0."),
    (r"^att_embed\.0\.", "embed.0."),
    (r"^logit\.", "head."),
    (r"^ctx2att\.", "values_keys."),
    (r"^refiner\.norm\.", "refined_norm."),
    (r"^refiner\.layers\.(\d+)\.self_attn\.aoa_layer\.0\.", r"refiner.\1.aoa.gate.1."),
    (r"^refiner\.layers\.(\d+)\.self_attn\.", r"refiner.\1."),
    (r"^refiner\.layers\.(\d+)\.sublayer\.0\.norm\.", r"refiner.\1.norm."),
    (r"^core\.att_lstm\.", "lstm.cell."),
    (r"^core\.att2ctx\.0\.", "aoa.gate.1."),
    (r"^core\.attention\.norm\.", "query_norm."),
    (r"^core\.attention\.", "."),
    *_LINEARS,
    *_NORMS,
    (r"^\.", ""),
)
_X_LINEAR = (
    (r"^word_embed\.0\.", "words.0."),
    (r"^att_embed\.0\.", "embed.0."),
    (r"^logit\.", "head."),
    (r"^att_lstm\.", "lstm.cell."),
    (r"^att2ctx\.0\.", "context.0."),
    (r"^encoder_layers\.layers\.(\d+)\.encoder_attn\.", r"blocks.\1.look."),
    (r"^encoder_layers\.bifeat_emb\.(\d+)\.0\.", r"blocks.\1.mix.0."),
    (r"^encoder_layers\.layer_norms\.(\d+)\.", r"blocks.\1.norm."),
    (r"^encoder_layers\.proj\.", "join."),
    (r"^encoder_layers\.layer_norm\.", "join_norm."),
    (r"^attention\.layers\.0\.encoder_attn\.", "look."),
    (r"^attention\.proj\.", "mix."),
    (r"^attention\.layer_norm\.", "mix_norm."),
    *(
        (rf"(^|\.)look\.in_proj_{theirs}\.{place}\.", rf"\1look.{ours}.{part}.")
        for theirs, ours in {"q": "query", "k": "key", "v1": "query_value", "v2": "value"}.items()
        for place, part in ((0, "linear"), (2, "norm"))
    ),
    (r"\.attn_net\.attention_basic\.0\.", ".squeeze.0."),
    (r"\.attn_net\.attention_last\.", ".spatial."),
    (r"\.attn_net\.attention_last2\.", ".channel."),
    (r"^(look|blocks\.\d+\.look)\.attn_net\.", r"\1."),
)


def _transformer_sizes(weights: Weights) -> dict[str, Any]:
    width, features = weights["embed.weight"].shape
    return {
        "width": width,
        "features": features,
        "hidden": len(weights["encoder.0.feed_forward.0.weight"]),
        "encoder_layers": _count(weights, "encoder"),
        "decoder_layers": _count(weights, "decoder"),
    }


def _m2_sizes(weights: Weights) -> dict[str, Any]:
    return {**_transformer_sizes(weights), "memory_slots": len(weights["encoder.0.attention.memory_keys"])}


def _ort_sizes(weights: Weights) -> dict[str, Any]:
    return {**_transformer_sizes(weights), "heads": len(weights["geometry.0.weight"])}


def _attention_sizes(weights: Weights) -> dict[str, Any]:
    width, features = weights["embed.0.weight"].shape
    return {"width": width, "features": features, "attention": len(weights["attention.query.weight"])}


def _aoa_sizes(weights: Weights) -> dict[str, Any]:
    width, features = weights["embed.0.weight"].shape
    return {"width": width, "features": features, "layers": _count(weights, "refiner")}


def _x_lan_sizes(weights: Weights) -> dict[str, Any]:
    width, features = weights["embed.0.weight"].shape
    squeeze, head = weights["look.squeeze.0.weight"].shape
    blocks = {"heads": width // head, "blocks": _count(weights, "blocks"), "squeeze": squeeze}
    return {"width": width, "features": features, **blocks}


def _count(weights: Weights, stack: str) -> int:
    return len({name.split(".")[1] for name in weights if name.startswith(f"{stack}.")})


_LUO = "github.com/ruotianluo/ImageCaptioning.pytorch"
_PRE_NORM = {"heads": 8, "legacy_norm": True, "first_position": 0}
PUBLISHED: dict[str, PublishedKind] = {
    "m2": PublishedKind(
        "M2", "github.com/aimagelab/meshed-memory-transformer", "m2", _M2, _m2_sizes,
        {"heads": 8, "legacy_init": True}, own_specials=True, left_out=r"(^|\.)running_",
    ),
    "ort": PublishedKind(
        "ORT", "github.com/yahoo/object_relation_transformer", "ort", _ANNOTATED_TRANSFORMER, _ort_sizes,
        {**_PRE_NORM, "legacy_plus_one": True}, left_out=r"\.pe$",
    ),
    "aoa": PublishedKind(
        "AoANet", "github.com/husthuaan/AoANet", "aoa", _AOA, _aoa_sizes, {"heads": 8, "legacy_norm": True}
    ),
    "x_lan": PublishedKind("X-LAN", "github.com/JDAI-CV/image-captioning", "x_lan", _X_LINEAR, _x_lan_sizes),
    "att2in": PublishedKind(
        "Att2in2", _LUO, "att2in",
        (*_RECURRENT, (r"^core\.i2h\.", "from_word."), (r"^core\.h2h\.", "from_hidden."),
         (r"^core\.a2c\.", "from_context.")),
        _attention_sizes,
    ),
    "top_down": PublishedKind(
        "Top-Down", _LUO, "top_down",
        (*_RECURRENT, (r"^core\.att_lstm\.", "looking.cell."), (r"^core\.lang_lstm\.", "speaking.cell.")),
        _attention_sizes,
    ),
    "transformer": PublishedKind(
        "Transformer", _LUO, "ort", _ANNOTATED_TRANSFORMER, _transformer_sizes,
        {**_PRE_NORM, "geometry": False}, left_out=r"\.pe$",
    ),
}  # fmt: skip


def import_checkpoint(
    kind: str,
    weights: Path | str,
    vocabulary: Path | str,
    *,
    options: Mapping[str, Any] | None = None,
    vision: Mapping[str, Any] | None = None,
    allow_pickle: bool = False,
) -> Checkpoint:
    """A published checkpoint of one of the kinds of `PUBLISHED`.

    `options` are those of the architecture that weights cannot tell (`heads`; `legacy_extra_skip` for ORT's
    reinforced weights). `vision` describes the features it will be used with (`FeatureStore.vision`).

    Raises `InputError` for a file that is not of the kind, or that needs `allow_pickle`.
    """
    entry = find_kind(kind)
    words = read_words(Path(vocabulary), allow_pickle)
    found = _renamed(entry, read_weights(Path(weights), allow_pickle))
    try:
        sizes = {**entry.options, **entry.sizes(found), **(options or {})}
        vectors = next(found[name] for name in ("words.weight", "words.0.weight") if name in found)
    except (KeyError, StopIteration, ValueError):
        raise InputError(
            f"{weights}: lacks weights that {entry.title} of {entry.source} has; is it of another kind? There are: "
            f"{', '.join(PUBLISHED)}"
        ) from None
    if not entry.own_specials:
        words = ["", *words]  # row 0 begins and ends captions, and pads them
    if len(words) != len(vectors):
        raise InputError(
            f"{vocabulary}: words for {len(words)} vectors, and {weights} has {len(vectors)}; give the vocabulary that "
            "this model was trained with"
        )
    if vision is not None and vision.get("width") != sizes["features"]:
        raise InputError(
            f"{weights}: needs features {sizes['features']} wide, and these are {vision.get('width')} wide; give those "
            "of the detector that it was trained with"
        )
    rows, kept = _rows(words, entry.own_specials)
    _renumber(found, rows, unknown=rows[UNK] != rows[PAD])
    captioner = build(entry.architecture, {**sizes, "words": len(rows)})
    _load(captioner, found, f"{weights} as {entry.title}")
    notes = {"preset": entry.architecture, "data": f"published weights, {entry.source}"}
    return Checkpoint(captioner.eval(), Vocabulary(kept), dict(vision or {}), notes)


def read_options(pairs: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` pairs, their values as JSON.

    >>> read_options(["heads=4", "legacy_extra_skip=true"])
    {'heads': 4, 'legacy_extra_skip': True}
    """
    try:
        return {key: orjson.loads(value) for key, value in (pair.split("=", 1) for pair in pairs)}
    except ValueError:
        raise InputError(
            f"--set {' '.join(pairs)}: write KEY=VALUE, e.g. --set heads=8 or legacy_extra_skip=true"
        ) from None


def find_kind(name: str) -> PublishedKind:
    """The kind of that name."""
    if name not in PUBLISHED:
        raise InputError(f"no kind {name!r} of published checkpoints; there are: {', '.join(PUBLISHED)}")
    return PUBLISHED[name]


# Weights --------------------------------------------------------------------------------------------------------------


def read_weights(path: Path, allow_pickle: bool = False) -> Weights:
    """The tensors of a `.pth` or `.safetensors` file; those of its `state_dict` where it holds more than weights."""
    try:
        content = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    except Exception as error:  # damaged pickles raise anything
        if not allow_pickle:
            raise InputError(
                f"{path}: holds other objects than tensors, which only pickle can read, and that may run code; if you "
                "trust where it comes from, add --allow-pickle"
            ) from None
        try:
            content = torch.load(path, "cpu", weights_only=False)
        except Exception:
            raise InputError(f"{path}: no file of weights, or a damaged one ({error})") from None
    content = content.get("state_dict", content) if isinstance(content, dict) else content
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError(f"{path}: no tensors by name; give the file that the project's training wrote")
    return {str(name): value for name, value in content.items()}


def _renamed(entry: PublishedKind, theirs: Mapping[str, Tensor]) -> Weights:
    """Their weights under our names and in our shapes; words are still numbered as theirs."""
    found: Weights = {}
    gates: dict[str, dict[int, Tensor]] = defaultdict(dict)
    for name, value in theirs.items():
        name = name.removeprefix("module.")  # of models that were trained on several GPUs
        if re.search(entry.left_out, name):
            continue
        for pattern, ours in entry.names:
            name = re.sub(pattern, ours, name)
        value = value.detach().float().clone()
        if head := re.fullmatch(r"(geometry\.\d+)\.(\d+)\.(\w+)", name):  # ORT has a layer a head
            gates[f"{head[1]}.{head[3]}"][int(head[2])] = value
        elif ".memory_" in name:
            found[name] = value.squeeze(0)
        elif name == "positions":
            found[name] = _positions(value)
        else:
            found[name] = value
    for name, heads in gates.items():
        found[name] = torch.cat([heads[head] for head in sorted(heads)])
    return found


def _positions(table: Tensor) -> Tensor:
    """Their table, in which row 0 is for padding; where it ends, as computed."""
    made = sinusoids(MAX_WORDS, table.shape[1])
    made[: len(table) - 1] = table[1 : MAX_WORDS + 1]
    return made


def _load(captioner: Captioner, weights: Weights, what: str) -> None:
    """Put weights into a captioner; an `InputError` that names the first one that does not fit."""
    wanted = captioner.state_dict()
    for name in [*wanted, *weights]:
        if name not in weights:
            raise InputError(f"{what}: lacks {name}; is it of another kind, or of other code?")
        if name not in wanted:
            raise InputError(f"{what}: has {name}, which this architecture has not; it was made by other code")
        if wanted[name].shape != weights[name].shape:
            sizes = [" x ".join(map(str, part.shape)) for part in (weights[name], wanted[name])]
            raise InputError(f"{what}: {name} is {sizes[0]} instead of {sizes[1]}; give its options with --set")
    captioner.load_state_dict(weights)


# Words ----------------------------------------------------------------------------------------------------------------


def read_words(path: Path, allow_pickle: bool = False) -> list[str]:
    """The words of a vocabulary, in the order of their numbers.

    A text file with a word a line (X-LAN); JSON with `ix_to_word` or a list; or, with `allow_pickle`, a pickle with
    `itos` (M2's `vocab.pkl`), `vocab` (Luo's `infos_*.pkl`) or `ix_to_word`.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".json":
            found = orjson.loads(content)
        elif path.suffix in (".pkl", ".pickle"):
            if not allow_pickle:
                raise InputError(f"{path}: a pickle; if you trust where it comes from, add --allow-pickle")
            found = PlainUnpickler(io.BytesIO(content), encoding="latin1").load()  # of Python 2, too
        else:
            return [line.rstrip("\r") for line in content.decode().removesuffix("\n").split("\n")]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except InputError:
        raise
    except Exception as error:  # damaged pickles raise anything
        raise InputError(f"{path}: no vocabulary, or a damaged one ({error})") from None
    return _words_of(found, path)


def _words_of(found: Any, path: Path) -> list[str]:
    document = found if isinstance(found, dict) else vars(found) if isinstance(found, PlainObject) else {"itos": found}
    for name in ("itos", "ix_to_word", "vocab"):
        words = document.get(name)
        if isinstance(words, PlainObject):
            return _words_of(words, path)
        if isinstance(words, dict):
            try:
                words = [words[key] for key in sorted(words, key=int)]
            except (TypeError, ValueError):
                continue
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return words
    raise InputError(f"{path}: no words under 'itos', 'ix_to_word' or 'vocab'")


class PlainObject:
    """What stands for an object of a pickle: its attributes, and nothing of its class."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state if isinstance(state, dict) else {"state": state})

    def __setitem__(self, key: Any, value: Any) -> None:
        vars(self)[str(key)] = value

    def append(self, value: Any) -> None:
        """An element of a list that is of a class of its own."""


class PlainUnpickler(pickle.Unpickler):
    """Reads data only: no class or function that a pickle names is imported or called."""

    def find_class(self, module: str, name: str) -> Any:
        """`dict` for ordered ones, an empty class for all else."""
        return OrderedDict if (module, name) == ("collections", "OrderedDict") else PlainObject


def _rows(words: Sequence[str], own_specials: bool) -> tuple[list[int], tuple[str, ...]]:
    """Which of their rows each of ours is, and the words behind the special ones.

    Their words that are no words here (M2 has six that are white space) are left out: they are never said.
    """
    at = {word: row for row, word in enumerate(words)}
    if own_specials and (missing := [word for word in SPECIALS if word not in at]):
        raise InputError(f"the vocabulary has no {missing[0]}; give that of the model, not one of words alone")
    unknown = next((at[word] for word in UNKNOWN if word in at), 0)
    special = [at[word] for word in SPECIALS] if own_specials else [0, 0, 0, unknown]
    kept = [row for row, word in enumerate(words) if row not in special and word.split() == [word]]
    return special + kept, tuple(words[row] for row in kept)


def _renumber(weights: Weights, rows: Sequence[int], unknown: bool) -> None:
    """Reorder words; what their model has no row for is never said."""
    for name in ("words.weight", "words.0.weight", "head.weight", "head.bias"):
        if name in weights:
            weights[name] = weights[name][list(rows)]
    if rows[BOS] == rows[EOS]:  # one row is all of them, and as a prediction it is the end
        silent = [PAD, BOS] if unknown else [PAD, BOS, UNK]
        weights["head.weight"][silent], weights["head.bias"][silent] = 0.0, NEVER
