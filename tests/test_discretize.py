"""Numeric columns cut into bins."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import conjoin
from conjoin import Domain, JointModel, Table, learn_conditionals
from conjoin.cli.main import main
from conjoin.data import Discretizer, as_table, discretize
from conjoin.errors import DataError


def column(values, weights=None, **others):
    """Make a table of a column "x" and others; None is missing."""
    columns = {"x": values, **others}
    states = {n: sorted({v for v in c if v is not None}) for n, c in columns.items()}
    rows = list(zip(*columns.values(), strict=True))
    return Table.from_rows(Domain(states), rows, weights)


def labels(values, weights=None, **options):
    return list(discretize(column(values, weights), "x", **options)[0].domain["x"].states)


def cells(table, name="x"):
    """Return a column's labels, None where missing."""
    states = table.domain[name].states
    codes = table.codes[:, table.domain.index(name)]
    return [None if c == table.missing else states[c] for c in codes]


def inner(discretizer, name="x"):
    return list(discretizer.cuts[name][1:-1])


# Worked examples -------------------------------------------------------------------------------


def test_fixed_edges_of_integers():
    table, cuts = discretize(column([17, 29, 30, 39, 40, 90, None]), edges={"x": [30, 40]})
    assert table.domain["x"].states == ("17-29", "30-39", "40-90")
    assert table.codes.ravel().tolist() == [0, 0, 1, 1, 2, 2, 255]
    assert cuts.cuts == {"x": (17.0, 30.0, 40.0, 90.0)}
    assert labels([1, 2, 3, 7], edges={"x": [2, 3, 7]}) == ["1", "2", "3-6", "7"]
    assert labels([1, 2, 3, 7], edges={"x": [2.5]}) == ["1-2", "3-7"]
    assert labels([1, 2, 3, 7], edges={"x": []}) == ["1-7"]
    assert labels([-5, -3, 0, 4], edges={"x": [0]}) == ["-5 to -1", "0 to 4"]
    assert labels([-5, -3, 0, 4], edges={"x": [-3]}) == ["-5 to -4", "-3 to 4"]


def test_fixed_edges_of_floats():
    table, _ = discretize(column([0.5, 1.2, 1.25, 3.0]), edges={"x": [1.2, 2]})
    assert table.domain["x"].states == ("0.5 to 1.2", "1.2 to 2", "2 to 3")
    assert cells(table) == ["0.5 to 1.2", "1.2 to 2", "1.2 to 2", "2 to 3"]
    assert labels([0.5, 3.0], edges={"x": [3.0]}) == ["0.5 to 3", "3"]
    assert labels([-0.5, 1.5], edges={"x": [1 / 3]}) == ["-0.5 to 0.333333", "0.333333 to 1.5"]


def test_labels_get_the_digits_that_they_need():
    near = [1.00000001, 1.00000002]
    assert labels([0.5, 1.5], edges={"x": near}) == [
        "0.5 to 1.00000001",
        "1.00000001 to 1.00000002",
        "1.00000002 to 1.5",
    ]
    # 0.333333 would put the second value into the wrong bin
    found = labels([0.0, 0.3333331, 1.0], edges={"x": [1 / 3]})
    assert found == ["0 to 0.3333333", "0.3333333 to 1"]
    assert labels([1234567.0, 3e6, 7654321.5], edges={"x": [2e6]}) == [
        "1234560 to 2000000",
        "2000000 to 7654330",
    ]
    assert labels([1e-9, 1e20], edges={"x": [1e3]}) == ["1e-09 to 1000", "1000 to 1e+20"]
    twins = [1.0, float(np.nextafter(1.0, 2))]
    assert len(set(labels(twins, bins=2))) == 2
    assert labels([-0.0, 1.0], edges={"x": [0.5]}) == ["0 to 0.5", "0.5 to 1"]


def test_fixed_edges_beyond_the_data():
    assert labels([17, 90], edges={"x": [10, 30, 95]}) == [
        "below 10",
        "10-29",
        "30-94",
        "95 or more",
    ]
    assert labels([0.5, 2.5], edges={"x": [0.5, 3.5]}) == [
        "below 0.5",
        "0.5 to 3.5",
        "3.5 or more",
    ]
    _, cuts = discretize(column([17, 90]), edges={"x": [10, 95]})
    assert cuts.cuts["x"] == (10.0, 10.0, 95.0, 95.0)
    assert cells(cuts.apply(column([3, 10, 99]))) == ["below 10", "10-94", "95 or more"]


