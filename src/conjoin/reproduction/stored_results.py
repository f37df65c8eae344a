"""Results in JSON files: those that are damaged are computed again."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from conjoin.errors import DataWarning
from conjoin.formats.storage import write_bytes

SCORES = ("pll", "npll", "cmll", "ll", "stderr", "mc_stderr", "seconds", "wall_seconds", "seed")
"""Entries that must be numbers."""


def read_result(path: Path) -> dict[str, Any] | None:
    """Return the result in a file; None if there is none, or, with a warning, if it is damaged."""
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        wrong = [key for key in SCORES if not isinstance(found.get(key, 0), int | float)]
        if not wrong:
            return dict(found)
    except (OSError, ValueError, AttributeError, RecursionError):
        pass
    warnings.warn(f"{path} is damaged and will be replaced", DataWarning, stacklevel=2)
    return None


def write_result(path: Path, result: dict[str, Any]) -> None:
    """Write a result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json.dumps(result, indent=1) + "\n").encode())
