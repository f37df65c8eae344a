"""Steps of building the site: formulas become MathML, and files of the repository become pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
INCLUDED = re.compile(r"<!-- include: ([A-Za-z.]+) -->")
LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?! )([^$\n]+?)(?<! )\$", re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in what a page includes, and turn $...$ and $$...$$ into MathML."""
    markdown = INCLUDED.sub(lambda match: _included(match[1]), markdown)
    if "$" not in markdown:
        return markdown
    parts = CODE.split(markdown)  # code is every second part
    return "".join(p if i % 2 else FORMULA.sub(_mathml, p) for i, p in enumerate(parts))


def _included(name: str) -> str:
    """Return a file of the repository's top folder, with links as a page of the site has them."""
    return LINK.sub(_moved, (ROOT / name).read_text(encoding="utf-8"))


def _moved(match: re.Match[str]) -> str:
    target = match[1]
    if target.startswith("docs/"):
        return f"]({target.removeprefix('docs/')})"
    if target in ("CONTRIBUTING.md", "CHANGELOG.md"):
        return f"]({target.lower()})"
    return f"](https://github.com/conjoin/conjoin/blob/main/{target})"


def _mathml(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    display = match[1] is not None
    markup: str = convert((match[1] or match[2]).strip(), display="block" if display else "inline")
    return f"\n\n<div>{markup}</div>\n\n" if display else f"<span>{markup}</span>"