def test_quantiles():
    assert labels(list(range(1, 11)), bins=5) == ["1-2", "3-4", "5-6", "7-8", "9-10"]
    assert labels(list(range(1, 11)), bins=2) == ["1-5", "6-10"]
    assert labels([1, *[2] * 97, 3, 4], bins=5) == ["1", "2", "3-4"]
    assert labels([*[0] * 90, 1, 2, 3], bins=5) == ["0", "1-3"]
    assert labels([7, 7], bins=5) == ["7"]
    assert labels([1, 2], bins=5) == ["1", "2"]
    # the cut is a short number between the two values
    assert labels([17, 22, 25, 30, 38, 39, 40, 61, 90], bins=3) == ["17-29", "30-39", "40-90"]
    assert labels([0.1, 1.1732, 1.2411, 1.9], bins=2) == ["0.1 to 1.2", "1.2 to 1.9"]
    # one row of weight 3 and three rows of weight 1
    assert labels([1, 2, 3, 4], [3, 1, 1, 1], bins=2) == ["1", "2-4"]


def test_equal_widths():
    assert labels([0, 3, 6, 9, 10], method="width", bins=5) == ["0-1", "2-5", "6-7", "8-10"]
    assert labels([0, 1, 2, 100], method="width", bins=5) == ["0-79", "80-100"]
    assert labels([0.0, 0.3, 0.4, 0.7, 1.0], method="width", bins=10) == [
        "0 to 0.3",
        "0.3 to 0.4",
        "0.4 to 0.7",
        "0.7 to 0.9",
        "0.9 to 1",
    ]
    assert labels([5.5], method="width", bins=3) == ["5.5"]
    assert labels([-1e308, 1e308], method="width", bins=2) == ["-1e+308 to 0", "0 to 1e+308"]


def test_weights_count_like_repeated_rows():
    rng = np.random.default_rng(8)
    for _ in range(60):
        n = int(rng.integers(2, 30))
        x = rng.integers(0, 12, n).tolist()
        w = rng.integers(0, 4, n)
        w[0] = 1
        weighted = column(x, w)
        repeated = Table(weighted.domain, np.repeat(weighted.codes, w, axis=0))
        for options in ({"method": "width"}, {"bins": 3}):
            assert (
                discretize(weighted, "x", **options)[1] == discretize(repeated, "x", **options)[1]
            )


# Properties ------------------------------------------------------------------------------------

numbers = st.one_of(
    st.lists(st.integers(-50, 50), min_size=1, max_size=40),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
    st.lists(st.integers(-300, 300).map(lambda v: v / 100), min_size=1, max_size=40),
    st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=40),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12),
)


def within(value, label, last):
    """Tell whether a label, as a person reads it, includes a value."""
    if isinstance(value, int):
        if " to " in label:
            low, high = map(int, label.split(" to "))
        else:
            low, _, high = label.partition("-") if not label.startswith("-") else (label, "", "")
            low, high = int(low), int(high or low)
        return low <= value <= high
    if " to " not in label:
        return math.isclose(value, float(label), rel_tol=1e-5)
    low, high = map(float, label.split(" to "))
    return low <= value and (value <= high if last else value < high)


@given(numbers, st.sampled_from(["quantile", "width"]), st.integers(2, 7))
def test_every_value_lies_in_its_labelled_bin(values, method, bins):
    table, cuts = discretize(column(values), "x", method=method, bins=bins)
    states = table.domain["x"].states
    assert len(set(states)) == len(states) == len(cuts.cuts["x"]) - 1
    assert len(states) <= bins
    assert set(cells(table)) == set(states)  # no bin is empty
    bounds = cuts.cuts["x"]
    assert bounds[0] == min(values)
    assert bounds[-1] == max(values)
    for value, label, code in zip(values, cells(table), table.codes[:, 0], strict=True):
        last = label == states[-1]
        assert within(value, label, last)
        assert bounds[code] <= value
        assert value < bounds[code + 1] or last
    assert cuts.apply(table) is table
    assert Discretizer.of(table.domain) == cuts


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(2, 6))
def test_quantile_bins_are_as_even_as_ties_allow(values, bins):
    _, cuts = discretize(column(values), "x", bins=bins)
    n, found = len(values), inner(cuts)
    possible = {sum(v < s for v in values) for s in set(values)} - {0}
    taken = {sum(v < cut for v in values) for cut in found}
    assert len(taken) == len(found)
    nearest = set()
    for k in range(1, bins):
        distances = {p: abs(p - n * k / bins) for p in possible}
        close = {p for p in possible if distances[p] <= min(distances.values()) + 1e-9}
        nearest |= close
        assert not possible or close & taken
    assert taken <= nearest


