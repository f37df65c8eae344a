"""Tables from arrays and frames."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from conjoin import Domain, Table, learn_conditionals
from conjoin.data import as_table
from conjoin.errors import DataError, DataWarning

COLUMNS = {
    "color": ["red", None, "blue", "red"],
    "size": [3, 1, 3, 2],
    "ok": [True, False, True, True],
    "day": [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 2)],
}
DOMAIN = Domain(
    {
        "color": ["blue", "red"],
        "size": [1, 2, 3],
        "ok": [False, True],
        "day": [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)],
    }
)
CODES = [[1, 2, 1, 1], [255, 0, 0, 0], [0, 2, 1, 255], [1, 1, 1, 1]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_of_every_library(make):
    table = as_table(make(COLUMNS))
    assert table.domain == DOMAIN
    assert table.codes.tolist() == CODES
    assert as_table(make(COLUMNS), DOMAIN).codes.tolist() == CODES


def test_pandas_corners():
    frame = pd.DataFrame(
        {
            0: pd.Categorical(["b", "a", None, "b"], categories=["z", "b", "a"]),
            "n": pd.array([1, None, 2, 2], "Int64"),
            "f": [1.0, np.nan, 2.0, 2.0],
            "mixed": [1, "1", 1, None],
        },
        index=[5, 5, 7, 8],
    )
    table = as_table(frame)
    assert table.domain["n"].states == (1, 2)
    assert table.domain["f"].states == (1.0, 2.0)
    assert set(map(type, table.domain["mixed"].states)) == {int, str}
    assert (table.codes == table.missing).sum(axis=0).tolist() == [1, 1, 1, 1]
    unseen = pd.DataFrame({"color": ["green"], "size": [1], "ok": [True], "day": [None]})
    with pytest.raises(DataError, match="row 1, column 'color': 'green' is not a state"):
        as_table(unseen, DOMAIN)
    with pytest.raises(DataError, match="two columns are called 'a'"):
        as_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="no values: all are missing"):
        as_table(pd.DataFrame({"a": [None, None]}))
    with pytest.warns(DataWarning, match="2 columns have no values and will be left out: 'b', 'c'"):
        kept = as_table(pd.DataFrame({"b": [None, None], "a": [1, 2], "c": [np.nan, np.nan]}))
    assert kept.domain == Domain({"a": [1, 2]})


def test_arrays():
    assert as_table(np.array([[0.5, np.nan], [1.5, 2.0]])).codes.tolist() == [[0, 255], [1, 0]]
    labels = as_table(np.array([["x", None], ["y", 3]], object))
    assert labels.domain == Domain({"v0": ["x", "y"], "v1": [3]})
    domain = Domain({"a": [0, 1, 2]})
    assert as_table(np.array([[2], [0]]), domain).codes.tolist() == [[2], [0]]
    with pytest.raises(DataError, match="row 1, column 'a': 7 is not a state"):
        as_table(np.array([[7]]), domain)
    with pytest.raises(DataError, match="2 columns; 1 were expected"):
        as_table(np.zeros((1, 2), int), domain)
    with pytest.raises(DataError, match="2 dimensions"):
        as_table(np.zeros(3))
    with pytest.raises(DataError, match="a list is not a table"):
        as_table([1, 2])
    table = Table(domain, [[0]])
    assert as_table(table) is table


def test_learn_takes_frames():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 300)
    frame = pd.DataFrame({"a": a, "b": np.where(rng.random(300) < 0.9, a, 1 - a)})
    dn = learn_conditionals(frame, valid=frame)
    assert dn.blanket("b") == ("a",)
    same = learn_conditionals(pl.from_pandas(frame), valid=pl.from_pandas(frame))
    assert dn.conditional("b", {"a": 1}).tolist() == same.conditional("b", {"a": 1}).tolist()


def test_categories_with_an_order_keep_it():
    sizes = pd.Categorical(["M", "S", "L", None], ["S", "M", "L"], ordered=True)
    table = as_table(pd.DataFrame({"size": sizes, "plain": pd.Categorical(["b", "a", "b", "a"])}))
    assert table.domain["size"].states == ("S", "M", "L")
    assert table.domain["plain"].states == ("a", "b")
    assert table.codes[:, 0].tolist() == [1, 0, 2, table.missing]


def test_equal_states_of_a_frame_are_refused():
    with pytest.raises(DataError, match="'a'.*True and 1, which are equal"):
        as_table(pd.DataFrame({"a": pd.Series([True, 1, "x"] * 3, dtype=object)}))


def as_number(text):
    return int(text) if text.isdigit() else text


TEXTS = {
    "size": ["1", "?", "3", "1"],
    "weight": ["2.5", "NA", "", "3"],
    "color": ["red", "?", "b", "b"],
}


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        pl.DataFrame,
        pa.table,
        lambda columns: pd.DataFrame(columns, dtype=object),
        lambda columns: np.array(list(columns.values()), object).T,
        lambda columns: pd.DataFrame({**columns, "size": list(map(as_number, columns["size"]))}),
    ],
)
def test_marks_of_missing_values_among_numbers(make):
    table = as_table(make(TEXTS))
    assert [v.states for v in table.domain] == [(1, 3), (2.5, 3.0), ("?", "b", "red")]
    assert [type(s) for s in table.domain.variables[0].states] == [int, int]
    assert table.codes.tolist() == [[0, 0, 2], [255, 255, 0], [1, 255, 1], [0, 1, 1]]
    rows = as_table(make({name: values[1:2] for name, values in TEXTS.items()}), table.domain)
    assert rows.codes.tolist() == [[255, 255, 0]]  # the second row alone is read alike


def test_texts_that_are_not_numbers_stay_texts():
    frame = pd.DataFrame({
        "code": ["7", "8", "9"] * 4,
        "padded": ["007", "?", "010"] * 4,
        "rated": pd.Categorical(["1", "?", "2"] * 4),
        "marks": ["?", "NA", None] * 4,
    })  # fmt: skip
    states = {v.name: v.states for v in as_table(frame).domain}
    assert states == {
        "code": ("7", "8", "9"),
        "padded": ("007", "010", "?"),
        "rated": ("1", "2", "?"),
        "marks": ("?", "NA"),
    }


def test_part_of_a_column_of_text_is_read_like_the_whole():
    text = [f"{x / 8:.3f}" for x in range(40)]
    whole, part = (as_table(pd.DataFrame({"x": x})) for x in (["?", *text], text))
    assert whole.domain.numeric == part.domain.numeric == ("x",)
    assert part.column("x").tolist() == [x / 8 for x in range(40)]
    assert whole.column("x").tolist()[1:] == part.column("x").tolist()
