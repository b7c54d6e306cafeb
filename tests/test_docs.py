"""Every command shown in the README and in docs/ exists with the options shown; blocks marked `run` are run.

A fenced block behind the comment `<!-- run -->` is run in a folder that holds what such a page speaks of (`stage`):
commands line by line (servers are only parsed), Python as a whole. All other commands, also those in running text, are
parsed: verbs, options, and in blocks their values and arguments, too. Nothing is asked of the network.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from PIL import Image
from skimage import data

import captrial
from captrial.cli import main
from captrial.cli.app import app
from captrial.data import write_captions
from captrial.demo import write_sample

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
SERVERS = (["annotate", "serve"], ["studio"])  # they would run until they are stopped
BLOCK = re.compile(r"(<!-- run -->\n)?```(\w*)\n(.*?)```", re.DOTALL)


class Command(NamedTuple):
    """A command as a page shows it."""

    page: str
    words: list[str]
    whole: bool  # in a block, with all its arguments; else in running text, where they may be left out

    @property
    def elided(self) -> bool:
        return any(word in ("...", "…") or word.startswith("[") for word in self.words)


def commands(page: Path) -> Iterator[Command]:
    """The commands of a page: lines of blocks without a language or in sh, and code in running text."""
    text = page.read_text()
    name = str(page.relative_to(ROOT))
    for block in BLOCK.finditer(text):
        if block[2] in ("", "sh"):
            yield from (Command(name, words, True) for words in lines(block[3]))
    for code in re.findall(r"`([^`]+)`", BLOCK.sub("", text)):
        if re.match(r"(captrial|make|python -m) ", code):
            yield Command(name, split(" ".join(code.split())), False)


def lines(block: str) -> Iterator[list[str]]:
    """The words of each command in a block; `\\` goes on in the next line."""
    for line in block.replace("\\\n", " ").splitlines():
        if re.match(r"(\$ )?([A-Z_]+=\S+ )*(captrial|make|python|torchrun)\s", line):
            words = split(line.removeprefix("$ "))
            yield words[next(at for at, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)) :]


def split(line: str) -> list[str]:
    """Words as a shell sees them, comments left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = []
    for word in lexer:
        if word.startswith("#"):
            break
        words.append(word)
    return words


ALL = [command for page in PAGES for command in commands(page)]


def named(command: Command) -> str:
    return f"{command.page}: {' '.join(command.words)}"[:100]


def ours(words: list[str]) -> list[str] | None:
    """The arguments of captrial, also behind torchrun."""
    if words[0] == "captrial":
        return words[1:]
    if words[0] == "torchrun" and "captrial" in words:
        return words[words.index("captrial") + 1 :]
    return None


@pytest.mark.parametrize("command", [each for each in ALL if ours(each.words) is not None], ids=named)
def test_verbs_and_options_exist(command: Command) -> None:
    arguments = ours(command.words) or []
    found = typer.main.get_command(app)
    context = typer.Context(found)
    while hasattr(found, "get_command") and arguments and not arguments[0].startswith("-"):
        verbs = re.split(r"[/|]", arguments.pop(0))  # `pool build/show` speaks of two
        inner = [found.get_command(context, verb) for verb in verbs]
        if verbs == ["..."]:
            return
        assert all(inner), f"there is no `{' '.join(verbs)}` in {found.name}"
        found = inner[0]
    options = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in arguments:
        option = word.partition("=")[0]
        if re.match(r"--?[a-z]", option):
            assert option in {*options, "--help", "-h", "--debug"}, f"{found.name} has no option {option}"
    if command.whole and not command.elided:
        found.make_context(found.name, list(arguments))  # raises a usage error where it could not be run


@pytest.mark.parametrize("command", [each for each in ALL if each.words[0] in ("python", "make")], ids=named)
def test_modules_and_targets_exist(command: Command) -> None:
    program, *rest = command.words
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(rest) <= set(targets)
        return
    if rest[0] != "-m" or rest[1].split(".")[0] not in ("benchmarks", "studies", "captrial"):
        assert rest[0] == "-m" or (ROOT / rest[0]).is_file() or "NAME" in rest[0]
        return
    base = ROOT / ("src" if rest[1].startswith("captrial") else "")
    paths = [base / f"{rest[1].replace('.', '/')}.py", base / rest[1].replace(".", "/") / "__main__.py"]
    found = [path for path in paths if path.is_file()]
    assert found, f"there is no module {rest[1]}"
    for word in rest[2:]:
        option = word.strip("[]").partition("=")[0]
        if option.startswith("--"):
            assert f'"{option}"' in with_imports(found[0]), f"{rest[1]} has no option {option}"


