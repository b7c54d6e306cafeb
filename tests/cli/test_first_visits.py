"""The first visit in each of seven roles: what they type, what comes first, and no dead end; and mistakes of all kinds.

A visit is a list of commands as README and `--help` suggest them. Each must end well; the number of commands to the
first useful result is part of the test, and so is the processor time that all of them take. A mistake must be answered
by one message that names the way out, at once.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image

import captrial
from captrial.cli.app import main
from captrial.demo import ExampleSettings, write_sample


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `captrial sample` writes, smaller, with some hand-made files beside it."""
    folder = tmp_path_factory.mktemp("visit") / "try"
    write_sample(folder, ExampleSettings(images=24, size=64, judged=20))
    mine = json.loads((folder / "mine.json").read_bytes())
    write_table(folder / "three.csv", "image,model,output", [f'{name},x,"{text}"' for name, text in mine.items()])
    write_table(folder / "names.csv", "photo,output", [f'{name},"{text}"' for name, text in mine.items()])
    (folder / "odd.json").write_text(json.dumps({f"img_{n}": text for n, text in enumerate(mine.values())}))
    write_table(folder / "ids.csv", "theirs,ours", [f"img_{n},{name}" for n, name in enumerate(mine)])
    (folder / "broken.jpg").write_bytes((folder / "photo.jpg").read_bytes()[:3000])
    (folder / "phone.heic").write_bytes(b"\0\0\0\x1cftypheic\0\0\0\0mif1heic" + bytes(64))
    (folder / "mixed").mkdir()
    for name in mine:
        (folder / "mixed" / name).write_bytes((folder / "images" / name).read_bytes())
    (folder / "mixed" / "000.png").write_bytes(b"not an image")
    (folder / "mixed" / "001.png").unlink()
    (folder / "mixed" / "002.png").write_bytes((folder / "images" / "002.png").read_bytes()[:500])
    (folder / "one").mkdir()
    (folder / "one" / "000.png").write_bytes((folder / "images" / "000.png").read_bytes())
    (folder / "empty").mkdir()
    return folder


def write_table(path: Path, header: str, rows: list[str]) -> None:
    path.write_text("\n".join([header, *rows]) + "\n")


