"""Domains with typed labels, and tables over them."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest

from conjoin import ConjoinError, Domain, Table, Variable
from conjoin.data import codes_of, deal_out, hold_out, sample_rows
from conjoin.errors import DataError


def test_labels_are_typed():
    v = Variable("x", [1, "1", 1.5, False, (1,), ("1",), datetime.date(2020, 1, 1)])
    assert [v.index(s) for s in v.states] == list(range(7))
    assert v.index(np.int64(1)) == v.index(np.float64(1)) == 0
    assert v.index(np.str_("1")) == 1
    assert v.index(np.bool_(False)) == 3
    for other in (True, 0, "1.5"):
        with pytest.raises(DataError, match="no state"):
            v.index(other)


def test_unknown_state_names_the_twin_of_another_type():
    with pytest.raises(DataError, match=r"'x' has no state '1' \(a str\).*Did you mean 1\?"):
        Variable("x", [0, 1]).index("1")


@pytest.mark.parametrize("label", [None, math.nan, np.nan])
def test_missing_marks_are_no_states(label):
    with pytest.raises(DataError, match="missing value"):
        Variable("x", ["a", label])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Variable("", [1]), "non-empty string"),
        (lambda: Variable("x", []), "0 states"),
        (lambda: Variable("x", ["a", "a"]), "'a' twice"),
        (lambda: Variable("x", [["a"]]), "not hashable"),
        (lambda: Domain([Variable("x", "ab"), Variable("x", "ab")]), "two variables.*'x'"),
        (lambda: Domain({"rain": "ab"}).index("rian"), "Did you mean 'rain'"),
        (lambda: Domain({"a": "xy", "b": "xy"}).encode({"a": "x"}), "no value for 'b'"),
    ],
)
def test_errors_say_what_is_wrong(build, message):
    with pytest.raises(ConjoinError, match=message):
        build()


def test_domain_equality_is_typed():
    assert Domain({"a": [0, 1]}) == Domain({"a": [0, 1]})
    assert Domain({"a": [0, 1]}) != Domain({"a": [False, True]})
    assert Domain({"a": [0, 1]}) != Domain({"a": [0.0, 1.0]})
    assert Domain({"v0": [0, 1]}).is_numbered
    assert not Domain({"v0": [False, True]}).is_numbered


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.uint8, np.uint16, np.uint64])
def test_every_integer_type_marks_missing(dtype):
    domain = Domain.numbered([2, 3])
    mark = -1 if np.dtype(dtype).kind == "i" else np.iinfo(dtype).max
    codes = np.array([[0, 2], [1, 0]], dtype)
    codes[1, 1] = mark
    table = Table(domain, codes)
    assert table.codes.tolist() == [[0, 2], [1, 255]]
    assert not table.complete


def test_many_states_need_two_bytes():
    domain = Domain({"x": range(300), "y": range(2)})
    table = Table(domain, np.array([[299, 1], [-1, 0]]))
    assert table.codes.dtype == np.uint16
    assert table.codes.tolist() == [[299, 1], [65535, 0]]


@pytest.mark.parametrize("wrong", [2, 254, 255, 256, 70000])
def test_code_out_of_range_is_placed(wrong):
    codes = np.zeros((3, 2), np.int64)
    codes[2, 1] = wrong
    with pytest.raises(DataError, match="row 3, variable 'v1'.*2 states"):
        Table(Domain.numbered([2, 2]), codes)


def test_code_out_of_range_behind_a_missing_mark():
    with pytest.raises(DataError, match="row 2, variable 'v0'.*number 7"):
        Table(Domain.numbered([2]), np.array([[-1], [7]]))


def test_marginals_by_hand():
    table = Table(Domain.numbered([2, 3]), [[0, 2], [1, 2], [1, -1]], weights=[1, 2, 1])
    first, second = table.marginals()
    # (count + 1/d) / (N + 1), missing values and their weights left out
    assert first == pytest.approx([(1 + 1 / 2) / 5, (3 + 1 / 2) / 5])
    assert second == pytest.approx([(1 / 3) / 4, (1 / 3) / 4, (3 + 1 / 3) / 4])


def test_rows_by_name():
    domain = Domain({"a": ["x", "y"], "b": [False, True]})
    table = Table.from_rows(domain, [{"b": True}, ("y", np.nan)])
    assert table.codes.tolist() == [[255, 1], [1, 255]]
    with pytest.raises(DataError, match="row 2: variable 'a' has no state 'z'"):
        Table.from_rows(domain, [{"a": "x"}, {"a": "z"}])
    with pytest.raises(DataError, match="row 1: there is no variable 'c'"):
        Table.from_rows(domain, [{"c": 1}])
    with pytest.raises(DataError, match="row 1 has no value for 'b'"):
        codes_of(domain, {"a": "x"})


def test_tables_of_another_domain_are_refused():
    table = Table(Domain.numbered([2]), [[0]])
    with pytest.raises(DataError, match="differ from the model's"):
        codes_of(Domain({"a": [0, 1]}), table)


@pytest.mark.parametrize("weights", [[-1.0], [np.inf], [np.nan], [1.0, 2.0]])
def test_weights_are_checked(weights):
    with pytest.raises(DataError, match="weights"):
        Table(Domain.numbered([2]), [[0]], weights=weights)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_a_table_does_not_share_the_caller_s_arrays(dtype):
    codes, weights = np.array([[0, 1], [1, 0]], dtype), np.array([1.0, 2.0])
    table = Table(Domain.numbered([2, 2]), codes, weights)
    codes[:], weights[:] = 1, 5.0
    assert table.codes.tolist() == [[0, 1], [1, 0]]
    assert table.weights.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("make", [Table, Table.adopt])
def test_a_table_cannot_be_written_to(make):
    codes, weights = np.array([[0], [1]], np.uint8), np.ones(2)
    table = make(Domain.numbered([2]), codes, weights)
    for array in (table.codes, table.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    codes[0] = 1  # the caller's own array stays as it was


def test_adopted_arrays_are_not_copied():
    codes, weights = np.array([[0], [1]], np.uint8), np.ones(2)
    table = Table.adopt(Domain.numbered([2]), codes, weights)
    assert np.shares_memory(table.codes, codes) and np.shares_memory(table.weights, weights)


def test_names_are_sorted_with_numbers_by_value():
    names = ["b", "v10", "v2", "v02", "v1x10", "v1x9", "v", "10", "9", "a"]
    domain = Domain(dict.fromkeys(names, "xy"))
    expected = ["9", "10", "a", "b", "v", "v1x9", "v1x10", "v02", "v2", "v10"]
    assert domain.sorted_names() == expected
    numbered = Domain.numbered([2] * 12)
    assert numbered.sorted_names() == list(numbered.names)


def test_columns_of_a_table_in_another_order():
    domain = Domain({"a": "xy", "b": "xyz"})
    table = Table(domain, [[1, 2], [0, -1]], weights=[1, 2])
    turned = table.reordered(["b", "a"])
    assert turned.domain == Domain({"b": "xyz", "a": "xy"})
    assert turned.codes.tolist() == [[2, 1], [255, 0]] and turned.weights.tolist() == [1, 2]
    assert table.reordered(["a", "b"]) is table


@pytest.mark.parametrize("states", [[1, True], [0.0, False, 2], [1, 1.0]])
def test_equal_states_are_refused(states):
    with pytest.raises(DataError, match="which are equal"):
        Domain({"a": states})


def test_numbers_are_found_by_their_value():
    whole, broken = Variable("a", [1, 2]), Variable("a", [1.0, 2.5, "x"])
    assert [whole.index(v) for v in (1, 2.0, np.float32(1), np.int8(2))] == [0, 1, 0, 1]
    assert [broken.index(v) for v in (2.5, np.float64(2.5), "x")] == [1, 1, 2]
    for odd in (True, "1", 1.5):
        with pytest.raises(DataError, match="no state"):
            whole.index(odd)


def test_weights_that_count_rows_are_split_and_sampled_as_rows():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 50, 200)
    table = Table(Domain.numbered([200]), np.arange(200)[:, None], counts.astype(float))

    def by_row(part):
        return np.bincount(part.codes[:, 0], part.weights, minlength=200)

    rest, held = hold_out(table, 0.3, rng)
    np.testing.assert_array_equal(by_row(rest) + by_row(held), counts)
    assert by_row(held).sum() == round(0.3 * counts.sum())
    few = sample_rows(table, 500, rng)
    assert by_row(few).sum() == 500 and (by_row(few) <= counts).all()
    assert sample_rows(table, 10_000, rng) is table
    folds = deal_out(table, 5, rng)
    np.testing.assert_array_equal(sum(by_row(fold) for _, fold in folds), counts)
    assert np.ptp([fold.weights.sum() for _, fold in folds]) <= 1
    for rest, fold in folds:
        np.testing.assert_array_equal(by_row(rest) + by_row(fold), counts)
    fractional = Table(table.domain, table.codes, counts / 7)  # weights that count nothing
    assert len(sample_rows(fractional, 50, rng)) == 50
