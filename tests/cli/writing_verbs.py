"""Every command that writes a folder or a file, for tests that attack all of them.

`OUT` is what a command writes, `TRIAL` a trial file that names it; other capitals are inputs that `arguments` puts in
their places.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from annotate.annotation_world import write_everything
from captrial.annotate.service import AnnotationService
from captrial.compete import Competition, SelectionSettings
from captrial.data.pools import build_pool
from captrial.judges import (
    EndpointJudge,
    JudgeSettings,
    SimulatedJudge,
    SimulatedServer,
    judge_competition,
    serve_judge,
)
from compete import synthetic
from data.pools.photos import write_photos
from grounding.study_world import pixel_options, write_study_world

STUDY = ["--data", "WORLD", "--models", "transformer"]
CAPTIONS = ["--captions", "a=A", "--captions", "b=B"]

# Commands whose output is a folder, and what they call it in the message about its lock.
FOLDERS: dict[str, list[str]] = {
    "attend": ["attend", *STUDY, "--out", "OUT"],
    "caption": ["caption", "PHOTOS", "--out", "OUT"],
    "compete export": ["compete", "export", "COMPETITION", "OUT", "--references", "REFERENCES"],
    "compete new": ["compete", "new", "OUT", *CAPTIONS],
    "compete report": ["compete", "report", "COMPETITION", "--references", "REFERENCES", "--out", "OUT"],
    "data toyworld": ["data", "toyworld", "OUT", "--images", "2", "--size", "32"],
    "demo": ["demo", "--out", "OUT"],
    "explain": ["explain", "PHOTO", "--out", "OUT"],
    "features": ["features", "PHOTOS", "--out", "OUT", "--backbone", "efficientnet-lite0?size=64"],
    "features by workers": ["features", "PHOTOS", "--out", "OUT", "--workers", "2"],
    "ground": ["ground", *STUDY, "--out", "OUT"],
    "pool build": ["pool", "build", "OUT", "--from", "PHOTOS"],
    "papers liu": ["papers", "liu", *STUDY, "--out", "OUT"],
    "papers cornia": ["papers", "cornia", *STUDY, "--out", "OUT"],
    "papers wan": ["papers", "wan", "--data", "CAPTION_FILES", "--out", "OUT"],
    "sample": ["sample", "OUT", "--images", "10"],
    "score by workers": ["score", "A", "--references", "REFERENCES", "-m", "bleu", "--workers", "2", "--work", "OUT"],
    "train": ["train", "m2-small", "--data", "WORLD", "--out", "OUT"],
    "trial run": ["trial", "run", "TRIAL"],
}
JUDGE = "http://127.0.0.1:9/v1"  # where nobody answers; tests that need answers put a server in its place
TEXTS = ["--text-only", "--references", "REFERENCES"]
# Commands that extend a folder which is there.
EXTENDING: dict[str, list[str]] = {
    "compete add": ["compete", "add", "COMPETITION", "--captions", "c=C"],
    "compete images": ["compete", "images", "COMPETITION", "PHOTOS"],
    "compete select": ["compete", "select", "COMPETITION", "--k", "4", "--again"],
    "judge run": ["judge", "run", "COMPETITION", "--judge", f"{JUDGE}#tiny", *TEXTS],
}
# Commands whose output is a file, without its suffix.
FILES: dict[str, list[str]] = {
    "caption": ["caption", "PHOTO", "--out", "OUT.json"],
    "caption many": ["caption", "PHOTOS", "--out", "OUT.jsonl"],
    "contact sheet": ["data", "contact-sheet", "OUT.png", "--images", "2", "--size", "32"],
    "per image": ["score", "A", "--references", "REFERENCES", "-m", "bleu", "--per-image", "OUT.csv"],
    "frequencies": ["score", "A", "--references", "REFERENCES", "-m", "bleu", "--save-frequencies", "OUT.npz"],
}


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by path; a symbolic link as its target."""
    return {
        path.relative_to(folder).as_posix(): bytes(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@dataclass(frozen=True)
class Inputs:
    """Inputs of the commands in a folder."""

    folder: Path

    def make(self) -> None:
        """Write all of them; the competition is made by the test, where it needs one."""
        made = synthetic.captions(30, 3)
        files, references = synthetic.write_files(self.folder, made)
        for name, path in zip("ABC", files.values(), strict=True):
            path.rename(self.folder / f"{name}.json")
        references.rename(self.folder / "REFERENCES.json")
        (self.folder / "CAPTION_FILES").mkdir()
        for name in "ABC":
            (self.folder / "CAPTION_FILES" / f"{name}.json").write_bytes((self.folder / f"{name}.json").read_bytes())
        (self.folder / "CAPTION_FILES" / "references.json").write_bytes((self.folder / "REFERENCES.json").read_bytes())
        photos = write_photos(self.folder / "PHOTOS")
        photo = next(path for path in sorted(photos.rglob("*.jpg")))
        (self.folder / "PHOTO.jpg").write_bytes(photo.read_bytes())
        (self.folder / "WORLD").mkdir()
        (self.folder / "WORLD" / "dataset.json").write_text(json.dumps(self._dataset()))

    def make_all(self) -> None:
        """Write all of them, and inputs that are folders of captrial's own."""
        self.make()
        folder = self.folder
        write_study_world(folder / "STUDY")
        pixel_options(folder / "STUDY", folder)
        (folder / "model").rename(folder / "MODEL")
        (folder / "FOLDER").mkdir()
        (folder / "BINARY").write_bytes(bytes(range(256)) * 20)
        build_pool([folder / "PHOTOS"], folder / "POOL")
        (folder / "IMAGES").mkdir()
        for name in (*range(30), "practice"):
            Image.new("RGB", (40, 30), "green").save(folder / "IMAGES" / f"{name}.jpg")
        (folder / "PRACTICE.json").write_text('{"practice": ["a green wall"]}')
        files = {name: folder / f"{name}.json" for name in "AB"}
        competition = Competition.create(folder / "COMPETITION", files, images=folder / "IMAGES")
        competition.select(SelectionSettings(4, 0))
        with closing(AnnotationService(folder / "COMPETITION")) as service:
            write_everything(service, 1)
        votes = [{"id": image, "a": "A", "b": "B", "winner": "A"} for image in competition.selected_images()]
        (folder / "COMPETITION" / "judgements.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in votes))
        with serve_judge(SimulatedServer(SimulatedJudge(), lambda first, second: first < second)) as server:
            judge_competition(competition, EndpointJudge(server.base, "done"), JudgeSettings("done"))

    def _dataset(self) -> dict[str, object]:
        sentence = {"raw": "A dog runs.", "tokens": ["a", "dog", "runs"]}
        images = [
            {"filename": f"{number}.jpg", "split": split, "sentences": [sentence]}
            for number, split in enumerate(("train", "train", "val"))
        ]
        return {"images": images, "dataset": "x"}

    def arguments(self, line: list[str], out: Path) -> list[str]:
        """A line of the tables above with real paths."""
        return [self._place(part, out) for part in line]

    def _trial(self, out: Path) -> str:
        """A trial file beside the folder of inputs, which is the same wherever the folders are."""
        path = self.folder.parent / f"{self.folder.name}.yaml"
        inputs = self.folder.name
        content = {
            "out": os.path.relpath(out, path.parent),
            "models": {"a": f"{inputs}/A.json", "b": f"{inputs}/B.json"},
            "references": f"{inputs}/REFERENCES.json",
            "people": {"votes": 0},
        }
        path.write_text(json.dumps(content))  # JSON is YAML
        return str(path)

    def _place(self, part: str, out: Path) -> str:
        if part == "TRIAL":
            return self._trial(out)
        if part.startswith("OUT"):
            return str(out) + part.removeprefix("OUT")
        name, equals, value = part.rpartition("=")
        value, slash, inner = value.partition("/")
        found = [path for path in self.folder.iterdir() if path.stem == value and value.isupper()]
        return f"{name}{equals}{found[0]}{slash}{inner}" if found else part