@given(st.integers(2, 50), st.integers(2, 8))
def test_quantile_bins_without_ties_differ_by_one_row(n, bins):
    table, _ = discretize(column([v / 3 for v in range(n)]), "x", bins=bins)
    sizes = Counter(cells(table)).values()
    assert len(sizes) == min(n, bins)
    assert max(sizes) - min(sizes) <= 1


# Applying, choosing, storing -------------------------------------------------------------------


def test_apply_to_new_data():
    train = column([17, 25, 33, 45, 90], color=list("rgbrg"))
    _, cuts = discretize(train, edges={"x": [30, 40]})
    assert list(cuts.labels) == ["x"]
    new = column([3, 29, 29.5, 30, None, 200], [1, 2, 3, 4, 5, 6], color=[*"xyzxy", None])
    binned = cuts.apply(new)
    assert cells(binned) == ["17-29", "17-29", "17-29", "30-39", None, "40-90"]
    assert cells(binned, "color") == ["x", "y", "z", "x", "y", None]
    assert binned.weights.tolist() == [1, 2, 3, 4, 5, 6]
    assert cells(new) == [3, 29, 29.5, 30, None, 200]  # the original is as it was
    far = Table(Domain({"x": [-(10**400), math.inf, 10**400]}), [[0], [1], [2]])
    assert cells(cuts.apply(far)) == ["17-29", "40-90", "40-90"]
    # bins as a file would give them: other order, not all of them
    text = Table(Domain({"x": ["40-90", "17-29"]}), [[0], [1], [-1]])
    again = cuts.apply(text)
    assert again.domain["x"].states == cuts.labels["x"]
    assert cells(again) == ["40-90", "17-29", None]
    empty = cuts.apply(Table(Domain({"x": [1, 2]}), np.zeros((0, 1), int)))
    assert len(empty) == 0


def test_wide_codes_become_narrow_and_the_other_way_round():
    table = column([*range(300), None], y=[*([0, 1] * 150), None])
    assert table.codes.dtype == np.uint16
    binned, _ = discretize(table, "x", bins=3)
    assert binned.codes.dtype == np.uint8
    assert binned.codes[-1].tolist() == [255, 255]
    assert binned.codes[:-1, 1].tolist() == [0, 1] * 150
    wide, _ = discretize(column([0, 1000, None], y=[1, None, 2]), edges={"x": range(1, 1000)})
    assert wide.codes.tolist() == [[0, 0], [999, 65535], [65535, 1]]


def test_the_columns_by_default():
    table = as_table(
        pd.DataFrame(
            {
                "age": [20, 30, 40, 50, 60, 70],
                "few": [1, 2, 3, 1, 2, 3],
                "name": list("abcdef"),
                "ok": [True, False] * 3,
                "size": [1.5, 2.5, np.nan, 4.5, 5.5, 6.5],
            }
        )
    )
    assert list(discretize(table, bins=3)[1].cuts) == ["age", "size"]
    assert list(discretize(table, bins=3, edges={"few": [2]})[1].cuts) == ["age", "few", "size"]
    assert list(discretize(table, [], bins=3, edges={"few": [2]})[1].cuts) == ["few"]
    assert list(discretize(table, ["size", "few"], bins=3)[1].cuts) == ["few", "size"]
    same, nothing = discretize(table, bins=6)
    assert same is table
    assert nothing == Discretizer({}, {})


