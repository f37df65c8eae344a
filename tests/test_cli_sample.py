"""`conjoin sample`, and tables written as Parquet."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conjoin import (
    ConjoinError,
    Domain,
    Features,
    MarkovNetwork,
    Table,
    read_table,
    sample,
    save,
    write_table,
)
from conjoin.cli.main import main
from conjoin.inference import parse_conditions
from conjoin.scoring import cmll
from strategies import random_dependency_network

DOMAIN = Domain({"rain": ["no", "yes"], "a,b=c": [0, 1, 2], 'say "hi"': ["x=1", "y"]})


@pytest.fixture
def model(tmp_path):
    features = Features.from_terms(
        DOMAIN, [(1.0, {"rain": "yes", "a,b=c": 1}), (-np.inf, {"rain": "no", "a,b=c": 2})]
    )
    mn = MarkovNetwork(DOMAIN, features)
    save(mn, tmp_path / "model.conjoin")
    return tmp_path, mn


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.data", "out.csv.gz"])
def test_rows_agree_with_the_library(name, model, capsys):
    folder, mn = model
    out = folder / name
    arguments = ["sample", str(folder / "model.conjoin"), "-n", "50", "-o", str(out)]
    arguments += ["--method", "gibbs", "--burn-in", "7", "--random-state", "3"]
    assert main([*arguments, "--given", "rain=yes"]) == 0
    assert "50 rows from 4 chains" in capsys.readouterr().out
    expected = sample(mn, 50, {"rain": "yes"}, method="gibbs", burn_in=7, random_state=3)
    assert read_table(out, DOMAIN).codes.tolist() == expected.codes.tolist()


def test_the_summary(model, capsys):
    folder, _ = model
    arguments = ["sample", str(folder / "model.conjoin"), "-n", "4000", "-o", str(folder / "o.csv")]
    arguments += ["--method", "gibbs", "--chains", "2", "--sweeps-per-row", "2"]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 4000 and report["method"] == "gibbs"
    assert report["given"] == ""
    assert 1 <= report["r_hat"] < 1.05
    assert 100 < report["ess"] <= 4000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--given", "rian=yes"], "there is no variable 'rian'. Did you mean 'rain'?"),
        (["--given", "rain=maybe"], "variable 'rain' has no state 'maybe'. Known: 'no', 'yes'"),
        (["--given", "rain"], "'rain' is not a condition"),
        (["--given", "rain=no,rain=yes"], "'rain' is given twice"),
        (["--given", 'rain=no,"a,b=c=2"'], "probability is 0"),
        (["--method", "gibbs", "--given", 'rain=no,"a,b=c=2"'], "probability is 0"),
        (["-n", "0"], "-n must be 1 or more"),
        (["--random-state", "-1"], "--random-state"),
        (["--seed", "-1"], "--random-state"),
        (["--jobs", "0"], "--jobs"),
        (["--method", "gibbs", "--sweeps-per-row", "0"], "sweeps_per_row"),
        (["-o", "x.txt"], "'.txt' is not the ending of a table file"),
        (["-o", "no/such/folder.csv"], "there is no folder"),
    ],
)
def test_errors(arguments, words, model, capsys):
    folder, _ = model
    out = folder / "out.csv"
    assert (
        main(["sample", str(folder / "model.conjoin"), "-n", "5", "-o", str(out), *arguments]) == 1
    )
    assert words in capsys.readouterr().err
    assert not out.exists()


def test_conditions():
    text = ' rain = yes , "a,b=c=2","say ""hi""=x=1"'
    assert dict(parse_conditions(text, DOMAIN)) == {"rain": "yes", "a,b=c": 2, 'say "hi"': "x=1"}
    assert dict(parse_conditions("  ", DOMAIN)) == {}
    both = Domain({"a": ["b=1", "2"], "a=b": ["1"]})
    assert dict(parse_conditions("a=b=1", both)) == {"a": "b=1"}
    assert dict(parse_conditions("a=2", both)) == {"a": "2"}
    alike = Domain({"a": [1, "1"]})
    with pytest.raises(ConjoinError, match="cannot be told apart"):
        parse_conditions("a=1", alike)


def test_parquet_keeps_types_and_missing_values(tmp_path):
    domain = Domain({"n": [1, 2], "f": [0.5, 1.5], "t": ["x", "y"], "b": [False, True]})
    table = Table(domain, np.array([[0, 1, 0, 1], [1, -1, 1, 0], [-1, 0, -1, -1]]))
    write_table(table, tmp_path / "t.parquet")
    back = read_table(tmp_path / "t.parquet")
    assert back.domain == domain
    assert back.codes.tolist() == table.codes.tolist()
    weighted = Table(domain, table.codes, [1, 2, 3])
    with pytest.raises(ConjoinError, match="cannot hold weights"):
        write_table(weighted, tmp_path / "w.parquet")
    twins = Domain({"a": [1, "1"]})
    with pytest.raises(ConjoinError, match="would be equal in a Parquet file"):
        write_table(Table(twins, np.array([[0]])), tmp_path / "a.parquet")


def test_scored_by_cmll(model, capsys):
    folder, mn = model
    table = sample(mn, 30)
    write_table(table, folder / "rows.csv")
    arguments = [
        "score",
        str(folder / "model.conjoin"),
        str(folder / "rows.csv"),
        "--metric",
        "cmll",
    ]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    expected = cmll(mn, table)
    assert report["metric"] == "cmll"
    assert report["mean"] == pytest.approx(expected.mean)
    assert report["sets"] == [list(part) for part in expected.sets]
    assert main(arguments) == 0
    assert "set 1: " in capsys.readouterr().out


def test_rows_drawn_exactly_where_chains_disagree(tmp_path, capsys):
    # Two groups of states, one three times as probable, that no single change connects.
    domain = Domain({f"x{i}": [0, 1] for i in range(6)})
    pairs = [(a, b) for a in domain.names for b in domain.names if a < b]
    terms = [(9.0, {a: s, b: s}) for a, b in pairs for s in (0, 1)]
    terms.append((float(np.log(3)), {"x0": 1}))
    save(MarkovNetwork(domain, Features.from_terms(domain, terms)), tmp_path / "m.conjoin")
    out = tmp_path / "o.csv"
    arguments = ["sample", str(tmp_path / "m.conjoin"), "-n", "4000", "-o", str(out)]
    assert any(
        main([*arguments, "--method", "gibbs", "--random-state", str(seed)]) == 0
        and "the chains disagree" in capsys.readouterr().err
        for seed in range(8)  # all four may start on one side by chance
    )
    for method in ("exact", "auto"):
        assert main([*arguments, "--method", method]) == 0
        said = capsys.readouterr()
        assert "4,000 rows drawn exactly" in said.out and not said.err
        share = read_table(out, domain).codes[:, 0].mean()
        assert share == pytest.approx(0.75, abs=5 * np.sqrt(0.75 * 0.25 / 4000))


def test_a_dependency_network_is_sampled_by_chains(tmp_path, capsys):
    dn = random_dependency_network(np.random.default_rng(0))
    save(dn, tmp_path / "m.conjoin")
    arguments = ["sample", str(tmp_path / "m.conjoin"), "-n", "8", "-o", str(tmp_path / "o.csv")]
    assert main(arguments) == 0
    assert "8 rows from 4 chains" in capsys.readouterr().out
    assert main([*arguments, "--method", "exact"]) == 1
    assert "conjoin: " in capsys.readouterr().err


def test_the_older_name_of_the_seed(model, capsys):
    folder, _ = model
    rows = []
    for option in ("--random-state", "--seed"):
        out = folder / "o.csv"
        arguments = ["sample", str(folder / "model.conjoin"), "-n", "20", "-o", str(out)]
        assert main([*arguments, option, "5"]) == 0
        rows.append(out.read_text())
    assert rows[0] == rows[1]
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["sample", "--help"])
    shown = capsys.readouterr().out
    assert "--random-state" in shown and "--seed" not in shown
