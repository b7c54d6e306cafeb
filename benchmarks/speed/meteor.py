"""METEOR of one system beside the jar of pycocoevalcap, from the same tokenised captions, in one run.

python -m benchmarks.speed.meteor          # the table
python -m benchmarks.speed.meteor --long   # captions of 10 000 words: processor seconds and peak memory

Both sides start as fresh processes: theirs is Python and a JVM that parses the paraphrase table, ours is Python, numba
and the memory-mapped index. What is done once for an installation (index, compiled kernels) is measured apart.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import Row, compare, environment, peak_memory, seconds, show
from studies.data_paths import KARPATHY_TEST

SYSTEM = "PureT-SCST"
REPEATS = 3
Captions = dict[str, list[str]]


def ours(said: Captions, known: Captions) -> dict[str, float]:
    from captrial.metrics.meteor import meteor_corpus, meteor_scores, meteor_stats

    candidates, references = [texts[0] for texts in said.values()], list(known.values())
    stats = meteor_stats(candidates, references)
    meteor_scores(stats)
    again = seconds(lambda: meteor_scores(meteor_stats(candidates, references)))
    return {"corpus": meteor_corpus(stats), "again": again}


def theirs(said: Captions, known: Captions) -> dict[str, float]:
    from pycocoevalcap.meteor.meteor import Meteor

    first = next(iter(said))
    scorer = Meteor()
    ready = seconds(lambda: scorer.compute_score({first: known[first]}, {first: said[first]}))
    corpus = scorer.compute_score(known, said)[0]
    again = seconds(lambda: scorer.compute_score(known, said))
    return {"corpus": corpus, "again": again, "ready": ready}


def peak() -> float:
    """Peak memory of this process or, if larger, of the largest it started, in MB."""
    return max(map(peak_memory, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def in_new_process(which: str, captions: Path, **changes: str) -> dict[str, float]:
    """Run one side; its results, with wall seconds (without the second, warm run) and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.speed.meteor", which, str(captions)]
    done = subprocess.run(command, env=environment(**changes), check=True, capture_output=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result | {"wall": wall - result["again"], "cpu": cpu}


def tokenized_captions() -> tuple[Captions, Captions]:
    from captrial.metrics import Corpus

    references = json.loads((KARPATHY_TEST / "references.json").read_text())
    rows = json.loads((KARPATHY_TEST / f"{SYSTEM}.json").read_text())
    said = {str(row["image_id"]): row["caption"] for row in rows}
    corpus = Corpus.prepare(said, {key: references[key] for key in said})
    candidates = {key: [text] for key, text in zip(corpus.ids, corpus.candidates, strict=True)}
    return candidates, dict(zip(corpus.ids, map(list, corpus.references), strict=True))


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        captions = Path(folder) / "captions.json"
        captions.write_text(json.dumps(tokenized_captions()))
        fresh = {"CAPTRIAL_CACHE": f"{folder}/cache", "NUMBA_CACHE_DIR": f"{folder}/numba"}
        built = in_new_process("compiled", captions, NUMBA_CACHE_DIR=fresh["NUMBA_CACHE_DIR"])
        indexed = in_new_process("indexed", captions, CAPTRIAL_CACHE=fresh["CAPTRIAL_CACHE"])
        pairs = [
            (in_new_process("ours", captions, **fresh), in_new_process("theirs", captions)) for _ in range(REPEATS)
        ]
    assert all(abs(mine["corpus"] - other["corpus"]) < 1e-12 for mine, other in pairs)

    def least(name: str) -> tuple[float, float]:
        return min(mine[name] for mine, _ in pairs), min(other[name] for _, other in pairs)

    what, jar = "METEOR of one system (5 000 images, 25 010 references)", "meteor-1.5.jar by pycocoevalcap"
    ready = min(other["ready"] for _, other in pairs)
    return [
        compare(f"{what}, fresh process, wall time", jar, *least("wall")),
        compare("METEOR of every further system, all loaded", jar, *least("again")),
        compare("METEOR, processor time of both runs together", jar, *least("cpu")),
        compare("METEOR, peak memory", jar, *least("peak"), "MB"),
        compare("METEOR, paraphrase index, built once", "the jar parses it at every start", indexed["once"], ready),
        compare("METEOR, kernels, compiled once", "the JVM compiles at every start", built["once"], ready),
    ]


def main() -> None:
    show(run())


def long_captions(words: int = 10_000) -> None:
    """Two captions of many words, drawn from real references, and of one word again and again."""
    import random

    from captrial.metrics.meteor import meteor_stats

    known = tokenized_captions()[1]
    pool = [word for texts in known.values() for text in texts for word in text.split()]
    rng = random.Random(0)
    drawn = [" ".join(rng.choices(pool, k=words)) for _ in range(2)]
    meteor_stats(["a dog"], [["a dog runs"]])  # loads what was compiled before
    for what, first, second in [("drawn words", *drawn), ("one word", "dog " * words, "dog " * (words - 1))]:
        start = time.process_time()
        meteor_stats([first], [[second]])
        print(f"{words} against {words} words, {what}: {time.process_time() - start:.1f} s, peak {peak():.0f} MB")


def one_side(which: str, path: Path) -> None:
    said, known = json.loads(path.read_text())
    if which in {"ours", "theirs"}:
        result = (ours if which == "ours" else theirs)(said, known)
    else:  # what happens only once: how much longer the first call takes than the second
        from captrial.metrics.meteor import MeteorResources, meteor_stats

        if which == "compiled":
            MeteorResources.find()
            once = seconds(lambda: meteor_stats(["a dog"], [["a dog runs"]]))
        else:
            once = seconds(MeteorResources.find)
        result = {"once": once, "again": 0.0}
    print(json.dumps(result | {"peak": peak()}))


if __name__ == "__main__":
    if "--long" in sys.argv:
        long_captions()
    elif len(sys.argv) > 1:
        one_side(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
