"""Tables as people have them: separators, encodings, decimal commas, currencies, Excel files."""

from __future__ import annotations

import builtins
import datetime
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin import read_table, write_table
from conjoin.data import as_table
from conjoin.errors import DataWarning, FormatError
from conjoin.formats import read_csv, write_filled

NAMES = ["größe", "preis", "ort"]


def german_rows(count=60):
    """Heights with a decimal, prices with thousands, and places, as a German program writes them."""
    rng = np.random.default_rng(4)
    heights = rng.integers(1500, 2000, count) / 10
    prices = rng.integers(100_000, 5_000_000, count) / 100
    places = rng.choice(["Köln", "Bonn", "Fürth"], count)
    return list(zip(heights.tolist(), prices.tolist(), places.tolist(), strict=True))


def german(x, thousands=False):
    text = f"{x:,.2f}" if thousands else f"{x}"
    return text.translate(str.maketrans(",.", ".,"))


def written(rows, sep):
    """The rows as the text of a file; a comma as separator needs quotation marks."""
    cells = [[german(h), german(p, True), place] for h, p, place in rows]
    if sep == ",":
        cells = [[f'"{cell}"' for cell in row] for row in cells]
    return "\n".join(sep.join(row) for row in [NAMES, *cells]) + "\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("sep", [";", "\t", "|"])
@pytest.mark.filterwarnings("ignore:.*was read as cp1252")
def test_separators_encodings_and_decimal_commas_are_found_out(sep, encoding, tmp_path):
    rows = german_rows()
    path = tmp_path / "t.csv"
    path.write_bytes(written(rows, sep).encode(encoding))
    table = read_table(path)
    assert table.names == tuple(NAMES)
    np.testing.assert_array_equal(table.column("größe"), [height for height, _, _ in rows])
    np.testing.assert_array_equal(table.column("preis"), [price for _, price, _ in rows])
    assert set(table.domain["ort"].states) == {"Köln", "Bonn", "Fürth"}
    again = read_table(path, table.domain)  # as the table to predict for
    np.testing.assert_array_equal(again.numbers, table.numbers)
    one = tmp_path / "one.csv"
    one.write_bytes(written(rows[:1], sep).encode(encoding))
    np.testing.assert_array_equal(read_table(one, table.domain).numbers[0], rows[0][:2])


def test_options_overrule_what_is_found_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;y\n1,234;a\n2,345;b\n3,456;a\n4,567;b\n5,678;a\n6,789;b\n", encoding="utf-8")
    with pytest.warns(DataWarning, match="column 'x' stays text.*--decimal"):
        assert read_table(path).domain["x"].states[0] == "1,234"
    assert read_table(path, decimal=",").column("x")[0] == 1.234
    assert read_table(path, decimal=".", kinds={"x": "number"}).column("x")[0] == 1234
    with pytest.raises(FormatError, match="2 values, but the header has 1"):
        read_table(path, sep=",")
    latin = tmp_path / "l.csv"
    latin.write_bytes("a\nčaj\nvoda\n".encode("iso8859-2"))
    assert read_table(latin, encoding="iso8859-2").domain["a"].states == ("voda", "čaj")
    for wrong, message in (
        ({"encoding": "utf-9"}, "cannot be read as utf-9"),
        ({"encoding": "ascii"}, "cannot be read as ascii"),
        ({"sep": "::"}, "the separator must be a character such as ; or tab, not '::'"),
        ({"decimal": ";"}, "decimal mark must be . or , and not ';'"),
    ):
        with pytest.raises(FormatError, match=message):
            read_table(latin, **wrong)


def test_a_file_that_is_not_unicode_is_read_with_a_warning(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a\ncafé\nthé\n".encode("latin-1"))
    with pytest.warns(DataWarning, match="is not UTF-8 text and was read as cp1252"):
        assert read_table(path).domain["a"].states == ("café", "thé")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["$12,345.00", "$7.50", "-$1,000"], [12345, 7.5, -1000]),
        (["1.234,5 €", "12 €", "€0,5"], [1234.5, 12, 0.5]),
        (["45 %", "7.5%", "100 %"], [45, 7.5, 100]),
        (["1 234", "12", "1 234 567.5"], [1234, 12, 1234567.5]),
        (["1\u00a0234,5", "12", "-7,25"], [1234.5, 12, -7.25]),
        (["1'234.5", "12'000", "7"], [1234.5, 12000, 7]),
        (["CHF 1’200", "CHF 3", "CHF 14"], [1200, 3, 14]),
        (["1,234", "56", "7,890,123"], [1234, 56, 7890123]),
        (["\u22121.5", "2.5", "3"], [-1.5, 2.5, 3]),
    ],
)
def test_numbers_as_people_write_them(cells, expected, tmp_path):
    path = tmp_path / "t.csv"
    sep = ";" if "€" in cells[0] or "\u00a0" in cells[0] else ","
    path.write_text("x" + sep + "y\n" + "".join(f'"{c}"{sep}a\n' for c in cells), encoding="utf-8")
    column = read_csv(path)[0].parsed()
    assert [column.labels[k] for k in column.codes] == expected


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "1,234"],  # a code
        ["12,34,567", "1"],  # thousands in groups of two
        ["45 %", "0.45"],  # a share in two units
        ["$5", "€7"],
        ["10-20", "3"],
        ["1,2", "3", "1,4"],  # a list of answers, in a file with commas
        ["1,234.5", "1.234,5"],  # both conventions
        ["3.4.2021", "14.4.2021"],
        ["030 123 456", "030 123 457"],
    ],
)
def test_what_is_not_clearly_a_number_stays_text(cells, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f'"{c}",a\n' for c in cells), encoding="utf-8")
    column = read_csv(path)[0].parsed()
    assert [column.labels[k] for k in column.codes] == cells


