"""Write reproduction.md from the stored result files. After new runs:

conjoin reproduce --out OUT
cp OUT/results.json OUT/sets.json OUT/about.json OUT/figure1.svg OUT/figure1.png docs/reproduction/
python docs/generate_reproduction.py

The page has the main tables; the command writes all of them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from conjoin.research.reproduction.paper_report import report

HERE = Path(__file__).parent
FOLDER = HERE / "reproduction"


def reproduction() -> str:
    """Return the page of the paper's evaluation."""
    parts = _sections(report(_read("results.json"), _read("about.json")))
    return _text("reproduction.template").format(
        about=parts[""].split("\n\n")[1].strip(),
        pll=parts["Test PLL (Table 4)"],
    )


def _sections(page: str) -> dict[str, str]:
    """Return the text below each heading of a page, and what comes before the first one."""
    first, *rest = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    titles, texts = rest[::2], rest[1::2]
    return {"": first, **{title: text.strip() for title, text in zip(titles, texts, strict=True)}}


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_text(name))
    return content


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


PAGES = {
    HERE / "evidence" / "reproduction.md": reproduction,
}

if __name__ == "__main__":
    for path, content in PAGES.items():
        path.write_text(content(), encoding="utf-8")
        print(path)
