"""BLEU + ROUGE-L + CIDEr and the CIDEr reward beside pycocoevalcap, in one run, one process; and how cost grows.

python -m benchmarks.speed.metrics            # the table
python -m benchmarks.speed.metrics --parity   # largest differences on all nine systems, 45 000 captions
python -m benchmarks.speed.metrics --figure   # 1 k, 10 k, 100 k images -> docs/images/metrics_scaling.svg
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.measuring import Row, compare, peak_memory, seconds, show
from captrial.data import read_captions, read_references
from captrial.language.vocabulary import EOS, PAD, Vocabulary
from captrial.metrics import Corpus, bleu, cider, rouge_l
from captrial.metrics.ngram.cider_reward import CiderReward
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from studies.data_paths import FLICKR8K_CAPTIONS, KARPATHY_TEST, ROOT, published_captions

SYSTEM = "PureT-SCST"
Found = dict[str, tuple[float, np.ndarray]]  # corpus and image values by metric


def captions_and_references(system: str = SYSTEM) -> tuple[dict[str, str], dict[str, list[str]]]:
    references = read_references(KARPATHY_TEST / "references.json")
    captions = read_captions(KARPATHY_TEST / f"{system}.json").to_dict()
    return {key: captions[key] for key in references}, references


def ours(captions: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> Found:
    corpus = Corpus.prepare(captions, references)
    scores = [*bleu(corpus).flat(), rouge_l(corpus), cider(corpus)]
    return {score.name: (score.corpus, score.per_image) for score in scores}


def theirs(captions: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> Found:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    tokenizer = PTBTokenizer()
    known = tokenizer.tokenize({key: [{"caption": text} for text in row] for key, row in references.items()})
    said = tokenizer.tokenize({key: [{"caption": captions[key]}] for key in references})
    totals, images = Bleu(4).compute_score(known, said, verbose=0)
    found = {f"bleu_{n + 1}": (totals[n], np.array(images[n])) for n in range(4)}
    return found | {"rouge_l": Rouge().compute_score(known, said), "cider": Cider().compute_score(known, said)}


def parity() -> None:
    """Largest absolute differences, corpus / image, by system and metric."""
    captions_and_references()  # says where the data should be, if they are not
    for system in published_captions():
        captions, references = captions_and_references(system)
        mine, other = ours(captions, references), theirs(captions, references)
        cells = []
        for name in ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"):
            image = np.abs(mine[name][1] - other[name][1]).max()
            cells.append(f"{abs(mine[name][0] - other[name][0]):.0e} / {image:.0e}")
        print(f"| {system} | " + " | ".join(cells) + " |", flush=True)


def processor_seconds() -> float:
    """Of this process and of all it started and waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def corpus_metrics() -> list[Row]:
    captions, references = captions_and_references()
    mine_first, other_first = ours(captions, references), theirs(captions, references)  # equal, and both are warm now
    for name, (total, images) in other_first.items():
        np.testing.assert_allclose(mine_first[name][0], total, atol=1e-9)
        np.testing.assert_allclose(mine_first[name][1], images, atol=1e-9)
    runs = [_wall_and_processor(work, captions, references) for _ in range(3) for work in (ours, theirs)]  # in turn
    mine, other = np.min(runs[::2], axis=0), np.min(runs[1::2], axis=0)
    what = "BLEU-1..4 + ROUGE-L + CIDEr of one system (5 000 images, 25 010 references), tokenising included"
    against = "pycocoevalcap + Java PTBTokenizer"
    return [
        compare(name, against, float(first), float(second))
        for name, first, second in zip((what, f"{what}, processor time"), mine, other, strict=True)
    ]


def _wall_and_processor(work: Callable[..., object], *arguments: object) -> tuple[float, float]:
    wall, processor = time.perf_counter(), processor_seconds()
    work(*arguments)
    return time.perf_counter() - wall, processor_seconds() - processor


