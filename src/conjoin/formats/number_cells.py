"""Numbers as people write them: `$12,345.00`, `1.234,5`, `45 %`, `1 234`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from conjoin.data.columns import Column
from conjoin.errors import DataWarning

MARKS, SPACES = ".,", " \u00a0\u202f'’"
"""The decimal marks, and what separates thousands besides these."""

_PLAIN = re.compile(r"[-+]?(?!0\d)(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
"""A number without any decoration, which most are."""


NumberStyle = tuple[str, str, str]
"""How a column writes its numbers: the decimal mark, and what is in front of a number and behind it."""


def _pattern(mark: str) -> re.Pattern[str]:
    """Return what a number with a decimal mark looks like; `007` and `12,34,567` are none."""
    unit, sign = "[$€£¥₹₽₩₺₪₫₴₱฿¢]|USD|EUR|GBP|CHF|JPY", r"[-+\u2212]?"
    group = f"[{MARKS[mark == '.']}{SPACES}]"
    whole = rf"[1-9]\d{{0,2}}(?P<group>{group})\d{{3}}(?:(?P=group)\d{{3}})*|(?!0\d)\d+"
    return re.compile(
        rf"(?P<sign>{sign})(?P<prefix>(?:{unit})?[ \u00a0]?)(?P<inner>{sign})"
        rf"(?P<number>(?:{whole})(?:[{mark}]\d+)?(?:[eE][-+]?\d+)?|[{mark}]\d+)"
        rf"(?P<suffix>[ \u00a0\u202f]?(?:{unit}|%)|)",
        re.ASCII,
    )


_PATTERNS = {mark: _pattern(mark) for mark in MARKS}


def plain_number(label: str, mark: str) -> str | None:
    """Return a number as Python writes it; None if the text is not a number with this decimal mark."""
    if mark == "." and _PLAIN.fullmatch(label):
        return label
    match = _PATTERNS[mark].fullmatch(label)
    if match is None or (match["sign"] and match["inner"]):
        return None
    digits = match["number"].translate(str.maketrans("", "", SPACES + MARKS[mark == "."]))
    return ((match["sign"] or match["inner"]) + digits).replace("\u2212", "-").replace(mark, ".")


def number_styles(
    columns: Sequence[Column], sep: str, decimal: str | None = None, *, strict: bool = True
) -> dict[str, NumberStyle]:
    """Return how columns of text write their numbers, if not as Python does.

    The decimal mark is that of the columns which leave no doubt. A column that could be read in two ways,
    such as `1,234`, has thousands in a file that is separated by commas; in another file it stays text,
    unless other columns tell. If `strict`, all labels of a column must be numbers.
    """
    fitting: dict[str, tuple[str, list[str]]] = {}
    clear = set(decimal or "")
    for column in columns:
        labels = column.labels
        if not strict:
            labels = [label for label in labels if any(plain_number(label, m) for m in MARKS)]
        if all(map(_PLAIN.fullmatch, labels)):  # most columns of numbers, and soon settled
            pointed = [label for label in labels if "." in label]
            if not pointed or not all(plain_number(label, ",") for label in pointed):
                clear |= set("." if pointed and decimal is None else "")
                continue
        marks = "".join(m for m in decimal or MARKS if all(plain_number(v, m) for v in labels))
        if marks == "," != decimal and sep == "," and not any("." in label for label in labels):
            continue  # between commas, `1,5` may be a list of two numbers; `1.234,5` is none
        matches = [_PATTERNS[marks[0]].fullmatch(label) for label in labels] if marks else []
        units = {(match["prefix"] + match["suffix"]).strip() for match in matches if match}
        if len(units) == 1 or (len(units - {""}) == 1 and "%" not in units):
            fitting[column.name] = marks, labels
            clear |= {marks} - {MARKS}
    styles: dict[str, NumberStyle] = {}
    for name, (marks, labels) in fitting.items():
        mark = marks[0] if len(marks) == 1 else "".join(clear) if len(clear) == 1 else "."
        if marks == MARKS and len(clear) != 1 and sep != "," and "," in "".join(labels):
            warnings.warn(
                f"column {name!r} stays text: {labels[0]!r} could have a decimal comma or thousands; "
                "say which with decimal=',' or '.' (--decimal)",
                DataWarning,
                stacklevel=4,
            )
        elif match := _PATTERNS[mark].fullmatch(labels[0]):
            styles[name] = mark, match["prefix"], match["suffix"]
    return styles
