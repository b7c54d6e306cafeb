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
MOST_LONG_PARAMETER_LISTS = 20  # kernels, which numba gives no other way, and a few that settings objects are made of
MOST_LINES_OF_A_COMMAND = 50  # about 40, and imports that keep start-up light
MOST_MODULES = 16  # side by side in a package; the commands of cli are one file each
TESTS = Path(__file__).resolve().parent
NAME = r"captrial(?:\.[a-z_0-9]+)+(?:\.[A-Z]\w+)?"
# Tests of several modules together: what they try is in their first line. All others have the name of a module.
OF_SEVERAL_MODULES = {
    "annotate/test_browser", "annotate/test_kill", "captioners/architectures/test_contract",
    "captioners/architectures/test_equations", "captioners/architectures/test_golden_values",
    "captioners/huggingface/image_tokens/test_commands", "cli/test_compete_interrupted", "cli/test_first_visits",
    "cli/test_hand_made_files", "cli/test_hostile_options", "cli/test_outputs", "cli/test_two_at_once",
    "metrics/test_fuzz", "studio/test_browser",
}  # fmt: skip


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


def test_packages_are_no_heaps_of_files() -> None:
    """At most so many modules side by side; more are divided into packages."""
    sizes = Counter(path.parent.relative_to(ROOT).as_posix() for path in TREES if path.name != "__init__.py")
    assert {package: size for package, size in sizes.items() if size > MOST_MODULES} == {"cli": sizes["cli"]}


def test_settings_objects_take_the_place_of_long_parameter_lists() -> None:
    """At most six parameters, but for commands, whose options typer reads from the signature."""
    long = []
    for path, tree in TREES.items():
        for node in ast.walk(tree) if "cli" not in path.relative_to(ROOT).parts else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len(names) - (names[:1] in (["self"], ["cls"])) > 6:
                    long.append(f"{module_name(path)}:{node.lineno} {node.name}")
    assert len(long) <= MOST_LONG_PARAMETER_LISTS, "\n".join(long)


def test_commands_parse_call_and_print() -> None:
    """Below its options and its docstring a command is short: what it does is in the library."""
    long = []
    for path, tree in TREES.items():
        for node in ast.walk(tree) if "cli" in path.relative_to(ROOT).parts else ():
            if isinstance(node, ast.FunctionDef):
                first = node.body[ast.get_docstring(node) is not None :][:1] or node.body
                lines = (node.end_lineno or 0) - first[0].lineno + 1
                if lines > MOST_LINES_OF_A_COMMAND:
                    long.append(f"{module_name(path)}:{node.lineno} {node.name}: {lines} lines")
    assert long == []


def test_tests_have_the_names_of_modules() -> None:
    """`tests/a/test_b.py` is of `captrial.a.b`, whole packages and the whole tree aside."""
    of_modules = {"/".join(name.split(".")[1:]) for name in MODULES}
    unknown = set()
    for path in TESTS.glob("*/**/test_*.py"):
        place = path.relative_to(TESTS).with_suffix("").as_posix()
        if place.replace("test_", "", 1) not in of_modules and not place.startswith("parity/"):
            unknown.add(place)
    assert unknown == OF_SEVERAL_MODULES


def names_something(name: str) -> bool:
    """Whether `captrial.a.b.c` is a module, or stands in the text of the longest module that it begins with."""
    parts = name.split(".")
    module = next(".".join(parts[:end]) for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in MODULES)
    rest = name.removeprefix(module).lstrip(".").partition(".")[0]
    return not rest or re.search(rf"\b{rest}\b", MODULES[module].read_text()) is not None


def test_modules_that_texts_name_are_there() -> None:
    """Docstrings, comments and pages; a module that was renamed is not left behind in them."""
    files_of_folders = {"captrial.lock", "captrial.staging"}
    pages = [*(TESTS.parent / "docs").glob("*.md"), TESTS.parent / "README.md", TESTS.parent / "CONTRIBUTING.md"]
    named = {(path.name, name) for path in [*TREES, *pages] for name in re.findall(NAME, path.read_text())}
    assert len(named) > 1000
    assert [one for one in sorted(named) if one[1] not in files_of_folders and not names_something(one[1])] == []


def test_a_module_that_is_not_there_would_be_found() -> None:
    assert names_something("captrial.metrics.scoring.ScoreTable")
    assert not names_something("captrial.metrics.standing")
    assert not names_something("captrial.training.supervision")
