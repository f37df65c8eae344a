"""Write reproduction.md and methods.md from the stored result files. After new runs:

conjoin reproduce --out OUT
cp OUT/results.json OUT/sets.json OUT/about.json OUT/figure1.svg OUT/figure1.png docs/reproduction/
conjoin reproduce --methods --out OUT
cp OUT/methods.json docs/reproduction/
python docs/generate_reproduction.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conjoin.reproduction.methods_report import methods_report, neighbours
from conjoin.reproduction.report import report

HERE = Path(__file__).parent
FOLDER = HERE / "reproduction"


def reproduction() -> str:
    """Return the page of the paper's evaluation: tables, figure, neighbours and notes."""
    tables = report(_read("results.json"), _read("about.json"))
    head = "## Beyond the paper\n"
    figure = "![Figure 1, reproduced](reproduction/figure1.svg)\n\n"
    others = "## The neighbours, run again\n\n" + _text("neighbours.md")
    compared = neighbours(_read("methods.json"))
    return "\n".join(
        [tables.replace(head, figure + head), others.format(table=compared), _text("notes.md")]
    )


def methods() -> str:
    """Return the page that compares all methods: advice, and then the tables."""
    return _text("methods_notes.md") + "\n" + methods_report(_read("methods.json"))


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_text(name))
    return found


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


PAGES = {HERE / "reproduction.md": reproduction, HERE / "methods.md": methods}

if __name__ == "__main__":
    for path, content in PAGES.items():
        path.write_text(content(), encoding="utf-8")
        print(path)
