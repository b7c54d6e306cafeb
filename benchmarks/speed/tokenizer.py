"""Our tokeniser beside the COCO toolkit's jar on every caption of the data folder, in one run.

python -m benchmarks.speed.tokenizer
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measuring import Row, compare, seconds, show
from captrial.language import tokenize_all
from captrial.language.tokenizer import tokenize
from studies.data_paths import COCO, DATA, FLICKR8K_CAPTIONS, KARPATHY_TEST

REPEATS = 3

_SCRIPT = "import json, sys; from captrial.language import tokenize_all; tokenize_all(json.load(open(sys.argv[1])))"


def files() -> Iterator[list[str]]:
    """The captions of each file, in its order."""
    images = json.loads(FLICKR8K_CAPTIONS.read_text())["images"]
    yield [sentence["raw"] for image in images for sentence in image["sentences"]]
    yield [row["caption"] for row in json.loads((COCO / "captions_val2017.json").read_text())["annotations"]]
    for path in sorted(KARPATHY_TEST.glob("*.json")):
        said = json.loads(path.read_text())
        yield (
            [text for texts in said.values() for text in texts]
            if isinstance(said, dict)
            else [row["caption"] for row in said]
        )
    scored = json.loads((DATA / "metrics_gold" / "coco_500.json").read_text())
    yield [text for row in scored for text in (row["caption"], *row["refs"])]
    lines = (DATA / "metrics_gold" / "spice_tuples.jsonl").read_text().splitlines()
    yield [json.loads(line)["caption"] for line in lines]


def jar(texts: list[str]) -> list[str]:
    """What pycocoevalcap makes of the texts: a file, a JVM, the lines read back."""
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    tokens: list[str] = PTBTokenizer().tokenize({0: [{"caption": text} for text in texts]})[0]
    return tokens


def afresh(texts: list[str]) -> None:
    """Ours, remembering nothing from before."""
    tokenize.forget()
    tokenize_all(texts)


def side_by_side(what: str, ours: Callable[[], object], theirs: Callable[[], object]) -> Row:
    """The shortest of a few turns each, taken by turns, since other work on the machine comes and goes."""
    times = [(seconds(ours), seconds(theirs)) for _ in range(REPEATS)]
    mine, other = (min(column) for column in zip(*times, strict=True))
    return compare(what, "pycocoevalcap PTBTokenizer (jar)", mine, other)


def run() -> list[Row]:
    captions = [caption for file in files() for caption in file]
    paragraphs = [" ".join(captions[start : start + 5]) for start in range(0, len(captions), 5)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "captions.json"
        path.write_text(json.dumps(captions))
        script = [sys.executable, "-c", _SCRIPT, str(path)]
        return [
            side_by_side(f"tokenising {len(captions)} captions", lambda: afresh(captions), lambda: jar(captions)),
            side_by_side(
                "the same in a new Python, its start and reading JSON included",
                lambda: subprocess.run(script, check=True),
                lambda: jar(captions),
            ),
            side_by_side(
                f"{len(paragraphs)} texts of five captions", lambda: afresh(paragraphs), lambda: jar(paragraphs)
            ),
        ]


def differences() -> Iterator[tuple[int, int, int]]:
    """For each file: captions, how many differ from the jar's, how many when each caption stands alone."""
    for file in files():
        expected = jar(file)
        yield (
            len(file),
            *(sum(map(str.__ne__, expected, tokenize_all(file, as_file=as_file))) for as_file in (True, False)),
        )


def main() -> None:
    show(run())
    total, differ, alone = map(sum, zip(*differences(), strict=True))
    print(f"differing from the jar: {differ} of {total} captions as a file, {alone} one by one")


if __name__ == "__main__":
    main()
