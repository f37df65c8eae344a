"""Real tables of labels and numbers: read, learn and write with one command each."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conjoin import load, read_table
from conjoin.cli.main import main
from conjoin.data import with_absent_values, with_telling_edges
from conjoin.learning import gain_needed
from test_learning import slow_tree

SLOW = ("bnlearn_alarm", "mushroom", "r_openintro_yrbss", "south_german_credit", "soybean", "vote")
TABLES = ["bnlearn_asia", "car", "college_plans"]
TABLES += [pytest.param(name, marks=pytest.mark.slow) for name in SLOW]


@pytest.mark.parametrize("name", TABLES)
def test_one_command_a_table(name, data, tmp_path, capsys):
    file = data / "tables" / f"{name}.csv.gz"
    table = read_table(file)
    for ending in ("dn", "conjoin"):
        out = str(tmp_path / f"{name}.{ending}")
        effort = "default" if len(table) < 2000 else "quick"
        options = ["--cpd", "tree", "--min-leaf", "10", "--effort", effort, "--json"]
        assert main(["learn", str(file), "-o", out, *options]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[0])
    dn, mn = (load(tmp_path / f"{name}.{ending}") for ending in ("dn", "conjoin"))
    table = with_telling_edges(with_absent_values(table))
    assert dn.domain == mn.domain.observed == table.domain
    assert {v.name: v.states for v in dn.domain} == {v.name: v.states for v in table.domain}
    complete = np.flatnonzero((table.codes != table.missing).all(axis=1))[:3]
    assert len(complete) == 3
    rows = [table.domain.decode(table.codes[r]) for r in complete]
    few = table.domain.cards.sum() < 160 and len(table) < 11_000
    weights = np.ones(len(table))
    for target in table.domain.names[-3:]:
        log_p = dn.log_conditional(target, rows)
        np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-9)
        np.testing.assert_allclose(np.exp(mn.log_conditional(target, rows)).sum(axis=1), 1)
        if few:  # the tree by its definition, grown on all rows
            i = table.domain.index(target)
            needed = gain_needed(report["kappa"])
            slow = slow_tree(table, weights, i, needed, 10, 1.0)
            expected = [slow(table.codes[r]) for r in complete]
            np.testing.assert_allclose(log_p, expected, atol=1e-9)
    assert main(["score", str(tmp_path / f"{name}.conjoin"), str(file), "--json"]) == 0
    score = json.loads(capsys.readouterr().out)
    assert score["rows"] == len(table) and set(score["by_variable"]) == set(table.domain.names)
    uniform = -np.log(table.domain.cards).sum()
    assert uniform < score["mean"] < 0


@pytest.mark.parametrize("name", ["r_openintro_yrbss", "south_german_credit"])
def test_numbers_labels_and_missing_values_in_one_command(name, data, tmp_path, capsys):
    file = data / "tables" / f"{name}.csv.gz"
    expected = with_telling_edges(read_table(file))
    for ending in ("dn", "conjoin"):
        command = ["learn", str(file), "-o", str(tmp_path / f"m.{ending}")]
        assert main([*command, "--effort", "quick", "--no-absent"]) == 0
        domain = load(tmp_path / f"m.{ending}").domain.observed
        assert domain == expected.domain and len(domain.numeric) >= 2
        np.testing.assert_array_equal(read_table(file, domain).codes, expected.codes)
    capsys.readouterr()