@pytest.fixture
def here(example: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(example)
    return example


def run(line: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(line)[1:])
    return int(ended.value.code or 0)


def visit(capsys: pytest.CaptureFixture[str], lines: list[str], first: str, seconds: float) -> str:
    """Type the commands; `first` must be in what the last one prints, within so much processor time in all."""
    started, said = time.process_time(), ""
    for line in lines:
        capsys.readouterr()
        assert run(line) == 0, line
        shown = capsys.readouterr()
        assert "Traceback" not in shown.out + shown.err
        said = shown.out
    assert first in said
    assert time.process_time() - started < seconds
    return said


# Seven roles ----------------------------------------------------------------------------------------------------------


def test_an_engineer_with_two_caption_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score = "captrial score mine.json theirs.json --references references.json --metrics bleu,cider"
    visit(capsys, [score], "Who beats whom", 30)
    lines = [
        "captrial compete new trial --captions mine=mine.json --captions theirs=theirs.json --images images/",
        "captrial compete select trial --k 8",
        "captrial compete rank trial --references references.json",
    ]
    said = visit(capsys, lines, "mine comes first of 2 captioners by CIDEr", 60)
    assert "captrial compete report trial --references references.json" in said  # the next step is named


def test_a_researcher_with_a_new_captioner(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "captrial score newcomer.json mine.json -r references.json -m bleu,cider --format latex"
    assert r"\begin{tabular}" in visit(capsys, [table], "newcomer", 30)
    lines = [
        "captrial compete new old --captions mine=mine.json --captions theirs=theirs.json",
        "captrial compete select old --k 4",
        "captrial compete add old --captions newcomer=newcomer.json",
        "captrial compete rank old --references references.json",
    ]
    visit(capsys, lines, "of 3 captioners by CIDEr", 60)


def test_somebody_who_debugs_a_captioner(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    caption = '--caption "a man with a guitar and a cat"'
    line = f"captrial explain photo.jpg --model transformer --method attention {caption} --out explained"
    said = visit(capsys, [line], "guitar: no guitar was found in the image", 120)
    assert "probability (or else)" in said
    assert Path("explained/index.html").is_file()


def test_the_lead_of_five_annotators(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = "captrial compete new team --captions mine=mine.json --captions theirs=theirs.json --images images/"
    assert run(new) == 0
    assert run("captrial annotate serve team") == 2  # before anything is selected
    assert "captrial compete select team" in capsys.readouterr().err
    assert run("captrial compete select team --k 4") == 0
    for name in ("Ada", "Ben", "Cleo", "Dan"):
        assert run(f"captrial annotate invite team {name} --address http://192.168.1.7:8765") == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith("http://192.168.1.7:8765/join/")
    status = visit(capsys, ["captrial annotate status team"], "write", 30)
    assert "needs" not in status  # four annotators write and inspect for each other
    assert run("captrial annotate settings team annotators_inspect=0") == 0
    said = visit(capsys, ["captrial annotate status team"], "inspect", 30)
    assert "needs 3 inspectors, you have 0: invite 3 more, or lower the number in the settings" in said


def test_a_student_who_trains(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = json.loads(Path("references.json").read_bytes())
    rows = [f'images/{name},"{texts[0]}"' for name, texts in mine.items()]
    write_table(Path("photos.csv"), "image,caption", rows)
    train = "captrial train transformer-small --data photos.csv --epochs 1 --batch-size 8 --limit 10 --out runs/first"
    said = visit(
        capsys, [f"{train} --set width=16 --set heads=2 --set hidden=16 --set min_count=1"], "transformer", 120
    )
    assert "captrial caption IMAGE --model runs/first" in said


def test_a_notebook_user(here: Path) -> None:
    references = json.loads(Path("references.json").read_bytes())
    table = captrial.score(json.loads(Path("mine.json").read_bytes()), references, metrics="bleu")
    assert list(table.to_dict()["system"]) == ["bleu_1", "bleu_2", "bleu_3", "bleu_4"]
    assert len(repr(table)) < 500
    assert "<table>" in table._repr_html_()
    assert table.to_pandas().shape == (1, 5)
    trial = captrial.Competition.create("notebook", {"mine": "mine.json", "theirs": "theirs.json"}, images="images")
    trial.select(k=8)
    ranking = trial.rank("cider", "references.json")
    assert ranking.conclusion().startswith("mine comes first of 2 captioners by CIDEr")
    assert len(repr(trial)) < 200
    assert "<table>" in ranking._repr_html_()
    assert trial.report("references.json", ["cider"]).name == "index.html"


class _Answer(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint that captions every image alike."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"choices": [{"message": {"content": "a cat sits on a couch"}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1#tiny"
    server.shutdown()
    server.server_close()


def test_a_user_of_an_endpoint(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint() as model:
        visit(capsys, [f"captrial caption photo.jpg --model '{model}'"], "a cat sits on a couch", 30)
        line = f"captrial explain photo.jpg --model '{model}' --method occlusion --regions none --out occluded"
        visit(capsys, [line], "a cat sits on a couch", 60)


# Mistakes -------------------------------------------------------------------------------------------------------------

SCORE = "-r references.json -m bleu"
MISTAKES = {
    # what is typed: what the message must say
    f"captrial score three.csv {SCORE}": "columns image, model, output; which is the caption? Name it with",
    f"captrial score names.csv {SCORE}": "columns photo, output; which is the caption?",
    f"captrial score three.csv {SCORE} --caption-column words": "there is no column 'words'; the columns are image",
    f"captrial score odd.json {SCORE}": "like 'img_0' in odd.json and like '000.png'",
    f"captrial score mine.jsn {SCORE}": "mine.jsn: no such file",
    "captrial score mine.json -r references.json -m blue": "did you mean 'bleu'?",
    "captrial compete new bad --captions mine=mine.json --captions odd=odd.json": "--ids TABLE.csv",
    "captrial compete new bad --captions mine=mine.json": "at least two models",
    "captrial compete rank nowhere": "nowhere",
    "captrial caption photo.jpg --out o.xlsx": "o.xlsx: captions are written as .json",
    "captrial caption images": "add --out FILE.jsonl",
    "captrial caption empty --out o.jsonl": "no images",
    "captrial caption photo.jpg --model tranformer": "did you mean 'transformer'?",
    "captrial caption phot.jpg": "phot.jpg: no such file",
    "captrial caption http://host/cat.jpg": "cat.jpg: download the image",
    "captrial caption photo.jpg --model http://127.0.0.1:9/v1#x": "is the server running, and the address right?",
    "captrial train transformer-small --data images": "no captions found in images",
    "captrial explain photo.jpg --method saliencey": "no attribution method 'saliencey'",
    "captrial train transformer-smal --data images": "did you mean 'transformer-small'?",
    "captrial train transformer-small --data images --set epoch=3": "did you mean 'epochs'?",
    "captrial train transformer-small --data images --from otr": "did you mean 'ort'?",
    "captrial sample .": "choose another output",
    "captrial annotate serve nowhere": "nowhere",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered_at_once_with_the_way_out(
    line: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.process_time()
    assert run(line) == 2
    said = capsys.readouterr().err
    assert MISTAKES[line] in said
    assert "Traceback" not in said
    assert time.process_time() - started < 15  # before a model is loaded or features are extracted


def test_named_columns_and_mapped_ids_are_the_way_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = visit(capsys, [f"captrial score mine.json {SCORE} --json"], "bleu_1", 30)
    for line in (
        f"captrial score mine=three.csv {SCORE} --caption-column output --json",
        f"captrial score mine=names.csv {SCORE} --caption-column output --json",
        f"captrial score mine=odd.json {SCORE} --ids ids.csv --json",
    ):
        assert visit(capsys, [line], "bleu_1", 30) == plain


def test_images_are_checked_when_a_competition_is_made(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = "--captions mine=mine.json --captions theirs=theirs.json"
    assert run(f"captrial compete new checked {files} --images mixed") == 0
    said = capsys.readouterr().err
    assert "000.png: is something else, not a JPEG" in said
    assert re.search(r"001\.png: is not in \S*mixed", said)
    assert "002.png: is truncated or damaged" in said
    assert run(f"captrial compete new few {files} --images one") == 0
    said = capsys.readouterr().err
    assert "23 images cannot be shown to people" in said
    (again,) = re.findall("`captrial (compete images .*)`", said)
    found = json.loads(visit(capsys, [f"captrial {again}"], "image_problems", 30))
    assert len(found["image_problems"]) == 23
    assert run(f"captrial compete new unmet {files} --images photographs") == 0
    assert "none of the images is in" in capsys.readouterr().err


def test_a_used_port_is_said_before_anything_is_served(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("port").exists():
        assert run("captrial compete new port --captions a=mine.json --captions b=theirs.json --images images/") == 0
        assert run("captrial compete select port --k 3") == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        capsys.readouterr()
        assert run(f"captrial annotate serve port --port {taken.getsockname()[1]}") == 2
    shown = capsys.readouterr()
    assert "Serving on" not in shown.out
    assert "port" in shown.err


@pytest.mark.slow
def test_a_broken_file_costs_no_other_its_caption(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("captrial caption photo.jpg broken.jpg phone.heic --model show_attend_tell --out good.json") == 2
    shown = capsys.readouterr()
    assert "photo.jpg" in shown.out
    assert "broken.jpg: is truncated or damaged" in shown.err
    assert "phone.heic: is" in shown.err
    assert "the other 1 are captioned" in shown.err
    assert len(json.loads(Path("good.json").read_bytes())) == 1


def test_heic_is_read_where_its_plugin_is_installed(tmp_path: Path) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    from captrial.data import image_size, open_image

    image = Image.new("RGB", (64, 48), (200, 30, 10))
    pillow_heif.from_pillow(image).save(tmp_path / "phone.heic", quality=90)
    image.save(tmp_path / "web.avif")
    for name in ("phone.heic", "web.avif"):
        assert image_size(tmp_path / name) == (64, 48)
        assert (
            max(abs(a - b) for a, b in zip(open_image(tmp_path / name).getpixel((9, 9)), (200, 30, 10), strict=True))
            < 8
        )