@given(
    st.lists(st.decimals(-(10**7), 10**7, places=2), min_size=2, max_size=20),
    st.sampled_from([(",", "."), (".", ","), (" ", ","), ("'", ".")]),
    st.sampled_from(["", "$", "€"]),
)
def test_every_spelling_of_a_number_is_read(tmp_path_factory, numbers, marks, currency):
    """Two decimals leave no doubt about the decimal mark."""
    path = tmp_path_factory.mktemp("spelled") / "t.csv"
    swap = str.maketrans({",": marks[0], ".": marks[1]})
    cells = [f"{'-' * (x < 0)}{currency}{abs(x):,.2f}".translate(swap) for x in numbers]
    path.write_text("x;y\n" + "".join(f"{cell};a\n" for cell in cells), encoding="utf-8")
    column = read_csv(path)[0].parsed()
    got = [column.labels[k] for k in column.codes]
    assert got == [float(x) for x in numbers]


def test_a_filled_file_keeps_its_spelling(tmp_path):
    """Separator, encoding, decimal commas and signs stay, and the file means the same afterwards."""
    source, target = tmp_path / "t.csv", tmp_path / "full.csv"
    lines = ["größe;anteil;preis", *(f"1{k},5;{k} %;{k}.100,5 €" for k in range(1, 9)), ";;"]
    source.write_bytes("\r\n".join([*lines, ""]).encode("utf-16"))
    table = read_table(source)
    holes = {name: table.holes[:, i] for i, name in enumerate(table.names)}
    like_the_third = table.select(np.r_[np.arange(8), 2])
    write_filled(source, like_the_third, holes, target)
    text = target.read_bytes().decode("utf-16")
    assert text.splitlines() == [*lines[:-1], "13,5;3 %;3100,5 €"]
    np.testing.assert_array_equal(read_table(target).numbers[8], read_table(target).numbers[2])


@given(
    st.lists(st.text("ab;|,\t'\" ", min_size=1, max_size=6), min_size=1, max_size=5, unique=True)
)
def test_what_is_written_is_read_again(tmp_path_factory, states):
    """Whatever separators the cells hold."""
    states = sorted({state.strip() for state in states} - {""}) or ["a"]
    path = tmp_path_factory.mktemp("again") / "t.csv"
    table = as_table(np.array([[s] for s in states], object))
    write_table(table, path)
    assert read_table(path, include=["v0"]).domain["v0"].states == table.domain["v0"].states


def test_excel(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    days = [datetime.datetime(2021, 4, 1) + datetime.timedelta(k) for k in range(12)]
    book.active.append(["day", "x", "kind", None])
    for k, day in enumerate(days):
        book.active.append([day, k / 4, "?" if k == 3 else "ab"[k % 2], None])
    book.active.append([None, None, None, None])
    path = tmp_path / "t.xlsx"
    book.save(path)
    table = read_table(path)
    assert table.names == ("day", "x", "kind") and len(table) == 12
    np.testing.assert_array_equal(table.column("x"), np.arange(12) / 4)
    assert table.domain.scale("day").value(table.column("day")[0]) == datetime.date(2021, 4, 1)
    assert table.domain["kind"].states == ("a", "b") and table.holes.sum() == 1
    np.testing.assert_array_equal(read_table(path, table.domain).numbers, table.numbers)
    path.write_bytes(b"PK no workbook")
    with pytest.raises(FormatError, match="is not a valid Excel file"):
        read_table(path)


def test_excel_without_openpyxl(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *more):
        if name.startswith("openpyxl"):
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(FormatError, match=r"pip install 'conjoin\[excel\]'"):
        read_table(tmp_path / "t.xlsx")


def test_tables_of_many_floats_are_read_as_before(tmp_path):
    """Digits are not taken for thousands, and no number changes."""
    x = np.random.default_rng(0).normal(size=200)
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{v!r},1.234\n" for v in x.tolist()), encoding="utf-8")
    table = read_table(path)
    assert table.column("x").tolist() == x.tolist() and table.domain["y"].states == (1.234,)
    assert math.isfinite(table.numbers.sum())
