"""Caption and reference files: every format in and out, every oddity reported, nothing but our errors on bad input."""

from __future__ import annotations

import csv
import io
import json
import random
import string
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import openpyxl
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont

from captrial.data import CaptionSet, read_captions, read_references, write_captions, write_references
from captrial.data.captions import table_rows, zip_members
from captrial.data.xml_documents import ElementReader
from captrial.errors import CaptionFileError
from malformed import memory_limit


def lmms_samples() -> list[dict[str, Any]]:
    """Samples as lmms-eval logs them: one of a captioning task, one of a task that keeps nothing but the document."""
    first, second = EXPECTED.items()
    kept = {"answer": ["a dog"], "pred": first[1], "image_id": int(first[0]), "id": 0}
    shared = {"target": "", "arguments": ["Describe it.", {"max_new_tokens": 64}], "doc_hash": "x"}
    return [
        {"doc_id": 0, "doc": {"id": 0}, "resps": [["raw"]], "filtered_resps": [first[1]], "coco_CIDEr": kept, **shared},
        {
            "doc_id": 1,
            "doc": {"question_id": second[0]},
            "resps": [[second[1]]],
            "filtered_resps": [second[1]],
            **shared,
        },
    ]


def inspect_log() -> dict[str, Any]:
    """A log as inspect writes it, images and messages left out."""
    first, second = EXPECTED.items()
    parts = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": second[1]}]
    samples = [
        {"id": int(first[0]), "epoch": 1, "input": "?", "target": "", "output": {"model": "m", "completion": first[1]}},
        {"id": second[0], "epoch": 1, "output": {"choices": [{"message": {"role": "assistant", "content": parts}}]}},
    ]
    return {"version": 2, "status": "success", "eval": {"model": "m", "task": "caption"}, "samples": samples}


def inspect_archive() -> bytes:
    """The same as an `.eval` archive."""
    log = inspect_log()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for sample in log.pop("samples"):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        archive.writestr("header.json", json.dumps(log))
    return target.getvalue()


EXPECTED = {"42": "a dog, in a basket", "7": 'a "quoted" sign'}


