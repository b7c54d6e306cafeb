"""The shipped captioners compete on photographs: those of scikit-image, scikit-learn and matplotlib that are installed.

Three of them come with the package. The references were written for this demonstration, three to a photograph.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from captrial.captioners.batch_captioning import caption_each
from captrial.captioners.loading import load_captioner
from captrial.compete import Competition, SelectionSettings
from captrial.data import write_captions, write_references
from captrial.data.images import open_image
from captrial.files import atomic_write

OWN = Path(__file__).parent / "photographs"
PLACES = {  # package: folder in it
    "skimage": "data",
    "sklearn": "datasets/images",
    "matplotlib": "mpl-data/sample_data",
}


def find_photographs() -> dict[str, Path]:
    """The photographs that have references, by name."""
    folders = [OWN]
    for package, inner in PLACES.items():
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            folders.append(Path(spec.origin).parent / inner)
    files = (path for folder in folders for path in sorted(folder.glob("*.*")) if path.suffix in (".jpg", ".png"))
    found: dict[str, Path] = {}
    for path in files:
        if path.stem in photograph_references():
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def photograph_references() -> dict[str, list[str]]:
    """The references of the photographs, by name."""
    read: dict[str, list[str]] = orjson.loads((OWN / "references.json").read_bytes())
    return read


def hold_photograph_trial(captioners: Sequence[str], metric: str, folder: Path) -> None:
    """Caption the photographs, make a competition of it, rank; `ranking.json` has what the page shows."""
    photographs, references = find_photographs(), photograph_references()
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name, path in photographs.items():
        open_image(path).save(images / f"{name}.jpg", quality=90)
    files, captions = {}, {}
    for name in captioners:
        texts, _ = caption_each(load_captioner(name), sorted(images.iterdir()))
        captions[name] = {Path(path).name: text for path, text in texts.items()}
        files[name] = folder / "captions" / f"{name}.json"
        write_captions(files[name], captions[name], overwrite=True)
    labels = folder / "references.json"
    write_references(labels, {f"{name}.jpg": references[name] for name in photographs}, overwrite=True)
    competition = Competition.create(folder / "competition", files, images=images)
    competition.select(SelectionSettings(len(photographs), 0))
    ranking = competition.rank_pool(metric, str(labels))
    shown = {
        "rows": ranking.rows(),
        "conclusion": ranking.conclusion(),
        "photographs": [
            {
                "name": name,
                "file": f"{name}.jpg",
                "captions": [(row["model"], captions[row["model"]][f"{name}.jpg"]) for row in ranking.rows()],
                "references": references[name],
            }
            for name in photographs
        ],
    }
    atomic_write(folder / "ranking.json", orjson.dumps(shown))


def read_photograph_trial(folder: Path) -> dict[str, Any]:
    """What `hold_photograph_trial` wrote."""
    found: dict[str, Any] = orjson.loads((folder / "ranking.json").read_bytes())
    return found
