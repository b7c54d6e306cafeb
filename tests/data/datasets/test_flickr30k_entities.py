from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from captrial.data.datasets import detect, parse_entities, problems, read_dataset, read_entities
from captrial.errors import DatasetError
from captrial.records import Box

SENTENCES = """[/EN#1/people Two men] and [/EN#2/animals a dog] on [/EN#3/scene the beach] .
A photo of [/EN#1/people/bodyparts men 's arms] near [/EN#4/other something] , [/EN#0/notvisual it] seems
"""
OBJECTS = """
<object><name>1</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>10</xmax><ymax>20</ymax></bndbox></object>
<object><name>1</name><name>2</name><bndbox><xmin>5</xmin><ymin>5</ymin><xmax>9</xmax><ymax>8</ymax></bndbox></object>
<object><name>3</name><scene>1</scene><nobndbox>1</nobndbox></object>
<object><name>4</name><scene>0</scene><nobndbox>1</nobndbox></object>
"""


def xml(objects: str = OBJECTS) -> str:
    size = "<size><width>30</width><height>40</height><depth>3</depth></size>"
    return f"<annotation><filename>77.jpg</filename>{size}{objects}</annotation>"


def write(root: Path, sentences: str = SENTENCES, annotations: str | None = None) -> Path:
    for folder in ("Sentences", "Annotations"):
        (root / folder).mkdir(exist_ok=True)
    (root / "Sentences" / "77.txt").write_text(sentences)
    (root / "Annotations" / "77.xml").write_text(annotations or xml())
    return root


def test_everything_is_linked(tmp_path: Path) -> None:
    (sample,) = read_entities(write(tmp_path))
    assert sample.id == "77.jpg"
    assert (sample.image.width, sample.image.height) == (30, 40)
    assert sample.captions == (
        "Two men and a dog on the beach .",
        "A photo of men 's arms near something , it seems",
    )
    assert [region.box for region in sample.regions] == [Box(0, 1, 10, 20), Box(4, 4, 9, 8)]
    men, dog, beach = sample.phrases[0]
    assert (men.text, men.start, men.end, men.entity, men.kinds) == ("Two men", 0, 2, "1", ("people",))
    assert [region.box for region in men.regions] == [Box(0, 1, 10, 20), Box(4, 4, 9, 8)]
    assert [region.box for region in dog.regions] == [Box(4, 4, 9, 8)]
    assert (beach.kinds, beach.regions) == (("scene", "nobox"), ())
    arms, something, it = sample.phrases[1]
    assert (arms.start, arms.end, arms.kinds) == (3, 6, ("people", "bodyparts"))
    assert something.kinds == ("other", "nobox")
    assert (it.entity, it.kinds, it.regions) == ("0", ("notvisual",), ())


def test_indices_count_in_the_tokens(tmp_path: Path) -> None:
    (sample,) = read_entities(write(tmp_path))
    tokens = sample.extra["tokens"]
    assert isinstance(tokens, tuple)
    for words, caption, phrases in zip(tokens, sample.captions, sample.phrases, strict=True):
        assert " ".join(words) == caption
        assert all(" ".join(words[phrase.start : phrase.end]) == phrase.text for phrase in phrases)


def test_splits(tmp_path: Path) -> None:
    (write(tmp_path) / "val.txt").write_text("77\n")
    assert read_entities(tmp_path)[0].split == "val"
    with pytest.raises(DatasetError, match="no split 'train'"):
        read_entities(tmp_path, split="train")
    (tmp_path / "test.txt").write_text("78\n")
    with pytest.raises(DatasetError, match=r"test\.txt: line 1: no sentences for image 78"):
        read_entities(tmp_path)


def test_an_empty_box_is_left_out_and_said(tmp_path: Path) -> None:
    box = "<object><name>1</name><bndbox><xmin>9</xmin><ymin>2</ymin><xmax>8</xmax><ymax>20</ymax></bndbox></object>"
    samples = read_entities(write(tmp_path, annotations=xml(box)))
    assert samples[0].phrases[0][0].regions == ()
    assert "object 0 (EN#1) has an empty box and was left out: [9, 2, 8, 20]" in problems(samples)[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[/EN#1/people A man", r"line 1: column 1: the phrase EN#1 is not closed"),
        ("a [/EN#1/people A [/EN#2/other hat] man]", "column 19: a phrase begins inside another"),
        ("[/EN#1/people  ]", "column 1: the phrase EN#1 has no words"),
        ("a [/EN#x/people man]", r"column 3: expected `\[/EN#id/kind words\]`"),
    ],
)
def test_broken_sentences(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        read_entities(write(tmp_path, line))
    assert "77.txt" in str(caught.value)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ("<annotation>", "not XML"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><annotation/>", "document type"),
        (xml("<object><name>dog</name></object>"), "number of an entity"),
        (xml("<object/>"), "number of an entity"),
        (xml("<object><name>1</name><bndbox><xmin>1</xmin></bndbox></object>"), "needs xmin, ymin, xmax and ymax"),
        (xml("<object><name>1</name><scene>yes</scene></object>"), "<scene> must be a whole number, found 'yes'"),
    ],
)
def test_broken_annotations(tmp_path: Path, annotations: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        read_entities(write(tmp_path, annotations=annotations))
    assert "77.xml" in str(caught.value)


def test_files_without_counterpart(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "Annotations" / "78.xml").write_text(xml())
    with pytest.raises(DatasetError, match=r"78\.xml: no Sentences file"):
        read_entities(tmp_path)
    (tmp_path / "Annotations" / "78.xml").unlink()
    (tmp_path / "Annotations" / "77.xml").unlink()
    with pytest.raises(DatasetError, match=r"77\.xml: cannot be read"):
        read_entities(tmp_path)
    with pytest.raises(DatasetError, match="no sentence files"):
        read_entities(tmp_path / "none")


@given(st.text("[]/EN#12 people.a", max_size=60))
@settings(max_examples=500)
def test_any_line_is_parsed_or_an_error(line: str) -> None:
    try:
        tokens, phrases = parse_entities(line)
    except DatasetError:
        return
    assert all(" ".join(tokens[phrase.start : phrase.end]) == phrase.text for phrase in phrases)
    assert not any("[/EN#" in token for token in tokens)


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.sampled_from(["a", "man", "dog", ",", "'s"]), min_size=1, max_size=4)),
        max_size=6,
    )
)
def test_round_trip(parts: list[tuple[bool, list[str]]]) -> None:
    """Brackets put around some words are found again at their places."""
    line = " ".join(
        f"[/EN#{i}/other {' '.join(words)}]" if bracket else " ".join(words) for i, (bracket, words) in enumerate(parts)
    )
    tokens, phrases = parse_entities(line)
    assert list(tokens) == [word for _, words in parts for word in words]
    assert [phrase.text.split() for phrase in phrases] == [words for bracket, words in parts if bracket]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "ascii"])
