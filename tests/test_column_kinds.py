"""Which column is what, number scales, tables with numbers, missing markers, and what is left out."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin import Domain, JointModel, Table, Variable, load, read_table, write_table
from conjoin.cli.main import main
from conjoin.data import (
    DATE_FORMATS,
    Column,
    NumberScale,
    chosen_kinds,
    column_kind,
    columns_of,
    date_format,
    table_of_columns,
)
from conjoin.errors import DataError, DataWarning, FormatError

RNG = np.random.default_rng(5)
DAYS = [datetime.date(2023, 1, 1) + datetime.timedelta(days=int(d)) for d in range(40)]


# ---- scales ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1), st.integers(0, 6))
def test_the_step_divides_every_number_and_no_larger_one_does(numbers, decimals):
    values = [n / 10**decimals for n in numbers]
    scale = NumberScale.of("x", values)
    exact = [Fraction(n, 10**decimals) for n in numbers]
    step = Fraction(scale.step).limit_denominator(10**9)
    assert all((x / step).denominator == 1 for x in exact)
    multiples = [int(x / step) for x in exact]
    assert math.gcd(*multiples) in (0, 1)
    assert [scale.value(v) for v in values] == [int(v) if scale.integer else v for v in values]
    assert scale.integer == all(x.denominator == 1 for x in exact)


def test_numbers_without_a_grid_have_no_step():
    scale = NumberScale.of("x", RNG.normal(size=50))
    assert scale.step is None and not scale.integer
    assert scale.value(0.123456789012) == 0.123456789012


@given(
    st.lists(st.dates(datetime.date(1000, 1, 1)), min_size=1),
    st.sampled_from(["objects", "iso", "numpy"]),
)
def test_dates_are_days_and_come_back(days, kind):
    given_as = {
        "objects": days,
        "iso": [d.isoformat() for d in days],
        "numpy": np.array(days, "datetime64[D]"),
    }[kind]
    scale = NumberScale.of("day", given_as)
    assert (scale.kind, scale.integer) == ("date", True)
    numbers = scale.numbers(list(given_as) if kind != "numpy" else [v.item() for v in given_as])
    assert [scale.value(x) for x in numbers] == days
    assert numbers.tolist() == [(d - datetime.date(1970, 1, 1)).days for d in days]
    if kind == "iso":
        assert [scale.own(x) for x in numbers] == [scale.text(x) for x in numbers] == given_as


@given(st.lists(st.datetimes(datetime.datetime(1800, 1, 1)), min_size=1))
def test_times_come_back(times):
    times = [t.replace(microsecond=0) for t in times]
    scale = NumberScale.of("t", times)
    midnight = all(t.time() == datetime.time() for t in times)
    assert scale.kind == ("date" if midnight else "datetime")
    assert [scale.own(scale.number(t)) for t in times] == times
    texts = [t.isoformat(" ") for t in times]
    as_text = NumberScale.of("t", texts)
    assert [as_text.text(as_text.number(t)) for t in texts] == texts


def test_time_zones_become_utc():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    scale = NumberScale.of("t", [datetime.datetime(2024, 3, 1, 1, 30, tzinfo=zone)])
    assert scale.utc and scale.step == 60
    assert scale.value(scale.low).isoformat() == "2024-02-29T23:30:00+00:00"


@pytest.mark.parametrize(("low", "spread"), [(16.07, 0.006), (1e6, 90.0), (0.0, 1e-7), (-5e8, 0.5)])
def test_numbers_that_differ_by_a_hundredth_of_the_spread_look_different(low, spread):
    scale = NumberScale.of("x", [low, low + spread])
    points = low + spread * np.arange(101) / 100
    texts = [scale.short(x) for x in points.tolist()]
    assert len(set(texts)) == 101
    assert np.abs(np.array(texts, float) - points).max() < spread / 100
    means = [scale.mean_text(x) for x in points.tolist()]
    assert np.abs(np.array(means, float) - points).max() < spread / 1e4
    assert low < 1e-3 or not any("e" in text for text in [*texts, *means])


def test_numbers_in_a_few_digits():
    scale = NumberScale.of("x", [0, 10, 5000])
    numbers = (0.0, 2 / 3, 12.3456, 999.96, 1234.5678, 123456.7, 1e-9, 2.5e17, float("nan"))
    texts = ["0", "0.6667", "12.35", "1000", "1235", "123457", "1e-09", "2.5e+17", "?"]
    assert [scale.short(x) for x in numbers] == texts
    assert NumberScale.of("x", [-1e308, 1e308]).short(1e300) == "1e+300"


@pytest.mark.parametrize("form", DATE_FORMATS)
def test_formats_of_dates(form):
    texts = [d.strftime(form) for d in DAYS]
    scale = NumberScale.of("day", texts)
    assert [scale.text(x) for x in scale.numbers(texts)] == texts
    assert scale.value(scale.number(texts[3])) == DAYS[3]
    assert scale.number("2023-01-04") == scale.number(texts[3])


def test_day_or_month_first_is_not_guessed():
    assert date_format(["01/02/2024", "03/04/2024"]) is None
    assert date_format(["2024", "2025"]) is None
    assert date_format(["20240301", "20240302"]) is None


@pytest.mark.parametrize("wrong", ["abc", True, "nan", [1], datetime.date(2024, 1, 1)])
def test_a_value_that_is_no_number_is_named(wrong):
    with pytest.raises(DataError, match="column 'age': .* is not a number"):
        NumberScale.of("age", [1, 2]).number(wrong)
    assert math.isnan(NumberScale.of("age", [1, 2]).number(None))


# ---- kinds ----------------------------------------------------------------------------------------


def words(count):
    return ["".join(RNG.choice(list("abcdefgh"), 9)) for _ in range(count)]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (RNG.integers(0, 2, 300), "category"),
        (RNG.integers(1, 8, 300), "category"),
        (RNG.integers(0, 60, 300), "number"),
        (RNG.normal(size=30), "number"),
        (RNG.choice([0.0, 0.5, 1.0], 300), "category"),
        (RNG.random(300) < 0.5, "category"),
        (range(1, 301), "identifier"),
        (RNG.permutation(1000)[:300] + 50_000, "identifier"),
        (RNG.permutation(10**6)[:300], "number"),
        (words(300), "identifier"),
        (RNG.choice(words(30), 300), "category"),
        (words(10), "category"),
        (RNG.choice(DAYS, 300), "date"),
        ([str(d) for d in RNG.choice(DAYS, 300)], "date"),
        (RNG.choice(DAYS[:3], 300), "category"),
        ([None] * 300, "empty"),
        ([float("nan")] * 300, "empty"),
        ([2**60 + 3 * i for i in range(300)], "identifier"),
        (RNG.normal(size=300) * 1e300, "number"),
        ([*(RNG.normal(size=300) * 1e20), None], "number"),
        (range(1871, 1971), "number"),  # years
        (range(1970, 1850, -1), "number"),
        (range(1571, 2171), "identifier"),
        (RNG.permutation(120) + 1880, "identifier"),
    ],
)
def test_kinds(values, kind):
    assert column_kind(Column.of_values("x", list(values))) == kind


def test_years_are_also_known_by_their_names():
    values = (RNG.permutation(120) + 1880).tolist()
    assert column_kind(Column.of_values("Year", values)) == "number"
    assert column_kind(Column.of_values("Year", [v - 1000 for v in values])) == "identifier"


def test_measurements_that_are_huge():
    values = np.random.default_rng(0).normal(size=(150, 2)) * [1e300, 1]
    values[3, 0] = np.nan
    table = table_of(columns_of(values))
    assert table.domain.numeric == ("v0", "v1") and not table.domain.scales[0].integer
    assert len(table.domain["v0"]) > 2


def test_decimals_are_numbers():
    from decimal import Decimal

    frame = pd.DataFrame({"x": [Decimal(f"{v:.2f}") for v in RNG.normal(size=90)], "y": ["a"] * 90})
    table = table_of(columns_of(frame))
    assert table.domain.numeric == ("x",) and table.domain.scales[0].step == 0.01
    np.testing.assert_array_equal(table.column("x"), frame["x"].astype(float))


def test_keys_are_also_known_by_their_names():
    values = (RNG.permutation(10**6)[:300]).tolist()
    for name in ("id", "CustomerID", "passenger_id", "row index", "PassengerId"):
        assert column_kind(Column.of_values(name, values)) == "identifier", name
    for name in ("paid", "humid", "x", "hybrid"):
        assert column_kind(Column.of_values(name, values)) == "number", name


def frame_of_all_kinds(rows=400):
    rng = np.random.default_rng(2)
    age = rng.integers(18, 90, rows).astype(float)
    age[rng.random(rows) < 0.1] = np.nan
    return pd.DataFrame({
        "row": np.arange(rows),
        "name": ["".join(rng.choice(list("abcdefgh"), 9)) for _ in range(rows)],
        "age": age,
        "income": rng.normal(50, 9, rows).round(2),
        "agrees": rng.integers(1, 6, rows),
        "city": rng.choice(["Aa", "Bb", "None", "NA"], rows),
        "since": rng.choice(np.array(DAYS), rows),
        "nothing": [None] * rows,
        "member": rng.random(rows) < 0.5,
    })  # fmt: skip


LEFT_OUT = (
    r"left out: 'row' \(an identifier.*\), 'name' \(400 different values.*\), 'nothing' \(no v"
)


def test_one_warning_names_all_columns_that_are_left_out():
    columns = columns_of(frame_of_all_kinds())
    with pytest.warns(DataWarning, match=LEFT_OUT) as seen:
        table = table_of(columns)
    assert len(seen) == 1
    assert table.names == ("age", "income", "agrees", "city", "since", "member")
    assert table.domain.numeric == ("age", "income", "since")
    assert [s.kind for s in table.domain.scales] == ["number", "number", "date"]
    assert [s.step for s in table.domain.scales] == [1.0, 0.01, 1.0]
    assert table.domain["agrees"].states == (1, 2, 3, 4, 5)
    assert table.domain["member"].states == (False, True)
    frame = frame_of_all_kinds()
    np.testing.assert_array_equal(table.column("age"), frame["age"])
    assert table.holes.sum() == frame["age"].isna().sum() > 0


@pytest.mark.filterwarnings("ignore::conjoin.errors.DataWarning")
def test_users_overrule():
    columns = columns_of(frame_of_all_kinds())
    kinds = chosen_kinds(
        columns, include=["row", "name"], exclude=["city"], kinds={"agrees": "number"}
    )
    assert kinds["row"] == "number" and kinds["name"] == "category"
    assert "city" not in kinds and "nothing" not in kinds
    assert kinds["agrees"] == "number"
    with pytest.raises(DataError, match=r"include: there is no column 'nme'. Did you mean 'name'"):
        chosen_kinds(columns, include=["nme"])
    with pytest.raises(DataError, match="there is no kind 'numbr'"):
        chosen_kinds(columns, kinds={"age": "numbr"})
    with pytest.raises(DataError, match="'age' is excluded, and asked for"):
        chosen_kinds(columns, exclude="age", kinds={"age": "number"})
    with pytest.raises(DataError, match="no column is left"):
        chosen_kinds(columns[:1])


def test_numbers_with_a_word_among_them_are_explained():
    values = [*map(str, RNG.normal(size=200)), "n.d."]
    with (
        pytest.warns(DataWarning, match=r"'x' \(201 different .*most are numbers, but not 'n.d.'"),
        pytest.raises(DataError, match="no column is left"),
    ):
        chosen_kinds([Column.of_values("x", values)])


# ---- tables with numbers --------------------------------------------------------------------------


def table_of(columns, **options):
    kept = chosen_kinds(columns, **options)
    return table_of_columns([c for c in columns if c.name in kept], kinds=kept)


def mixed():
    frame = frame_of_all_kinds()[["age", "city", "since", "agrees"]]
    return frame, table_of(columns_of(frame))


def test_other_rows_are_read_with_the_same_scales():
    frame, table = mixed()
    part = pd.DataFrame({
        "age": ["31", None], "city": ["Bb", "?"], "since": [None] * 2, "agrees": [None] * 2,
        "other": [1, 2],
    })  # fmt: skip
    with pytest.raises(DataError, match=r"row 2, column 'city': '\?' is not a state"):
        table_of_columns(columns_of(part), table.domain)
    rows = table_of_columns(columns_of(part), table.domain, strict=False)
    assert rows.column("age")[0] == 31 and np.isnan(rows.column("age")[1])
    assert rows.holes.tolist() == [[False, False, True, True], [True, True, True, True]]
    wrong = part.assign(city=["Aa", "Bb"], age=[1, "x"])
    with pytest.raises(DataError, match="row 2, column 'age': 'x' is not a finite number"):
        table_of_columns(columns_of(wrong), table.domain)
    again = table_of_columns(columns_of(frame), table.domain)
    np.testing.assert_array_equal(again.numbers, table.numbers)
    np.testing.assert_array_equal(again.codes, table.codes)


def test_parts_of_tables_with_numbers():
    _, table = mixed()
    weighted = table.weighted(np.arange(len(table)))
    some = weighted.select(np.array([3, 5]))
    assert some.weights.tolist() == [3, 5]
    np.testing.assert_array_equal(some.numbers, table.numbers[[3, 5]])
    with pytest.raises(DataError, match="column 'city' has states, not numbers"):
        table.domain.scale("city")
    with pytest.raises(ValueError, match="read-only"):
        table.numbers[0, 0] = 1
    turned = table.reordered(["since", "agrees", "city", "age"])
    np.testing.assert_array_equal(turned.column("age"), table.column("age"))
    assert turned.domain.numeric == ("since", "age")


def test_numbers_have_states():
    _, table = mixed()
    for name in table.domain.numeric:
        x, codes = table.column(name), table.codes[:, table.domain.index(name)]
        known = ~np.isnan(x)
        assert np.array_equal(codes[known], np.digitize(x[known], table.domain.numbers(name).edges))
        assert (codes[~known] == table.missing).all()
        assert len(table.with_states(20).domain[name]) > len(table.domain[name])


# ---- files --------------------------------------------------------------------------------------------


def test_quoted_cells_are_never_missing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"None",1\nNone,\n"?",2\n ? ,"3"\n"",2\n', encoding="utf-8")
    table = read_table(path)
    assert table.domain == Domain({"a": ["?", "None"], "b": [1, 2, 3]})
    rows = [[1, 0], [255, 255], [0, 1], [255, 2], [255, 1]]
    assert table.codes.tolist() == rows


def test_quotation_marks_around_everything_mean_nothing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('"a","b"\n"None","1"\n"x","?"\n"y, z",""\n', encoding="utf-8")
    table = read_table(path)
    assert table.domain == Domain({"a": ["x", "y, z"], "b": [1]})
    assert table.codes.tolist() == [[255, 0], [0, 255], [1, 255]]


def test_missing_markers_are_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\nNA,1\n-9,-9\nx,2\n", encoding="utf-8")
    table = read_table(path, missing=["-9"])
    assert table.domain == Domain({"a": ["NA", "x"], "b": [1, 2]})
    assert read_table(path, missing="-9").domain == table.domain
    assert read_table(path).domain == Domain({"a": ["-9", "x"], "b": [-9, 1, 2]})
    pd.DataFrame({"a": ["NA", "-9", "x"]}).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").domain["a"].states == ("-9", "NA", "x")
    assert read_table(tmp_path / "t.parquet", missing=["-9"]).domain["a"].states == ("NA", "x")


def test_a_state_of_the_model_is_no_missing_value(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\nNA,NA\n?,x\n", encoding="utf-8")
    table = read_table(path, Domain({"a": ["NA", "EU"], "b": ["x", "y"]}))
    assert table.codes.tolist() == [[0, 255], [255, 0]]


@given(st.data())
def test_csv_files_keep_states_that_look_missing(data):
    from conjoin.data import MISSING

    texts = st.sampled_from([*MISSING[1:], "x", "a,b", 'say "no"', "two\nlines"])
    states = data.draw(st.lists(texts, min_size=1, max_size=6, unique=True))
    codes = data.draw(
        st.lists(st.tuples(*[st.integers(-1, len(states) - 1)] * 2), min_size=1, max_size=8)
    )
    domain = Domain([Variable("a", states), Variable("b,c", states)])
    table = Table(domain, np.array(codes))
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        write_table(table, path)
        again = read_table(path, domain)
    np.testing.assert_array_equal(again.codes, table.codes)


def test_one_column_with_missing_values_survives_a_csv_file(tmp_path):
    table = Table(Domain({"a": ["x", "None"]}), [[0], [-1], [1]])
    write_table(table, tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv", table.domain).codes.tolist() == table.codes.tolist()


def test_two_spellings_of_a_number_are_one_number(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1.5,007\n1.50,7\n2,8\n", encoding="utf-8")
    table = read_table(path)
    assert table.domain == Domain({"a": [1.5, 2.0], "b": ["007", "7", "8"]})
    assert table.codes[:, 0].tolist() == [0, 0, 1]


def test_tables_with_numbers_are_written_and_read(tmp_path):
    _, table = mixed()
    for name in ("t.csv", "t.parquet"):
        write_table(table, tmp_path / name)
        again = read_table(tmp_path / name, table.domain)
        np.testing.assert_array_equal(again.numbers, table.numbers)
        np.testing.assert_array_equal(again.codes, table.codes)
    with pytest.raises(FormatError, match="not numbers; use .csv or .parquet"):
        write_table(table, tmp_path / "t.data")


def test_read_table_leaves_out_what_python_leaves_out(tmp_path):
    frame_of_all_kinds().to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(DataWarning, match=LEFT_OUT):
        table = read_table(tmp_path / "t.csv", missing=[])
    assert table.domain.names == ("age", "income", "agrees", "city", "since", "member")
    assert table.domain.numeric == ("age", "income", "since")
    with pytest.warns(DataWarning, match="left out: 'row' .*'nothing'"):
        table = read_table(tmp_path / "t.csv", include="name", exclude=["city"], missing=[])
    assert "name" in table.domain.names and "city" not in table.domain.names


# ---- the estimator and the command line -----------------------------------------------------------


def test_integers_with_missing_values_stay_integers():
    frame = pd.DataFrame({"a": [1.0, 2.0, np.nan] * 20, "b": ["x", "y", "y"] * 20})
    model = JointModel("tree", missing="ignore").fit(frame)
    assert model.states("a") == [1, 2] and isinstance(model.states("a")[0], int)
    assert model.predict(frame, "a").dtype.kind == "i"
    assert model.impute(frame)["a"].dtype == frame["a"].dtype
    array = np.array([[0, 1.0], [1, np.nan]] * 30)
    assert [type(s) for v in JointModel("tree").fit(array).domain_ for s in v.values] == [
        float, float, int
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_the_estimator_leaves_columns_out_and_keeps_them_in_tables(kind):
    columns = frame_of_all_kinds().drop(columns="nothing").to_dict("list")
    frame = kind(columns)
    model = JointModel("tree", exclude=["since"])
    with pytest.warns(DataWarning, match=r"left out: 'row' .*, 'name'"):
        model.fit(frame)
    assert model.n_features_in_ == 8 and len(model.feature_names_in_) == 8
    assert model.domain_.names == ("age", "income", "agrees", "city", "member")
    filled = model.impute(frame)
    assert list(filled.columns) == list(frame.columns)
    assert filled["name"].to_list() == frame["name"].to_list()
    drawn = model.sample(3)
    assert list(drawn.columns) == list(frame.columns)
    absent = [pd.isna(v) for n in ("row", "name", "since") for v in drawn[n].to_list()]
    assert all(absent) and not any(pd.isna(v) for v in drawn["age"].to_list())
    with pytest.raises(DataError, match="'row' was left out of the model; learn with include"):
        model.predict(frame, "row")
    with pytest.warns(DataWarning, match=r"left out: 'name'"):
        aimed = JointModel("tree", target="row", exclude=["since"]).fit(frame)
    assert aimed.target_ == "row" and "row" in aimed.domain_.numeric


def test_arrays_keep_their_places():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 300)
    X = np.stack([np.arange(300), a, np.full(300, np.nan), a], axis=1).astype(float)
    with pytest.warns(DataWarning, match=r"left out: 'v0' .*, 'v2' \(no values\)"):
        model = JointModel("tree").fit(X)
    assert model.n_features_in_ == 4
    holes = X.copy()
    holes[:5, 3] = np.nan
    np.testing.assert_array_equal(model.impute(holes)[:, 3], X[:, 3])
    assert np.isnan(model.impute(holes)[:, 2]).all()
    np.testing.assert_array_equal(model.predict(holes, 3), X[:, 3])
    np.testing.assert_array_equal(model.predict(holes, -1), X[:, 3])
    drawn = model.sample(20, random_state=0)
    assert drawn.shape == (20, 4) and np.isnan(drawn[:, [0, 2]]).all()
    assert np.array_equal(drawn[:, 1], drawn[:, 3])


def test_a_census_needs_no_option(tmp_path, capsys):
    frame_of_all_kinds().to_csv(tmp_path / "census.csv", index=False)
    model = str(tmp_path / "m.conjoin")
    command = ["learn", str(tmp_path / "census.csv"), "-o", model, "--effort", "quick"]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert (
        said.startswith("conjoin: warning: left out: 'row' (an identifier")
        and said.count("\n") == 1
    )
    assert "Warning" not in said
    options = ["--include", "name", "--exclude", "row", "--exclude", "nothing", "--missing", "?"]
    options += ["--kind", "agrees=category", "--cpd", "tree"]
    options += ["--effort", "quick"]
    assert main(["learn", str(tmp_path / "census.csv"), "-o", model, *options]) == 0
    assert capsys.readouterr().err == ""
    domain = load(model).domain.observed
    assert set(domain.names) == {"name", "age", "income", "agrees", "city", "since", "member"}
    assert domain["city"].states == ("Aa", "Bb", "NA", "None")
    assert main([*command, "--kind", "agrees"]) == 1
    assert "write COLUMN=KIND" in capsys.readouterr().err


def test_counts_with_rare_values_are_numbers_and_codes_are_states():
    codes = np.repeat(np.arange(15), 4)
    assert column_kind(Column.of_values("code", codes)) == "category"
    assert column_kind(Column.of_values("visits", [*codes, 15])) == "number"
    assert column_kind(Column.of_values("grade", [*np.repeat(np.arange(11), 4), 11])) == "category"


def test_tables_are_read_with_numbers(tmp_path):
    path = tmp_path / "people.csv"
    frame = pd.DataFrame({"age": np.arange(120) % 60 + 20, "smokes": ["yes", "no"] * 60})
    frame.to_csv(path, index=False)
    table = read_table(path)
    assert table.domain == JointModel().fit(frame).domain_
    assert table.domain.numeric == ("age",) and np.array_equal(table.column("age"), frame["age"])
    states = read_table(path, kinds={"age": "category"})
    assert states.domain.numeric == () and len(states.domain["age"].states) == 60
