"""METEOR against the original: the jar in the `pycocoevalcap` wheel, run as COCO's evaluation runs it."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from captrial.metrics.corpus import Corpus
from captrial.metrics.meteor import MeteorResources, meteor_corpus, meteor_scores, meteor_stats
from captrial.metrics.meteor.matching import normalize
from captrial.metrics.meteor.stem import stem
from captrial.metrics.wordnet import meteor_jar

pytestmark = pytest.mark.needs("java")

SYSTEMS = ["ER-SAN", "ETN-RL", "GAT", "Mun-et-al-2017", "Paddle-UpDown", "PureT-SCST", "SATIC", "Shetty-et-al-2017"]
SYSTEMS += ["Vinyals-et-al-2017"]
ODD = """
a an c0 the man men dog dogs big large in front of before lot many u.s. e.g. 3/4 10,000 don't n't 's ' t-shirt
close-up a-b-c café naïve ß Σας İ 😀 שלום مرحبا -- ... . , ; % & # -lrb- -rrb- | || _ __ ` ‘x’ “ ” – x y running
runs ran run skies sky glasses glass two people riding rides Mr. No. 5 aa bB
"""

ORACLE = """
import edu.cmu.meteor.aligner.*; import edu.cmu.meteor.util.*;
import java.io.*; import java.net.URL; import java.util.TreeSet;
public class Oracle {
  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    PrintStream out = new PrintStream(System.out, false, "UTF-8");
    SnowballStemmerWrapper stemmer = new SnowballStemmerWrapper(new org.tartarus.snowball.ext.englishStemmer());
    URL folder = Constants.DEFAULT_SYN_DIR_URL;
    SynonymDictionary synonyms = new SynonymDictionary(new URL(folder + "/english.exceptions"),
        new URL(folder + "/english.synsets"), new URL(folder + "/english.relations"));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String text = line.substring(1);
      if (line.charAt(0) == 'N') out.println(Normalizer.normalizeLine(text, Constants.LANG_EN, true).toLowerCase());
      else if (line.charAt(0) == 'S') out.println(stemmer.stem(text));
      else {
        TreeSet<Integer> found = new TreeSet<>(synonyms.getSynSets(text));
        found.addAll(synonyms.getStemSynSets(text));
        out.println(found);
      }
    }
    out.flush();
  }
}
"""


class Jar:
    """The original, kept running; the same lines that COCO's wrapper sends."""

    def __init__(self) -> None:
        command = ["java", "-Xmx2G", "-jar", "meteor-1.5.jar", "-", "-", "-stdio", "-l", "en", "-norm"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=meteor_jar().parent, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )

    def ask(self, *fields: str) -> None:
        assert self.process.stdin
        self.process.stdin.write((" ||| ".join(fields) + "\n").encode())
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().decode().strip()

    def score(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[np.ndarray, list[float]]:
        """Statistics (n, 23), and the scores of all segments followed by that of the corpus."""
        lines = []
        for candidate, texts in zip(candidates, references, strict=True):
            self.ask("SCORE", *texts, candidate.replace("|||", "").replace("  ", " "))
            lines.append(self.answer())
        self.ask("EVAL", *lines)
        scores = [float(self.answer()) for _ in range(len(lines) + 1)]
        return np.array([[float(field) for field in line.split()] for line in lines]), scores

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def jar() -> Iterator[Jar]:
    jar = Jar()
    yield jar
    jar.close()


def assert_equal(jar: Jar, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    expected, scores = jar.score(candidates, references)
    stats = meteor_stats(candidates, references)
    differ = np.flatnonzero((stats != expected).any(axis=1))
    assert not len(differ), f"{candidates[differ[0]]!r} against {references[differ[0]]!r}"
    assert meteor_scores(stats) == pytest.approx(scores[:-1], abs=1e-12)
    assert meteor_corpus(stats) == pytest.approx(scores[-1], abs=1e-12)


def tokenized(folder: Path, system: str, step: int = 1) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Candidates and references of every `step`-th image as COCO's evaluation gives them to METEOR."""
    references = json.loads((folder / "references.json").read_text())
    rows = json.loads((folder / f"{system}.json").read_text())[::step]
    said = {str(row["image_id"]): row["caption"] for row in rows}
    corpus = Corpus.prepare(said, {key: references[key] for key in said})
    return corpus.candidates, corpus.references


def odd_caption(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(["", " "])
    if kind < 0.2:
        ranges = [(32, 0x7F), (0xA0, 0x250), (0x370, 0x2000), (0xE000, 0x1FFFF)]
        return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(1, 12)))
    return " ".join(rng.choice(ODD.split()) for _ in range(rng.randrange(1, rng.choice([3, 8, 30]))))


@pytest.mark.slow
@pytest.mark.needs("data")
def test_real_captions(jar: Jar, data: Path) -> None:
    assert_equal(jar, *tokenized(data / "captioners" / "karpathy_test", "PureT-SCST", step=12))


@pytest.mark.slow
def test_odd_captions(jar: Jar) -> None:
    rng = random.Random(4)
    references = [[odd_caption(rng) for _ in range(rng.randrange(1, 4))] for _ in range(600)]
    candidates = [rng.choice(texts) if rng.random() < 0.3 else odd_caption(rng) for texts in references]
    assert_equal(jar, candidates, references)


@pytest.mark.full
@pytest.mark.needs("data")
@pytest.mark.parametrize("system", SYSTEMS)
def test_all_captions_of_nine_systems(jar: Jar, data: Path, system: str) -> None:
    assert_equal(jar, *tokenized(data / "captioners" / "karpathy_test", system))


@pytest.mark.needs("data")
def test_published_scores(data: Path) -> None:
    rows = json.loads((data / "metrics_gold" / "coco_500.json").read_text())
    stats = meteor_stats([row["caption"] for row in rows], [row["refs"] for row in rows])
    assert meteor_scores(stats) == pytest.approx([row["gold"]["METEOR"] for row in rows], abs=1e-9)


def ask_oracle(folder: Path, questions: list[str]) -> list[str]:
    source = folder / "Oracle.java"
    source.write_text(ORACLE)
    command = ["java", "-cp", str(meteor_jar()), str(source)]
    answer = subprocess.run(command, input="\n".join(questions).encode(), capture_output=True, check=True)
    return answer.stdout.decode().split("\n")[:-1]


@pytest.mark.slow
def test_normalised_lines_stems_and_synonyms(tmp_path: Path) -> None:
    resources = MeteorResources.find()
    assert resources.synonyms
    assert resources.paraphrases
    rng = random.Random(5)
    pieces = [
        *"ab1s.',-`\" /_B",
        "..",
        "...",
        "Mr.",
        "No. ",
        "u.s.",
        "é",
        "Ж",
        "–",
        "’",
        "“",
        "ß",
        "\u00a0",
        "\f",
        "😀",
        " ",
    ]
    lines = ["".join(rng.choice(pieces) for _ in range(rng.randrange(1, 15))) for _ in range(3000)]
    with ZipFile(meteor_jar()) as jar:
        known = jar.read("synonym/english.synsets").decode().split("\n")[::2]
    endings = ["s", "es", "ies", "ed", "ing", "er", "est", "ful", "sful", "ly", "ation", "ness", "'s", "ment"]
    words = [*rng.sample(list(resources.paraphrases.words), 2000), *filter(None, rng.sample(known, 2000))]
    words += [word[: rng.randrange(1, len(word) + 1)] + rng.choice(endings) for word in words]
    answers = iter(ask_oracle(tmp_path, [f"N{x}" for x in lines] + [f"S{x}" for x in words] + [f"Y{x}" for x in words]))
    for line in lines:
        assert normalize(line, resources.prefixes) == next(answers).split(" ") or not line.strip(), line
    assert [stem(word) for word in words] == [next(answers) for _ in words]
    assert [str(sorted(resources.synonyms.synsets(word))) for word in words] == list(answers)
