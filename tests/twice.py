"""Run every command twice at the same moment, over the same folders and outputs, and look at what is left.

    python tests/twice.py [COMMAND ...]

Each of the two ends as a single run does, or is refused with a message; at least one does its work. What is left is
what one run leaves (files by name, and byte by byte but for those of `VOLATILE`), and `captrial verify` finds no
damage. Prints a JSON document. The commands run in forked processes that wait for a common start.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path

import torch
import uvicorn

from captrial.cli.app import main
from captrial.judges import SimulatedJudge, SimulatedServer, serve_judge
from cli.test_hostile_options import LINES
from cli.writing_verbs import JUDGE, TEXTS, Inputs, contents

REFUSED = 2
LIMIT = 600  # seconds; a command that waits for ever is killed
# Files with times, random ids or addresses of the run in them; they must be there, whole, and `verify` reads them.
VOLATILE = {
    *("checksums.json", "competition.json", "run.json", "environment.json", "report.json", "recipe.json"),
    *("annotations.sqlite", "annotations.sqlite-wal", "annotations.sqlite-shm", "metrics.csv", "metrics.png"),
    "state.safetensors",
    *("pool.json", "journal.jsonl", "manifest.parquet", "summary.json"),
    # times of decoding, and the pages that show them
    *("figure-2-time.csv", "figure-2-time.svg", "figure-2.csv", "figure-2.md", "results.md"),
}
SKIPPED = {"demo"}  # minutes
KINDS = ("COMPETITION", "POOL", "STUDY/features", "out")


def serving(server: SimulatedServer) -> str:
    """The address of a judge in a process of its own, which ends with this one."""
    reader, writer = os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        with serve_judge(server):
            os.write(writer, server.base.encode())
            while os.getppid() == parent:
                time.sleep(0.2)
        os._exit(0)
    return os.read(reader, 100).decode()


def start(line: list[str], place: Path, barrier: tuple[int, int], log: Path) -> int:
    """A forked process that runs a command as soon as the barrier is closed."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        signal.alarm(LIMIT)
        os.close(barrier[1])
        os.environ["CAPTRIAL_CACHE"] = str(place / "cache")
        if "serve" in line or "studio" in line:  # these would serve for ever
            uvicorn.Server.run = lambda *_: time.sleep(1)  # type: ignore[method-assign, assignment]
        stream = log.open("w")
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        with chdir(place):
            os.read(barrier[0], 1)
            main(line)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException as error:
        print(f"Traceback: {error!r}", flush=True)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(lines: list[list[str]], place: Path) -> list[tuple[int, str]]:
    """Commands at one moment: exit code and output of each."""
    reader, writer = os.pipe()
    logs = [place / f"log-{number}" for number in range(len(lines))]
    children = [start(line, place, (reader, writer), log) for line, log in zip(lines, logs, strict=True)]
    os.close(writer)
    os.close(reader)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    found = [(code, log.read_text(errors="replace")) for code, log in zip(codes, logs, strict=True)]
    for log in logs:
        log.unlink()
    return found


def prepared(inputs: Path, place: Path, name: str, base: str) -> list[str]:
    """Copies of the inputs, and the command's line with real paths."""
    shutil.copytree(inputs, place / "inputs")
    line = [*LINES[name], *(TEXTS if name == "judge run" else [])]
    placed = Inputs(place / "inputs").arguments(line, place / "out")
    return [*name.split(), *(part.replace(JUDGE, base) for part in placed)]


def left(place: Path) -> dict[str, bytes]:
    """What a command leaves; caches, lock files and files named for paths aside. Verdicts come in any order."""
    here = str(place)
    paths = {name.replace(here, ""): part.replace(here.encode(), b"") for name, part in contents(place).items()}
    return {
        name: b"".join(sorted(content.splitlines())) if "/judges/" in name else content
        for name, content in paths.items()
        if not name.startswith(("cache/", "out/scan/")) and ".captrial.lock" not in name
    }


def damage(place: Path) -> list[str]:
    """What `captrial verify` says about every folder that it knows."""
    problems = []
    for name in KINDS:
        folder = place / ("inputs" if name != "out" else "") / name
        if (folder / "checksums.json").exists() or (folder / "store.json").exists():
            [(code, told)] = run([["verify", str(folder)]], place)
            problems += [f"{name}: {told.strip()[:300]}"] if code == 1 else []  # 2: a folder of results
    return problems


def attack(name: str, inputs: Path, root: Path, base: str) -> dict[str, object]:
    """One command alone, then twice at once; what differed."""
    alone, both = root / "alone", root / "both"  # names of one length: paths are in some files
    for place in (alone, both):
        place.mkdir()
    [(expected, told)] = run([prepared(inputs, alone, name, base)], alone)
    problems = [f"alone: {told[-300:]}"] if expected not in (0, 1, 3) or "Traceback" in told else []
    ends = run([prepared(inputs, both, name, base)] * 2, both)
    for code, said in ends:
        if "Traceback" in said or code not in (expected, REFUSED):
            problems.append(f"ended with {code}: {said[-300:]}")
    if expected not in [code for code, _ in ends]:
        problems.append(f"neither did its work: {[said[-200:] for _, said in ends]}")
    before, after = left(alone), left(both)
    if before.keys() != after.keys():
        problems.append(f"files: {sorted(before.keys() ^ after.keys())[:10]}")
    changed = [one for one in before.keys() & after.keys() if before[one] != after[one]]
    steady = [one for one in changed if one.rpartition("/")[2] not in VOLATILE and "/experiments/" not in one]  # times
    problems += [f"{one}: another content" for one in sorted(steady)]
    problems += damage(both)
    for place in (alone, both):
        shutil.rmtree(place)
    refused = sum(code == REFUSED for code, _ in ends)
    return {"command": name, "refused": refused, "done": 2 - refused, "problems": problems}


def main_attack(names: list[str]) -> dict[str, object]:
    """Attack commands, all of them by default."""
    torch.set_num_threads(1)  # a forked process would wait for ever for the threads of its parent
    with tempfile.TemporaryDirectory(prefix="captrial-twice-") as folder:
        inputs = Inputs(Path(folder, "inputs"))
        inputs.folder.mkdir()
        inputs.make_all()
        base = serving(SimulatedServer(SimulatedJudge(accuracy=1), lambda first, second: first < second))
        found = [attack(name, inputs.folder, Path(folder), base) for name in names or LINES if name not in SKIPPED]
    return {"commands": len(found), "runs": found, "problems": sum(len(one["problems"]) for one in found)}  # type: ignore[arg-type, misc]


if __name__ == "__main__":
    print(json.dumps(main_attack(sys.argv[1:]), indent=1))
