"""Numbers as people write them: `$12,345.00`, `1.234,5`, `45 %`, `1 234`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from conjoin.data.columns import Column
from conjoin.errors import DataWarning

CURRENCIES = "[$€£¥₹₽₩₺₪₫₴₱฿¢]|USD|EUR|GBP|CHF|JPY"
MARKS = ".,"
"""The decimal marks."""

SPACES = " \u00a0\u202f'’"
"""What separates thousands besides a comma or a full stop."""


class NumberStyle(NamedTuple):
    """How a column writes its numbers."""

    decimal: str
    prefix: str = ""
    suffix: str = ""

    def written(self, text: str) -> str:
        """Return a number in the style of the column.

        Examples
        --------
        >>> NumberStyle(",", suffix=" %").written("12.5")
        '12,5 %'
        """
        return self.prefix + text.replace(".", self.decimal) + self.suffix if text else text


_PLAIN = re.compile(r"[-+]?(?!0\d)(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
"""A number without any decoration, which most are."""


@cache
def _pattern(mark: str) -> re.Pattern[str]:
    """Return what a number with a decimal mark looks like; `007` and `12,34,567` are none."""
    thousands = f"[{MARKS[mark == '.']}{SPACES}]"
    whole = rf"[1-9]\d{{0,2}}(?P<group>{thousands})\d{{3}}(?:(?P=group)\d{{3}})*|(?!0\d)\d+"
    number = rf"(?:{whole})(?:[{mark}]\d+)?(?:[eE][-+]?\d+)?|[{mark}]\d+"
    signs = r"[-+\u2212]?"
    return re.compile(
        rf"(?P<sign>{signs})(?P<prefix>(?:{CURRENCIES})?[ \u00a0]?)(?P<inner>{signs})"
        rf"(?P<number>{number})(?P<suffix>[ \u00a0\u202f]?(?:{CURRENCIES}|%)|)",
        re.ASCII,
    )


def plain_number(label: str, mark: str) -> str | None:
    """Return a number as Python writes it; None if the text is no number with this decimal mark.

    Examples
    --------
    >>> plain_number("$12,345.00", "."), plain_number("1.234,5", ","), plain_number("-45 %", ".")
    ('12345.00', '1234.5', '-45')
    >>> plain_number("007", "."), plain_number("10-20", "."), plain_number("1,5", ".")
    (None, None, None)
    """
    if mark == "." and _PLAIN.fullmatch(label):
        return label
    match = _pattern(mark).fullmatch(label)
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
    clear = set() if decimal is None else {decimal}
    for column in columns:
        labels = column.labels
        if not strict:
            labels = [label for label in labels if any(plain_number(label, m) for m in MARKS)]
        if all(map(_PLAIN.fullmatch, labels)):  # most columns of numbers, and soon settled
            pointed = [label for label in labels if "." in label]
            if not all(plain_number(label, ",") for label in pointed):
                clear |= {"."} if decimal is None else set()
                continue
            if not pointed:
                continue
        marks = "".join(m for m in decimal or MARKS if all(plain_number(v, m) for v in labels))
        if marks == "," != decimal and sep == "," and not any("." in label for label in labels):
            continue  # between commas, `1,5` may be a list of two numbers; `1.234,5` is none
        if labels and marks and _has_one_unit(labels, marks[0]):
            fitting[column.name] = marks, labels
            clear |= {marks} - {"".join(MARKS)}
    styles = {}
    for name, (marks, labels) in fitting.items():
        mark = marks[0]
        if len(marks) > 1 and any("." in label or "," in label for label in labels):
            mark = "".join(clear) if len(clear) == 1 else "."
            if len(clear) != 1 and sep != "," and any("," in label for label in labels):
                warnings.warn(
                    f"column {name!r} stays text: {labels[0]!r} could have a decimal comma or thousands; "
                    "say which with decimal=',' or '.' (--decimal)",
                    DataWarning,
                    stacklevel=4,
                )
                continue
        match = _pattern(mark).fullmatch(labels[0])
        assert match is not None
        styles[name] = NumberStyle(mark, match["prefix"], match["suffix"])
    return styles


def _has_one_unit(labels: Iterable[str], mark: str) -> bool:
    """Return whether all labels have the same unit; some may lack that of a currency."""
    matches = (_pattern(mark).fullmatch(label) for label in labels)
    units = {(match["prefix"] + match["suffix"]).strip() for match in matches if match}
    return len(units) == 1 or (len(units) == 2 and "" in units and "%" not in units)


def with_plain_numbers(column: Column, style: NumberStyle) -> Column:
    """Return a column of text with its numbers as Python writes them."""
    plain = (plain_number(label, style.decimal) for label in column.labels)
    return column.relabelled(
        [label if new is None else new for label, new in zip(column.labels, plain, strict=True)]
    )
