"""Scores by meaning against people: words that people marked as hallucinated, and votes on long descriptions.

python -m studies.meaning_and_people [--data FOLDER]     writes studies/results/semantic/people.json

- HAT (ALOHa, Petryk et al. 2024): 200 captions marked word by word. Average precision of words and of captions, for
  unsupported words, CHAIR (the references' objects) and ALOHa's matching (noun phrases, embedded, Hungarian algorithm;
  with our phrases and encoder in place of a language model's).
- ImageInWords and DOCCI: votes on hallucination and comprehensiveness; the IIW text is the reference and one side.
Intervals are bootstrap percentiles over captions; differences are paired.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import kendalltau

from captrial.language.class_words import COCO_CLASSES, mentioned
from captrial.language.nouns import analyse
from captrial.language.token_spans import words_of_tokens
from captrial.metrics import Corpus, cider, fact_reports, facts, meteor, rouge_l, semantic, spice
from captrial.metrics.semantic.sentence_encoder import sentence_encoder
from captrial.metrics.semantic.unsupported_words import content_words, word_scores
from studies.data_paths import DATA

Floats = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results" / "semantic" / "people.json"
REPLICATES = 1000
VOTES = {"substantially": 2, "marginally": 1}


def average_precision(truth: NDArray[np.bool_], scores: Floats) -> float:
    """Area under precision and recall; equal scores are one threshold."""
    order = np.argsort(-scores, kind="stable")
    hits, ranked = np.cumsum(truth[order]), scores[order]
    last = np.flatnonzero(np.append(np.diff(ranked) != 0, True))  # the end of every run of equal scores
    recall = hits[last] / max(hits[-1], 1)
    return float(np.sum(np.diff(recall, prepend=0) * hits[last] / (last + 1)))


def read_hat(path: Path) -> tuple[list[str], list[NDArray[np.bool_]], list[list[str]]]:
    """Captions, which of their words people marked, and references."""
    rows = json.loads(path.read_bytes())
    texts = [" ".join(word for word, _ in row["grounding"]) for row in rows]
    marked = [np.array([wrong for _, wrong in row["grounding"]]) for row in rows]
    return texts, marked, [row["references"] for row in rows]


def hat(path: Path) -> dict[str, Any]:
    texts, marked, references = read_hat(path)
    corpus = Corpus.prepare(texts, references)
    words = {**word_detectors(corpus, texts, references), "all alike": [np.zeros(len(own)) for own in marked]}
    worst = {name: np.array([scores.max() for scores in of]) for name, of in words.items()}
    mean = {
        f"{name}, mean": np.array([scores[scores > 0].mean() if (scores > 0).any() else 0 for scores in words[name]])
        for name in ("unsupported words", "ALOHa's matching")
    }
    fact, meaning = facts(corpus), semantic(corpus)
    captions = {
        **worst,
        **mean,
        "1 - facts precision": 1 - fact.parts["facts_precision"].per_image,
        "1 - semantic precision": 1 - meaning.parts["semantic_precision"].per_image,
        "1 - semantic recall": 1 - meaning.parts["semantic_recall"].per_image,
    }
    wrong = np.array([of.any() for of in marked])

    def word_ap(name: str, sample: NDArray[np.int64]) -> float:
        return average_precision(
            np.concatenate([marked[i] for i in sample]), np.concatenate([words[name][i] for i in sample])
        )

    def caption_ap(name: str, sample: NDArray[np.int64]) -> float:
        return average_precision(wrong[sample], captions[name][sample])

    return {
        "words": _resampled(list(words), word_ap, len(texts), "unsupported words"),
        "captions": _resampled(list(captions), caption_ap, len(texts), "unsupported words"),
        "mistakes": _mistakes(texts, references, marked),
    }


def word_detectors(
    corpus: Corpus, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, list[Floats]]:
    """Scores of all words, larger for hallucinated ones, by each way to find them."""
    return {
        "unsupported words": unsupported_scores(corpus, texts),
        "ALOHa's matching": [aloha_scores(text, of) for text, of in zip(texts, references, strict=True)],
        "CHAIR": [chair_scores(text, of) for text, of in zip(texts, references, strict=True)],
    }


def unsupported_scores(corpus: Corpus, texts: Sequence[str]) -> list[Floats]:
    found = []
    for text, scores in zip(texts, word_scores(corpus), strict=True):
        row = np.zeros(len(text.split()))
        for word in scores:
            row[len(text[: word.start].split())] = word.score
        found.append(row)
    return found


def aloha_scores(text: str, references: Sequence[str]) -> Floats:
    """1 - the similarity of the phrase that a word stands in to the one assigned to it."""
    own, *others = analyse([text, *references])
    word_of, row = words_of_tokens(text.split()), np.zeros(len(text.split()))
    said = [" ".join(own.tokens[start:end]) for start, end in own.phrases]
    there = sorted({" ".join(one.tokens[start:end]) for one in others for start, end in one.phrases})
    if not said or not there:
        return row
    encoder, content = sentence_encoder(), set(content_words(text, own))
    cosine = encoder.encode(said) @ encoder.encode(there).T
    matched = np.zeros(len(said))
    rows, columns = linear_sum_assignment(cosine, maximize=True)
    matched[rows] = cosine[rows, columns]
    for (start, end), value in zip(own.phrases, matched, strict=True):
        for token in range(start, end):
            if word_of[token] in content:
                row[word_of[token]] = 1 - value
    return row


def chair_scores(text: str, references: Sequence[str]) -> Floats:
    there = {name for names in mentioned(references, classes=COCO_CLASSES) for name in names}
    alone = mentioned(text.split(), classes=COCO_CLASSES)
    return np.array([float(any(name not in there for name in names)) for names in alone])


def _mistakes(texts: Sequence[str], references: Sequence[Sequence[str]], marked: Sequence[Any]) -> list[dict[str, Any]]:
    """Of listed mistakes, how many hold a marked word; of marked words, how many stand in a listed mistake."""
    reports = fact_reports(texts, references)
    found = []
    for threshold in (0.3, 0.4, 0.5, 0.6, 0.7):
        listed = right = reached = 0
        for report, wrong in zip(reports, marked, strict=True):
            spans = [item.proposition.words for item in report.mistakes(threshold)]
            numbers = [{len(report.caption[:start].split()) for start, _ in words} for words in spans]
            listed += len(numbers)
            right += sum(any(wrong[number] for number in one) for one in numbers)
            reached += sum(wrong[number] for number in set().union(*numbers)) if numbers else 0
        total = sum(int(wrong.sum()) for wrong in marked)
        found.append({"threshold": threshold, "listed": listed, "right": right, "marked": total, "found": int(reached)})
    return found


def votes(folder: Path) -> dict[str, Any]:
    iiw = [json.loads(line) for line in (folder / "iiw400.jsonl").read_text().splitlines()]
    iiw = [row for row in iiw if "IIW-P5B" in row]
    docci = [json.loads(line) for line in (folder / "docci_test.jsonl").read_text().splitlines()]
    sides = {
        "IIW-P5B": ([row["IIW-P5B"] for row in iiw], iiw, [row["iiw-human-sxs-iiw-p5b"] for row in iiw]),
        "DOCCI": ([row["DOCCI"] for row in docci], docci, docci),
    }
    return {name: _agreement(name, *side) for name, side in sides.items()}


def _agreement(name: str, captions: list[str], rows: Sequence[Any], answers: Sequence[Any]) -> dict[str, Any]:
    corpus = Corpus.prepare(captions, [[row["IIW"]] for row in rows])
    fact, meaning = facts(corpus), semantic(corpus)
    vectors = sentence_encoder().encode([*captions, *(row["IIW"] for row in rows)])
    scores = {
        "facts": fact.per_image,
        "facts precision": fact.parts["facts_precision"].per_image,
        "facts recall": fact.parts["facts_recall"].per_image,
        "semantic": meaning.per_image,
        "semantic recall": meaning.parts["semantic_recall"].per_image,
        "cosine of whole texts": (vectors[: len(rows)] * vectors[len(rows) :]).sum(axis=1),
        "METEOR": meteor(corpus).per_image,
        "CIDEr": cider(corpus).per_image,
        "ROUGE-L": rouge_l(corpus).per_image,
        "SPICE": spice(corpus).per_image,
        "words": np.array([len(text.split()) for text in captions], float),
    }
    found = {}
    for question, main in (("Hallucination", "facts precision"), ("Comprehensiveness", "facts recall")):
        answer = np.array([_vote(row[f"metrics/{question}"], name) for row in answers])

        def tau(metric: str, sample: NDArray[np.int64], answer: Floats = answer) -> float:
            return float(np.nan_to_num(kendalltau(scores[metric][sample], answer[sample]).statistic))

        found[question] = _resampled(list(scores), tau, len(rows), main)
    return found


def _vote(text: str, side: str) -> int:
    if text == "Neutral":
        return 0
    return VOTES[text.split()[-2]] * (1 if text.startswith(side) else -1)


def _resampled(
    names: Sequence[str], value: Callable[[str, NDArray[np.int64]], float], size: int, main: str
) -> dict[str, Any]:
    """Values with 95% intervals, and the paired difference of `main` to each."""
    rng = np.random.default_rng(0)
    samples = [np.arange(size), *(rng.integers(0, size, size) for _ in range(REPLICATES))]
    table = {name: np.array([value(name, sample) for sample in samples]) for name in names}
    found = {}
    for name, values in table.items():
        low, high = np.percentile(values[1:], [2.5, 97.5])
        difference = table[main] - values
        below, above = np.percentile(difference[1:], [2.5, 97.5])
        found[name] = {
            "value": round(values[0], 4),
            "interval": [round(low, 4), round(high, 4)],
            f"{main} minus this": [round(difference[0], 4), round(below, 4), round(above, 4)],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    data = parser.parse_args().data
    found = {"hat": hat(data / "hallucination" / "hat.json"), "votes": votes(data / "long_captions")}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
