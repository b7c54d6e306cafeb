"""The surface of the packages: docstrings and `__all__`, unique class names, module names, no import cycles.

`python ../shared/tools/house --long` prints the same figures with the places.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "src" / "captrial"
TREES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
FORBIDDEN = {
    "elsewhere", "founding", "keeper", "looking", "manners", "others", "outlook", "quiet", "room", "sight", "standing"
}  # fmt: skip
NOT_IN_THE_GLOSSARY = {"hearing", "picture", "pictures", "resemblance", "resembles", "speaks", "spoken", "utterance"}
MOST_REPEATED_NAMES = 8


def module_name(path: Path) -> str:
    parts = ("captrial", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in TREES}
PACKAGES = [name for name, path in MODULES.items() if path.name == "__init__.py"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_docstring_and_public_names(package: str) -> None:
    docstring = ast.get_docstring(TREES[MODULES[package]])
    assert docstring, f"{package} needs a docstring that says what is in it"
    assert len(docstring) > 20, f"{package}: {docstring!r} does not say what is in it"
    module = importlib.import_module(package)
    public = getattr(module, "__all__", None)
    assert public is not None, f"{package} needs `__all__` with its public names"
    assert len(set(public)) == len(public), f"{package}.__all__ repeats a name"
    for name in public:
        if not hasattr(module, name):
            importlib.import_module(f"{package}.{name}")  # a module of the package, or an error


def test_no_public_class_name_is_used_twice() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module_name(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_module_names_say_what_they_are() -> None:
    stems = [path.stem for path in TREES if path.name != "__init__.py"]
    assert FORBIDDEN.isdisjoint([*stems, *(path.parent.name for path in TREES)])
    repeated = sorted(name for name, count in Counter(stems).items() if count > 1)
    assert len(repeated) <= MOST_REPEATED_NAMES, f"module names used more than once: {', '.join(repeated)}"


def test_names_use_the_words_of_the_glossary() -> None:
    """Classes, functions, parameters and fields: image, caption and similarity (CONTRIBUTING.md, Words)."""
    found = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            name = node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""
            name = node.arg if isinstance(node, ast.arg) else getattr(node, "name", None) or name
            words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)).lower())
            if not NOT_IN_THE_GLOSSARY.isdisjoint(words):
                found.append(f"{module_name(path)}:{getattr(node, 'lineno', 0)} {name}")
    assert found == []


def imported(path: Path) -> Iterator[str]:
    """The modules that a module imports, also inside functions; not those for type checking alone."""
    tree = TREES[path]
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def cycles(edges: dict[str, set[str]]) -> list[str]:
    """One cycle through each module where a depth-first search closes one."""
    found: list[str] = []
    finished: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in finished:
            for other in sorted(edges[module]):
                visit(other, [*path, module])
            finished.add(module)

    for module in edges:
        visit(module, [])
    return found


def test_no_import_cycles_also_inside_functions() -> None:
    edges = {name: {other for other in imported(path) if other in MODULES} - {name} for name, path in MODULES.items()}
    found = cycles(edges)
    assert not found, "\n".join(found)


def test_a_cycle_would_be_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a -> b -> c -> a"]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
