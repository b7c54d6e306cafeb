"""Twenty commands, what they printed before the restructuring, and whether they still print it.

    python -m studies.restructure.commands record  --source OLD/src     # writes before.json beside this file
    python -m studies.restructure.commands compare                      # this tree; exit 1 on any difference

The commands run in order, in one temporary folder, each a process of its own with one thread; later ones use files of
earlier ones. Captions, references and photographs come from `CAPTRIAL_DATA`, else `../shared/data`; sentences of these
files are kept in before.json as hashes only. Of files that commands write, the hash of every column and the first rows
are kept. `compare` is strict about numbers (a unit of the sixth digit), ids, captions and structure, and lenient about
four things, all listed below: what depends on the machine (MASKED), prose (PROSE, compared by presence), names
(RENAMED_*; besides these, picture and image are the same word everywhere), and keys that are new (ADDED). Values that
later work changed on purpose (EXPLAINED) are counted with the reason; anything else that differs is told and fails.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]  # the repository
ALL = "*"  # in the dicts below: every command

# ---- names that change: OLD -> NEW, by command. Files that are renamed stand among the keys. Where a key becomes two,
# a path says which: {"compete": {"calls/2/stdout/pictures": "pool_images"}}. Hashes do not know of renamed values.
RENAMED_KEYS: dict[str, dict[str, str]] = {
    ALL: {},
    "annotate": {"sentence": "caption"},
    "attend": {"size-forced": "size-forced-classes", "size-generated": "size-generated-classes"},
    "compete": {"calls/2/stdout/pictures": "pool"},
    "explain-attention": {"looked_at": "top_region"},
    "explain-gradients": {"looked_at": "top_region"},
    "explain-saliency": {"looked_at": "top_region"},
    "toyworld": {"format": "image_format", "form": "format"},
    "models": {
        "sees": "features",
        "speaks": "decoder",
        "attends_in_encoder": "encoder_attention",
        "attends_in_decoder": "decoder_attention",
    },
}
RENAMED_VALUES: dict[str, dict[str, str]] = {  # whole strings
    ALL: {},
    "attend": {"forced": "forced-classes", "generated": "generated-classes"},
}
RENAMED_ARGUMENTS: dict[str, dict[str, str]] = {
    ALL: {"--pictures": "--images"},
    "annotate": {"--as": "--format", "sentences": "captions", "{work}/trial": "{work}/labelled"},  # of a copy now
}  # whole words of a command line

# ---- options that the new tree is given beside those of the old one: the default detector of explain is another
ADDED_ARGUMENTS: dict[str, dict[str, list[str]]] = {  # by command, then by how the call begins
    "explain-attention": {"explain": ["--regions", "localiser", "--rule", "mean"]},
    "explain-gradients": {"explain": ["--regions", "localiser", "--rule", "mean"]},
    "explain-saliency": {"explain": ["--rule", "mean"]},
    "compete": {"compete select": ["--design", "discrepancy"]},
    "ground": {"ground": ["--rule", "mean"]},
    "annotate": {"annotate simulate": ["--out", "{work}/labelled"]},
}

# ---- keys that later work added, by command: a value that was not there before is no difference
_GROUNDED = frozenset(  # see docs/explain.md and docs/ground.md
    {"absent", "rule", "error_rates", "error_by_eye", "error_rates_by_eye", "error_by_references", "reason", "warnings"}
    | {"alternatives", "language_share", "language_shares", "prior_log_probabilities"}
)
_RANKED = frozenset({"f_low", "f_high", "population", "document_frequencies", "value"})
ADDED: dict[str, frozenset[str]] = {
    "annotate": _RANKED | {"unfinished", "ranking", "missing_people"},
    "attend": frozenset({"kind-forced-classes", "kind-generated-classes"}),
    "compete": frozenset({"design"}),
    "compete-add": _RANKED,
    "compete-rank": _RANKED,
    "features": frozenset({"image", "sum"}),
    "ground": frozenset({"skill", "skill-checkable", "results"}),
    "models": frozenset({"m2-regions", "show_attend_tell-implicit", "show_attend_tell-strong"}),
    "pool": frozenset({"allow_private"}),
    "train": frozenset({"empty_captions"}),
    "explain-attention": _GROUNDED,
    "explain-gradients": _GROUNDED,
    "explain-saliency": _GROUNDED,
}

# ---- differences that later work made on purpose, by command: what their paths match, and why
_INTERVALS = (
    r"/(low|high|rank_low|rank_high|first|bradley_terry)$|/beats(/|$)",
    "intervals and ranks are by Student's t over images, not by a bootstrap; Bradley-Terry strengths are bias-reduced",
)
_PEOPLE = (
    r"/words/3/verdict$",
    "children on a region named man: two words for people now ground each other (6bc3e4b)",
)
_ROUNDING = (
    r"/completeness_error$|explanation\.npz/\w+/(hash|mean|norm)$",
    "rounding of another processor; 79b0752, which was equal where before.json was recorded, gives these values here",
)
EXPLAINED: dict[str, tuple[tuple[str, str], ...]] = {
    "annotate": (_INTERVALS,),
    "attend": (
        (r"/spearman/", "correlations are of any two measures now, not with correctness alone"),
        (r"/(correctness/rows/[01]|leads/rows/0|size-forced-classes)/|/scores/", "new names in classes.txt (6bc3e4b)"),
    ),
    "compete-add": (_INTERVALS,),
    "compete-rank": (_INTERVALS,),
    "compete-results": ((r"^/calls/2/", "plan needs a sample of the pool now and refuses the design discrepancy"),),
    "explain-attention": (
        (r"/verdict$", "hallucinated is now two verdicts; here: there, but not looked at"),
        _ROUNDING,
    ),
    "explain-gradients": (
        _PEOPLE,
        (r"/verdict$", "hallucinated is now two verdicts; here: not in the image"),
        _ROUNDING,
    ),
    "explain-saliency": (_ROUNDING,),
    "ground": (
        (r"/verdicts/", "hallucinated is now two verdicts, and two words for people ground each other (6bc3e4b)"),
        (r"/detection/", "rows by verdict and of null models are beside those of the methods"),
        (r"\.jsonl/", "lines have the new verdicts, the regions and the settings"),
    ),
    "train": ((r"metrics\.csv|safetensors", "dropout from random bits and fused AdamW (6bc3e4b)"),),
}

# ---- tables whose rows and columns were exchanged: the numbers in their cells are compared in any order
EXCHANGED = frozenset({"score-intervals"})

# ---- values that depend on the machine or the hour (who stands out by seconds too), or are hashes of prose, by key
MASKED = frozenset(
    {"seconds", "seconds_each", "hours_left", "peak_megabytes", "version", "checkpoint", "stands_out", "why"}
)

# ---- sentences for people, by command and key: only whether there is any is compared
PROSE: dict[str, frozenset[str]] = {
    ALL: frozenset({"title", "notes", "note", "problem", "problems", "reason", "made with", "stderr"}),
    "models": frozenset({"data", "scores", "licence"}),
}


@dataclass(frozen=True)
class Command:
    """Calls of captrial that belong together, and files they write: path below the work folder -> rows to keep."""

    name: str
    calls: tuple[str, ...]
    files: Mapping[str, int] = field(default_factory=dict)


REFERENCES = "--references {work}/references.json"
COCO = "--data {data}/coco/captions_val2017.json --images {data}/coco/images"
PHOTO = "{data}/coco/images/000000001000.jpg"
COMMANDS = (
    Command("models", ("models --json",)),
    Command(
        "score",
        (
            "score {work}/GAT.json {work}/PureT-SCST.json {work}/Vinyals-et-al-2017.json "
            + REFERENCES
            + " --metrics bleu,cider,cider_plain,meteor,rouge,spice,nw,coverage,noun_iou,chair,repetition,statistics"
            " --objects {data}/coco/objects_present.json --per-image {work}/score.csv --json",
            "score {work}/nobody.json " + REFERENCES,  # bad input: exit code 2 and a sentence
        ),
        {"score.csv": 4},
    ),
    Command(
        "score-intervals",
        (
            "score {work}/GAT.json {work}/SATIC.json " + REFERENCES + " --metrics bleu,cider,rouge,statistics --seed 1",
            "score {work}/GAT.json {work}/SATIC.json {work}/ER-SAN.json " + REFERENCES + " --metrics cider,meteor",
        ),
    ),
    Command(
        "score-workers",
        (
            "score {work}/SATIC.json {work}/Mun-et-al-2017.json " + REFERENCES + " --metrics bleu,cider,meteor,rouge,"
            "spice --engine local --workers 2 --work {work}/parts --per-image {work}/workers.parquet --json",
        ),
        {"workers.parquet": 2},
    ),
    Command("caption", ("caption {work}/photos/1.jpg {work}/photos/2.jpg {work}/photos/3.jpg --json",)),
    Command(
        "caption-folder",
        ("caption {work}/photos --model transformer?beam=3 --out {work}/said.jsonl --json",),
        {"said.jsonl": 9},
    ),
    Command(
        "explain-attention",
        ("explain {work}/photos/2.jpg --model show_attend_tell --method attention --out {work}/attention --json",),
        {"attention/explanation.npz": 0},
    ),
    Command(
        "explain-saliency",
        (f"explain {PHOTO} --model m2 --method saliency --regions grid --out {{work}}/saliency --json",),
        {"saliency/explanation.npz": 0},
    ),
    Command(
        "explain-gradients",
        (f"explain {PHOTO} --method integrated_gradients --out {{work}}/gradients --json",),
        {"gradients/explanation.npz": 0},
    ),
    Command(
        "toyworld",
        (
            "data toyworld {work}/toy --pictures 80 --size 128 --seed 3 --json",
            "data show {work}/toy --json",
            "data show {data}/flickr8k/dataset_flickr8k.json --split test --json",
        ),
        {
            "toy/dataset.json": 0,
            "toy/instances.json": 0,
            "toy/phrases.json": 0,
            "toy/scene_graphs.json": 0,
            "toy/images/train/train_000000.png": 0,
            "toy/images/wild/wild_000001.png": 0,
        },
    ),
    Command(
        "features",
        ("features {work}/toy --split train+val --backbone efficientnet-lite0 --out {work}/features --json",),
        {"features/index.jsonl": 2, "features/elements.f16": 0, "features/store.json": 1},
    ),
    Command(
        "train",
        (
            "train show_attend_tell-small --data {work}/toy --features {work}/features --out {work}/run --set epochs=3"
            " --set batch=12 --set warmup=2 --set min_count=2 --set rate=0.002 --set supervision=strong --set seed=1"
            " --json",
        ),
        {"run/metrics.csv": 9, "run/best/vocabulary.json": 0, "run/best/model.safetensors": 0},
    ),
    Command(
        "ground",
        (
            "ground --data {work}/toy --split test --models transformer,show_attend_tell --methods saliency,attention"
            " --out {work}/ground --json",
            f"ground {COCO} --limit 6 --regions localiser --models ort --methods integrated_gradients"
            " --out {work}/localised --json",
        ),
        {"ground/nouns/transformer-saliency.jsonl": 3, "localised/nouns/ort-integrated_gradients.jsonl": 3},
    ),
    Command(
        "attend",
        (
            f"attend {COCO} --boxes {{data}}/coco/boxes_val2017.json --limit 16 --models show_attend_tell,transformer"
            " --examples 0 --out {work}/attend --json",
        ),
        {"attend/scores/transformer-attention.json": 0},
    ),
    Command(
        "compete",
        (
            "compete new {work}/trial --captions {work}/GAT.json --captions puret={work}/PureT-SCST.json"
            " --captions {work}/Vinyals-et-al-2017.json --captions {work}/SATIC.json --seed 2 --json",
            "compete select {work}/trial --k 15 --workers 1 --json",
            "compete status {work}/trial --json",
        ),
    ),
    Command(
        "compete-rank",
        (
            "compete rank {work}/trial " + REFERENCES + " --json",
            "compete rank {work}/trial " + REFERENCES + " --metric spice --json",
        ),
    ),
    Command(
        "compete-results",
        (
            "compete stability {work}/trial " + REFERENCES + " --json",
            "compete flip {work}/trial " + REFERENCES + " --json",
            "compete plan {work}/trial --references {work}/half.json --goal order --json",
            "compete repetition {work}/trial --json",
            "compete statistics {work}/trial " + REFERENCES + " --json",
        ),
    ),
    Command(
        "compete-add",
        (
            "compete add {work}/trial --captions {work}/ER-SAN.json --workers 1 --json",
            "compete rank {work}/trial " + REFERENCES + " --metric rouge_l --json",
            "compete export {work}/trial {work}/exported " + REFERENCES + " --json",
        ),
        {"exported/selection.csv": 3, "exported/pictures.csv": 0, "exported/ranking_cider.csv": 5},
    ),
    Command(
        "annotate",
        (
            "annotate simulate {work}/trial/ {work}/references.json --seed 5 --json",
            "annotate status {work}/trial --json",
            "annotate export {work}/trial {work}/labels.jsonl --as jsonl",
            "annotate export {work}/trial {work}/sentences.csv --as sentences",
            "compete rank {work}/trial --json",
        ),
        {"labels.jsonl": 0, "sentences.csv": 0},
    ),
    Command(
        "pool",
        (
            "pool build {work}/pool --from {work}/photos --from toy={work}/toy/images --workers 1 --json",
            "pool show {work}/pool --left-out --json",
        ),
        {"pool/manifest.parquet": 3},
    ),
)

AFTER = {  # a command: those whose files it works on
    "features": ("toyworld",),
    "train": ("features",),
    "ground": ("toyworld",),
    "pool": ("toyworld",),
    "compete-rank": ("compete",),
    "compete-results": ("compete",),
    "compete-add": ("compete",),
    "annotate": ("compete-add",),
}

# ---- what the commands work on
CAPTIONERS = ("ER-SAN", "GAT", "Mun-et-al-2017", "PureT-SCST", "SATIC", "Vinyals-et-al-2017")
PUBLISHED, PHOTOGRAPHS = 300, (10, 400, 900, 2500, 4000, 6000)  # images of the slice; places in the sorted folder
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
TINY = 1e-12  # smaller numbers are 0
SECONDS, DIGITS, SHOWN = 600, 6, 6  # the longest a call may take; significant digits of a number; differences told


def prepare(data: Path, work: Path) -> frozenset[str]:
    """Write the slice of published captions and the photographs; returns all sentences that are not ours to keep."""
    published = data / "captioners" / "karpathy_test"
    references = dict(list(json.loads((published / "references.json").read_text()).items())[:PUBLISHED])
    half = {image: texts for place, (image, texts) in enumerate(references.items()) if place % 2}
    (work / "references.json").write_text(json.dumps(references))
    (work / "half.json").write_text(json.dumps(half))
    borrowed = [text for texts in references.values() for text in texts]
    for name in CAPTIONERS:
        rows = json.loads((published / f"{name}.json").read_text())
        rows = [row for row in rows if str(row["image_id"]) in references]
        (work / f"{name}.json").write_text(json.dumps(rows))
        borrowed += [row["caption"] for row in rows]
    _photographs(data / "flickr8k" / "images", work / "photos")
    return frozenset(" ".join(text.split()) for text in borrowed)


def _photographs(folder: Path, out: Path) -> None:
    """Six photographs, one of them twice, and a file that only says it is one."""
    out.mkdir()
    names = sorted(path.name for path in folder.iterdir())
    for number, place in enumerate(PHOTOGRAPHS, 1):
        shutil.copyfile(folder / names[place], out / f"{number}.jpg")
    shutil.copyfile(out / "1.jpg", out / "again.jpg")
    (out / "broken.jpg").write_text("this is no photograph")


# ---- running
@dataclass(frozen=True)
class Runner:
    """Runs the commands of one tree; `renamed` says whether it knows the new names of options."""

    source: Path | None
    data: Path
    work: Path
    renamed: bool

    def environment(self) -> dict[str, str]:
        """One thread, caches of this run only, no width of a terminal."""
        chosen = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "PYTHONPATH")}
        chosen |= dict.fromkeys(ONE_THREAD, "1")
        chosen |= {"CAPTRIAL_CACHE": str(self.work / "cache"), "NUMBA_CACHE_DIR": str(self.work / "numba")}
        chosen |= {"PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
        return chosen | ({"PYTHONPATH": str(self.source)} if self.source else {})

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run this interpreter on the tree's captrial."""
        command = [sys.executable, *arguments]
        options: dict[str, Any] = {"cwd": self.work, "env": self.environment(), "timeout": SECONDS}
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)

    def arguments(self, command: Command, call: str) -> list[str]:
        """The words of a call, with this tree's names and folders."""
        new = _of(RENAMED_ARGUMENTS, command.name) if self.renamed else {}
        words = [new.get(word, word) for word in shlex.split(call)]
        for beginning, more in ADDED_ARGUMENTS.get(command.name, {}).items():
            words += more if self.renamed and call.startswith(beginning) else []
        return [word.replace("{work}", str(self.work)).replace("{data}", str(self.data)) for word in words]

    def run(self, command: Command, cleaner: Cleaner) -> dict[str, Any]:
        """What a command's calls print and write, normalised."""
        calls = []
        for call in command.calls:
            done = self.python("-m", "captrial", *self.arguments(command, call))
            found = {"exit": done.returncode, "stdout": read_stdout(done.stdout)}
            calls.append(cleaner.clean(found | ({"stderr": done.stderr} if done.returncode else {})))
            if done.returncode:
                sys.stderr.write(f"  {command.name}: exit code {done.returncode}: {done.stderr[-2000:]}")
        names = {name: _present(self.work, name, command.name) for name in command.files}
        files = {path: read_file(self.work / path, command.files[name], cleaner) for name, path in names.items()}
        return {"calls": calls, "files": files}


