"""Package exports that are imported when they are first used, so that light names do not load heavy modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: imports a name from the module of the package that defines it.

    `names` maps each module, relative to the package, to the names it defines, separated by blanks:
    `__getattr__ = lazy_exports(__name__, {"captions": "CaptionSet read_captions"})`.

    A function may have the name of its sub-package (`{"spice.spice": "spice"}`). Importing the sub-package would bind
    the name to it, so it is imported here, before anyone can, and unbound; its own exports should be lazy.
    """
    modules = {name: module for module, defined in names.items() for name in defined.split()}
    for name, module in modules.items():
        if module.startswith(f"{name}."):
            import_module(f"{package}.{name}")
            delattr(sys.modules[package], name)

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return __getattr__
