"""Cells that do not fit the rest of their rows."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from conjoin import Domain, JointModel, Table, load, surprises
from conjoin.cli.main import main
from conjoin.errors import DataError
from test_evidence import KINDS, random_model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_probabilities_given_the_rest_of_the_row(kind, seed):
    rng, model, states, potential = random_model(kind, seed)
    shown = model.domain.observed
    possible = np.unique(states[potential > 0][:, : len(shown)], axis=0)
    codes = possible[rng.integers(len(possible), size=12)].astype(np.int64)
    codes[rng.random(codes.shape) < 0.2] = -1
    table = Table(shown, codes)
    found = surprises(model, table)
    assert len(found) == (codes >= 0).sum() and found.exact
    for cell in found:
        row, v = codes[cell.row], shown.index(cell.column)
        agree = np.ones(len(states), bool)
        for u, code in enumerate(row.tolist()):
            if u != v and code >= 0:
                agree &= states[:, u] == code
        p = np.array([potential[agree & (states[:, v] == s)].sum() for s in range(shown.cards[v])])
        p /= p.sum()
        assert cell.value == shown.variables[v].states[row[v]]
        assert cell.probability == pytest.approx(p[row[v]], abs=1e-9)
        assert cell.suggested_probability == pytest.approx(p.max(), abs=1e-9)
        assert p[shown.variables[v].index(cell.suggestion)] == pytest.approx(p.max(), abs=1e-9)
    ranks = [cell.surprise for cell in found]
    assert ranks == sorted(ranks, reverse=True)
    assert repr(found).startswith("row ")


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 400)
    words = np.array(["red", "green", "blue"], object)
    return JointModel().fit(np.stack([words[a], words[a], words[(a + 1) % 3]], axis=1))


def test_values_that_the_model_does_not_know_come_first(model):
    rows = np.array(
        [["red", "rde", "green"], ["red", "blue", None], ["blue", "blue", "red"]], object
    )
    first, second = surprises(model, rows)[:2]
    assert (first.row, first.column, first.value, first.suggestion) == (0, "v1", "rde", "red")
    assert first.probability == 0 and first.surprise == np.inf
    assert second.row == 1 and second.surprise > 1
    with pytest.raises(DataError, match="none of the columns"):
        surprises(model, Table(Domain({"x": [0, 1]}), [[0], [1]]))


def test_the_command(model, tmp_path, capsys):
    model.model_.save(tmp_path / "m.conjoin")
    names = load(tmp_path / "m.conjoin").domain.names
    rows = ["red,red,green"] * 5 + ["red,blue,green", "green,rde,blue"]
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), *rows]) + "\n", encoding="utf-8")
    out = tmp_path / "odd.csv"
    command = ["check", str(tmp_path / "m.conjoin"), str(tmp_path / "t.csv"), "-o", str(out)]
    assert main([*command, "--top", "2"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{out}: the 2 most surprising of 21 cells") and said.err == ""
    with out.open(encoding="utf-8", newline="") as file:
        header, first, second = csv.reader(file)
    assert header == [
        "row",
        "column",
        "value",
        "probability",
        "suggestion",
        "suggested probability",
    ]
    assert first[:5] == ["7", "v1", "rde", "0", "green"]
    assert second[:3] == ["6", "v1", "blue"] and second[4] == "red"
    assert main(command) == 0 and len(out.read_text(encoding="utf-8").splitlines()) == 2
    for wrong in (["-o", "x.txt"], ["--top", "0"], ["-o", str(tmp_path / "no" / "x.csv")]):
        assert main([*command, *wrong]) == 1
        assert "conjoin: " in capsys.readouterr().err