def rewards(batches: int = 8, images: int = 6000, size: int = 250) -> Row:
    """Batches of 5 samples an image, document frequencies of 6 000 images, ids as a captioner gives them."""
    references = read_references(FLICKR8K_CAPTIONS, split="train")
    texts = [[text.lower().rstrip(" .").split() for text in row] for row in references.values()][:images]
    vocabulary = Vocabulary.build((words for row in texts for words in row), min_count=5)
    tokens = [[vocabulary.encode(words, bos=False, eos=False) for words in row] for row in texts]
    table = DocumentFrequencies.of_tokens(tokens, vocabulary)
    reward = CiderReward(table, tokens, vocabulary)
    rng = np.random.default_rng(0)
    drawn = [np.repeat(rng.choice(len(tokens), size // 5, replace=False), 5) for _ in range(batches)]
    samples = [_samples(tokens, chosen, rng) for chosen in drawn]
    reward.rewards(samples[0], drawn[0])  # compiles, or loads what was compiled before
    scorer = _pycoco_scorer(tokens, table)
    mine = other = 0.0
    for sampled, chosen in zip(samples, drawn, strict=True):
        mine += seconds(lambda s=sampled, c=chosen: reward.rewards(s, c), repeats=3)  # type: ignore[misc]
        start = time.perf_counter()
        expected = scorer(sampled, chosen)
        other += time.perf_counter() - start
        np.testing.assert_allclose(reward.rewards(sampled, chosen), expected, atol=1e-9)
    what = f"CIDEr-D reward of {size} samples, 5 references per image, frequencies of {len(tokens)} images"
    return compare(what, "pycocoevalcap CiderScorer, same batches", 1e3 * mine / batches, 1e3 * other / batches, "ms")


def _samples(tokens: list[list[list[int]]], chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(size, 20): a caption of the image with a fifth of its words changed, EOS, PAD."""
    rows = np.full((len(chosen), 20), PAD)
    for line, image in zip(rows, chosen, strict=True):
        words = np.array(tokens[image][rng.integers(len(tokens[image]))][:19])
        other = tokens[rng.integers(len(tokens))][0]
        changed = rng.random(len(words)) < 0.2
        words[changed] = rng.choice(other, changed.sum())
        line[: len(words)], line[len(words)] = words, EOS
    return rows


def _pycoco_scorer(tokens: list[list[list[int]]], table: DocumentFrequencies) -> Callable[..., np.ndarray]:
    """Their scorer with document frequencies counted once, as training code uses it: ids joined into strings."""
    from pycocoevalcap.cider.cider_scorer import CiderScorer

    strings = [[" ".join(map(str, [*row, EOS])) for row in of_image] for of_image in tokens]
    counted = CiderScorer()
    for of_image in strings:
        counted += (of_image[0], of_image)
    counted.compute_doc_freq()

    class FixedScorer(CiderScorer):
        def compute_doc_freq(self) -> None:
            self.document_frequency = counted.document_frequency

    def score(sampled: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        scorer = FixedScorer()
        for line, image in zip(sampled.tolist(), chosen.tolist(), strict=True):
            scorer += (" ".join(map(str, line[: line.index(EOS) + 1])), strings[image])
        scorer.compute_doc_freq()
        scorer.crefs = _Longer(scorer.crefs, table.images)
        return np.array(scorer.compute_cider())

    return score


class _Longer(list):  # type: ignore[type-arg]
    """A list that claims the number of images behind the document frequencies: their log N has no other door."""

    def __init__(self, items: list[object], length: int) -> None:
        super().__init__(items)
        self.length = length

    def __len__(self) -> int:
        return self.length


def scaling(sizes: Sequence[int] = (1_000, 10_000, 100_000)) -> list[tuple[int, float]]:
    """CPU seconds (undisturbed by other work) for one system on `sizes` images: the captions again under new ids."""
    captions, references = captions_and_references()
    ours(captions, references)  # imports and caches
    known, found = list(references), []
    for size in sizes:
        ids = [(str(index), known[index % len(known)]) for index in range(size)]
        said, refs = {new: captions[old] for new, old in ids}, {new: references[old] for new, old in ids}
        found.append((size, seconds(lambda s=said, r=refs: ours(s, r), clock=time.process_time)))  # type: ignore[misc]
        each = f"{1e6 * found[-1][1] / size:6.1f} us an image"
        print(f"{size:>7} images: {found[-1][1]:7.2f} s, {each}, {peak_memory():.0f} MB")
    return found


def draw(points: Sequence[tuple[int, float]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    sizes, times = zip(*points, strict=True)
    figure, axes = plt.subplots(figsize=(5, 3.4))
    axes.loglog(sizes, times, "o-", label="BLEU-1..4 + ROUGE-L + CIDEr, tokenising included")
    axes.loglog(sizes, [times[-1] * size / sizes[-1] for size in sizes], ":", color="grey", label="linear")
    axes.set_xlabel("images (5 references each)")
    axes.set_ylabel("CPU seconds, one process")
    axes.legend(frameon=False, loc="lower right", fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def run() -> list[Row]:
    return [*corpus_metrics(), rewards()]


def main() -> None:
    if "--parity" in sys.argv:
        parity()
        return
    if "--figure" in sys.argv:
        draw(scaling(), ROOT / "docs" / "images" / "metrics_scaling.svg")
        return
    show(run())
    print(f"peak memory {peak_memory():.0f} MB")


if __name__ == "__main__":
    main()