def test_rows_of_weight_zero_do_not_count():
    table = column([1, 2, 3, 4, 99], [1, 1, 1, 1, 0])
    assert discretize(table, "x", bins=2)[0].domain["x"].states == ("1-2", "3-4")
    assert discretize(table, "x", bins=2, method="width")[0].domain["x"].states == ("1-2", "3-4")


# Errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "median"}, "no method 'median'"),
        ({"bins": 1}, "bins must be a whole number, 2 or more, not 1"),
        ({"bins": 2.5}, "not 2.5"),
        ({"bins": True}, "not True"),
        ({"columns": ["agee"]}, "no variable 'agee'. Did you mean 'age'"),
        ({"edges": {"agee": [1]}}, "no variable 'agee'"),
        ({"columns": "color"}, "column 'color' cannot be cut: its state 'blue' is not a number"),
        ({"columns": "ok"}, "column 'ok' cannot be cut: its state False is not a number"),
        ({"edges": {"color": [1]}}, "its state 'blue' is not a number"),
        ({"edges": {"age": [3, 2]}}, "column 'age' must increase, but 2 follows 3; sort"),
        ({"edges": {"age": [2, 2]}}, "must increase, but 2 follows 2"),
        ({"edges": {"age": [2, math.inf]}}, "column 'age' contain inf; give only finite"),
        ({"edges": {"age": [math.nan]}}, "contain nan"),
        ({"edges": {"age": 3}}, "column 'age' must be a list of numbers, not 3"),
        ({"edges": {"age": ["old"]}}, "must be a list of numbers"),
        ({"edges": {"age": [2.2, 2.8]}}, "no whole number just below 2.8; drop that edge"),
        ({"columns": "age", "method": "mdl"}, "no method 'mdl'"),
        ({"columns": "inf"}, "column 'inf' cannot be cut: its state inf is not finite"),
        (
            {"columns": "id"},
            "column 'id' cannot be cut: its state 9007199254740993 is larger than 2",
        ),
        ({"columns": "none"}, "column 'none' has no values to cut"),
    ],
)
def test_errors(options, message):
    domain = Domain(
        {
            "age": [1, 2, 3, 4],
            "color": ["blue", "red"],
            "ok": [False, True],
            "inf": [1.0, math.inf],
            "id": [1, 2**53 + 1],
            "none": [1, 2, 3],
        }
    )
    table = Table(domain, [[0, 0, 0, 0, 0, -1], [3, 1, 1, 1, 1, -1]])
    with pytest.raises(DataError, match=message):
        discretize(table, **options)


def test_apply_errors():
    cuts = Discretizer({"x": [0, 5, 9]}, {"x": ["0-4", "5-9"]})
    with pytest.raises(DataError, match="column 'x': state 'old' is not a number, nor .*'0-4'"):
        cuts.apply(Table(Domain({"x": ["0-4", "old"]}), [[0]]))
    with pytest.raises(DataError, match="state True is not a number"):
        cuts.apply(Table(Domain({"x": [False, True][::-1]}), [[0]]))
    with pytest.raises(DataError, match="no variable 'x'"):
        cuts.apply(Table(Domain({"y": [1]}), [[0]]))


@pytest.mark.parametrize(
    ("cuts", "labels", "message"),
    [
        ([1, 2, 3], ["a"], "3 cut points make 2 bins.*not 1"),
        ([1], [], "'x' has 0 states"),
        ([1, 3, 2, 4], ["a", "b", "c"], "'x': the cut points .* must be sorted"),
        ([1, 2, 2, 4], ["a", "b", "c"], "without repeats"),
        ([1, math.inf], ["a"], "must be finite"),
        ([1, 2, 3], ["a", "a"], "state 'a' twice"),
        ([1, 2], [7], "must be text"),
    ],
)
def test_malformed_discretizers(cuts, labels, message):
    with pytest.raises(DataError, match=message):
        Discretizer({"x": cuts}, {"x": labels})


def test_cuts_and_labels_are_of_the_same_columns():
    with pytest.raises(DataError, match="column 'y' needs both"):
        Discretizer({"x": [1, 2]}, {"x": ["a"], "y": ["b"]})


# ---- one call -------------------------------------------------------------------------------------


