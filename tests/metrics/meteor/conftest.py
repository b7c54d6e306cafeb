"""A METEOR in miniature: a jar and a paraphrase table of a few words, so that these tests need no wheel."""

from __future__ import annotations

import gzip
from pathlib import Path
from zipfile import ZipFile

import pytest

from captrial.metrics.meteor import MeteorResources

FUNCTION_WORDS = ["a", "the", "of", "in", "is", "on"]
PREFIXES = "# comment\nMr\nNo #NUMERIC_ONLY#\n"
SYNSETS = "dog\n1 2\nhound\n2\nman\n3\nguy\n3 4\nrun\n5\njog\n5\ngoose\n6\nbird\n6\nfat\n7\nbig\n7\n"
EXCEPTIONS = "goose\ngeese\nman\nmen\n"
PARAPHRASES = [
    ("big", "large"),
    ("big", "a lot"),
    ("big dog", "hound"),
    ("hound", "dog"),
    ("in front of", "before"),
    ("in front of", "before the"),
    ("a lot", "big"),
    ("of", "in front"),
    ("runs", "is"),
]


def write_table(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(f"0.5\n{phrase}\n{paraphrase}\n" for phrase, paraphrase in rows)
    return path


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meteor")
    with ZipFile(folder / "meteor-1.5.jar", "w") as jar:
        jar.writestr("function/english.words", "\n".join(FUNCTION_WORDS) + "\n")
        jar.writestr("nonbreaking/english.prefixes", PREFIXES)
        jar.writestr("synonym/english.synsets", SYNSETS)
        jar.writestr("synonym/english.exceptions", EXCEPTIONS)
    write_table(folder / "data" / "paraphrase-en.gz", PARAPHRASES)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> MeteorResources:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPTRIAL_CACHE", str(tmp_path_factory.mktemp("cache")))
        return MeteorResources.find(tiny_folder)