def _present(work: Path, name: str, command: str) -> str:
    """The name a file has in this tree: the old one, else the new one."""
    return name if (work / name).exists() else new_key(name, _of(RENAMED_KEYS, command))


# ---- reading what was printed and written
def read_stdout(text: str) -> Any:
    """JSON; else the cells of the tables that were printed; else nothing but that something was said."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        rows = [line.strip()[1:-1].split("│") for line in text.splitlines() if line.startswith("│")]
        return {"cells": [[cell.strip() for cell in row] for row in rows]} if rows else {"note": text}


def read_file(path: Path, keep: int, cleaner: Cleaner) -> Any:
    """A file as something short that tells it from any other content."""
    if not path.exists():
        return "there is no such file"
    if path.suffix in (".csv", ".jsonl", ".parquet"):
        return table([cleaner.clean(row) for row in read_rows(path)], keep)
    if path.suffix == ".json":
        found = cleaner.clean(json.loads(path.read_bytes()))
        return found if keep else {"keys": len(found), "hash": digest(found)}
    return arrays(path, cleaner)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a table, numbers as numbers."""
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return list(pyarrow.parquet.read_table(path).to_pylist())
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line]
    return [{name: _number(cell) for name, cell in row.items()} for row in csv.DictReader(io.StringIO(text))]


