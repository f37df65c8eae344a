"""The ending of a file's name decides which function reads or writes it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from conjoin.errors import FormatError
from conjoin.formats.storage import ending

TABLE_ENDINGS = (".data", ".csv", ".parquet")
"""The endings of tables; other files hold models."""


def function_for(functions: dict[str, str], path: Path) -> Any:
    """Import the function for the ending of a path."""
    module, name = functions[ending(path)].split(".")
    return getattr(importlib.import_module(f"conjoin.formats.{module}"), name)


def check_ending(path: Path, functions: dict[str, str], what: str) -> None:
    """Raise an error if no function reads or writes files of this ending."""
    kind = ending(path)
    if kind not in functions:
        raise FormatError(
            f"{ending_error(kind)} of a {what} file; use {', '.join(functions)}, each also with .gz",
            str(path),
        )


def ending_error(kind: str) -> str:
    """Return the beginning of an error about an ending."""
    return f"{kind!r} is not the ending" if kind else "the name does not have the ending"


def check_folder(path: Path) -> None:
    """Raise an error if the folder of a file does not exist."""
    if not path.absolute().parent.is_dir():
        raise FormatError(f"there is no folder {str(path.parent)!r}; create it first", str(path))