def test_a_document_type_is_refused_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    bomb = "<!DOCTYPE x [<!ENTITY a 'b'><!ENTITY c '" + "&a;" * 1000 + "'>]><annotation>&c;</annotation>"
    folder = write(tmp_path, "a dog", xml(""))
    (path,) = (folder / "Annotations").glob("*.xml")
    path.write_bytes(bomb.encode(encoding))
    with pytest.raises(DatasetError, match=r"a document type is not expected here|not XML"):
        read_entities(folder)
    path.write_bytes(xml("").encode("utf-16"))  # the encoding itself is no reason
    assert len(read_entities(folder)) == 1


def photographs(folder: Path, size: tuple[int, int] = (60, 80), name: str = "77_8bf2.jpg") -> Path:
    """A folder with a photograph as Flickr8k names and scales it, and the Karpathy file beside it."""
    (folder / "images").mkdir(parents=True)
    Image.new("RGB", size).save(folder / "images" / name)
    record = {"filename": name, "split": "test", "sentences": [{"raw": "Two men."}]}
    (folder / "dataset_flickr8k.json").write_bytes(orjson.dumps({"images": [record], "dataset": "flickr8k"}))
    return folder / "images"


def test_photographs_are_found_by_number_and_boxes_scaled(tmp_path: Path) -> None:
    """Twice the size of the XML's photograph; the split is that of the Karpathy file beside the images."""
    (tmp_path / "entities").mkdir()
    root, images = write(tmp_path / "entities"), photographs(tmp_path / "flickr8k")
    (sample,) = read_entities(root, images=images)
    assert (sample.id, sample.split) == ("77_8bf2.jpg", "test")
    assert sample.image.path == images / "77_8bf2.jpg"
    assert (sample.image.width, sample.image.height) == (60, 80)
    assert [region.box for region in sample.regions] == [Box(0, 2, 20, 40), Box(8, 8, 18, 16)]
    assert sample.phrases[0][1].regions[0].box == Box(8, 8, 18, 16)
    assert problems([sample]) == []
    assert read_dataset(tmp_path) == [sample]  # the folder that holds both
    assert detect(tmp_path).reader.name == "entities"


def test_a_photograph_of_another_shape_is_a_problem(tmp_path: Path) -> None:
    (sample,) = read_entities(write(tmp_path), images=photographs(tmp_path / "flickr8k", (60, 40)))
    assert sample.regions[0].box == Box(0, 1, 20, 20)
    assert "2.00 x 1.00 of the XML's size" in problems([sample])[0]


def test_a_number_must_have_one_photograph(tmp_path: Path) -> None:
    images = photographs(tmp_path / "flickr8k")
    Image.new("RGB", (3, 4)).save(images / "77_other.jpg")
    with pytest.raises(DatasetError, match=r"77_8bf2.jpg and 77_other.jpg both begin with 77"):
        read_entities(write(tmp_path), images=images)
    Image.new("RGB", (30, 40)).save(images / "77.jpg")  # its own name comes first
    assert read_entities(tmp_path, images=images)[0].id == "77.jpg"


def test_unrelated_captions_are_left_out(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "UNRELATED_CAPTIONS").write_text("# format: <imageID> <sentence number>\n77 1\n99 5\n")
    (sample,) = read_entities(tmp_path)
    assert sample.captions == ("A photo of men 's arms near something , it seems",)
    assert len(sample.phrases) == len(sample.extra["tokens"]) == 1  # type: ignore[arg-type]
    assert str(sample.extra["unrelated"]).count("Two men") == 1
    (tmp_path / "UNRELATED_CAPTIONS").write_text("77 first\n")
    with pytest.raises(DatasetError, match="line 1 must be `image caption`"):
        read_entities(tmp_path)
