"""BIF files in unusual forms, and the lines that errors name."""

from __future__ import annotations

import re

import numpy as np
import pytest

from conjoin import load
from conjoin.errors import FormatError

HEAD = """network x { }
variable a { type discrete [ 2 ] { no, yes }; }
variable b { type discrete [ 3 ] { low, "very high", mid }; }
variable c { type discrete [ 2 ] { f, t }; }
probability ( a ) { table 0.25, 0.75; }
probability ( b ) { table 0.2, 0.3, 0.5; }
"""
USUAL = """probability ( c | a, b ) {
  (no, low) 0.1, 0.9;
  (yes, low) 0.2, 0.8;
  (no, "very high") 0.3, 0.7;
  (yes, "very high") 0.4, 0.6;
  (no, mid) 0.5, 0.5;
  (yes, mid) 0.6, 0.4;
}
"""
EXPECTED = np.array([[0.1, 0.3, 0.5], [0.2, 0.4, 0.6]])


def read(tmp_path, text):
    path = tmp_path / "m.bif"
    path.write_text(text, encoding="utf-8")
    return load(path)


@pytest.mark.parametrize(
    "text",
    [
        USUAL,
        USUAL.replace('"very high"', "very_high"),
        USUAL.replace(", ", ","),
        USUAL.replace("0.1, 0.9", "0.1 0.9").replace("(no, mid)", "( no ,\n mid )"),
        USUAL.replace("  (yes, mid)", '  property "a; (b) {c}" ; // (no, low) 1, 0;\n (yes, mid)'),
        USUAL.replace("(yes, mid)", "default"),
        "probability ( c | a, b ) { table 0.1 0.3 0.5 0.2 0.4 0.6, 0.9 0.7 0.5 0.8 0.6 0.4; }",
    ],
)
def test_all_forms_of_a_table_are_the_same(text, tmp_path):
    head = HEAD.replace('"very high"', "very_high") if "very_high" in text else HEAD
    cpd = read(tmp_path, head + text).cpds[2]
    np.testing.assert_allclose(np.exp(cpd.table[..., 0]), EXPECTED, rtol=1e-12)
    np.testing.assert_allclose(np.exp(cpd.table[..., 1]), 1 - EXPECTED, rtol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("(yes, low) 0.2, 0.8;", "(yes, low) 0.2, x;", 9, "expected a probability, not 'x'"),
        ("(yes, low) 0.2, 0.8;", "(yes, low) -0.2, 1.2;", 9, "expected a probability"),
        ("(yes, low) 0.2, 0.8;", "(yes, low) nan, 0.8;", 9, "expected a probability"),
        ("(yes, low) 0.2, 0.8;", "(yes, low) 0.2, 0.7, 0.1;", 9, "expected 2 probabilities, not 3"),
        ("(yes, low) 0.2, 0.8;", "(no, low) 0.2, 0.8;", 9, "given twice"),
        ("(yes, low) 0.2, 0.8;", "(yes, lwo) 0.2, 0.8;", 9, "no state 'lwo'"),
        ("(yes, low) 0.2, 0.8;", "(yes) 0.2, 0.8;", 9, "expected 2 states, not 1"),
        ("(yes, low) 0.2, 0.8;", "(yes, low) 0.2, 0.9;", 7, "a=yes, b=low sum to 1.1, not to 1"),
        ("(yes, mid) 0.6, 0.4;", "(yes, mid) 0.6, 0.4", 14, "expected ';' before '}'"),
        ("variable c { type", "variable c d { type", 4, "expected a variable's name"),
        ("{ f, t }", "{ f g, t }", 4, "expected a state"),
        ("probability ( b )", "probability ( b", 6, "'( variable )'"),
    ],
)  # fmt: skip
def test_errors_name_the_line(old, new, line, message, tmp_path):
    text = HEAD + USUAL
    assert text.count(old) == 1
    with pytest.raises(FormatError) as caught:
        read(tmp_path, text.replace(old, new))
    assert message in str(caught.value)
    assert re.search(rf"(line |:){line}\b", str(caught.value)), caught.value


def test_a_file_that_never_closes_is_rejected_at_once(tmp_path):
    with pytest.raises(FormatError, match="the file ends where"):
        read(tmp_path, "network x { " + "property a; " * 20_000)
