"""CLIPScore and RefCLIPScore (Hessel et al. 2021), with any CLIP checkpoint that transformers can load.

CLIPScore = 2.5 * max(cos(image, caption), 0). RefCLIPScore = harmonic mean of CLIPScore and
max(0, max over references of cos(caption, reference)). Texts are prefixed by "A photo depicts ", as in the original.
PAC-S (Sarto et al. 2023) is the same formula with other weights of CLIP and 2 in place of 2.5: `FOLDER?weight=2`.
Weights that are not safetensors are read only where the user asks for it: `NAME?allow_pickle=true`.
Both use captions as they were written where the corpus has them, not their PTB tokens. CLIP reads 77 tokens: a longer
text is encoded in consecutive chunks of whole words, and its vector is their mean, weighted by words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError, MissingExtraError
from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import Candidates, MeanState, References, Scores

WEIGHT = 2.5
PROMPT = "A photo depicts "
BATCH = 64
Floats = NDArray[np.float64]


def clip_score(
    candidates: Candidates | Corpus,
    references: References | None = None,
    *,
    images: Mapping[str, Path],
    checkpoint: str,
) -> Scores:
    """CLIPScore, with RefCLIPScore as a part; `images` are files by image id."""
    corpus = Corpus.prepare(candidates, references)
    return ClipState.of(corpus, images=images, checkpoint=checkpoint).scores()


class ClipState(MeanState):
    """The mean of image scores."""

    @classmethod
    def of(cls, corpus: Corpus, *, images: Mapping[str, Path], checkpoint: str) -> ClipState:
        """Score one shard."""
        missing = [image for image in corpus.ids if image not in images]
        if missing:
            raise InputError(f"image id {missing[0]!r} has no image ({len(missing)} such ids); CLIPScore needs all")
        named = ClipCheckpoint.parse(checkpoint)
        encoder = ClipEncoder(named.source, named.pickle)
        image_vectors = encoder.images([images[image] for image in corpus.ids])  # (n, d)
        captions, references = corpus.as_written
        caption_vectors = encoder.texts(captions)  # (n, d)
        reference_vectors = encoder.texts(list(chain.from_iterable(references)))  # (references, d)
        values = clip_values(image_vectors, caption_vectors, reference_vectors, corpus.reference_counts, named.weight)
        note = f"clip: {named.source}, weight {named.weight:g}; texts of more than {encoder.longest} tokens in chunks"
        return cls(values, (note,))


@dataclass(frozen=True)
class ClipCheckpoint:
    """A checkpoint as users name it: `SOURCE?weight=2&allow_pickle=true`."""

    source: str  # folder or hub name
    weight: float = WEIGHT  # of the cosine
    pickle: bool = False  # whether weights that are not safetensors may be read

    @classmethod
    def parse(cls, text: str) -> ClipCheckpoint:
        """Split a name from its settings.

        >>> ClipCheckpoint.parse("openai/clip-vit-base-patch32?weight=2")
        ClipCheckpoint(source='openai/clip-vit-base-patch32', weight=2.0, pickle=False)
        """
        source, mark, tail = text.partition("?")
        settings = dict(parse_qsl(tail, keep_blank_values=True))
        weight, pickle = settings.pop("weight", str(WEIGHT)), settings.pop("allow_pickle", "false")
        try:
            found = cls(source, float(weight), {"true": True, "false": False}[pickle])
        except (ValueError, KeyError):
            found = None
        if found is None or not source or settings or (mark and not tail) or not 0 < found.weight < 100:
            raise InputError(
                f"{text}: after ? comes weight=NUMBER (2 for PAC-S), allow_pickle=true or both with & between, "
                f"e.g. {source or 'FOLDER'}?weight=2"
            )
        return found


def clip_values(
    images: Floats, captions: Floats, references: Floats, counts: NDArray[np.int64], weight: float = WEIGHT
) -> dict[str, Floats]:
    """Scores (n,) from unit vectors of images (n, d), captions (n, d) and references (sum of `counts`, d)."""
    clip = weight * np.maximum((images * captions).sum(axis=1), 0)
    if not len(clip):
        return {"clip_score": clip, "ref_clip_score": clip}
    cosine = (references * np.repeat(captions, counts, axis=0)).sum(axis=1)
    nearest = np.maximum(np.maximum.reduceat(cosine, np.cumsum(counts) - counts), 0)
    both = clip + nearest
    return {"clip_score": clip, "ref_clip_score": 2 * clip * nearest / np.where(both > 0, both, 1.0)}


class ClipEncoder:
    """Unit vectors of images and texts."""

    def __init__(self, source: str, pickle: bool = False) -> None:
        try:
            import torch
            import transformers
        except ImportError:
            raise MissingExtraError("CLIPScore", "hf") from None
        from captrial.vision.hub_checkpoints import find_checkpoint, load_config, load_network

        folder = str(find_checkpoint(source, pickle=pickle))
        config = load_config(folder)
        if config.model_type != "clip":
            raise InputError(f"{source}: is a {config.model_type}, not a CLIP checkpoint")
        self._torch = torch
        network, missing = load_network(folder, "CLIPModel", config, pickle)
        lost = sorted(name for name in missing if "position_ids" not in name)
        if lost:
            raise InputError(f"{source}: lacks the weights {lost[0]}; they would be random numbers")
        self._model: Any = network
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            self._processor = _image_processor().from_pretrained(folder)
        except (OSError, ValueError) as error:
            raise InputError(f"{source}: its tokeniser or image processor cannot be loaded: {error}") from None
        self.longest = int(config.text_config.max_position_embeddings)

    def images(self, paths: Sequence[Path]) -> Floats:
        """(n, d) unit vectors of image files."""
        from captrial.data.images import pixel_batches  # image libraries are loaded for CLIPScore only

        return self._encoded(pixel_batches(paths, largest=BATCH), self._image_batch)

    def texts(self, texts: Sequence[str]) -> Floats:
        """(n, d) unit vectors of texts, prompt prefixed; those longer than the model reads in chunks."""
        chunks = [self._chunks(text) for text in texts]
        vectors = self._encoded(_batches(list(chain.from_iterable(chunks))), self._text_batch)
        weights = np.array([max(len(chunk.split()), 1) for of_text in chunks for chunk in of_text], np.float64)
        if not len(weights) or len(weights) == len(texts):
            return vectors
        sizes = [len(of_text) for of_text in chunks]
        return _unit(np.add.reduceat(vectors * weights[:, None], np.cumsum([0, *sizes[:-1]])))

    def _chunks(self, text: str) -> list[str]:
        """The text itself where the model reads all of it, else runs of its words that fit."""
        if len(self._tokenizer(PROMPT + text)["input_ids"]) <= self.longest:
            return [text]
        most = self.longest - len(self._tokenizer(PROMPT)["input_ids"])
        chunks: list[list[str]] = [[]]
        used = 0
        for word in text.split():
            size = len(self._tokenizer(word, add_special_tokens=False)["input_ids"])
            if used + size > most and chunks[-1]:
                chunks.append([])
                used = 0
            chunks[-1].append(word)
            used += size
        return [" ".join(words) for words in chunks]

    def _encoded(self, batches: Iterable[Sequence[Any]], encode: Any) -> Floats:
        rows = [encode(batch) for batch in batches]
        vectors = np.concatenate(rows) if rows else np.zeros((0, self._model.config.projection_dim))
        return _unit(vectors)

    def _image_batch(self, paths: Sequence[Path]) -> Floats:
        from captrial.data.images import open_image

        images = [open_image(path) for path in paths]
        inputs = self._processor(images=images, return_tensors="pt")
        return self._features(self._model.get_image_features, inputs)

    def _text_batch(self, texts: Sequence[str]) -> Floats:
        prompted = [PROMPT + text for text in texts]
        inputs = self._tokenizer(prompted, padding=True, truncation=True, max_length=self.longest, return_tensors="pt")
        return self._features(self._model.get_text_features, inputs)

    def _features(self, encode: Any, inputs: Any) -> Floats:
        with self._torch.inference_mode():
            output = encode(**inputs)
        features = getattr(output, "pooler_output", output)  # transformers 5 wraps what 4 returned bare
        vectors: Floats = features.double().numpy()
        return vectors


def _unit(vectors: Floats) -> Floats:
    unit: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit


def _image_processor() -> Any:
    """The processor that needs no torchvision."""
    try:
        from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    except ImportError:
        from transformers import CLIPImageProcessor

        return CLIPImageProcessor
    return CLIPImageProcessorPil


def _batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
