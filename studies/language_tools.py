"""Nouns, word vectors and the check for English on the captions we have, in one run.

python -m studies.language_tools
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable

import orjson

from benchmarks.measuring import empty_cache
from captrial.data.datasets import read_coco, read_karpathy
from captrial.language.english import not_english
from captrial.language.morphology import NOUN_TAGS, always_nouns, not_nouns, singular_forms
from captrial.language.nouns import analyse, nouns, pipeline, pipeline_version
from captrial.language.similarity import Similarity
from captrial.language.vectors import WordVectors
from studies.data_paths import COCO, FLICKR8K_CAPTIONS, KARPATHY_TEST

SOME = 5000  # captions for the timings


def captions() -> dict[str, list[str]]:
    """Every caption under the data folder, by where it comes from."""
    coco = read_coco(COCO / "captions_val2017.json")
    flickr = read_karpathy(FLICKR8K_CAPTIONS)
    found = {
        "COCO val2017": [text for sample in coco for text in sample.captions],
        "Flickr8k": [text for sample in flickr for text in sample.captions],
    }
    for path in sorted(KARPATHY_TEST.glob("*.json")):
        rows = orjson.loads(path.read_bytes())
        if isinstance(rows, dict):
            found["Karpathy test references"] = [text for group in rows.values() for text in group]
        else:
            found.setdefault("nine captioners", []).extend(row["caption"] for row in rows)
    return found


def timed(what: str, work: Callable[[], object], count: int) -> None:
    start = time.perf_counter()
    work()
    passed = time.perf_counter() - start
    print(f"| {what} | {passed:.2f} s, {count / passed:,.0f} a second |")


def main() -> None:
    groups = captions()
    texts = list(dict.fromkeys(text for group in groups.values() for text in group))
    print(f"{sum(map(len, groups.values())):,} captions, {len(texts):,} different; {pipeline_version()}\n")
    some = texts[:SOME]
    pipeline()
    print("| what | measured |\n| --- | --- |")
    with empty_cache():
        nouns(["warm up the pipeline"])
        timed(f"nouns of {SOME} captions", lambda: nouns(some), SOME)
        timed("the same again, from the cache", lambda: nouns(some), SOME)
        timed(f"with noun phrases, {SOME} others", lambda: analyse(texts[SOME : 2 * SOME]), SOME)
        timed("converting the installed vectors, the first time", WordVectors.open, 400_000)
        vectors = [time.perf_counter() for _ in range(5) if WordVectors.open()]
        print(f"| opening them after that | {1000 * (vectors[-1] - vectors[0]) / 4:.1f} ms |")
        words = sorted({noun for group in nouns(some) for noun in group})
        similarity = Similarity()
        pairs = len(words) ** 2
        timed(f"similarities of {len(words)} x {len(words)} words", lambda: similarity.matrix(words, words), pairs)
    timed("the check for English", lambda: not_english(texts), len(texts))

    print("\n| captions | taken for another language |\n| --- | --- |")
    for name, group in groups.items():
        print(f"| {name} | {len(not_english(group))} of {len(group):,} |")

    analyses = analyse(texts, phrases=False)  # of all captions, in the user's cache: minutes the first time
    lemmas = Counter(noun for one in analyses for noun in one.noun_lemmas)
    tags = [(token, tag in NOUN_TAGS) for one in analyses for token, tag in zip(one.tokens, one.tags, strict=True)]
    tagged = sum(noun for _, noun in tags)
    added = sum(not noun and token in always_nouns() for token, noun in tags)
    removed = sum(noun and token in not_nouns() for token, noun in tags)
    repaired = sum(noun and token in singular_forms() for token, noun in tags)
    said, missed = Counter(token for token, _ in tags), Counter(token for token, noun in tags if not noun)
    often = sorted((word for word in always_nouns() if said[word] >= 300), key=lambda word: -missed[word] / said[word])
    plurals = [(word, lemmas[word]) for word in lemmas if re.search(r"[^su]s$", word) and word[:-1] in lemmas]
    plurals = [(word, count) for word, count in plurals if word not in singular_forms()]
    print(f"\n{lemmas.total():,} nouns, {len(lemmas):,} different. Of {tagged:,} noun tags {removed:,} are rejected")
    print(f"and {repaired:,} get a repaired lemma; {added:,} nouns are found under other tags.")
    print("Missed most often: " + ", ".join(f"{word} {missed[word] / said[word]:.0%}" for word in often[:4]))
    print(f"Lemmas that still look plural: {sum(count for _, count in plurals):,} occurrences, the most frequent:")
    print(", ".join(f"{word} {count}" for word, count in sorted(plurals, key=lambda pair: -pair[1])[:12]))


if __name__ == "__main__":
    main()
