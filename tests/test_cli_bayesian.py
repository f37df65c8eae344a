"""Bayesian networks on the command line: learned, written, asked, and read by other programs."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from conjoin import BayesianNetwork, Domain, Table, load, read_table, write_table
from conjoin.cli.main import main
from conjoin.formats import safe_domain


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """A table with names and states that other programs do not allow."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rain = rng.random(1500) < 0.3
    sprinkler = rng.random(1500) < np.where(rain, 0.1, 0.4)
    wet = rain.astype(int) + sprinkler
    slippery = rng.random(1500) < 0.1 + 0.4 * wet
    domain = Domain({
        "rain?": ["no", "yes"],
        "sprinkler": ["off", "on"],
        "wet grass": ["dry", "a bit; wet", "soaking"],
        "größe": ["1.5 m", "2 m"],
    })  # fmt: skip
    table = Table(domain, np.stack([rain, sprinkler, wet, slippery], axis=1).astype(int))
    write_table(Table(domain, table.codes[:1000]), "train.csv")
    write_table(Table(domain, table.codes[1000:]), "test.csv")
    return read_table("train.csv")


def joint(bn):
    states = np.array(list(itertools.product(*map(range, bn.domain.cards))), np.uint8)
    with np.errstate(divide="ignore"):
        return states, np.exp(bn.log_likelihood(states))


@pytest.mark.parametrize("structure", ["order", "break-cycles"])
def test_learn_score_query_and_sample(rows, capsys, structure):
    arguments = ["learn", "train.csv", "-o", "grass.bif", "--structure", structure]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert said.startswith("grass.bif: Bayesian network from 1,000 rows of 4 variables, ")
    assert f"CPDs, {structure} (" in said
    bn = load("grass.bif")
    assert isinstance(bn, BayesianNetwork)
    assert bn.domain == rows.domain  # from the file alone
    states, p = joint(bn)
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert bn.parents("größe") == ("wet grass",) or "größe" in bn.parents("wet grass")

    assert main(["score", "grass.bif", "test.csv", "--metric", "ll", "--json"]) == 0
    score = json.loads(capsys.readouterr().out)
    test = read_table("test.csv", bn.domain)
    assert score["exact"] and score["mean"] == pytest.approx(bn.log_likelihood(test).mean())

    assert (
        main(["query", "grass.bif", "--target", "rain?", "--given", "wet grass=soaking", "--json"])
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["exact"]
    soaking = states[:, 2] == bn.domain["wet grass"].index("soaking")
    both = p[soaking & (states[:, 0] == 1)].sum() / p[soaking].sum()
    assert answer["marginals"]["rain?"]["yes"] == pytest.approx(both, abs=1e-9)

    assert main(["sample", "grass.bif", "-n", "20000", "-o", "drawn.csv"]) == 0
    assert "20,000 rows drawn exactly" in capsys.readouterr().out
    drawn = read_table("drawn.csv", bn.domain)
    share = (drawn.codes[:, 2] == 1).mean()
    assert share == pytest.approx(p[states[:, 2] == 1].sum(), abs=0.02)


@pytest.mark.usefixtures("rows")
def test_json_and_native_files(capsys):
    arguments = ["learn", "train.csv", "-o", "bn.conjoin", "--structure", "order", "--json"]
    assert main([*arguments, "--valid", "test.csv"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "Bayesian network" and found["method"] == "order"
    bn = load("bn.conjoin")
    assert found["edges"] == sum(len(cpd.blanket) for cpd in bn.cpds)
    assert bn.provenance["table"] == "train.csv"


@pytest.mark.parametrize("cpd", ["tree", "table"])
@pytest.mark.parametrize("kind", ["bif", "bn", "uai"])
def test_every_format_and_kind_of_cpd(rows, capsys, kind, cpd):
    arguments = ["learn", "train.csv", "-o", f"model.{kind}", "--structure", "break-cycles"]
    assert main([*arguments, "--cpd", cpd]) == 0
    assert f", {cpd} CPDs, break-cycles (" in capsys.readouterr().out
    assert load(f"model.{kind}").domain == rows.domain


@pytest.mark.usefixtures("rows")
def test_other_programs_read_what_was_learned():
    assert main(["learn", "train.csv", "-o", "model.bif", "--cpd", "tree"]) == 0
    assert (
        main(["learn", "train.csv", "-o", "model.conjoin", "--cpd", "tree", "--structure", "order"])
        == 0
    )
    bn = load("model.conjoin")
    states, p = joint(bn)
    words = safe_domain(bn.domain)
    labels = [dict(zip(words.names, [v.states[c] for v, c in zip(words, row, strict=True)], strict=True))
              for row in states.tolist()]  # fmt: skip
    gum = pytest.importorskip("pyagrum")
    other = gum.loadBN("model.bif")
    for row, expected in zip(labels, p, strict=True):
        found = np.prod([other.cpt(n)[{m: row[m] for m in other.cpt(n).names}] for n in row])
        assert found == pytest.approx(expected, abs=1e-7)  # its reader keeps single precision
    readwrite = pytest.importorskip("pgmpy.readwrite")
    model = readwrite.BIFReader("model.bif").get_model()
    factors = {n: model.get_cpds(n).to_factor() for n in words.names}
    for row, expected in zip(labels, p, strict=True):
        values = [f.get_value(**{m: row[m] for m in f.scope()}) for f in factors.values()]
        assert np.prod(values) == pytest.approx(expected, abs=1e-9)


def test_the_states_of_numbers_are_intervals(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    age = rng.normal(40, 10, 400)
    lines = ["age,old", *(f"{a:.3f},{'yes' if a > 45 else 'no'}" for a in age)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert main(["learn", "t.csv", "-o", "m.bif"]) == 0
    bn = load("m.bif")
    assert bn.domain.numeric == ("age",)
    capsys.readouterr()
    assert main(["query", "m.bif", "--target", "old", "--given", "age=60", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["marginals"]["old"]
    want = bn.conditional("old", {"age": bn.domain["age"].states[bn.domain["age"].index(60)]})
    assert list(found.values()) == pytest.approx(want[0].tolist())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "m.bif", "--closed-form"], "--closed-form is for Markov networks"),
        (["-o", "m.bif", "--effort", "quick"], "--effort is for Markov networks"),
        (["-o", "m.conjoin", "--cpd", "table"], "--cpd table is for Bayesian networks"),
        (["-o", "m.mn", "--structure", "order"], "a Bayesian network cannot be written as .mn"),
        (["-o", "m.dn", "--structure", "order"], "a Bayesian network cannot be written as .dn"),
    ],
)
@pytest.mark.usefixtures("rows")
def test_options_that_do_not_fit(capsys, arguments, message):
    assert main(["learn", "train.csv", *arguments]) == 1
    assert message in capsys.readouterr().err
