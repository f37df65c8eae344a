"""Odd tables through the command line end in finite answers, or in a message that says what is wrong."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from conjoin.cli.main import main


def grouped(rows, columns, seed=0):
    """Binary rows of four groups."""
    rng = np.random.default_rng(seed)
    shares = rng.random((4, columns))
    return (rng.random((rows, columns)) < shares[rng.integers(0, 4, rows)]).astype(int)


def single_ones(rows, columns):
    """Each column has one 1, each in another row."""
    return (np.arange(rows)[:, None] == np.arange(columns) * 7 % rows).astype(int)


def advertisements(rows, columns, seed=0):
    """Sparse binary rows of forty topics: columns without a 1, with a single 1, and copies of others."""
    rng = np.random.default_rng(seed)
    shares = np.repeat(rng.random((1, columns)) ** 6 * 0.03, 40, axis=0)
    for share in shares:
        share[rng.choice(columns, columns // 25, replace=False)] = rng.random(columns // 25) ** 2
    codes = (rng.random((rows, columns)) < shares[rng.integers(0, 40, rows)]).astype(int)
    for size in rng.integers(2, 12, columns // 15):
        copies = rng.choice(columns, size, replace=False)
        codes[:, copies] = codes[:, copies[:1]]
    rare = rng.choice(columns, columns // 15, replace=False)
    codes[:, rare] = 0
    codes[rng.integers(0, rows, len(rare) // 2), rare[: len(rare) // 2]] = 1
    return codes


def without(codes, lacking):
    return np.where(lacking, "", codes.astype(str))


def numbers(rows, columns):
    return np.random.default_rng(0).normal(size=(rows, columns))


def write(path, table):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"v{i}" for i in range(len(table[0]))])
        writer.writerows(table)
    return str(path)


def finite(value):
    """Check that no number in a report is infinite or none at all."""
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            finite(part)
        elif isinstance(part, float):
            assert math.isfinite(part), value


@pytest.fixture
def command(capsys):
    def run(*arguments):
        """Run a command; return its report, or the message that it ended with."""
        status = main([*map(str, arguments), *([] if arguments[0] == "explore" else ["--json"])])
        out, err = capsys.readouterr()
        assert "internal error" not in err
        if status:
            return err.rpartition("conjoin: ")[2].strip()
        report = json.loads(out) if out.startswith("{") else {}
        finite(report)
        return report

    return run


@pytest.fixture
def learned(tmp_path, command):
    def learn(table, *options, ending=".conjoin"):
        """Learn a model, ask it every kind of question, and return the distributions of its columns."""
        data, model = write(tmp_path / "table.csv", table), tmp_path / f"model{ending}"
        assert "model" in command("learn", data, "-o", model, *options)
        marginals = command("query", model)["marginals"]
        for shares in marginals.values():
            assert "mean" in shares or sum(shares.values()) == pytest.approx(1.0, abs=1e-6)
        first = next(iter(marginals))
        if ending == ".dn":  # it has no joint distribution
            assert "`convert` it" in command("query", model, "--map")
            state = max(marginals[first], key=marginals[first].get)
        else:
            best = command("query", model, "--map")["most_probable"]
            assert list(best) == list(marginals)
            state = best[first]
        given = command("query", model, "--given", f"{first}={state}")["marginals"]
        assert list(given) == [name for name in marginals if name != first]
        assert math.isfinite(command("score", model, data)["mean"])
        command("impute", model, data, "-o", tmp_path / "full.csv")
        return marginals

    return learn


ONE = grouped(100, 1)
TABLES = {
    "one row of one column": [["name"]],
    "two rows": grouped(2, 5),
    "two equal rows": np.repeat(grouped(1, 5), 2, axis=0),
    "one column": grouped(80, 1),
    "one constant column": np.zeros((80, 1), int),
    "constant rows": np.repeat(grouped(1, 12), 80, axis=0),
    "constant columns": np.hstack([grouped(80, 4), np.zeros((80, 4), int)]),
    "copies of one column": np.repeat(ONE, 10, axis=1),
    "copies and opposites": np.hstack([ONE, 1 - ONE] * 4),
    "a single 1 per column": single_ones(100, 12),
    "more columns than rows": grouped(20, 60),
    "more columns than rows, refined": grouped(60, 150),
    "every row lacks a value": without(grouped(80, 5), np.arange(80)[:, None] % 5 == np.arange(5)),
    "columns never known together": without(
        grouped(80, 3), (np.arange(80)[:, None] < 40) == np.array([[True, False, False]])
    ),
    "a constant among numbers": np.hstack([numbers(60, 1), np.full((60, 1), 3.5)]),
    "copies of numbers": np.repeat(numbers(60, 1), 3, axis=1),
    "two rows of numbers": numbers(2, 3),
    "a number that is hardly known": without(
        numbers(60, 2), (np.arange(60)[:, None] > 1) & np.array([[True, False]])
    ),
    "a number far from the others": np.where(np.eye(60, 2) == 1, 1e12, numbers(60, 2)),
    "huge and tiny numbers": numbers(60, 2) * np.array([1e100, 1e-100]),
}


@pytest.mark.parametrize("name", TABLES)
def test_odd_tables_end_in_a_model_that_answers(name, learned):
    learned(TABLES[name])


def test_one_row_is_what_the_model_expects(learned):
    row = grouped(1, 5)
    for ending in (".conjoin", ".mn", ".dn", ".bif"):
        for v, shares in enumerate(learned(row, ending=ending).values()):
            assert max(shares, key=shares.get) == str(row[0, v])


def test_copies_of_a_column_agree(learned, command, tmp_path):
    learned(TABLES["copies and opposites"])
    given = command("query", tmp_path / "model.conjoin", "--given", "v0=1")["marginals"]
    for v in range(1, 8):
        assert given[f"v{v}"]["01"[v % 2 == 0]] > 0.9


def test_a_column_without_values_is_left_out(learned):
    lacking = np.arange(5) == 2
    assert list(learned(without(grouped(80, 5), lacking))) == ["v0", "v1", "v3", "v4"]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (np.full((80, 3), ""), [], "the table has no values: all are missing"),
        ([[f"name {i}"] for i in range(80)], [], "no column is left to learn from"),
        (grouped(1, 3), ["--features", "bottom-up"], "the table has too few rows to hold some out"),
        (
            np.where(np.eye(80, 2) == 1, np.inf, numbers(80, 2)),
            [],
            "column 'v0' has an infinite value; mark such values as missing",
        ),
    ],
)
def test_messages_say_what_is_wrong_with_a_table(table, options, message, tmp_path, command):
    data = write(tmp_path / "table.csv", table)
    assert message in command("learn", data, "-o", tmp_path / "model.conjoin", *options)


def test_a_table_without_rows_or_columns(tmp_path, command):
    (tmp_path / "rows.csv").write_text("a,b\n")
    (tmp_path / "empty.csv").write_text("")
    for file, message in (("rows", "no values"), ("empty", "the file is empty")):
        learned = command("learn", tmp_path / f"{file}.csv", "-o", tmp_path / "model.conjoin")
        assert message in learned


WIDE = {
    "sparse": (np.random.default_rng(0).random((500, 1000)) < 0.01).astype(int),
    "few rows": grouped(60, 2000),
    "two rows": grouped(2, 3000),
    "constant": np.zeros((100, 2000), int),
    "groups of copies": np.repeat(grouped(300, 10), 100, axis=1),
    "copies of one column": np.repeat(grouped(300, 1), 800, axis=1),
    "a single 1 per column": single_ones(1000, 1000),
    "rows of ten kinds": grouped(10, 500)[np.random.default_rng(0).integers(0, 10, 2000)],
    "categories": np.random.default_rng(0).choice(list("abcde"), (300, 600)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WIDE)
def test_wide_tables_end_in_a_model_that_answers(name, learned):
    learned(WIDE[name])


def test_hundreds_of_sparse_columns(learned):
    learned(advertisements(600, 300))


@pytest.mark.slow
def test_thousands_of_sparse_columns(learned, command, tmp_path):
    """Hidden states are thousands of nats apart on the way to the best fit."""
    learned(advertisements(2461, 1556))
    described = command("info", tmp_path / "model.conjoin")
    scores = described["provenance"]["refined"]["held_out"]
    assert max(scores.values()) > scores["tree"] + 5
