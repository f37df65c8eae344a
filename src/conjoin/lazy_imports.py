"""Packages whose public names are imported on first use, so that importing a package is cheap."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

_IMPORT = re.compile(r"^    from (conjoin\.[\w.]+) import (\w+) as \2$", re.MULTILINE)


def lazy_names(
    package: str,
    internal: Mapping[str, str] = MappingProxyType({}),
    subpackages: Collection[str] = (),
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` (PEP 562) and `__all__` of a package.

    Its public names are those that its source imports for type checkers: lines such as
    ``from conjoin.errors import DataError as DataError`` below ``if TYPE_CHECKING:``. They are read from
    there, so that they are listed once. `internal` are the homes, without the leading "conjoin.", of
    names that `dir` does not list, because they are for other packages of Conjoin. `subpackages` are
    imported when they are first looked up as an attribute.

    A name must not also be the name of a module in the package: Python binds a module that it imports to
    that name.
    """
    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package)  # type: ignore[union-attr]
    homes = {name: module for module, name in _IMPORT.findall(source)}
    public = list(homes)
    homes.update((name, f"conjoin.{module}") for name, module in internal.items())

    def find(name: str) -> Any:
        if name in subpackages:
            return importlib.import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # so that it is looked up once
        return value

    return find, lambda: sorted(public), public
