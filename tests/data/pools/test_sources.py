"""URL lists of every form."""

from __future__ import annotations

from pathlib import Path

import pytest

from captrial.data.pools.sources import read_url_list
from captrial.errors import DatasetError


def test_url_lists_of_every_form(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_text("# comment\nhttp://a/1.jpg\n\nhttps://a/2.jpg\ttwo\tcat\nfile:///etc/passwd\tthree\nnonsense\n")
    rows = read_url_list(path)
    assert [(row.url, row.label) for row in rows][:2] == [("http://a/1.jpg", None), ("https://a/2.jpg", "cat")]
    assert len(rows[0].id) == 16
    assert rows[1].id == "two"
    assert [row.problem is None for row in rows] == [True, True, False, False]
    assert rows[2].problem is not None
    assert "urls.txt, line 5: 'file:///etc/passwd' is not an http or https address" in rows[2].problem
    path.write_text('id,url,class\n1,"http://a/x,y.jpg",bird\n2,http://a/z.jpg\n')
    assert [(row.id, row.url, row.label) for row in read_url_list(path)] == [
        ("1", "http://a/x,y.jpg", "bird"),
        ("2", "http://a/z.jpg", None),
    ]
    for content in (b"", b"# nothing\n", b"\xff\xfe\x00"):
        path.write_bytes(content)
        with pytest.raises(DatasetError):
            read_url_list(path)
