"""Caption many images into one file: resumable, never stopped by a bad image, with the cost of it all.

`captrial.engines` does the same on several workers or machines.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from PIL import Image

from captrial.captioners.protocols import AnyCaptioner
from captrial.data.images import header_pixels, open_image, pixel_batches
from captrial.errors import DamagedError, ImageError, InputError
from captrial.files import atomic_write, image_source, is_changed
from captrial.progress import progress_bar
from captrial.records import ImageRef

SOURCE = "content"  # of a line: what identifies the image that was captioned
REMAKE = "the same command after removing it"


@dataclass(frozen=True, slots=True)
class Cost:
    """What the captions of a file have cost, over all runs."""

    images: int = 0
    unreadable: int = 0
    seconds: float = 0.0  # of captioning, opening images included
    peak_megabytes: float = 0.0  # of the whole process
    prompt_tokens: int = 0  # of endpoints that count them
    completion_tokens: int = 0

    @property
    def seconds_each(self) -> float:
        """Seconds a caption."""
        return self.seconds / max(1, self.images)


def caption_to_file(captioner: AnyCaptioner, images: Sequence[ImageRef], out: Path, batch: int = 16) -> Cost:
    """Append `{"id", "caption"}` lines to `out` for the images that are not in it yet; return the cost so far.

    Images that cannot be opened, or that an endpoint cannot caption, go to `<out>.errors.jsonl` with the reason. A
    killed run continues where it was. Images that have changed since they were captioned are captioned again.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    errors, costs = out.with_suffix(".errors.jsonl"), out.with_suffix(".cost.json")
    paths = {image.id: image.path for image in images if image.path is not None}
    done = {line["id"] for file in (out, errors) for line in _current_lines(file, paths)}
    cost = read_cost(costs)
    todo = [image for image in images if image.id not in done]
    with progress_bar() as bar:
        task = bar.add_task("captioning", total=len(images), completed=len(images) - len(todo))
        for part in pixel_batches(todo, _pixels, largest=batch):
            started = time.monotonic()
            opened, unreadable = _open(part)
            before = _tokens(captioner)
            answers = try_caption(captioner, [pixels for _, pixels in opened]) if opened else []
            named = list(zip((name for name, _ in opened), answers, strict=True))
            captioned = [
                {"id": name, "caption": text, SOURCE: image_source(paths[name])}
                for name, text in named
                if isinstance(text, str)
            ]
            unreadable += [{"id": name, "error": str(why)} for name, why in named if not isinstance(why, str)]
            _append(out, captioned)
            _append(errors, unreadable)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            seconds = cost.seconds + time.monotonic() - started
            used = [now - then for now, then in zip(_tokens(captioner), before, strict=True)]
            cost = Cost(
                cost.images + len(captioned),
                cost.unreadable + len(unreadable),
                seconds,
                peak,
                cost.prompt_tokens + used[0],
                cost.completion_tokens + used[1],
            )
            atomic_write(costs, orjson.dumps(asdict(cost)))
            bar.advance(task, len(part))
    return cost


def caption_each(captioner: AnyCaptioner, images: Sequence[Path]) -> tuple[dict[str, str], list[str]]:
    """Captions of image files by path, and why the others have none: one broken file costs no other its caption."""
    captions: dict[str, str] = {}
    problems = []
    with progress_bar() as bar:
        task = bar.add_task("captioning images", total=len(images))
        for part in pixel_batches(images, header_pixels, largest=16):
            opened, unreadable = _open([ImageRef(str(path), path) for path in part])
            answers = try_caption(captioner, [pixels for _, pixels in opened]) if opened else []
            for (name, _), answer in zip(opened, answers, strict=True):
                if isinstance(answer, str):
                    captions[name] = answer
                else:
                    problems.append(f"{name}: {answer}")
            problems += [line["error"] for line in unreadable]
            bar.advance(task, len(part))
    return captions, problems


def try_caption(captioner: AnyCaptioner, images: Sequence[Image.Image]) -> list[str | InputError]:
    """One caption an image, or why there is none; a captioner without its own `try_caption` captions all or raises."""
    own: Callable[[Sequence[Image.Image]], list[str | InputError]] | None = getattr(captioner, "try_caption", None)
    return own(images) if own is not None else list(captioner.caption(images))


def _tokens(captioner: AnyCaptioner) -> tuple[int, int]:
    """Tokens a captioner has used so far, where it counts them (see `endpoint.Usage`)."""
    usage = getattr(captioner, "usage", None)
    return (usage.prompt_tokens, usage.completion_tokens) if usage is not None else (0, 0)


def _pixels(image: ImageRef) -> int:
    return 0 if image.path is None else header_pixels(image.path)


def _open(images: Sequence[ImageRef]) -> tuple[list[tuple[str, Image.Image]], list[dict[str, str]]]:
    """Opened images by id, and error lines of those that cannot be opened."""
    opened, unreadable = [], []
    for image in images:
        try:
            if image.path is None:
                raise ImageError("has no file")
            opened.append((image.id, open_image(image.path)))
        except ImageError as error:
            unreadable.append({"id": image.id, "error": str(error)})
    return opened, unreadable


def _append(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    if lines:
        with path.open("ab") as file:
            file.write(b"".join(orjson.dumps(line) + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())


def _current_lines(path: Path, paths: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The complete lines of a file about images that have not changed since; others are removed from the file."""
    if not path.exists():
        return []
    try:
        content, kept = path.read_bytes(), list[bytes]()
    except OSError as error:
        raise DamagedError(path, f"cannot be read ({error.strerror})", REMAKE) from None
    lines = []
    for line in content[: content.rfind(b"\n") + 1].splitlines():
        try:
            record = orjson.loads(line)
            if not isinstance(record["id"], str):
                raise ValueError("an id that is not text")
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedError(path, f"line {len(kept) + 1} cannot be read ({error})", REMAKE) from None
        if record["id"] not in paths or not is_changed(paths[record["id"]], record.get(SOURCE)):
            kept.append(line + b"\n")
            lines.append(record)
    if (whole := b"".join(kept)) != content:  # a kill cut the last line short, or images have changed
        atomic_write(path, whole)
    return lines


def read_cost(path: Path) -> Cost:
    """The cost of the captions of a file, as written beside it; nothing where there is no such file."""
    try:
        cost = Cost(**orjson.loads(path.read_bytes())) if path.exists() else Cost()
        if not all(isinstance(value, int | float) for value in asdict(cost).values()):
            raise ValueError("not all are numbers")
        return cost
    except (OSError, ValueError, TypeError) as error:
        raise DamagedError(path, f"is not a record of costs ({error})", REMAKE) from None
