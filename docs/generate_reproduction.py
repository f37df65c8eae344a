"""Write reproduction.md from the stored result files. After a new run:

conjoin reproduce --out OUT
cp OUT/results.json OUT/sets.json OUT/about.json OUT/figure1.svg OUT/figure1.png docs/reproduction/
python docs/generate_reproduction.py
"""

from __future__ import annotations

import json
from pathlib import Path

from conjoin.reproduction.report import report

HERE = Path(__file__).parent
FOLDER = HERE / "reproduction"
PAGE = HERE / "reproduction.md"


def page() -> str:
    """Return the page: the tables and the figure, followed by the notes."""
    results = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    about = json.loads((FOLDER / "about.json").read_text(encoding="utf-8"))
    tables = report(results, about)
    head = "## Beyond the paper\n"
    figure = "![Figure 1, reproduced](reproduction/figure1.svg)\n\n"
    notes = (FOLDER / "notes.md").read_text(encoding="utf-8")
    return tables.replace(head, figure + head) + "\n" + notes


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
