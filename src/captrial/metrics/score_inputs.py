"""Read what `captrial score` is given: caption files, references, objects, training captions and images.

    inputs = read_inputs(ScoreFiles([Path("ours.json"), Path("theirs.json")], references=Path("refs.json")))
    table = score(inputs.captions, inputs.references, objects=inputs.objects)

Systems are scored on the images that all of them captioned. What is doubtful about the files is reported through
`warn`, by default as a Python warning.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from captrial.data import CaptionLayout, read_captions, read_references
from captrial.data.image_ids import two_styles
from captrial.errors import InputError
from captrial.language.english import language_note
from captrial.language.sentences import first_sentence, first_words

MUCH_LONGER = 2.0  # captions this many times as long as references on average are reported
Captions = dict[str, str]
Warn = Callable[[str], None]


class CaptionWarning(UserWarning):
    """Something about caption files that makes scores doubtful."""


def warn_user(message: str) -> None:
    """Report as a Python warning."""
    warnings.warn(message, CaptionWarning, stacklevel=3)


@dataclass(frozen=True)
class ScoreFiles:
    """Files to score and how to read them."""

    systems: Sequence[Path] | Mapping[str, Path]  # caption files, one a system; by name, or named by their stems
    references: Path
    split: str | None = None  # of the references
    strict: bool = False  # a doubtful id or caption is an error
    first_sentence: bool = False  # cut captions after their first sentence
    max_words: int | None = None  # cut captions after so many words
    objects: Path | None = None  # {"image id": ["class", ...]}
    training: Path | None = None  # captions that the captioner was trained on
    images: Path | None = None  # folder
    layout: CaptionLayout | None = None  # of the caption files
    same_images: bool = False  # an image that some system did not caption is an error, instead of left out


@dataclass(frozen=True)
class ScoreInputs:
    """Captions by system and references of the same images, and what some metrics use beside them."""

    captions: dict[str, Captions]
    references: dict[str, list[str]]
    objects: dict[str, list[str]] | None = None
    training: list[str] | None = None
    images: dict[str, Path] | None = None


def read_inputs(files: ScoreFiles, warn: Warn = warn_user) -> ScoreInputs:
    """Read all files, cut captions where asked to, and keep the images that every system captioned."""
    references = read_references(files.references, split=files.split)
    texts = [(image, text) for image, of_image in references.items() for text in of_image]
    _report_other_languages(files.references.name, texts, warn)
    captions = read_systems(files, references, warn)
    for name, of_system in captions.items():
        _report_length(name, list(of_system.values()), references, warn)
    ids = [image for image in references if all(image in of_system for of_system in captions.values())]
    if not ids:
        first, second = next(iter(captions)), list(captions)[-1]
        styles = two_styles(first, captions[first], second, captions[second])
        raise InputError(f"no image has a caption of every system. {styles}")
    return ScoreInputs(
        {name: {image: of_system[image] for image in ids} for name, of_system in captions.items()},
        {image: list(references[image]) for image in ids},
        read_objects(files.objects, ids, warn) if files.objects else None,
        read_texts(files.training) if files.training else None,
        find_images(files.images, ids) if files.images else None,
    )


def read_systems(files: ScoreFiles, references: Mapping[str, Sequence[str]], warn: Warn) -> dict[str, Captions]:
    """Captions by system, cut where asked to; ids are those of `references`."""
    captions: dict[str, Captions] = {}
    systems = files.systems
    if not isinstance(systems, Mapping):
        systems = dict(zip(system_names(systems), systems, strict=True))
    for name, path in systems.items():
        found = read_captions(path, known_ids=references, strict=files.strict, layout=files.layout)
        if found.problems or found.matched:
            warn(f"{found.report()} (Known ids are those of {files.references.name}.)")
        captions[name] = found.to_dict()
        _report_other_languages(path.name, list(captions[name].items()), warn)
    missing = {image for of_system in captions.values() for image in references if image not in of_system}
    if files.same_images:
        _refuse_other_images(captions, missing)
    elif missing:
        scored = len(references) - len(missing)
        warn(f"scored are the {scored} of {len(references)} images that every system captioned")
    return {
        name: {image: shorten(text, files.first_sentence, files.max_words) for image, text in of_system.items()}
        for name, of_system in captions.items()
    }


def _refuse_other_images(captions: Mapping[str, Captions], missing: set[str]) -> None:
    for name, of_system in captions.items():
        lacking = [
            image for image in missing if image not in of_system and any(image in of for of in captions.values())
        ]
        if lacking:
            raise InputError(
                f"{name}: {len(lacking)} images have no caption that another system captioned (first: {min(lacking)}); "
                "caption them, an empty caption where the model fails"
            )


def named_systems(given: Sequence[str]) -> dict[str, Path]:
    """Caption files by system from `NAME=FILE` and `FILE`; a file that exists under the whole text is that file."""
    parts = [("", text) if Path(text).exists() else _named(text) for text in given]
    paths = [Path(path) for _, path in parts]
    own = system_names([path for (name, _), path in zip(parts, paths, strict=True) if not name])
    stems = iter(own)
    names = [name or next(stems) for name, _ in parts]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"two systems are named {twice[0]}; give each a name of its own: NAME=FILE")
    return dict(zip(names, paths, strict=True))


def _named(text: str) -> tuple[str, str]:
    """Name and file of `NAME=FILE`; the file may have a `=` in it."""
    name, equals, path = text.partition("=")
    return (name, path) if equals else ("", text)


def system_names(paths: Sequence[Path]) -> list[str]:
    """Names of systems: the stem of each file; for equal stems the folder's name, for equal folders the path."""
    names = [path.stem for path in paths]
    for longer in (lambda path: path.resolve().parent.name, str):
        times = Counter(names)
        names = [longer(path) if times[name] > 1 else name for path, name in zip(paths, names, strict=True)]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"{twice[0]} is given twice; give every system once")
    return names