def with_imports(path: Path) -> str:
    """The source of a module and of the studies that it takes options from."""
    text = path.read_text()
    others = re.findall(r"^from studies\.(\w+) import", text, re.MULTILINE)
    return text + "".join((ROOT / "studies" / f"{name}.py").read_text() for name in others)


def stage(folder: Path) -> None:
    """What the pages speak of: a photograph, images, captions of four models, references for 150 of them, battles."""
    Image.open(Path(data.__file__).parent / "motorcycle_left.png").resize((256, 172)).save(folder / "photo.jpg")
    (folder / "images").mkdir()
    things = ("dog", "cat", "horse", "bird", "bus")
    names = [f"{number}.jpg" for number in range(150)]
    for number, name in enumerate(names):
        Image.new("RGB", (24, 16), (number, 90, 160)).save(folder / "images" / name)

    def sentence(number: int, shift: int) -> str:
        return f"a {things[(number + shift) % 5]} near tree {number % 7} and house {number % (3 + shift)}"

    files = (
        ("mine.json", "ours.jsonl", "ours.json"),
        ("theirs.json", "gpt.csv"),
        ("newcomer.json", "new.json"),
        ("blip.json",),
    )
    for shift, called in enumerate(files):
        captions = {name: sentence(number, shift * (number % 2)) for number, name in enumerate(names)}
        for file in called:
            write_captions(folder / file, captions)
    references = {name: [sentence(number, 0), sentence(number, 0) + " outside"] for number, name in enumerate(names)}
    (folder / "references.json").write_text(json.dumps(references))
    rows = ["image,model_a,model_b,winner"]  # 80 images, three pairs each, shown in either order
    for number, (first, second) in product(range(80), combinations(("ours", "blip", "gpt"), 2)):
        shown = (first, second) if number % 2 else (second, first)
        winner = "tie" if number % 11 == 0 else first if number % 4 else second
        rows.append(f"{number}.jpg,{shown[0]},{shown[1]},{winner}")
    (folder / "battles.csv").write_text("\n".join(rows))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- run -->" in page.read_text()], ids=lambda p: p.name)
def test_blocks_marked_run_do(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_sample(tmp_path) if page.name in ("README.md", "tutorial.md") else stage(tmp_path)
    ran = 0
    for block in BLOCK.finditer(page.read_text()):
        if block[1] and block[2] == "python":
            exec(block[3], {})
            ran += 1
            continue
        for words in lines(block[3]) if block[1] else ():
            arguments = ours(words)
            assert arguments is not None, f"{words}: only captrial's own commands are run"
            if any(arguments[: len(server)] == server for server in SERVERS):
                continue
            with pytest.raises(SystemExit) as ended:
                main(arguments)
            assert not ended.value.code, " ".join(words)
            ran += 1
    assert ran


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_the_pages_imports_what_exists(page: Path) -> None:
    for block in BLOCK.finditer(page.read_text()):
        if block[2] != "python":
            continue
        for node in ast.walk(ast.parse(block[3])):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("captrial"):
                module = import_module(node.module or "")
                assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "captrial":
                assert hasattr(captrial, node.attr), ast.unparse(node)


def test_the_test_would_notice() -> None:
    """The parser itself: comments, continuations, quotes and prompts."""
    block = '$ captrial score a.json --references "r 1.json"  # both\ncaptrial train x \\\n  --out y\nnot a command\n'
    assert list(lines(block)) == [
        ["captrial", "score", "a.json", "--references", "r 1.json"],
        ["captrial", "train", "x", "--out", "y"],
    ]
    with pytest.raises(AssertionError, match="no option --nonsense"):
        test_verbs_and_options_exist(Command("x", ["captrial", "score", "a.json", "--nonsense"], False))
    with pytest.raises(AssertionError, match="there is no `frobnicate`"):
        test_verbs_and_options_exist(Command("x", ["captrial", "frobnicate"], False))
    with pytest.raises(typer.BadParameter):
        test_verbs_and_options_exist(Command("x", ["captrial", "caption", "a.jpg", "--beam", "none"], True))


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """`make docs` is strict: a page that is missing there fails it."""
    shown = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= set(shown)
    assert len(shown) == len(set(shown))