def put(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


VLMEVALKIT = pd.DataFrame(
    {"index": map(int, EXPECTED), "question": "Describe it.", "answer": "['a dog']", "prediction": EXPECTED.values()}
)


def workbook(table: pd.DataFrame, engine: Literal["openpyxl", "xlsxwriter"], sheets: int = 1) -> bytes:
    """A workbook as pandas writes it."""
    target = io.BytesIO()
    with pd.ExcelWriter(target, engine=engine) as writer:
        for number in range(sheets):
            table.to_excel(writer, sheet_name=f"sheet {number}", index=False)
    return target.getvalue()


FORMS: dict[str, bytes] = {
    "coco results": orjson.dumps([{"image_id": int(i), "caption": text} for i, text in EXPECTED.items()]),
    "mapping": orjson.dumps(EXPECTED),
    "mapping, indented": json.dumps(EXPECTED, indent=2).encode(),
    "json lines": b'{"id": "42", "caption": "a dog, in a basket"}\n\n{"id": "7", "caption": "a \\"quoted\\" sign"}\n',
    "json lines, other names": b'{"file":42,"text":"a dog, in a basket"}\r\n{"file":7,"text":"a \\"quoted\\" sign"}',
    "coco annotations": orjson.dumps(
        {"annotations": [{"id": n, "image_id": i, "caption": t} for n, (i, t) in enumerate(EXPECTED.items())]}
    ),
    "csv": b'id,caption\n42,"a dog, in a basket"\n7,"a ""quoted"" sign"\n',
    "csv, literal quotes": b'id,caption\n42,"a dog, in a basket"\n7,a "quoted" sign\n',
    "csv, CRLF, more columns": b'score,caption,image_id\r\n0.1,"a dog, in a basket",42\r\n1,"a ""quoted"" sign",7\r\n',
    "csv, byte order mark": b'\xef\xbb\xbffilename,caption\n42,"a dog, in a basket"\n7,"a ""quoted"" sign"',
    "csv, semicolons": b'id;caption\n42;a dog, in a basket\n7;"a ""quoted"" sign"\n',
    "csv without header": b'42,"a dog, in a basket"\n7,"a ""quoted"" sign"\n',
    "tsv, raw quotes": b'id\tcaption\n42\ta dog, in a basket\n7\ta "quoted" sign\n',
    "tsv, enclosing quotes": b'id\tcaption\n42\ta dog, in a basket\n7\t"a ""quoted"" sign"\n',
    "tsv without header": b'42\ta dog, in a basket\n7\ta "quoted" sign',
    "parquet": parquet_bytes(pa.table({"image_id": [42, 7], "caption": list(EXPECTED.values())})),
    "parquet, dictionary": parquet_bytes(
        pa.table({"id": list(EXPECTED), "caption": pa.array(list(EXPECTED.values())).dictionary_encode()})
    ),
    "lmms-eval, JSON lines": b"\n".join(map(orjson.dumps, lmms_samples())),
    "lmms-eval, one document": orjson.dumps({"args": {}, "logs": lmms_samples()}),
    "inspect": orjson.dumps(inspect_log()),
    "inspect, archive": inspect_archive(),
    "VLMEvalKit": VLMEVALKIT.to_csv(sep="\t", index=False).encode(),
    "VLMEvalKit, workbook by openpyxl": workbook(VLMEVALKIT, "openpyxl"),
    "VLMEvalKit, workbook by xlsxwriter": workbook(VLMEVALKIT, "xlsxwriter"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_format_is_recognised_from_content(form: str, tmp_path: Path) -> None:
    captions = read_captions(put(tmp_path, "captions.txt", FORMS[form]))
    assert captions.to_dict() == EXPECTED
    assert captions.problems == ()
    assert len(captions) == 2


def test_a_workbook_keeps_gaps_runs_and_places_of_rows(tmp_path: Path) -> None:
    """Empty cells are left out of the file, and a text in several fonts is in parts."""
    made = openpyxl.Workbook()
    assert made.active is not None
    for row in (["note", "prediction", "index"], [None, "a dog", 1.0], [], ["x", None, 2], [None, 7.5, "b.jpg"]):
        made.active.append(row)
    made.active["B2"] = CellRichText("a ", TextBlock(InlineFont(b=True), "black"), " dog")
    made.save(tmp_path / "a.xlsx")
    captions = read_captions(tmp_path / "a.xlsx")
    assert captions.to_dict() == {"1": "a black dog"}
    first = {problem.kind: problem.first for problem in captions.problems}
    assert first == {
        "incomplete": ("row 4 (id 2) has no caption",),
        "wrong type": ("row 5 (id b.jpg): the caption is the number 7.5",),
    }


def test_a_workbook_that_cannot_be_used_names_the_way_out(tmp_path: Path) -> None:
    for content in (workbook(VLMEVALKIT, "openpyxl", 2), workbook(VLMEVALKIT.iloc[:0, :0], "openpyxl")):
        with pytest.raises(CaptionFileError, match=r"2 sheets; export|columns are"):
            read_captions(put(tmp_path, "a.xlsx", content))
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"<!DOCTYPE x><x/>" + b" " * 2000)
    with pytest.raises(CaptionFileError, match=r"document type .* export it as CSV"):
        read_captions(put(tmp_path, "b.xlsx", bomb.getvalue()))


SHEET = "<worksheet><sheetData>{}</sheetData></worksheet>"
HEADER = (
    '<row r="1">' + "".join(f'<c t="inlineStr"><is><t>{name}</t></is></c>' for name in ("id", "caption")) + "</row>"
)


@pytest.mark.parametrize(
    ("sheet", "strings"),
    [
        (SHEET.format("<row>" + "<c/>" * 1_000_000 + "</row>"), ""),
        (SHEET.format(HEADER + "<row/>" * 1_000_000), ""),
        (SHEET.format(HEADER), "<sst>" + "<si/>" * 1_000_000 + "</sst>"),
    ],
    ids=["cells", "rows", "strings"],
)
def test_a_small_workbook_takes_little_memory(sheet: str, strings: str, tmp_path: Path) -> None:
    """223 KB took 1.9 GB: each empty element became an object."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
        archive.writestr("xl/sharedStrings.xml", strings or "<sst/>")
        archive.writestr(zipfile.ZipInfo("picture"), random.Random(0).randbytes(40_000))
    path = put(tmp_path, "a.xlsx", target.getvalue())
    with memory_limit(100 << 20), pytest.raises(CaptionFileError, match=r"columns are none|0 captions"):
        read_captions(path)


def test_a_workbook_of_more_elements_than_any_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ElementReader, "most", 9)
    with pytest.raises(CaptionFileError, match="more than 9 elements"):
        read_captions(put(tmp_path, "a.xlsx", workbook(VLMEVALKIT, "openpyxl")))


def test_a_string_of_a_negative_number_is_none(tmp_path: Path) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("xl/worksheets/sheet1.xml", SHEET.format('<row><c t="s"><v>-1</v></c></row>'))
        archive.writestr("xl/sharedStrings.xml", "<sst><si><t>id</t></si></sst>")
    with pytest.raises(CaptionFileError, match="a string of number -1"):
        read_captions(put(tmp_path, "a.xlsx", target.getvalue()))


def test_answers_of_a_model_are_no_references(tmp_path: Path) -> None:
    for content in (orjson.dumps(inspect_log()), inspect_archive(), orjson.dumps(lmms_samples()[0])):
        with pytest.raises(CaptionFileError, match="no references"):
            read_references(put(tmp_path, "log", content))


def test_a_sample_that_failed_has_no_caption(tmp_path: Path) -> None:
    log = inspect_log()
    log["samples"][0] |= {"output": {"completion": ""}, "error": {"message": "429"}}
    captions = read_captions(put(tmp_path, "log.json", orjson.dumps(log)))
    assert captions.ids == ["7"]
    assert captions.problems[0].kind == "incomplete"


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_members, "_LARGEST_MEMBER", 20)
    with pytest.raises(CaptionFileError, match="inspect log dump"):
        read_captions(put(tmp_path, "log.eval", inspect_archive()))


@pytest.mark.parametrize(
    ("method", "said"), [(zipfile.ZIP_DEFLATED, "200 times its size"), (zipfile.ZIP_LZMA, "another method")]
)
def test_a_small_archive_takes_little_memory(method: int, said: str, tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        archive.writestr("header.json", "{}")
        empty = b"[]," * (300_000 if method == zipfile.ZIP_DEFLATED else 20)
        archive.writestr("samples/1.json", b'{"id": 1, "output": {"completion": "a dog"}, "x": [%s[]]}' % empty)
    with pytest.raises(CaptionFileError, match=said):
        read_captions(put(tmp_path, "log.eval", content.getvalue()))


@pytest.mark.parametrize("frame_type", ["object", "string", "category"])
def test_files_of_pandas(frame_type: str, tmp_path: Path) -> None:
    texts = ["line\nbreak", "tab\there", 'quote "here"', "plain, comma", ""]
    frame = pd.DataFrame({"image_id": [5, 4, 3, 2, 1], "caption": texts}).astype({"caption": frame_type})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "indexed.csv")
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.json", orient="records")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for path in sorted(tmp_path.iterdir()):
        captions = read_captions(path)
        assert captions.to_dict() == dict(zip("54321", texts, strict=True)), path.name
        assert [(problem.kind, problem.count) for problem in captions.problems] == [("empty", 1)]


def test_ids_are_strings_and_keep_their_zeros(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "id,caption\n007,a spy\n1e3,a number\nNA,a namibian\nnull,a void\n")
    assert read_captions(path).ids == ["007", "1e3", "NA", "null"]


@pytest.mark.parametrize(
    ("content", "places"),
    [
        (
            '[{"image_id":1,"caption":"a"},{"image_id":42,"caption":"b"},{"image_id":"42","caption":"c"}]',
            "entries 2 and 3",
        ),
        ('{"42":"b","1":"a","42":"c"}', "entries 1 and 3"),
        ('{"id":42,"caption":"b"}\n\n{"id":42,"caption":"c"}', "lines 1 and 3"),
        ('id,caption\n1,"two\nlines"\n42,b\n42,c\n', "lines 4 and 5"),
        ("1\ta\n42\tb\n42\tc", "lines 2 and 3"),
    ],
)
def test_two_captions_for_an_id_name_both_places(content: str, places: str, tmp_path: Path) -> None:
    with pytest.raises(CaptionFileError, match=rf"captions\.json: \w+ 42 has two captions \({places}\); keep one"):
        read_captions(put(tmp_path, "captions.json", content))


def test_problems_are_counted_and_the_first_listed(tmp_path: Path) -> None:
    entries: list[Any] = [
        {"image_id": 1, "caption": "a dog"},
        {"image_id": 1, "caption": "a dog"},
        {"image_id": 2.0, "caption": "fraction"},
        {"image_id": True, "caption": "truth"},
        {"image_id": 3, "caption": 5},
        {"image_id": 4},
        {"caption": "nobody"},
        {"image_id": "", "caption": "nobody"},
        "a string",
        {"image_id": 5, "caption": "  \n"},
        {"image_id": 6, "caption": "a stranger"},
        *({"image_id": n, "caption": ""} for n in range(10, 20)),
    ]
    path = put(tmp_path, "a.json", json.dumps(entries))
    known = ["1", "5", "99", *map(str, range(10, 20))]
    captions = read_captions(path, known_ids=known)
    found = {problem.kind: problem for problem in captions.problems}
    assert {kind: problem.count for kind, problem in found.items()} == {
        "incomplete": 3,
        "wrong type": 4,
        "duplicate": 1,
        "empty": 11,
        "unknown id": 1,
        "missing": 1,
    }
    assert captions.ids == ["1", "5", *map(str, range(10, 20))]
    assert captions.texts == ["a dog", *[""] * 11]
    assert found["wrong type"].first[0] == "entry 3: image_id is the number 2.0, not text or a whole number"
    assert found["wrong type"].first[3] == "entry 9 is text instead of an object"
    assert found["incomplete"].first[0] == "entry 6 (id 4) has no caption"
    assert found["duplicate"].first == ("image_id 1 at entry 1 and entry 2",)
    assert len(found["empty"].first) == 5
    assert found["missing"].first == ("id 99",)
    assert "11 empty captions, kept (id 5; id 10;" in captions.report()
    with pytest.raises(CaptionFileError, match="1 repeated row, kept once"):
        read_captions(path, strict=True)


@pytest.mark.parametrize(
    "content",
    [
        b'[{"image_id": 1, "caption": "fine"},\n {"image_id": 2, "caption": "na\xefve"}]',
        b'{"1": "fine",\n"2": "na\xefve"}',
        b'{"id": 1, "caption": "fine"}\n{"id": 2, "caption": "na\xefve"}\n',
        b"id,caption\n1,fine\n2,na\xefve\n",
        b"1\tfine\n2\tna\xefve\n",
    ],
)
def test_bad_utf8_is_left_out_with_its_place(content: bytes, tmp_path: Path) -> None:
    captions = read_captions(put(tmp_path, "a", content))
    (problem,) = captions.problems
    assert captions.to_dict() == {"1": "fine"}
    assert (problem.kind, problem.count) == ("bad utf-8", 1)
    offset = content.index(b"\xef")
    line = content[:offset].count(b"\n") + 1
    assert f"byte 0xef at offset {offset}, line {line}" in problem.first[0]


def test_lone_surrogates_and_nan_do_not_spoil_the_rest(tmp_path: Path) -> None:
    content = '[{"image_id": 1, "caption": "\\ud800"}, {"image_id": 2, "caption": "a dog", "score": NaN}]'
    captions = read_captions(put(tmp_path, "a.json", content))
    assert captions.to_dict() == {"2": "a dog"}
    assert captions.problems[0].kind == "bad utf-8"


def test_repeated_keys_are_noticed(tmp_path: Path) -> None:
    same = read_captions(put(tmp_path, "a.json", '{"1": "a \\\\ \\"", "1": "a \\\\ \\"", "2": "b"}'))
    assert same.to_dict() == {"1": 'a \\ "', "2": "b"}
    assert [problem.kind for problem in same.problems] == ["duplicate"]
    for text in (
        '[{"image_id":1,"image_id":2,"caption":"a"},{"image_id":3,"caption":"b"}]',
        '{"id":1,"id":2,"text":"a"}\n{"id":3,"text":"b"}',
    ):
        captions = read_captions(put(tmp_path, "b.json", text))
        assert captions.to_dict() == {"3": "b"}
        assert captions.problems[0].first[0].endswith("is an object that names a key twice")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\xef\xbb\xbf\n", "is empty"),
        ("\N{NO-BREAK SPACE}\n".encode(), "one column"),
        (b"[]", "the list is empty"),
        (b"{}", "Nothing is left"),
        (b"[1, 2]", "the first is the number 1"),
        (b'[{"foo": 1}]', "the first has foo"),
        (b'{"1": ["a", "b"]}', "a list, as in a reference file"),
        (b'[{"image_id": 1, "caption": "a"},', "line 1, column"),
        (b'{"id": 1, "caption": "a"}\n{"id": 2, "cap', "line 2 is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": "b"} trailing', "not JSON"),
        (b"one column\nonly\n", "one column"),
        (b"a,b,c\n1,2,3\n", "columns a, b, c; which is the caption"),
        (b"1,a b,c\n2,d e,f\n", "no header"),
        (b"id,caption\n1,a,b\n", "line 2 has 3 columns, not 2; quote captions"),
        (b'id,caption\n1,"open\n2,b\n', "line 2 cannot be read"),
        (b'id,caption\n1,"a" b\n', "line 2 cannot be read"),
        (b"id,caption\n", "Nothing is left"),
        (b"id,caption,caption\n1,a,b\n", "2 columns are named caption"),
        (b'id\tcaption\n1\t"a\n2\tb"\n', "two ways"),
        (b"\x1f\x8b\x08...", "gzip"),
        (b"PK\x03\x04...", "ZIP"),
        ("id,caption\n1,a".encode("utf-16"), "UTF-16"),
        (b"\x89PNG\r\n\x1a\n\0\0", "not text"),
        (b"PAR1 and no more", "broken Parquet"),
        (parquet_bytes(pa.table({"a": [1]})), "the columns are a"),
        (parquet_bytes(pa.table({"id": [1.5], "caption": ["a"]})), "the number 1.5"),
        (parquet_bytes(pa.table({"id": pa.array([], pa.string()), "caption": pa.array([], pa.string())})), "Nothing"),
    ],
)
def test_unusable_files_give_a_reason(content: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(CaptionFileError) as caught:
        read_captions(put(tmp_path, "captions.x", content))
    assert "captions.x: " in str(caught.value)
    assert says in str(caught.value)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    for path, says in [
        (tmp_path, "directory"),
        (tmp_path / "none.json", "no such file"),
        (Path("a\0b"), "cannot be read"),
    ]:
        with pytest.raises(CaptionFileError, match=says):
            read_captions(path)


def test_parquet_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": list(range(1000)), "caption": ["x" * 1000] * 1000})
    path = put(tmp_path, "a.parquet", parquet_bytes(table))
    assert len(read_captions(path)) == 1000
    monkeypatch.setattr(table_rows, "MAX_PARQUET_BYTES", 1 << 16)
    with pytest.raises(CaptionFileError, match="unpacks to more than"):
        read_captions(path)
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(table_rows.MAX_PARQUET_ROWS + 1, np.int8)), ["x"])
    bomb = put(tmp_path, "bomb.parquet", parquet_bytes(pa.table({"id": same, "caption": same})))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(CaptionFileError, match="unpacks to more than 20000000 rows"):
        read_captions(bomb)


REFERENCES = {"1": ["a dog", "a dog", "the dog, again"], "2": ["a cat"]}
ANNOTATIONS = [{"id": 8, "image_id": i, "caption": t} for i, texts in REFERENCES.items() for t in texts]
KARPATHY = {
    "images": [
        {"filename": "x.jpg", "cocoid": int(i), "split": split, "sentences": [{"raw": t, "tokens": []} for t in texts]}
        for (i, texts), split in zip(REFERENCES.items(), ["train", "test"], strict=True)
    ]
}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(REFERENCES),
        json.dumps(KARPATHY),
        json.dumps({"images": [{"id": 1}, {"id": 9}], "annotations": ANNOTATIONS}),
        "".join(json.dumps({"id": i, "caption": t}) + "\n" for i, ts in REFERENCES.items() for t in ts),
        "".join(json.dumps({"image_id": i, "captions": ts}) + "\n" for i, ts in REFERENCES.items()),
        'image,caption\n1,a dog\n1,a dog\n1,"the dog, again"\n2,a cat\n',
        "1#0\ta dog\n1#1\ta dog\n1#2\tthe dog, again\n2#0\ta cat\n",
        parquet_bytes(pa.table({"id": [1, 2], "captions": list(REFERENCES.values())})),
        parquet_bytes(pa.table({"id": [1, 1, 1, 2], "caption": [t for ts in REFERENCES.values() for t in ts]})),
    ],
)
def test_references_of_every_form(content: bytes | str, tmp_path: Path) -> None:
    assert read_references(put(tmp_path, "references", content)) == REFERENCES


def test_references_of_a_split(tmp_path: Path) -> None:
    karpathy = put(tmp_path, "karpathy.json", json.dumps(KARPATHY))
    assert read_references(karpathy, split="test") == {"2": ["a cat"]}
    assert read_references(karpathy, split="test+train") == REFERENCES
    with pytest.raises(CaptionFileError, match="no split 'tset'; it has test, train"):
        read_references(karpathy, split="tset")
    with pytest.raises(CaptionFileError, match="has no splits"):
        read_references(put(tmp_path, "plain.json", json.dumps(REFERENCES)), split="test")
    lines = put(tmp_path, "a.jsonl", '{"id":1,"text":"a","split":"val"}\n{"id":2,"text":"b","split":"test"}')
    assert read_references(lines, split="val") == {"1": ["a"]}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"1": []}', r"entry 1 \(id 1\) has no captions"),
        ('{"1": ["a", 5]}', r"entry 1 \(id 1\): the caption is the number 5"),
        ('{"1": ["a"], "2": null}', "entry 2"),
        ('{"images": [{"id": 1}]}', "image 1 has no filename or no sentences"),
        ('{"images": []}', "has no captions"),
        ('[{"image_id": 1.0, "caption": "a"}]', "the number 1.0"),
    ],
)
def test_bad_references_are_refused(content: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(CaptionFileError, match=says):
        read_references(put(tmp_path, "references.json", content))


@pytest.mark.needs("data")
def test_published_files(data: Path) -> None:
    folder = data / "captioners" / "karpathy_test"
    references = read_references(folder / "references.json")
    assert len(references) == 5000
    for path in sorted(folder.glob("*.json")):
        if path.name != "references.json":
            captions = read_captions(path, known_ids=references)
            assert set(captions.ids) <= references.keys()
            expected = {str(row["image_id"]): row["caption"] for row in json.loads(path.read_text())}
            assert captions.to_dict() == {i: text if text.strip() else "" for i, text in expected.items()}
    coco = read_references(data / "coco" / "captions_val2017.json")
    assert (len(coco), sum(map(len, coco.values()))) == (5000, 25014)
    flickr = read_references(data / "flickr8k" / "dataset_flickr8k.json", split="test")
    assert (len(flickr), {len(texts) for texts in flickr.values()}) == (500, {5})
    with pytest.raises(CaptionFileError, match="has two captions"):
        read_captions(data / "coco" / "captions_val2017.json")


SUFFIXES = [".json", ".jsonl", ".csv", ".tsv", ".parquet"]
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
nasty = st.text('",\t\r\n ;a1\ufeff{[', max_size=8)
identities = st.one_of(st.integers(0, 10**6).map(str), texts, nasty).filter(bool)
captions_strategy = st.dictionaries(identities, st.one_of(texts, nasty), min_size=1, max_size=8)
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(captions=captions_strategy)
@quick
def test_what_is_written_is_read_back(suffix: str, captions: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / f"captions{suffix}"
    write_captions(path, captions)
    back = read_captions(path)
    assert back.to_dict() == {i: text if text.strip() else "" for i, text in captions.items()}
    write_captions(path, back)
    assert read_captions(path).to_dict() == back.to_dict()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(
    references=st.dictionaries(
        identities.filter(lambda i: "#" not in i), st.lists(texts, min_size=1, max_size=4), min_size=1, max_size=4
    )
)
@quick
def test_references_are_read_back(suffix: str, references: dict[str, list[str]], tmp_path: Path) -> None:
    path = tmp_path / f"references{suffix}"
    write_references(path, references)
    assert read_references(path) == references


def test_coco_results_carry_numbers(tmp_path: Path) -> None:
    write_captions(tmp_path / "a.json", {"42": "a dog"})
    assert json.loads((tmp_path / "a.json").read_text()) == [{"image_id": 42, "caption": "a dog"}]
    write_references(tmp_path / "r.json", {"42": ["a dog"]})
    assert json.loads((tmp_path / "r.json").read_text())["annotations"] == [
        {"id": 0, "image_id": 42, "caption": "a dog"}
    ]


@pytest.mark.parametrize(
    ("name", "captions", "says"),
    [
        ("a.xml", {"1": "a"}, "unknown suffix"),
        ("a.json", {1: "a"}, "must both be text"),
        ("a.json", {"1": None}, "must both be text"),
        ("a.json", {"": "a"}, "an id is empty"),
        ("a.json", {"1": "\ud800"}, "not valid Unicode"),
        ("a.csv", {"1": "\0"}, "zero character"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(name: str, captions: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(CaptionFileError, match=says):
        write_captions(tmp_path / name, captions)
    assert list(tmp_path.iterdir()) == []


@given(text=st.text('",\n\r;ab', max_size=24), width=st.integers(1, 3))
@settings(max_examples=600, deadline=None)
def test_fast_and_slow_tables_agree(text: str, width: int) -> None:
    fast = table_rows._fast_table(text.encode(), ",", True, width) if text.strip() else None
    if fast is None:
        return
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    assert [list(row.values()) for row in fast.to_pylist()] == rows


def mutations(forms: list[bytes]) -> st.SearchStrategy[bytes]:
    """Valid files with bytes cut, doubled, flipped and inserted, and text made of the characters that matter."""
    places = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.binary(max_size=6)), min_size=1, max_size=6)

    def mutate(form: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
        for share, kind, extra in edits:
            at = int(share * len(form))
            tail = [form[at + len(extra) :], form[at:], form[max(at - 8, 0) :], b""][kind]
            form = form[:at] + extra + tail
        return form

    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "image_id", "caption", "text", "images", "annotations", "sentences"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    )
    documents = json_values.map(lambda value: json.dumps(value).encode())
    return st.one_of(
        st.builds(mutate, st.sampled_from(forms), places),
        st.builds(mutate, documents, places),
        documents,
        st.lists(documents, max_size=3).map(b"\n".join),
        st.text('{}[]":,\\ \t\r\nid1caption\ud800', max_size=40).map(lambda t: t.encode("utf-8", "surrogatepass")),
        st.binary(max_size=60),
    )


def read_malformed(content: bytes, folder: Path) -> None:
    path = put(folder, "malformed", content)
    for read in (read_captions, lambda p: read_captions(p, known_ids=["42"], strict=True), read_references):
        try:
            result = read(path)
        except CaptionFileError as error:
            assert "malformed: " in str(error)  # noqa: PT017
        else:
            entries = result if isinstance(result, dict) else result.to_dict()
            assert entries
            assert all(isinstance(key, str) and key for key in entries)
            orjson.dumps(entries)  # everything that comes out is valid Unicode
            if isinstance(result, CaptionSet):
                assert result.report()


@given(content=mutations(list(FORMS.values())))
@settings(max_examples=400, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_malformed_files_give_an_error_or_clean_rows(content: bytes, tmp_path: Path) -> None:
    read_malformed(content, tmp_path)


@pytest.mark.full
@given(content=mutations(list(FORMS.values())))
@settings(max_examples=20_000, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_thousands_of_malformed_files(content: bytes, tmp_path: Path) -> None:
    read_malformed(content, tmp_path)


def test_only_token_files_number_their_captions(tmp_path: Path) -> None:
    """`photo#2` is the second caption of a photo in Flickr's token files, and an id like any other elsewhere."""
    ids = ["a#1", "a#2", "b#1"]
    (tmp_path / "token.txt").write_text("".join(f"{identity}\ta dog\n" for identity in ids))
    assert list(read_references(tmp_path / "token.txt")) == ["a", "b"]
    (tmp_path / "map.json").write_bytes(orjson.dumps({identity: ["a dog"] for identity in ids}))
    (tmp_path / "list.json").write_bytes(orjson.dumps([{"id": identity, "caption": "a dog"} for identity in ids]))
    (tmp_path / "lines.jsonl").write_bytes(b"".join(orjson.dumps({"id": i, "caption": "x"}) + b"\n" for i in ids))
    (tmp_path / "table.csv").write_text("id,caption\n" + "".join(f"{identity},a dog\n" for identity in ids))
    (tmp_path / "table.tsv").write_text("id\tcaption\n" + "".join(f"{identity}\ta dog\n" for identity in ids))
    for name in ("map.json", "list.json", "lines.jsonl", "table.csv", "table.tsv"):
        assert list(read_references(tmp_path / name)) == ids, name
