"""What to write instead of a text that is not a condition."""

from __future__ import annotations

import re
from collections.abc import Sequence

from conjoin.inference.conditions import label_text

_BOTH = "separate conditions with commas or with 'and'"
_SET = "one of several values is written NAME in {A, B}"
_RANGE = "a range is written 20 <= NAME < 30"
_MISTAKES = (
    (
        r"[=<>]\s*$",
        "there is no value after the sign; write, for example, NAME = STATE or NAME > 40",
    ),
    (r"^\s*(not|NOT|!)\s", "'is not' is written NAME != STATE"),
    (r"=>|=<", "'at least' is written >=, and 'at most' <="),
    (r"<>|=!", "'is not' is written !="),
    (r"^\s*[Pp]\s*\(", "write the conditions alone, without P( )"),
    (r"^\s*[\d.]+\s*[<>]=?[^<>=]*[<>]", _RANGE),
    (r"\|", "evidence does not follow a | but stands in given= or --given"),
    (r"\s(or|OR)\s", "conditions cannot be joined by 'or'; " + _SET),
    (r"&|;|\sAND\s|[=<>].*\s.*[^\s=<>]\s*[=<>]", _BOTH),
    (r"\band\s*$", _BOTH),
    (r"=\s*[\[({]", _SET),
    (r"=\s*'.*'\s*$", "a state stands in double quotes or in none"),
    (r"[=<>].*\d\s?[%$€£a-zA-Z]+\s*$|[=<>]\s*[$€£]", "write numbers without a unit, such as 40"),
)
"""What marks a mistake in a text with one of = < >, and what to do; the first that fits counts."""

_WITHOUT_SIGN = (
    (r"\bbetween\b|\d\s*(\.\.|-|to)\s*\d", _RANGE),
    (r"\bmissing\b|\bunknown\b|\bnull\b", "leave out columns whose values are not known"),
    (r"\b(likelihood|marginal)\b[^{]*$", "write NAME likelihood {A: 0.9, B: 0.2}, with braces"),
    (r"\bin\b[^{]*$", _SET + ", with braces"),
    (r"\bnot\b", "'is not' is written NAME != STATE"),
    (r"^[^{]*(\b(is|equals|are)\b|~|:)[^{]*$", "'is' is written NAME = STATE"),
)
"""The same for texts without such a sign."""


def hint(pieces: Sequence[str], wrong: int, names: Sequence[str]) -> str | None:
    """Return what to write instead of a text that is not a condition; None if nothing comes to mind."""
    piece = pieces[wrong]
    if re.fullmatch(r"\s*\d{3}(\.\d+)?", piece) and wrong and re.search(r"\d$", pieces[wrong - 1]):
        return "write numbers without commas, such as 1000"
    mistakes = _MISTAKES if re.search("[=<>]", piece) else _WITHOUT_SIGN
    advice = next((words for sign, words in mistakes if re.search(sign, piece)), None)
    if advice is None:
        return None
    by_length = sorted(names, key=len, reverse=True)
    known = (n for n in by_length if re.search(rf"(?<!\w){re.escape(n)}(?!\w)", piece))
    return advice.replace("NAME", label_text(next(known, "NAME")))