def shorten(text: str, sentence: bool = False, words: int | None = None) -> str:
    """Cut a caption to its first sentence, its first words, or both."""
    if sentence:
        text = first_sentence(text)
    return text if words is None else first_words(text, words)


def much_longer(captions: Sequence[str], references: Mapping[str, Sequence[str]]) -> tuple[float, float] | None:
    """Mean words of captions and references if the captions are much longer (VLM paragraphs), else None."""
    ours = [len(caption.split()) for caption in captions]
    theirs = [len(text.split()) for of_image in references.values() for text in of_image]
    if not ours or not theirs:
        return None
    mean, wanted = sum(ours) / len(ours), sum(theirs) / len(theirs)
    return (mean, wanted) if mean > MUCH_LONGER * max(wanted, 1.0) else None


def read_objects(path: Path, image_ids: Sequence[str], warn: Warn = warn_user) -> dict[str, list[str]]:
    """Classes in each image from a JSON file `{"image id": ["class", ...]}`."""
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(found, dict) or not all(_is_names(names) for names in found.values()):
        raise InputError(f'{path}: must be {{"image id": ["class", ...], ...}}')
    missing = sum(image not in found for image in image_ids)
    if missing:
        warn(f"{path.name}: {missing} of {len(image_ids)} images have no entry and count as having no objects")
    return found


def read_texts(path: Path) -> list[str]:
    """All captions of a file, such as training captions."""
    return [text for texts in read_references(path).values() for text in texts]


def find_images(folder: Path, image_ids: Sequence[str]) -> dict[str, Path]:
    """Files by image id; ids may be spelled differently (see `captrial.data.image_ids`)."""
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a folder of images")
    from captrial.data.image_source import ImageSource  # images are for CLIPScore alone

    source = ImageSource(folder)
    found = ((image, source.path(image)) for image in image_ids)
    return {image: path for image, path in found if path is not None}


def _report_other_languages(source: str, captions: Sequence[tuple[str, str]], warn: Warn) -> None:
    """Warn of captions that are not English: the tokeniser and every metric are made for English."""
    note = language_note(source, captions)
    if note:
        warn(note)


def _report_length(name: str, captions: Sequence[str], references: Mapping[str, Sequence[str]], warn: Warn) -> None:
    """Warn of captions that are much longer than the references: every metric here penalises length."""
    lengths = much_longer(captions, references)
    if lengths:
        warn(
            f"{name}: captions have {lengths[0]:.0f} words on average, references {lengths[1]:.0f}; n-gram "
            "metrics punish length. Score them by meaning (--metrics semantic,facts), or cut them: --first-sentence or "
            "--max-words N"
        )


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
