"""Folders of Parquet files: columns of numbers, dates and missing values, and samples of large ones."""

from __future__ import annotations

import datetime
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from conjoin import Domain, JointModel, Table, load, marginals, read_table
from conjoin.cli.main import main
from conjoin.data import chosen_kinds, with_absent_values
from conjoin.errors import DataError, DataWarning, FormatError
from conjoin.formats import folder_sample, folder_table
from conjoin.joint import learn_joint

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def arrow_rows(rows=900, seed=0):
    """Rows of all kinds of columns; in the first half no whole number and no date is missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    half = np.arange(rows) < rows / 2
    contract = rng.random(rows) < 0.6
    days = rng.integers(0, 400, rows)
    dates = [datetime.date(2020, 1, 1) + datetime.timedelta(int(d)) for d in days]
    return pa.table(
        {
            "x": pa.array(x.round(3), mask=rng.random(rows) < 0.1),
            "near": pa.array((2 * x + 0.1 * rng.normal(size=rows)).round(3)),
            "count": pa.array(rng.poisson(20 + 5 * x), pa.int16()),
            "whole": pa.array(
                rng.integers(0, 4, rows).astype(float), mask=~half & (rng.random(rows) < 0.2)
            ),
            "day": pa.array(dates, mask=rng.random(rows) < 0.05),
            "time": pa.array(
                np.datetime64("2024-01-01T00:00", "s") + days * np.timedelta64(90, "m")
            ),
            "written": pa.array([f"{1 + d % 28:02}.03.{2000 + d}" for d in days.tolist()]),
            "kind": pa.array(np.where(x > 0.5, "high", np.where(x > -2, "low", "lowest"))),
            "contract": pa.array(contract),
            "end": pa.array(rng.normal(size=rows).round(2) + x, mask=~contract),
            "id": pa.array(rng.permutation(rows * 2)[:rows]),
            "empty": pa.nulls(rows, pa.float64()),
        }
    )


def folder_of(table, path, parts=(0.2, 0.21, 0.7), group=64):
    """Write rows as several files, each of several row groups."""
    path.mkdir()
    ends = [0, *(int(part * len(table)) for part in parts), len(table)]
    for number, (low, high) in enumerate(pairwise(ends)):
        name = path / f"part{number}.parquet"
        parquet.write_table(table.slice(low, high - low), name, row_group_size=group)
    return path


@pytest.fixture
def limit(monkeypatch):
    """Return a function that makes samples, and batches, as small as given."""

    def set_limits(rows, batch_rows=100):
        monkeypatch.setattr("conjoin.formats.parquet.SAMPLE_ROWS", rows)
        monkeypatch.setattr("conjoin.formats.parquet.BATCH_ROWS", batch_rows)

    return set_limits


def rows_of(table):
    """Return how often each row of states occurs."""
    weights = np.ones(len(table)) if table.weights is None else table.weights
    counts = Counter()
    for row, weight in zip(map(tuple, table.codes.tolist()), weights.tolist(), strict=True):
        counts[row] += weight
    return counts


@pytest.mark.filterwarnings("ignore::conjoin.errors.DataWarning")
@pytest.mark.parametrize("merge", [False, True])
def test_a_folder_with_numbers_is_read_like_one_file(tmp_path, merge):
    rows = arrow_rows()
    parquet.write_table(rows, tmp_path / "t.parquet")
    expected = read_table(tmp_path / "t.parquet")
    table = read_table(folder_of(rows, tmp_path / "folder"), merge=merge)
    assert table.domain == expected.domain and table.domain.numeric == expected.domain.numeric
    assert table.domain.scales == expected.domain.scales
    assert set(table.domain.numeric) == {"x", "near", "count", "day", "time", "written", "end"}
    assert table.domain["whole"].states == (0, 1, 2, 3)
    np.testing.assert_array_equal(table.codes, expected.codes)
    np.testing.assert_array_equal(table.numbers, expected.numbers)
    known = read_table(tmp_path / "folder", expected.domain)
    np.testing.assert_array_equal(known.codes, expected.codes)
    np.testing.assert_array_equal(known.numbers, expected.numbers)


def test_whole_numbers_with_gaps_in_some_batches_only(tmp_path):
    rows = arrow_rows().select(["whole", "contract"])
    parquet.write_table(rows, tmp_path / "t.parquet")
    expected = read_table(tmp_path / "t.parquet")
    table = read_table(folder_of(rows, tmp_path / "folder"))
    assert table.domain == expected.domain
    assert [type(state) for state in table.domain["whole"].states] == [int] * 4
    np.testing.assert_array_equal(table.codes, expected.codes)


def test_the_model_of_a_folder_is_that_of_one_file(tmp_path, capsys):
    rows = arrow_rows(300).select(["x", "day", "kind", "contract", "end"])
    (tmp_path / "file").mkdir()
    parquet.write_table(rows, tmp_path / "file" / "t.parquet")
    folder_of(rows, tmp_path / "t.parquet")
    for table, name in ((tmp_path / "file" / "t.parquet", "a"), (tmp_path / "t.parquet", "b")):
        options = ["-o", str(tmp_path / f"{name}.conjoin"), "--effort", "quick"]
        assert main(["learn", str(table), *options]) == 0
        assert "that no value applies: end" in capsys.readouterr().out
    assert (tmp_path / "a.conjoin").read_bytes() == (tmp_path / "b.conjoin").read_bytes()


def test_options_about_columns_hold_for_folders(tmp_path):
    folder = folder_of(arrow_rows(), tmp_path / "folder")
    kinds = {"count": "category"}
    with pytest.warns(DataWarning, match="'empty'"):
        table = read_table(folder, include="id", exclude=["x"], kinds=kinds, missing="lowest")
    assert "id" in table.domain.numeric and "x" not in table.domain.names
    assert table.domain["count"].numbers is None
    assert table.domain["kind"].states == ("high", "low")
    with pytest.raises(FormatError, match="no column 'ix'"):
        read_table(folder, include="ix")


def test_a_sample_does_not_depend_on_files_and_row_groups(tmp_path, limit):
    rows = arrow_rows()
    one = folder_of(rows, tmp_path / "one", parts=(), group=10**6)
    many = folder_of(rows, tmp_path / "many", group=17)
    limit(250)
    samples = [folder_sample(one)]
    limit(250, batch_rows=40)
    samples.append(folder_sample(many))
    for a, b in zip(*(sample.columns for sample in samples), strict=True):
        assert a.name == b.name and a.labels == b.labels and len(a.codes) == 250
        np.testing.assert_array_equal(a.codes, b.codes)
    limit(900)
    assert not samples[0].whole and folder_sample(one).whole


def test_all_rows_of_a_large_folder_are_counted(tmp_path, limit):
    rows = arrow_rows()
    rare = pa.array([*rows["kind"].to_pylist()[:-1], "seen once"])
    rows = rows.set_column(rows.column_names.index("kind"), "kind", rare)
    folder = folder_of(rows, tmp_path / "folder")
    limit(300)
    with pytest.warns(DataWarning, match="left out: 'id'"):
        whole, merged = read_table(folder), read_table(folder, merge=True, exclude=["id", "empty"])
    assert whole.domain["kind"].states == ("high", "low", "lowest", "seen once")
    assert len(whole) == 900 and whole.sample is None
    expected = Table.of_values(whole.domain, whole.signed_codes(), whole.numbers)
    np.testing.assert_array_equal(whole.codes, expected.codes)
    x = rows["x"].to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(whole.column("x"), x)
    assert merged.numbers is None and len(merged.sample) == 300
    assert merged.sample.domain == merged.domain
    assert rows_of(merged) == rows_of(whole.weighted(None))
    assert not rows_of(merged.sample) - rows_of(merged)
    values = set(map(tuple, np.nan_to_num(whole.numbers, nan=-9.0).tolist()))
    assert values >= set(map(tuple, np.nan_to_num(merged.sample.numbers, nan=-9.0).tolist()))


def test_absent_values_of_a_large_folder(tmp_path, limit):
    folder = folder_of(arrow_rows(3000).drop_columns(["id", "empty"]), tmp_path / "folder")
    limit(1000)
    sample = folder_sample(folder)
    how = {"merge": True, "settle": with_absent_values}
    table = folder_table(folder, sample, chosen_kinds(sample.columns), **how)
    assert [v.name for v in table.domain if v.absent] == ["end"]
    end, contract = table.domain.index("end"), table.domain.index("contract")
    empty = table.codes[:, end] == len(table.domain["end"]) - 1
    np.testing.assert_array_equal(empty, table.codes[:, contract] == 0)
    again = with_absent_values(read_table(folder, merge=True))
    assert [v.name for v in again.domain if v.absent] == ["end"]
    assert again.sample.domain == again.domain


def test_numbers_are_learned_from_the_sample_and_states_from_all_rows(tmp_path, limit):
    rows = arrow_rows(3000).drop_columns(["id", "empty", "time", "written"])
    limit(1000)
    table = read_table(folder_of(rows, tmp_path / "folder"), merge=True)
    _, joint = learn_joint(table)
    _, states = learn_joint(Table(table.domain, table.codes, table.weights))
    assert joint.fine is not None and states.fine is None
    assert joint.domain == states.domain
    complete = table.codes[~table.holes.any(axis=1)]
    found, expected = (model.log_conditional("kind", complete) for model in (joint, states))
    np.testing.assert_array_equal(found, expected)
    means = {kind: marginals(joint, {"kind": kind})["x"].mean() for kind in ("high", "lowest")}
    assert means["high"] > 0.8 and means["lowest"] < -1.5


def test_a_model_is_fitted_to_a_table_with_a_sample(tmp_path, limit):
    limit(700)
    folder = folder_of(arrow_rows(2000).select(["x", "kind"]), tmp_path / "folder")
    table = read_table(folder, merge=True)
    model = JointModel(effort="quick").fit(table)
    assert model.marginals({"kind": "high"})["x"].mean() > 0.8
    with pytest.raises(DataError, match="no rows can be added"):
        model.update(table)


def test_a_model_of_a_large_folder_is_learned_at_the_command_line(tmp_path, capsys, limit):
    limit(700)
    folder = folder_of(arrow_rows(2000).drop_columns(["empty"]), tmp_path / "folder")
    options = ["--effort", "quick", "-o", str(tmp_path / "m.conjoin")]
    assert main(["learn", str(folder), *options]) == 0
    out, said = capsys.readouterr()
    assert "left out: 'id'" in said and "2,000 rows" in out and "that no value applies: end" in out
    share = np.isnan(read_table(folder, kinds={"id": "number"}).column("x")).mean()
    assert out.split("\nx ")[1].split()[:2] == ["number", f"{share:.0%}"]  # of all rows
    model = load(tmp_path / "m.conjoin")
    assert model.fine is not None and marginals(model, {"kind": "high"})["x"].mean() > 0.8
    assert "identifier" in model.provenance["left_out"]["id"]


def test_samples_fit_their_tables():
    domain = Domain({"a": ["x", "y"]})
    table = Table(domain, [[0], [1]])
    assert table.with_sample(table).sample is table
    with pytest.raises(DataError, match="other columns or states"):
        table.with_sample(Table(Domain({"a": ["x", "z"]}), [[0]]))


def test_values_that_are_no_numbers(tmp_path):
    folder = folder_of(arrow_rows().select(["x", "kind"]), tmp_path / "f")
    domain = read_table(folder).domain
    for wrong, said in ((["high"], "'high' is not a number"), ([np.inf], "an infinite value")):
        bad = pa.table({"x": wrong, "kind": ["high"]})
        parquet.write_table(bad, folder / "z.parquet")
        with pytest.raises(FormatError, match=f"z.parquet: column 'x'.*{said}|{said}"):
            read_table(folder, domain)
