"""`captrial studio`: what is refused before the page opens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from captrial.captioners.registry import DEFAULT_CAPTIONER, shipped_captioners
from captrial.cli import main


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """The sentence with which `captrial studio` ends at once."""
    with pytest.raises(SystemExit, match="2"):
        main(["studio", *line])
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    return complaint


def test_a_taken_port_and_a_folder_that_is_no_competition_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"--port {port} cannot be used" in refused(capsys, "--port", port)
    assert str(tmp_path) in refused(capsys, "--competition", str(tmp_path))


def test_an_unknown_captioner_is_refused_with_the_list_before_the_page_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("nobody", "nobody?beam=3", str(tmp_path / "nowhere")):
        complaint = refused(capsys, "--model", DEFAULT_CAPTIONER, "--model", name)
        assert name.partition("?")[0] in complaint
        assert f"there are: {', '.join(shipped_captioners())}" in complaint
    assert "name the model after a #" in refused(capsys, "--model", "http://127.0.0.1:1/v1")


def test_an_unknown_detector_is_refused_before_the_page_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no detector is called 'nobody'; there are: region-detector, localiser, onnx, detr" in refused(
        capsys, "--regions", "nobody"
    )
    gone = tmp_path / "gone.onnx"
    assert str(gone) in refused(capsys, "--regions", f"onnx:{gone}")