def _number(cell: str) -> float | str:
    if re.fullmatch(r"-?(0|[1-9]\d*)", cell):
        return int(cell)
    try:
        return float(cell)
    except ValueError:
        return cell


def arrays(path: Path, cleaner: Cleaner) -> dict[str, Any]:
    """The arrays of a .npz, .safetensors, .f16 or picture file."""
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return {name: array_facts(array) for name, array in sorted(load_file(path).items())}
    if path.suffix == ".npz":
        with np.load(path) as loaded:
            found = {name: loaded[name] for name in sorted(loaded)}
        texts = {name: json.loads(found.pop(name).item()) for name in list(found) if found[name].dtype.kind == "S"}
        return {**cleaner.clean(texts), **{name: array_facts(array) for name, array in found.items()}}
    if path.suffix == ".f16":
        return {"values": array_facts(np.fromfile(path, np.float16))}
    from PIL import Image

    return {"values": array_facts(np.asarray(Image.open(path)))}


def array_facts(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Shape, mean and norm; and the hash, of six digits where there are few numbers and of the bytes otherwise."""
    wide = array.astype(np.float64)
    small = array.size < 100_000 and array.dtype.kind == "f"
    hashed = digest(rounded(wide.ravel().tolist())) if small else _hash(array.tobytes())
    mean, norm = rounded(float(wide.mean())), rounded(float(np.linalg.norm(wide)))
    return {"shape": list(array.shape), "mean": mean, "norm": norm, "hash": hashed}


def table(rows: Sequence[Mapping[str, Any]], keep: int) -> dict[str, Any]:
    """How many rows, the hash of every column, and the first rows."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: digest([row.get(name) for row in rows]) for name in names}
    return {"rows": len(rows), "columns": columns, "first": list(rows[:keep])}


# ---- normalising
@dataclass(frozen=True)
class Cleaner:
    """Takes out of a value what is the machine's, what is prose, and what is not ours."""

    command: str
    places: Mapping[str, str]  # folder -> what stands for it
    borrowed: frozenset[str]

    def clean(self, value: Any, key: str | None = None) -> Any:
        """The value without these; `key` is what it is called."""
        if key in MASKED:
            return "<masked>"
        if key in _union(PROSE, self.command):
            return "<prose>" if value else value
        if isinstance(value, Mapping):
            return {self._text(str(name)): self.clean(part, str(name)) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean(part) for part in value]
        return self._text(value) if isinstance(value, str) else rounded(value)

    def _text(self, text: str) -> str:
        for folder, name in self.places.items():
            text = text.replace(folder, name)
        return f"<caption {_hash(text.encode())}>" if " ".join(text.split()) in self.borrowed else text


def rounded(value: Any) -> Any:
    """Numbers with six significant digits; all else as it is."""
    if isinstance(value, list):
        return [rounded(part) for part in value]
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return str(value)
    return 0.0 if abs(value) < TINY else float(f"{value:.{DIGITS}g}")


def digest(value: Any) -> str:
    """A hash that does not depend on the names of keys, nor on whether pictures are called images."""
    if isinstance(value, Mapping):
        return _hash(json.dumps(sorted(map(digest, value.values()))).encode())
    if isinstance(value, list):
        parts = [digest(part) if isinstance(part, list | dict) else as_image(part) for part in value]
        return _hash(json.dumps(parts).encode())
    return _hash(json.dumps(as_image(value)).encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def as_image(value: Any) -> Any:
    """Text that says image wherever it said picture."""
    if not isinstance(value, str):
        return value
    return value.replace("picture", "image").replace("Picture", "Image").replace("PICTURE", "IMAGE")


def _of(names: Mapping[str, Mapping[str, str]], command: str) -> dict[str, str]:
    return {**names.get(ALL, {}), **names.get(command, {})}


def _union(names: Mapping[str, frozenset[str]], command: str) -> frozenset[str]:
    return names[ALL] | names.get(command, frozenset())


def new_key(key: str, names: Mapping[str, str], where: str = "") -> str:
    """What a key is called now; `names` has keys, or paths with a key at the end (calls/2/stdout/pictures)."""
    return names.get(f"{where}/{key}") or names.get(key) or str(as_image(key))


def renamed(value: Any, keys: Mapping[str, str], values: Mapping[str, str], where: str = "") -> Any:
    """A value under new names. A picture key beside its own image key stays: both need names in RENAMED_KEYS."""
    if isinstance(value, Mapping):
        names = {key: new_key(key, keys, where) for key in value}
        taken = Counter(names.values())
        found = {}
        for key, part in value.items():
            place = f"{where}/{key}" if where else key
            found[key if taken[names[key]] > 1 else names[key]] = renamed(part, keys, values, place)
        return found
    if isinstance(value, list):
        places = [f"{where}/{number}" for number in range(len(value))]
        return [renamed(part, keys, values, place) for part, place in zip(value, places, strict=True)]
    return as_image(values.get(value, value)) if isinstance(value, str) else value


# ---- comparing
def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Sentences that say where two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            place = f"{where}/{key}"
            if key not in after or key not in before:
                yield f"{place}: only {'before' if key in before else 'after'}"
            else:
                yield from differences(before[key], after[key], place)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{where}: {len(before)} entries, now {len(after)}"
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from differences(old, new, f"{where}/{number}")
    elif not same(before, after):
        yield f"{where}: {_short(before)}, now {_short(after)}"


def same(before: Any, after: Any) -> bool:
    """Whether two values are equal, numbers up to one unit of the last digit that is kept."""
    if isinstance(before, float) and isinstance(after, float) and before:
        unit = 10.0 ** (math.floor(math.log10(abs(before))) - DIGITS + 1)
        return abs(before - after) < 1.5 * unit
    return bool(before == after) and isinstance(before, bool) == isinstance(after, bool)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def keys_of(value: Any) -> Iterator[str]:
    """Every key anywhere in a value."""
    parts: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    yield from value if isinstance(value, dict) else ()
    for part in parts:
        yield from keys_of(part)


def renames(before: Any, after: Any, names: Mapping[str, str]) -> list[str]:
    """Keys that are called otherwise now."""
    new = set(keys_of(after))
    changed = {key: new_key(key, names) for key in keys_of(before) if key not in new}
    told = [f"{key} -> {name}" for key, name in changed.items() if name in new]
    return told + [f"{path} -> {name}" for path, name in names.items() if path.startswith("calls/")]


def verdict(command: str, before: Any, after: Any) -> tuple[bool, str]:
    """Whether a command says what it said, and a line about it."""
    keys, values = _of(RENAMED_KEYS, command), _of(RENAMED_VALUES, command)
    if command in EXCHANGED:
        before, after = sorted_numbers(before), sorted_numbers(after)
    added = tuple(f"/{key}: only after" for key in ADDED.get(command, ()))
    found = [
        line
        for line in differences(renamed(before, keys, values), renamed(after, {}, {}))
        if not (added and line.endswith(added))
    ]
    reasons: Counter[str] = Counter()
    for line in list(found):
        why = next((why for paths, why in EXPLAINED.get(command, ()) if re.search(paths, line.split(": ", 1)[0])), None)
        if why is not None and (why != _ROUNDING[1] or is_rounding(line)):
            found.remove(line)
            reasons[why] += 1
    if found:
        more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        return False, "\n".join(["different", *(f"    {line}" for line in [*found[:SHOWN], *more])])
    names = renames(before, after, keys)
    told = [f"renamed keys: {', '.join(names)}"] if names else []
    told += ["rows and columns of the table exchanged"] if command in EXCHANGED else []
    if reasons:
        told += [f"{count} value{'s' * (count > 1)}: {why}" for why, count in reasons.items()]
        return True, f"differs on purpose: {'; '.join(told)}"
    return True, f"equal but for {'; '.join(told)}" if told else "equal"


def is_rounding(line: str) -> bool:
    """Whether the two numbers of a difference are within 0.5%. Of a hash nothing is known; norms are beside it."""
    old, _, new = line.split(": ", 1)[1].partition(", now ")
    try:
        return math.isclose(float(old), float(new), rel_tol=0.005)
    except ValueError:
        return True


def sorted_numbers(value: Any) -> Any:
    """The same value with the cells of printed tables as one sorted list, without names of rows."""
    if isinstance(value, dict):
        return {
            name: sorted(cell for row in part for cell in row if re.match(r"[-+\d]", cell))
            if name == "cells"
            else sorted_numbers(part)
            for name, part in value.items()
        }
    return [sorted_numbers(part) for part in value] if isinstance(value, list) else value


# ---- the two verbs
def say(text: str) -> None:
    """A line for people."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def with_those_before(names: Iterable[str]) -> set[str]:
    """Some commands, and those that make the files they work on."""
    found = set(names)
    for name in names:
        found |= with_those_before(AFTER.get(name, ()))
    return found


def run_all(source: Path | None, data: Path, new_names: bool, only: Collection[str]) -> dict[str, Any]:
    """What the commands print, by name."""
    with tempfile.TemporaryDirectory(prefix="captrial-commands-") as folder:
        work = Path(folder).resolve()
        borrowed, places = prepare(data, work), {str(work): "{work}", str(data): "{data}"}
        runner = Runner(source, data, work, new_names)
        say(f"running {runner.python('-c', 'import captrial; print(captrial.__file__)').stdout.strip()}")
        found, started = {}, time.monotonic()
        chosen = [command for command in COMMANDS if command.name in only]
        for command in chosen:
            begun = time.monotonic()
            found[command.name] = runner.run(command, Cleaner(command.name, places, borrowed))
            sys.stderr.write(f"  {command.name}: {time.monotonic() - begun:.1f} s\n")
        calls, seconds = sum(len(command.calls) for command in chosen), time.monotonic() - started
        say(f"{len(chosen)} commands, {calls} calls, {seconds:.0f} s")
    return found


def to_text(value: Any, depth: int = 0) -> str:
    """JSON that is broken into lines only where a line would be long."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + depth <= 116 or not isinstance(value, dict | list):
        return flat
    pad, end = " " * (depth + 1), " " * depth
    if isinstance(value, list):
        return "[\n" + ",\n".join(pad + to_text(part, depth + 1) for part in value) + f"\n{end}]"
    lines = (f"{pad}{json.dumps(key, ensure_ascii=False)}: {to_text(part, depth + 1)}" for key, part in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{end}}}"


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Print the table; whether all is equal."""
    verdicts = {name: verdict(name, before.get(name), after[name]) for name in after}
    for name, (_, line) in verdicts.items():
        say(f"{name:18} {line}")
    equal = sum(fine for fine, _ in verdicts.values())
    say(f"{equal} of {len(verdicts)} are equal, or differ only as EXPLAINED")
    return equal == len(verdicts)


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description="Do the commands print what they printed?")
    parser.add_argument("verb", choices=["record", "compare"])
    parser.add_argument("--source", type=Path, help="src folder of the tree to run; by default this repository's")
    parser.add_argument("--file", type=Path, default=HERE / "before.json", help="what was recorded")
    parser.add_argument("--keep", type=Path, help="compare: also write what the commands print now")
    parser.add_argument("--old-options", action="store_true", help="compare: the tree knows only the old options")
    parser.add_argument("--only", help="these commands, with commas between, and those they need")
    chosen = parser.parse_args()
    source = (chosen.source or ROOT / "src").resolve()
    data = Path(os.environ.get("CAPTRIAL_DATA") or ROOT.parent / "shared" / "data").resolve()
    only = with_those_before(chosen.only.split(",")) if chosen.only else {command.name for command in COMMANDS}
    found = run_all(source, data, new_names=chosen.verb == "compare" and not chosen.old_options, only=only)
    if chosen.verb == "record" and chosen.only and chosen.file.is_file():
        found = {**json.loads(chosen.file.read_text(encoding="utf-8")), **found}  # the others stay as recorded
    if chosen.verb == "record" or chosen.keep:
        (chosen.file if chosen.verb == "record" else chosen.keep).write_text(to_text(found) + "\n", encoding="utf-8")
    return 0 if chosen.verb == "record" or compare(json.loads(chosen.file.read_text(encoding="utf-8")), found) else 1


if __name__ == "__main__":
    sys.exit(main())
