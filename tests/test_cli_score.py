"""The commands score and weights."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conjoin import Domain, Table, convert, learn_conditionals, load, pll, write_table
from conjoin.cli.main import main
from conjoin.scoring import cmll


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 300)
    codes = np.stack([first, first ^ (rng.random(300) < 0.2), rng.integers(0, 3, 300)], axis=1)
    domain = Domain({"smokes": ["no", "yes"], "coughs": ["no", "yes"], "day": ["mo", "tu", "we"]})
    table = Table(domain, codes)
    train, test = Table(domain, codes[:200]), Table(domain, codes[200:])
    write_table(train, "train.csv")
    write_table(test, "test.csv")
    dn = learn_conditionals(train, "tree", kappa=0.1)
    dn.save("model.dn")
    mn = convert(dn, train)
    mn.save("model.conjoin")
    return dn, mn, table, test


def test_score(files, capsys):
    dn, mn, _, test = files
    assert main(["score", "model.conjoin", "test.csv", "--json", "--against", "model.dn"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = pll(mn, test)
    assert found["metric"] == "pll" and found["rows"] == 100
    assert found["mean"] == pytest.approx(expected.mean, rel=1e-12)
    assert found["stderr"] == pytest.approx(expected.stderr, rel=1e-12)
    gap = expected.mean - pll(dn, test).mean
    assert found["against"]["difference"] == pytest.approx(gap, rel=1e-9, abs=1e-12)
    assert main(["score", "model.conjoin", "test.csv", "--by-variable"]) == 0
    out = capsys.readouterr().out
    assert f"pll {expected.mean:.6f}" in out
    assert "mean score of each variable, in nats:\n" in out and "smokes" in out
    assert main(["score", "model.conjoin", "test.csv", "--against", "model.dn"]) == 0
    assert "difference to model.dn: " in capsys.readouterr().out


def test_score_cmll(files, capsys, tmp_path):
    _, mn, _, test = files
    (tmp_path / "sets.txt").write_text("smokes, day\ncoughs\n")
    arguments = ["score", "model.conjoin", "test.csv", "--metric", "cmll", "--sets", "sets.txt"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = cmll(mn, test, sets=[["smokes", "day"], ["coughs"]])
    assert found["metric"] == "cmll" and found["mean"] == pytest.approx(expected.mean, rel=1e-12)
    assert found["sets"] == [["smokes", "day"], ["coughs"]]
    assert main(["score", "model.conjoin", "test.csv", "--metric", "cmll"]) == 0
    assert "set 1: " in capsys.readouterr().out  # the random ones are printed


def test_weights(files, capsys):
    _, mn, _, test = files
    assert main(["weights", "model.dn", "--data", "train.csv", "-o", "zero.conjoin", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["start"] == "zero"
    arguments = ["weights", "model.conjoin", "--data", "train.csv", "--valid", "test.csv"]
    arguments += ["--start", "model", "--prior-sd", "0.05", "0.1", "-o", "tuned.mn"]
    assert main(arguments) == 0
    assert "prior sd" in capsys.readouterr().out
    assert pll(load("tuned.mn"), test).mean >= pll(mn, test).mean - 1e-6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["score", "none.conjoin", "test.csv"], "no such file"),
        (["score", "model.conjoin", "train.csv", "--jobs", "0"], "--jobs"),
        (["score", "model.conjoin", "test.csv", "--random-state", "-1"], "--random-state"),
        (
            ["weights", "model.dn", "--data", "train.csv", "--start", "model", "-o", "a.mn"],
            "convert",
        ),
        (
            ["weights", "model.dn", "--data", "train.csv", "--prior-sd", "-1", "-o", "a.mn"],
            "prior_sd",
        ),
        (["weights", "model.dn", "--data", "train.csv", "-o", "a.dn"], ".dn"),
    ],
)
@pytest.mark.usefixtures("files")
def test_errors_are_one_line(arguments, words, capsys, tmp_path):
    before = set(tmp_path.iterdir())
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
    assert set(tmp_path.iterdir()) == before
