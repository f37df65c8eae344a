"""Packages whose public names are imported on first use, so that importing a package is cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], subpackages: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package (PEP 562).

    A name must not also be the name of a module in the package: Python binds a module that it imports to
    that name.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    homes : mapping
        The module that defines each public name, without the leading "conjoin.".
    subpackages : collection of str
        Subpackages that are imported when they are first looked up as an attribute.

    Examples
    --------
    >>> find, names = lazy_names("conjoin", {"DataError": "errors"})
    >>> names()
    ['DataError']
    >>> find("DataError").__name__
    'DataError'
    """

    def find(name: str) -> Any:
        if name in subpackages:
            return importlib.import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"conjoin.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # so that it is looked up once
        return value

    return find, lambda: sorted(homes)
