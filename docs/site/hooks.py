"""Hooks of `make docs`: pages made from README, CHANGELOG, CONTRIBUTING and the code, and links that leave docs/."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File

import captrial
from captrial.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
FRONT = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    made = {name: (ROOT / source).read_text() for name, source in FRONT.items()}
    made |= {"reference/cli.md": command_reference(), "reference/python.md": python_reference()}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to pages stay links; links to other files of the repository become their names."""
    front = FRONT.get(page.file.src_uri)
    folder = ROOT if front else (ROOT / "docs" / page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target, _, anchor = link[3].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return link[0]
        path = (folder / target).resolve()
        for made, source in FRONT.items():
            if path == ROOT / source:
                return f"[{link[2]}]({made})"
        if path.is_relative_to(ROOT / "docs") and path.is_file():
            place = path.relative_to(ROOT / "docs").as_posix()
            return f"{link[1]}[{link[2]}]({place}{'#' + anchor if anchor else ''})"
        name = path.relative_to(ROOT).as_posix()
        return link[2] if link[2].strip("`") == Path(name).name else f"{link[2]} (`{name}`)"

    parts = re.split(r"(```.*?```)", markdown, flags=re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(shown, part) for part in parts)


def command_reference() -> str:
    """Every command with its help and options, from the command line itself."""
    lines = ["# Command line", "Every command has `--help`; most have `--json`. Exit codes: 0 done, 1 a check failed, "]
    lines[-1] += "2 bad usage or input, 3 undecided."
    for path, command in commands(typer.main.get_command(app), ("captrial",)):
        lines += ["", f"## {' '.join(path)}", "", plain(command.help or ""), ""]
        lines += ["| argument or option | meaning | default |", "| --- | --- | --- |"]
        lines += [option_row(one) for one in command.params if not getattr(one, "hidden", False)]
    return "\n".join(lines)


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name in below:
        yield from commands(below[name], (*path, name))


def option_row(option: Any) -> str:
    """A row of the table of options."""
    is_option = option.param_type_name == "option"
    name = ", ".join(option.opts) if is_option else option.name.upper()
    default = option.default if option.default not in (None, False, ()) and not callable(option.default) else None
    shown = "" if default is None else f"`{default}`"
    return f"| `{name}` | {plain(getattr(option, 'help', None) or '')} | {shown} |"


def plain(text: str) -> str:
    """Help text as Markdown: rich's escapes removed, lines joined, bars of tables escaped."""
    text = text.replace("\\[", "[").replace("\f", "")
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def python_reference() -> str:
    """The public names of the package: signature, docstring, and the public methods of classes."""
    lines = [
        "# Python",
        "",
        "Everything is imported when it is first used: `import captrial` is instant and needs no torch.",
        "",
    ]
    for name in captrial.__all__:
        if name.startswith("_"):
            continue
        found = getattr(captrial, name)
        lines += [f"## captrial.{name}", "", *described(name, found)]
        if inspect.isclass(found):
            members = {one: member for one, member in inspect.getmembers(found) if not one.startswith("_")}
            rows = [method_row(one, member) for one, member in members.items() if inspect.getdoc(member)]
            lines += ["| member | what it does |", "| --- | --- |", *rows, ""]
    return "\n".join(lines)


def described(name: str, found: Any) -> list[str]:
    """A signature and a docstring; its examples as blocks of code."""
    text = inspect.getdoc(found) or ""
    text = re.sub(
        r"(?m)((?:^>>> .*\n?)(?:^(?!\s*$).*\n?)*)", lambda code: f"```python\n{code[0].rstrip()}\n```\n", text
    )
    return ["```python", f"{name}{signature(found)}", "```", "", text, ""]


def signature(found: Any) -> str:
    """The parameters, a line each where they are many; types as they are written in the code."""
    parameters = inspect.signature(found).parameters.values()
    text = ", ".join(str(one).replace("'", "") for one in parameters)
    if len(text) < 90:
        return f"({text})"
    return "(\n" + "".join(f"    {str(one).replace(chr(39), '')},\n" for one in parameters) + ")"


def method_row(name: str, member: Any) -> str:
    """A row of a class's members: its name, whether it is called, and the first sentence of its docstring."""
    call = "()" if callable(member) else ""
    first = (inspect.getdoc(member) or "").partition("\n\n")[0]
    return f"| `{name}{call}` | {plain(first)} |"
