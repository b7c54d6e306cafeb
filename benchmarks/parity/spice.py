"""SPICE: time of one system, cold and warm; and how far its tuples and scores agree with the original tool's.

python -m benchmarks.parity.spice              # times: one system against 25 000 references
python -m benchmarks.parity.spice --agreement  # tuples, scores, published values against the original (docs/spice.md)
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from benchmarks.measuring import Row, compare, empty_cache, peak_memory, show
from captrial.data import read_captions, read_references
from captrial.metrics import Corpus, spice
from captrial.metrics.spice import counts_of_tuples, f_scores, scene_tuples
from captrial.metrics.spice.dependencies import universal
from captrial.metrics.spice.parser import lemmatizer, parse
from captrial.metrics.spice.tuple_patterns import extract
from studies.data_paths import DATA, KARPATHY_TEST

PUBLISHED = {"PureT-SCST": 24.2, "Paddle-UpDown": 20.3}  # by the Java tool, from the data's README
LIMITS = {"cold": 120.0, "warm": 10.0}  # seconds; the Java tool cannot run here, its parser's models are not to be had
Tuples = dict[str, set[tuple[str, ...]]]  # by caption


def corpus(system: str) -> Corpus:
    captions = read_captions(KARPATHY_TEST / f"{system}.json").to_dict()
    references = read_references(KARPATHY_TEST / "references.json")
    return Corpus.prepare({key: captions[key] for key in references}, references)


def run() -> list[Row]:
    prepared = corpus("PureT-SCST")
    rows: list[Row] = []
    with empty_cache():
        for state, limit in LIMITS.items():
            start, busy = time.perf_counter(), time.process_time()
            spice(prepared)
            mine, busy = time.perf_counter() - start, time.process_time() - busy
            what = f"SPICE of one system (5 000 images, 25 010 references), {state}, one process ({busy:.1f} s of CPU)"
            rows.append(compare(what, "the goal", mine, limit))
    return rows


def gold() -> tuple[list[dict[str, object]], Tuples, Tuples]:
    """The 500 scored captions; all tuples of the 500 with their references; those of the other file."""
    scored = json.loads((DATA / "metrics_gold" / "coco_500.json").read_text())
    lines = (DATA / "metrics_gold" / "spice_tuples.jsonl").read_text().splitlines()
    natural: Tuples = {}
    for item in scored:
        for text, found in zip(
            [item["caption"], *item["refs"]], [item["cand_tuples"], *item["ref_tuples"]], strict=True
        ):
            natural[text] = set(map(tuple, found))
    return scored, natural, {item["caption"]: set(map(tuple, item["tuples"])) for item in map(json.loads, lines)}


def held_out(text: str) -> bool:
    """Half of the captions, by content: the rules were written from errors on the other half."""
    return hashlib.blake2b(text.encode()).digest()[0] % 2 == 1


def f1(theirs: Tuples, ours: Tuples, size: int = 0) -> tuple[float, float, float]:
    """Precision, recall and F1 over tuples of one size (0: all)."""
    counts = Counter[str]()
    for text, found in theirs.items():
        expected, got = ({item for item in side if size in (0, len(item))} for side in (found, ours[text]))
        counts.update(both=len(expected & got), expected=len(expected), got=len(got))
    precision, recall = counts["both"] / counts["got"], counts["both"] / counts["expected"]
    return precision, recall, 2 * precision * recall / (precision + recall)


def cause(item: tuple[str, ...], own: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> str:
    """Why a tuple of one side is not on the other."""
    nodes = {word for found in other for word in (found[:2] if len(found) == 3 else found[:1])}
    if len(item) == 1 or not {item[0], item[1] if len(item) == 3 else item[0]} <= nodes:
        return "a word is a noun, or an object of its own, on one side only"
    rivals = [found for found in other - own if len(found) == len(item)]
    if any(found[1] == item[1] for found in rivals):
        return "attached to another word, or called otherwise"
    return "a relation or attribute that one side does not have"


def causes(theirs: Tuples, ours: Tuples) -> Counter[str]:
    found: Counter[str] = Counter()
    for text, expected in theirs.items():
        got = ours[text]
        found.update(cause(item, expected, got) for item in expected - got)
        found.update(cause(item, got, expected) for item in got - expected)
    return found


def parsed(texts: Iterable[str]) -> Tuples:
    known = list(texts)
    return {text: set(found) for text, found in zip(known, scene_tuples(known), strict=True)}


def without_habits(texts: Iterable[str]) -> Tuples:
    """What spaCy's parse gives as it is."""
    lemma, known, found = lemmatizer().lemma, list(texts), {}
    for text, parses in zip(known, parse(known), strict=True):
        graphs = [universal(tree, list(map(lemma, tree.words, tree.tags))) for tree in parses]
        found[text] = {item for graph in graphs for item in extract(graph)}
    return found


def agreement() -> None:
    scored, natural, other = gold()
    everything = {**other, **natural}
    ours = parsed(everything)
    sets: dict[str, Tuples] = {
        "all captions": everything,
        "held-out half": {text: found for text, found in everything.items() if held_out(text)},
        "COCO captions (coco_500)": natural,
        "COCO captions, held-out half": {text: found for text, found in natural.items() if held_out(text)},
        "spice_tuples.jsonl (much of it lemmatised)": other,
    }
    print(f"{'tuples':44} {'captions':>8}  {'P':>5} {'R':>5} {'F1':>5}   object attribute relation (F1)")
    for name, theirs in sets.items():
        kinds = "   ".join(f"{f1(theirs, ours, size)[2]:.3f}" for size in (1, 2, 3))
        print(f"{name:44} {len(theirs):8}  " + " ".join(f"{value:.3f}" for value in f1(theirs, ours)) + f"   {kinds}")
    print(f"spaCy's parse without our rules, all captions: F1 {f1(everything, without_habits(everything))[2]:.3f}")
    total = causes(everything, ours)
    for reason, count in total.most_common():
        print(f"{count / total.total():6.1%} of differing tuples: {reason}")
    _scores(scored)
    for system, published in PUBLISHED.items():
        mine = 100 * spice(corpus(system)).corpus
        print(f"{system}: published {published}, ours {mine:.2f}, difference {mine - published:+.2f}")


def _scores(scored: list[dict[str, object]]) -> None:
    """Per-caption scores of the 500 captions, from our parse and from the original's tuples."""
    items: list[Mapping[str, object]] = list(scored)
    exact = counts_of_tuples([i["cand_tuples"] for i in items], [i["ref_tuples"] for i in items])  # type: ignore[misc]
    mine = counts_of_tuples(
        scene_tuples([str(item["caption"]) for item in items]),
        [scene_tuples(item["refs"]) for item in items],  # type: ignore[arg-type]
    )
    for column, name in enumerate(("SPICE", "object", "attribute", "relation")):
        theirs, ours = f_scores(exact)[:, column], f_scores(mine)[:, column]
        both = ~(np.isnan(theirs) | np.isnan(ours))
        correlation = np.corrcoef(theirs[both], ours[both])[0, 1]
        means = f"theirs {100 * theirs[both].mean():.2f}, ours {100 * ours[both].mean():.2f}"
        print(f"{name} of {both.sum()} captions: correlation {correlation:.3f}; {means}")


def main() -> None:
    if "--agreement" in sys.argv:
        agreement()
        return
    show(run())
    print(f"peak memory {peak_memory():.0f} MB")


if __name__ == "__main__":
    main()
