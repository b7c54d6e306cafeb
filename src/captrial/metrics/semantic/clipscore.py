"""CLIPScore and RefCLIPScore (Hessel et al. 2021), with any CLIP checkpoint that transformers can load.

CLIPScore = 2.5 * max(cos(image, caption), 0). RefCLIPScore = harmonic mean of CLIPScore and
max(0, max over references of cos(caption, reference)). Texts are prefixed by "A photo depicts ", as in the original.
PAC-S (Sarto et al. 2023) is the same formula with other weights of CLIP and 2 in place of 2.5: `FOLDER?weight=2`.
Both use captions as they were written where the corpus has them, not their PTB tokens. CLIP reads 77 tokens: a longer
text is encoded in consecutive chunks of whole words, and its vector is their mean, weighted by words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

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
        name, weight = read_checkpoint(checkpoint)
        encoder = ClipEncoder(name)
        image_vectors = encoder.images([images[image] for image in corpus.ids])  # (n, d)
        captions, references = corpus.as_written
        caption_vectors = encoder.texts(captions)  # (n, d)
        reference_vectors = encoder.texts(list(chain.from_iterable(references)))  # (references, d)
        values = clip_values(image_vectors, caption_vectors, reference_vectors, corpus.reference_counts, weight)
        return cls(values, (f"clip: {name}, weight {weight:g}; texts of more than {encoder.longest} tokens in chunks",))


def read_checkpoint(checkpoint: str) -> tuple[str, float]:
    """Folder or hub name of a checkpoint, and its weight of the cosine.

    >>> read_checkpoint("openai/clip-vit-base-patch32"), read_checkpoint("pac-s?weight=2")
    (('openai/clip-vit-base-patch32', 2.5), ('pac-s', 2.0))
    """
    name, mark, setting = checkpoint.partition("?")
    if not mark:
        return name, WEIGHT
    key, _, value = setting.partition("=")
    try:
        weight = float(value) if key == "weight" else 0.0
    except ValueError:
        weight = 0.0
    if not name or not 0 < weight < 100:
        raise InputError(f"{checkpoint}: after ? comes weight=NUMBER, e.g. {name or 'FOLDER'}?weight=2 for PAC-S")
    return name, weight


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

    def __init__(self, checkpoint: str) -> None:
        try:
            import torch
            from transformers import AutoTokenizer, CLIPModel
        except ImportError:
            raise MissingExtraError("CLIPScore", "hf") from None
        self._torch = torch
        try:
            model: Any = CLIPModel
            self._model, loaded = model.from_pretrained(checkpoint, output_loading_info=True)
            self._tokenizer = AutoTokenizer.from_pretrained(checkpoint)
            self._processor = _image_processor().from_pretrained(checkpoint)
        except (OSError, ValueError) as error:
            raise InputError(f"{checkpoint}: not a CLIP checkpoint that can be loaded: {error}") from None
        lost = sorted(name for name in loaded["missing_keys"] if "position_ids" not in name)
        if lost:
            raise InputError(f"{checkpoint}: lacks the weights {lost[0]}; they would be random numbers")
        self._model.eval()
        self.longest = int(self._model.config.text_config.max_position_embeddings)

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