def adult_like(rows=400, seed=0):
    """Numbers, labels and missing values."""
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 91, rows)
    hours = np.where(rng.random(rows) < 0.1, np.nan, rng.integers(1, 99, rows))
    gain = np.round(rng.gamma(2.0, 1.5, rows), 2)
    rich = np.where((age > 45) ^ (rng.random(rows) < 0.1), ">50K", "<=50K")
    sex = rng.choice(["Female", "Male"], rows)
    return {"age": age, "hours": hours, "gain": gain, "sex": sex, "class": rich}


@pytest.mark.parametrize(
    ("how", "cut"),
    [
        ("quantile:4", {"age", "hours", "gain"}),
        ({"age": [30, 45, 60]}, {"age"}),
        ({"age": [30, 45, 60], None: "width:3"}, {"age", "hours", "gain"}),
    ],
)
def test_a_mixed_frame_is_learned_in_one_call(how, cut, tmp_path):
    frame = pd.DataFrame(adult_like())
    few = {None: how} if isinstance(how, str) else dict(how)
    if None not in few:
        frame = frame.drop(columns=["hours", "gain"])
    later = pd.DataFrame(adult_like(50, seed=1))[frame.columns]
    later.loc[0, "age"] = 120  # beyond all that was seen
    dn = conjoin.learn_conditionals(frame, discretize=how, valid=later)
    cuts = Discretizer.of(dn.domain)
    assert set(cuts.cuts) == cut
    if isinstance(how, dict):
        assert dn.domain["age"].states == ("17-29", "30-44", "45-59", "60-90")
    coded = as_table(later, dn.domain)
    for name in cut:
        i = dn.domain.index(name)
        inner = cuts.cuts[name][1:-1]
        for value, code in zip(later[name], coded.codes[:, i], strict=True):
            expected = coded.missing if np.isnan(value) else sum(value >= c for c in inner)
            assert code == expected
    later.to_csv(tmp_path / "later.csv", index=False)
    for model, name in ((dn, "m.dn"), (dn, "m.conjoin"), (conjoin.convert(dn), "m.mn")):
        model.save(tmp_path / name)
        back = conjoin.load(tmp_path / name)
        assert Discretizer.of(back.domain) == cuts
        again = conjoin.read_table(tmp_path / "later.csv", back.domain)
        np.testing.assert_array_equal(again.codes, coded.codes)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["deciles"], "no such method. Use quantile:N"),
        (["quantile:many"], "takes a number of bins"),
        (["quantile:1"], "2 or more"),
        (["wage=30"], "no column 'wage'"),
        (["age=old"], "'old' is unknown. Use quantile:N"),
        (["age=40,30"], "must increase"),
        (["age=30", "age=40"], "given twice"),
        (["sex=quantile:3"], "state 'Female' is not a number"),
    ],
)
def test_wrong_discretizations_on_the_command_line(texts, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(adult_like(50)).to_csv("a.csv", index=False)
    options = [part for text in texts for part in ("--discretize", text)]
    assert main(["learn", "a.csv", "-o", "m.dn", *options]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    with pytest.raises(DataError, match="discretize takes"):
        conjoin.learn_conditionals(np.zeros((3, 2)), discretize=5)


def test_columns_of_many_numbers_are_cut_before_they_are_counted(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=70_000)
    frame = pd.DataFrame({"x": x, "y": np.where(rng.random(70_000) < 0.9, x > 0, x < 0)})
    for how in ("quantile:4", {"x": [0.0]}):
        dn = learn_conditionals(frame, "tree", discretize=how)
        assert len(dn.domain["x"]) == (4 if how == "quantile:4" else 2)
    # The cut is exact: the numbers below zero are in the first bin.
    assert (as_table(frame, dn.domain).codes[:, 0] == (x >= 0)).all()
    assert len(JointModel("tree", refine=False).fit(frame).domain_["x"]) < 50
    assert len(learn_conditionals(frame, "tree").domain["x"]) < 50
    frame.to_csv(tmp_path / "x.csv", index=False)
    command = ["learn", str(tmp_path / "x.csv"), "-o", str(tmp_path / "x.conjoin")]
    command += ["--cpd", "tree", "--closed-form"]
    for more, bins in ((["--discretize", "quantile:5"], 5), (["--discretize", "quantile:4"], 4)):
        assert main([*command, *more]) == 0
        assert len(conjoin.load(tmp_path / "x.conjoin").domain["x"]) == bins
