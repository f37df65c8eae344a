"""Dependency networks that a person writes by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from conjoin import load
from conjoin.errors import FormatError

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "expert.md"


def example():
    """The file that the documentation shows."""
    return re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]


def write(tmp_path, text):
    path = tmp_path / "flu.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_documented_file(tmp_path):
    dn = load(write(tmp_path, example()))
    assert dn.domain.names == ("season", "vaccinated", "flu", "fever")
    assert dn.domain["vaccinated"].states == (False, True)
    row = {"season": "winter", "vaccinated": True, "flu": "no", "fever": "high"}
    assert dn.conditional("season", row)[0] == pytest.approx([0.5, 0.5])
    assert dn.conditional("fever", row)[0] == pytest.approx([0.9, 0.08, 0.02])
    assert dn.conditional("vaccinated", row)[0] == pytest.approx([0.4, 0.6])
    assert dn.conditional("vaccinated", {**row, "flu": "yes"})[0] == pytest.approx([0.7, 0.3])
    logit = -3.0 + 1.0 + 2.0 - 1.5
    assert dn.conditional("flu", row)[0, 1] == pytest.approx(1 / (1 + np.exp(-logit)))
    healthy = {**row, "fever": "none", "season": "summer"}
    assert dn.conditional("flu", healthy)[0, 1] == pytest.approx(1 / (1 + np.exp(3)))


FEVER = 'when = { flu = "yes" }\np = { none = 0.2, mild = 0.4, high = 0.4 }'
RULE = 'when = { season = "winter", flu = "no" }\np = [0.4, 0.6]'


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("[[fever.table]]\n" + FEVER, "", "fever.table", "no row for flu = yes; add it"),
        (FEVER, FEVER.replace("0.2", "0.3"), "fever.table, entry 2", "sum to 1.1, not to 1"),
        (
            FEVER,
            FEVER.replace("0.2", "0.0").replace("mild = 0.4", "mild = 0.6"),
            "entry 2",
            "0.001",
        ),
        (FEVER, FEVER.replace("yes", "maybe"), "fever.table, entry 2", "no state 'maybe'"),
        (FEVER, FEVER.replace("mild", "milt"), "fever.table, entry 2", "Did you mean 'mild'"),
        (FEVER, FEVER.replace('"yes"', '"no"'), "fever.table, entry 2", "given twice"),
        (FEVER, FEVER.replace('flu = "yes"', 'season = "winter"'), "entry 2", "each of ['flu']"),
        (FEVER, FEVER.replace('"yes"', '["yes"]'), "fever.table, entry 2", "one state here"),
        (FEVER, FEVER.replace("high = 0.4", "high = -0.4"), "entry 2", "0 to 1 is allowed"),
        (FEVER, FEVER.replace("p = {", "q = {"), "fever.table, entry 2", "'q' is not understood"),
        (FEVER, 'when = { flu = "yes" }', "fever.table, entry 2", "'p', the probabilities"),
        ('given = ["flu"]', 'given = ["flue"]', "fever.given", "Did you mean 'flu'"),
        ('given = ["flu"]', 'given = ["flu", "flu"]', "fever.given", "must not be in"),
        ('given = ["flu"]', 'given = ["fever"]', "fever.given", "must not be in"),
        ('given = ["flu"]\n', "", "fever.table, entry 1", 'add a line given = ["flu"] under'),
        (FEVER, FEVER.replace("high = 0.4", "high.x = 0.4"), "entry 2", "needs quotes"),
        (RULE, RULE.replace('"winter"', "[]"), "vaccinated.rules, entry 1", "needs at least one"),
        ("add = 2.0", "add = 1" + "0" * 400, "flu.log_odds, entry 3", "not a number"),
        ("p = [0.7, 0.3]", "p = [1" + "0" * 400 + ", 0]", "rules, entry 2", "not probabilities"),
        ('given = ["flu"]', 'given = "flu"', "fever", "list of names"),
        (RULE, "p = [0.4, 0.6]", "vaccinated.rules, entry 1", "put it last"),
        (RULE, RULE + "\n[[vaccinated.rules]]", "vaccinated.rules, entry 2", "'p'"),
        (RULE, RULE.replace("winter", "spring"), "vaccinated.rules, entry 1", "no state 'spring'"),
        (RULE, RULE.replace("season", "vaccinated"), "rules, entry 1", "'vaccinated' itself"),
        (
            "[[vaccinated.rules]]\np = [0.7, 0.3]",
            "",
            "vaccinated.rules, entry 1",
            "last rule must have no 'when'",
        ),
        ("add = 1.0", 'add = "1.0"', "flu.log_odds, entry 2", "not a number"),
        ("add = 2.0", "add = inf", "flu.log_odds, entry 3", "not a number"),
        ('state = "yes"\nadd = -3.0', "add = -3.0", "flu.log_odds, entry 1", "'state'"),
        ("{ not = ", "{ but = ", "flu.log_odds, entry 4", "a condition must be"),
        ("[season]", "[saison]", "saison", "Did you mean 'season'"),
        ('flu = ["no", "yes"]', 'flu = ["no"]', "variables.flu", "two states or more"),
        ('flu = ["no", "yes"]', 'flu = ["no", "no"]', "variables.flu", "'no' twice"),
        ("[variables] ", "[variable] ", "variables", "missing or empty"),
        (
            '[[fever.table]]\nwhen = { flu = "no" }',
            "[[fever.tabel]]",
            "fever",
            "Did you mean 'table'",
        ),
        ("p = [0.5, 0.5]  ", "p = [0.5, 0.5  ", None, "is not valid TOML"),
    ],
)
def test_mistakes_name_the_place_and_the_remedy(old, new, place, message, tmp_path):
    text = example()
    assert old in text
    path = write(tmp_path, text.replace(old, new, 1))
    with pytest.raises(FormatError) as caught:
        load(path)
    said = str(caught.value)
    assert message in said
    if place is not None:
        assert f"{place}]" in said
    if place != "variables":
        assert caught.value.line is not None


def test_lines_point_at_the_entry(tmp_path):
    text = example().replace(FEVER, FEVER.replace("0.2", "0.3"))
    path = write(tmp_path, text)
    with pytest.raises(FormatError) as caught:
        load(path)
    lines = text.split("\n")
    assert lines[caught.value.line - 1] == "[[fever.table]]"
    assert lines[caught.value.line] == 'when = { flu = "yes" }'


def test_a_variable_without_a_section(tmp_path):
    path = write(tmp_path, "[variables]\na = [0, 1]\nb = [0, 1]\n[[a.rules]]\np = 0.5\n")
    with pytest.raises(FormatError, match="'b' has no distribution; add a section"):
        load(path)
