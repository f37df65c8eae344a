"""The style of the report and of the explorer: the same colours, then the page's own rules."""

from __future__ import annotations

from importlib.resources import files


def stylesheet(package: str, name: str) -> str:
    """Return the rules of a page, which lie in a file of its package."""
    colours = (files("conjoin.reports") / "colours.css").read_text(encoding="utf-8")
    return colours + (files(package) / name).read_text(encoding="utf-8")
