"""Files: round trips, names, and what is said of bad ones."""

from __future__ import annotations

import datetime
import gzip
import json
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conjoin import (
    ConjoinError,
    DependencyNetwork,
    Domain,
    Features,
    MarkovNetwork,
    Table,
    TableCPD,
    Variable,
    convert,
    load,
    read_table,
    save,
    write_table,
)
from conjoin.cli.main import main
from conjoin.data import columns_of, table_of_columns
from conjoin.errors import DataWarning, FormatError
from conjoin.formats import (
    read_evidence,
    read_schema,
    storage,
)
from conjoin.models import Tree, TreeCPD
from reference import all_states, log_potentials
from strategies import (
    generators,
    random_bayesian_network,
    random_dependency_network,
    random_domain,
    random_markov_network,
)


def same_conditionals(a, b):
    states = all_states(a.domain)
    for name in a.domain.names:
        np.testing.assert_allclose(
            b.log_conditional(name, states), a.log_conditional(name, states), atol=1e-9
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("ending", [".conjoin", ".conjoin.gz", ".mn", ".mn.gz", ".uai", ".uai.gz"])
@given(rng=generators())
def test_markov_networks_round_trip(rng, ending, folder):
    mn = random_markov_network(rng)
    mn.save(folder / f"model{ending}")
    again = load(folder / f"model{ending}")
    assert isinstance(again, MarkovNetwork)
    assert again.domain == mn.domain
    states = all_states(mn.domain)
    expected = log_potentials(mn, states)
    np.testing.assert_allclose(again.log_potential(states), expected, atol=1e-9)


@pytest.mark.parametrize("ending", [".conjoin", ".dn", ".dn.gz"])
@given(rng=generators())
def test_dependency_networks_round_trip(rng, ending, folder):
    dn = random_dependency_network(rng)
    dn.save(folder / f"model{ending}")
    again = load(folder / f"model{ending}")
    assert isinstance(again, DependencyNetwork)
    assert again.domain == dn.domain
    same_conditionals(dn, again)
    if ending == ".conjoin":
        assert [type(c) for c in again.cpds] == [type(c) for c in dn.cpds]


@pytest.mark.parametrize("ending", [".conjoin", ".bn", ".uai"])
@given(rng=generators())
def test_bayesian_networks_round_trip(rng, ending, folder):
    bn = random_bayesian_network(rng)
    bn.save(folder / f"model{ending}")
    again = load(folder / f"model{ending}")
    assert type(again) is type(bn)
    states = all_states(bn.domain)
    np.testing.assert_allclose(again.log_likelihood(states), bn.log_likelihood(states), atol=1e-9)


@given(rng=generators())
def test_native_keeps_off_values_and_provenance(rng, folder):
    dn = random_dependency_network(rng)
    mn = convert(dn, orders="all", max_length=1)
    mn.provenance["note"] = "größer"
    mn.save(folder / "soft.conjoin")
    again = load(folder / "soft.conjoin")
    assert again.provenance == mn.provenance
    states = all_states(mn.domain)
    assert again.log_potential(states).tolist() == mn.log_potential(states).tolist()
    if mn.features.soft_rows().any():
        with pytest.raises(FormatError, match="off values"):
            mn.save(folder / "soft.mn")


def test_labels_keep_their_types(tmp_path):
    states = [
        1,
        "1",
        1.5,
        False,
        ("a", 2),
        datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2),
    ]
    domain = Domain({"x": states, "größe": ["klein", "groß"]})
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"x": ("a", 2)})]))
    for name in ("m.conjoin", "m.mn", "m.uai"):
        mn.save(tmp_path / name)
        again = load(tmp_path / name)
        assert again.domain == domain
        assert [type(s) for s in again.domain["x"].states] == [type(s) for s in states]
    odd = Domain([Variable("x", [frozenset("a"), frozenset("b")])])
    with pytest.raises(FormatError, match="frozenset"):
        MarkovNetwork(odd).save(tmp_path / "odd.conjoin")
    assert not (tmp_path / "odd.conjoin").exists()


def test_names_beside_follow_the_file(tmp_path):
    path = tmp_path / "m.mn"
    MarkovNetwork(Domain({"rain": ["no", "yes"]})).save(path)
    beside = tmp_path / "m.mn.names.json"
    assert json.loads(beside.read_text())["variables"][0]["name"] == "rain"
    path.write_text("3\nMN {\n}\n")
    with pytest.raises(FormatError, match=r"m\.mn\.names\.json: does not have the variables"):
        load(path)
    MarkovNetwork(Domain.numbered([3])).save(path)
    assert not beside.exists()
    assert load(path).domain.is_numbered


# ---- Libra --------------------------------------------------------------------------------------


def test_libra_by_hand(tmp_path):
    path = tmp_path / "m.mn"
    path.write_text(
        "2,3\n\nMN {\n1.5 +v0_1 -v1_0\n0.25\n-inf +v0_0 +v1_2\ninf -v1_1\n"
        "table {\n0.5 +v1_0\n0.75 -v1_0\n}\nfeatures {\n1 -v1_0 -v1_2\n}\n"
        "tree {\n(v1_2 (v0_0 1 2)\n 4) }\n}\n"
    )
    mn = load(path)
    inf = np.inf

    def by_hand(a, b):
        if b == 1 or (a == 0 and b == 2):
            return -inf
        total = 0.25 + 1.5 * (a == 1 and b != 0) + (0.5 if b == 0 else 0.75)
        return total + ((1 if a == 0 else 2) if b == 2 else 4)

    expected = [by_hand(a, b) for a in range(2) for b in range(3)]
    assert mn.log_potential(all_states(mn.domain)).tolist() == expected


def test_libra_trees_with_the_target_on_top(tmp_path):
    path = tmp_path / "m.dn"
    path.write_text(
        "2,2\nDN {\nv0 {\ntree {\n(v0_0 (v1_0 -0.1 -2) (v1_0 -2.352168 -0.1454135))\n}\n}\n"
        "v1 { -1 +v1_1\n 2 +v0_1 +v1_1 }\n}\n"
    )
    dn = load(path)
    p = dn.conditional("v0", np.array([[0, 0], [0, 1]], np.uint8))
    expected = np.exp([[-0.1, -2.352168], [-2, -0.1454135]])
    np.testing.assert_allclose(p, expected / expected.sum(axis=1, keepdims=True), atol=1e-6)


LIBRA_MISTAKES = [
    ("", 1, "ends where the numbers of states"),
    ("2,x\nMN {\n}\n", 1, "numbers of states"),
    ("2,0\nMN {\n}\n", 1, "numbers of states"),
    ("2,999999999999999999999\nMN {\n}\n", 1, "numbers of states"),
    ("2,2\n", 1, "ends where 'MN"),
    ("2,2\nXN {\n}\n", 2, "expected 'MN {', 'DN {' or 'BN {'"),
    ("2,2\nMN {\n1.0 +v0_1\n", 3, "ends where '}'"),
    ("2,2\nMN {\nabc +v0_1\n}\n", 3, "expected a number, not 'abc'"),
    ("2,2\nMN {\nnan +v0_1\n}\n", 3, "expected a number"),
    ("2,2\nMN {\n1.0 v0_1\n}\n", 3, "a test such as"),
    ("2,2\nMN {\n1.0 +v2_1\n}\n", 3, "there is no variable v2"),
    ("2,2\nMN {\n1.0 +v1_2\n}\n", 3, "v1 has no state 2"),
    ("2,2\nMN {\n1.0 +v99999999999_2\n}\n", 3, "a test such as"),
    ("2,2\nMN {\ntree {\n(v0_1 1\n}\n}\n", 5, "parentheses"),
    ("2,2\nMN {\ntree {\n(v0_1 1 2 3)\n}\n}\n", 4, "third"),
    ("2,2\nMN {\ntree {\n(v0_1 1)\n}\n}\n", 4, "two branches"),
    ("2,2\nMN {\ntree {\n1 2\n}\n}\n", 4, "expected '}'"),
    ("2,2\nMN {\ntree {\n(+v0_1 1 2)\n}\n}\n", 4, "a test such as v0_1"),
    ("2,2\nMN {\nbox {\n}\n}\n", 3, "'tree', 'table' or 'features'"),
    ("2,2\nMN {\n}\n}\n", 4, "expected nothing"),
    ("2,2\nDN {\nv0 {\n1 +v0_1\n}\n}\n", None, "v1 has no distribution"),
    ("2,2\nDN {\nv0 {\n}\nv0 {\n}\n}\n", 5, "v0 already has a distribution"),
    ("2,2\nDN {\nw0 {\n}\n}\n", 3, "a variable such as"),
    ("2,2\nDN {\nv5 {\n}\n}\n", 3, "there is no variable v5"),
    ("2,2\nBN {\nv0 {\n1 +v0_1 +v1_1\n}\nv1 {\n1 +v0_1 +v1_1\n}\n}\n", None, "cycle"),
]


@pytest.mark.parametrize(("text", "line", "message"), LIBRA_MISTAKES)
def test_libra_mistakes_are_placed(text, line, message, tmp_path):
    path = tmp_path / "m.mn"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    if line is not None:
        assert caught.value.line == line


def test_deeply_nested_trees_need_no_stack(tmp_path):
    depth = 50_000
    path = tmp_path / "deep.mn"
    path.write_text("2\nMN {\ntree {\n" + "(v0_0 1 " * depth + "2" + ")" * depth + "\n}\n}\n")
    mn = load(path)
    assert mn.log_potential(np.array([[0], [1]], np.uint8)).tolist() == [1.0, 2.0]
    path.write_text("2\nMN {\ntree {\n" + "(v0_0 " * depth)
    with pytest.raises(FormatError, match="ends where"):
        load(path)


# ---- .data and .schema ---------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_card", [3, 40, 300])
@given(rng=generators())
def test_data_round_trip(rng, max_card, weighted, folder):
    domain = random_domain(rng, max_card=max_card)
    codes = np.stack([rng.integers(-1, c, 9) for c in domain.cards], axis=1)
    table = Table(domain, codes, rng.random(9) if weighted else None)
    for name in ("t.data", "t.data.gz"):
        write_table(table, folder / name)
        again = read_table(folder / name)
        assert again.domain == domain
        assert again.codes.tolist() == table.codes.tolist()
        if weighted:
            assert again.weights.tolist() == table.weights.tolist()
        else:
            assert again.weights is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,1\n1,0\n", [[0, 1], [1, 0]]),
        ("0,1\n1,0", [[0, 1], [1, 0]]),
        ("0,1\r\n1,*\r\n", [[0, 1], [1, 255]]),
        ("0,1\n\n1,0\n\n", [[0, 1], [1, 0]]),
        ("0,12\n1,*\n", [[0, 12], [1, 255]]),
        (" 0, 1\n1 ,0\n", [[0, 1], [1, 0]]),
        ("7\n*\n", [[7], [255]]),
    ],
)
def test_data_in_every_spelling(text, expected, tmp_path):
    path = tmp_path / "t.data"
    path.write_bytes(text.encode())
    assert read_table(path).codes.tolist() == expected


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "no rows"),
        ("\n\n", None, "no rows"),
        ("0,1\n0\n", 2, "1 values, but the first row has 2"),
        ("0,1\n0,1,1\n", 2, "3 values"),
        ("0,1\n0,x\n", 2, "column 2: expected a state number or *, not 'x'"),
        ("0,1\n0,-1\n", 2, "column 2"),
        ("0,1\n0,1.5\n", 2, "column 2"),
        ("0,1\n0,\n", 2, "column 2"),
        ("0,1\n0,70000\n", 2, "column 2"),
        ("0,1\n0,99999999999999999999\n", 2, "column 2"),
        ("x|0,1\n", 1, "a weight must be"),
        ("-1|0,1\n", 1, "a weight must be"),
        ("nan|0,1\n", 1, "a weight must be"),
        ("0,1\n\n0,3\n", 3, "column 2 ('b') has the state number 3; there are 2 states"),
    ],
)
def test_data_mistakes_are_placed(text, line, message, tmp_path):
    path = tmp_path / "t.data"
    path.write_text(text)
    domain = Domain({"a": ["x", "y"], "b": ["x", "y"]}) if "3\n" in text else None
    with pytest.raises(FormatError) as caught:
        read_table(path, domain)
    assert message in str(caught.value)
    assert caught.value.line == line


def test_data_of_another_width(tmp_path):
    path = tmp_path / "t.data"
    path.write_text("0,1\n")
    with pytest.raises(FormatError, match="2 columns; 3 variables"):
        read_table(path, Domain.numbered([2, 2, 2]))


def test_schema(tmp_path):
    (tmp_path / "s.schema").write_text("2, 3\n")
    assert read_schema(tmp_path / "s.schema") == Domain.numbered([2, 3])
    (tmp_path / "bad.schema").write_text("2,,3")
    with pytest.raises(FormatError, match="numbers of states"):
        read_schema(tmp_path / "bad.schema")


# ---- UAI ----------------------------------------------------------------------------------------


def test_uai_by_hand(tmp_path):
    path = tmp_path / "m.uai"
    path.write_text("MARKOV\n2\n2 3\n2\n1 0\n2 1 0\n\n2\n 0.5 2\n\n6\n 1 2 3 4 0 6\n")
    mn = load(path)
    p = np.exp(mn.log_potential(all_states(mn.domain)))
    # The second table runs over variable 1 first, then variable 0.
    assert p == pytest.approx([0.5 * 1, 0.5 * 3, 0, 2 * 2, 2 * 4, 2 * 6])


def test_uai_bayes(tmp_path):
    path = tmp_path / "m.uai"
    path.write_text("BAYES\n2\n2 2\n2\n1 0\n2 0 1\n2 0.4 0.6\n4 0.1 0.9 0.3 0.7\n")
    bn = load(path)
    assert bn.kind == "Bayesian network"
    assert np.exp(bn.log_likelihood(all_states(bn.domain))) == pytest.approx(
        [0.04, 0.36, 0.18, 0.42]
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "ends where MARKOV"),
        ("MARKO\n", 1, "MARKOV or BAYES"),
        ("MARKOV\nx\n", 2, "the number of variables"),
        ("MARKOV\n999999999\n2 2\n", 2, "ends before all"),
        ("MARKOV\n2\n2 0\n", 3, "a number of states"),
        ("MARKOV\n1\n2\n1\n1 3\n", 5, "a variable, 0 to 0"),
        ("MARKOV\n2\n2 2\n1\n2 1 1\n4\n1 1 1 1", 5, "twice"),
        ("MARKOV\n1\n2\n1\n1 0\n3\n1 1 1\n", 6, "expected 2 values, not 3"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 -1\n", 7, "not '-1'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 nan\n", 7, "not 'nan'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 x\n", 7, "not 'x'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1\n", 6, "ends before the 2 values"),
        ("MARKOV\n1\n2\n0\n7\n", 5, "continues after"),
        (
            "MARKOV\n30\n"
            + "9 " * 30
            + "\n1\n30 "
            + " ".join(map(str, range(30)))
            + f"\n{9**30}\n1\n",
            None,
            "expected the number of",
        ),
    ],
)
def test_uai_mistakes_are_placed(text, line, message, tmp_path):
    path = tmp_path / "m.uai"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        load(path)
    assert message in str(caught.value)
    if line is not None:
        assert caught.value.line == line


def test_evidence(tmp_path):
    domain = Domain.numbered([2, 3])
    path = tmp_path / "m.uai.evid"
    for text, expected in [
        ("2 0 1 1 2", {"v0": 1, "v1": 2}),
        ("1\n2 0 1 1 2\n", {"v0": 1, "v1": 2}),
        ("1 1 2", {"v1": 2}),
        ("1\n1 1 2", {"v1": 2}),
        ("1\n0\n", {}),
        ("0\n", {}),
        ("", {}),
    ]:
        path.write_text(text)
        assert read_evidence(path, domain) == expected
    for text in ("1 5 0", "1 0 7", "2 0 1", "1 0 1 9", "x"):
        path.write_text(text)
        with pytest.raises(FormatError):
            read_evidence(path, domain)


def test_uai_refuses_what_it_cannot_hold(tmp_path):
    domain = Domain.numbered([2] * 40)
    when = {f"v{i}": 1 for i in range(40)}
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, when)]))
    with pytest.raises(FormatError, match="too large for a table"):
        mn.save(tmp_path / "m.uai")
    assert not list(tmp_path.iterdir())
    dn = random_dependency_network(np.random.default_rng(0))
    with pytest.raises(FormatError, match=r"cannot be written as \.uai"):
        dn.save(tmp_path / "m.uai")


def test_uai_reference_files_load(data):
    paths = sorted((data / "uai").glob("*.uai"))
    assert paths
    for path in paths:
        mn = load(path)
        evidence = read_evidence(Path(f"{path}.evid"), mn.domain)
        first = path.read_text().split()[:2]
        assert len(mn.domain) == int(first[1])
        conditioned = mn.condition(evidence)
        assert len(conditioned.domain) == len(mn.domain) - len(evidence)


# ---- BIF ----------------------------------------------------------------------------------------

BIF = """network "test net" { property "a comment"; }
// a line
variable rain { type discrete [ 2 ] { no, yes }; property "x = (1,2)"; }
variable "wet grass" { /* two
lines */ type discrete [ 3 ] { dry, damp, "very wet" }; }
probability ( rain ) { table 0.8, 0.2; }
probability ( "wet grass" | rain ) { (no) 0.7, 0.2, 0.1; (yes) 1e-1, 0.3, 0.6; }
"""


def test_bif_by_hand(tmp_path):
    path = tmp_path / "m.bif"
    path.write_text(BIF)
    bn = load(path)
    assert bn.domain.names == ("rain", "wet grass")
    row = {"rain": "yes", "wet grass": "very wet"}
    assert np.exp(bn.log_likelihood(row))[0] == pytest.approx(0.2 * 0.6)
    path.write_text(BIF.replace("(yes) 1e-1, 0.3, 0.6;", "default 0.5, 0.25, 0.25;"))
    assert np.exp(load(path).log_likelihood(row))[0] == pytest.approx(0.2 * 0.25)
    flat = "table 0.7, 0.1, 0.2, 0.3, 0.1, 0.6;"
    path.write_text(BIF.replace("(no) 0.7, 0.2, 0.1; (yes) 1e-1, 0.3, 0.6;", flat))
    assert np.exp(load(path).log_likelihood(row))[0] == pytest.approx(0.2 * 0.6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("network", "notwork", "'network', 'variable' or 'probability'"),
        ("[ 3 ]", "[ 4 ]", "declares 4 states but lists 3"),
        ("discrete [ 2 ]", "continuous [ 2 ]", "discrete"),
        ("0.8, 0.2", "0.8, 0.3", "sum to 1.1"),
        ("0.8, 0.2", "0.8, x", "expected a probability, not 'x'"),
        ("0.8, 0.2", "0.8, 0.1, 0.1", "expected 2 probabilities, not 3"),
        ("(yes) 1e-1, 0.3, 0.6;", "", "no row for rain=yes"),
        ("(yes)", "(maybe)", "no state 'maybe'"),
        ("(yes)", "(yes, yes)", "expected 1 states"),
        ("| rain", "| snow", "no variable 'snow'"),
        ("{ no, yes }", "{ no, no }", "'no' twice"),
        ("probability ( rain ) { table 0.8, 0.2; }", "", "no probability block for 'rain'"),
        ("0.6; }\n", "0.6;", "ends where"),
    ],
)
def test_bif_mistakes_are_placed(old, new, message, tmp_path):
    assert old in BIF
    path = tmp_path / "m.bif"
    path.write_text(BIF.replace(old, new))
    with pytest.raises(FormatError) as caught:
        load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_bif_reference_files_load(data):
    sizes = {"alarm": (37, 46), "asia": (8, 8), "cancer": (5, 4), "child": (20, 25)}
    sizes |= {"hailfinder": (56, 66), "sachs": (11, 17)}
    for name, (nodes, edges) in sizes.items():
        bn = load(data / "bif" / f"{name}.bif.gz")
        assert len(bn.domain) == nodes
        assert sum(len(c.parents) for c in bn.cpds) == edges


# ---- CSV and Parquet -----------------------------------------------------------------------------


def test_csv_by_hand(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(
        '\ufeffname,"size, cm",zip,ok,x\n"a ""b""",10,007,yes,1.5\nc,?,010,no,2\n,9,,*,2\n'.encode()
    )
    table = read_table(path)
    assert table.domain == Domain(
        {
            "name": ['a "b"', "c"],
            "size, cm": [9, 10],
            "zip": ["007", "010"],
            "ok": ["no", "yes"],
            "x": [1.5, 2.0],
        }
    )
    assert table.codes.tolist() == [[0, 1, 0, 1, 0], [1, 255, 1, 0, 1], [255, 0, 255, 255, 1]]
    write_table(table, tmp_path / "again.csv.gz")
    again = read_table(tmp_path / "again.csv.gz", table.domain)
    assert again.codes.tolist() == table.codes.tolist()


def test_csv_with_a_domain(tmp_path):
    path = tmp_path / "t.csv"
    domain = Domain({"b": [False, True], "a": [1, 2, 3]})
    path.write_text("id,a,b\n7,1,True\n8,3.0,False\n")
    assert read_table(path, domain).codes.tolist() == [[1, 0], [0, 2]]
    path.write_text("id,a,b\n7,1,True\n8,4,False\n")
    with pytest.raises(FormatError, match="row 2, column 'a': '4' is not a state"):
        read_table(path, domain)
    path.write_text("id,a\n7,1\n")
    with pytest.raises(FormatError, match="there is no column 'b'"):
        read_table(path, domain)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "is empty"),
        ("a,a\n1,2\n", 1, "two columns are called 'a'"),
        ("a,\n1,2\n", 1, "no name"),
        ("a,b\n1,2\n1\n", 3, "1 values, but the header has 2"),
        ("a,b\n,\n,?\n", None, "the table has no values"),
    ],
)
def test_csv_mistakes_are_placed(text, line, message, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_table(path)
    assert message in str(caught.value)
    assert caught.value.line == line


def test_parquet_keeps_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "i": [3, 1, None],
        "s": pa.array(["b", "a", "b"]).dictionary_encode(),
        "f": [0.5, float("nan"), 1.5],
        "b": [True, False, None],
        "d": [datetime.date(2020, 1, 1), datetime.date(2019, 1, 1), None],
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.domain == Domain(
        {
            "i": [1, 3],
            "s": ["a", "b"],
            "f": [0.5, 1.5],
            "b": [False, True],
            "d": [datetime.date(2019, 1, 1), datetime.date(2020, 1, 1)],
        }
    )
    assert table.codes.tolist() == [[1, 1, 0, 1, 1], [0, 0, 255, 0, 0], [255, 1, 1, 255, 255]]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(FormatError, match="Parquet"):
        read_table(tmp_path / "bad.parquet")


def test_tables_load(data):
    rows = {"car": (1728, 7), "mushroom": (8124, 23), "vote": (435, 17), "soybean": (683, 36)}
    for name, (n, columns) in rows.items():
        table = read_table(data / "tables" / f"{name}.csv.gz")
        assert (len(table), len(table.domain)) == (n, columns)
        assert table.complete == (name == "car")


# ---- any file -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m.txt", "m", "m.names.json", "m.gz"])
def test_unknown_endings(name, tmp_path):
    (tmp_path / name).write_text("x")
    for read in (load, read_table):
        with pytest.raises(FormatError, match="the ending of a (model|table) file"):
            read(tmp_path / name)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FormatError, match="no such file"):
        load(tmp_path / "nothing.mn")
    (tmp_path / "folder.mn").mkdir()
    with pytest.raises(FormatError, match="a folder"):
        load(tmp_path / "folder.mn")
    with pytest.raises(FormatError, match="there is no folder"):
        save(MarkovNetwork(Domain.numbered([2])), tmp_path / "no" / "m.mn")


def test_gzip_damage(tmp_path):
    path = tmp_path / "m.mn.gz"
    MarkovNetwork(Domain.numbered([2, 2])).save(path)
    good = path.read_bytes()
    path.write_bytes(good[:-6])
    with pytest.raises(FormatError, match="truncated"):
        load(path)
    path.write_bytes(b"not gzip")
    with pytest.raises(FormatError, match="not a valid gzip"):
        load(path)
    # Two members in a row are one file; a bomb stops at the limit.
    text = b"2\nMN {\n", b"1.0 +v0_1\n}\n"
    path.write_bytes(gzip.compress(text[0]) + gzip.compress(text[1]))
    assert len(load(path).features) == 1
    path.write_bytes(gzip.compress(b"2" * 10_000_000))
    with pytest.raises(FormatError, match="larger than"):
        storage.read_bytes(path, limit=1_000_000)


def test_binary_in_a_text_file(tmp_path):
    path = tmp_path / "m.mn"
    path.write_bytes(b"2\nMN {\n\xff\xfe\n}\n")
    with pytest.raises(FormatError, match="UTF-8") as caught:
        load(path)
    assert caught.value.line == 3


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "m.mn"
    path.write_text("before")
    mn = MarkovNetwork(Domain.numbered([2]))

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(FormatError, match="No space left"):
        mn.save(path)
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["m.mn"]


EXAMPLES = {
    ".conjoin": lambda p: random_dependency_network(np.random.default_rng(7)).save(p),
    ".dn": lambda p: random_dependency_network(np.random.default_rng(7)).save(p),
    ".mn": lambda p: random_markov_network(np.random.default_rng(7)).save(p),
    ".bn": lambda p: random_bayesian_network(np.random.default_rng(7)).save(p),
    ".uai": lambda p: random_markov_network(np.random.default_rng(7)).save(p),
    ".bif": lambda p: p.write_text(BIF),
    ".toml": lambda p: p.write_text(
        '[variables]\na=["x","y"]\n[[a.rules]]\np=[0.5,0.5]\n', encoding="utf-8"
    ),
    ".data": lambda p: p.write_text("0,1\n1,*\n0.5|1,1\n"),
    ".csv": lambda p: p.write_text("a,b\nx,1\ny,?\n"),
}


@pytest.mark.parametrize("ending", EXAMPLES)
@settings(max_examples=150)
@given(
    changes=st.lists(
        st.tuples(st.floats(0, 1), st.binary(max_size=4), st.integers(0, 8)), max_size=4
    ),
    cut=st.floats(0, 1) | st.none(),
)
def test_damaged_files_give_one_error_or_load(ending, changes, cut, folder):
    """Bytes replaced, inserted or cut away: a clear error or a model, never anything else."""
    good = folder / f"good{ending}"
    if not good.exists():
        EXAMPLES[ending](good)
    raw = bytearray(good.read_bytes())
    for where, new, remove in changes:
        at = int(where * len(raw))
        raw[at : at + remove] = new
    if cut is not None:
        raw = raw[: int(cut * len(raw))]
    bad = folder / f"bad{ending}"
    bad.write_bytes(raw)
    read = read_table if ending in (".data", ".csv") else load
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # a column may have lost its values
            read(bad)
    except FormatError as error:
        assert str(bad) in str(error)
    except ConjoinError as error:
        pytest.fail(f"an error without a place: {error}")


def test_native_refuses_other_versions(tmp_path):
    path = tmp_path / "m.conjoin"
    MarkovNetwork(Domain.numbered([2])).save(path)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b'"version": 1', b'"version": 9'))
    with pytest.raises(FormatError, match="version 9"):
        load(path)
    path.write_bytes(b"something else")
    with pytest.raises(FormatError, match="not a Conjoin model file"):
        load(path)


def test_hard_zeros_survive_every_format(tmp_path):
    domain = Domain({"a": ["x", "y"], "b": ["x", "y"]})
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(-np.inf, {"a": "x", "b": "y"})]))
    for name in ("m.conjoin", "m.mn", "m.uai"):
        mn.save(tmp_path / name)
        got = load(tmp_path / name).log_potential(all_states(domain))
        assert got.tolist() == [0, -np.inf, 0, 0]


def test_large_log_values_do_not_overflow_uai(tmp_path):
    domain = Domain.numbered([2])
    mn = MarkovNetwork(
        domain, Features.from_terms(domain, [(900.0, {"v0": 1}), (899.0, {"v0": 0})])
    )
    mn.save(tmp_path / "m.uai")
    np.testing.assert_allclose(
        load(tmp_path / "m.uai").conditional("v0", {"v0": 0}), mn.conditional("v0", {"v0": 0})
    )


def test_table_cpd_of_many_parents_round_trips(tmp_path):
    rng = np.random.default_rng(0)
    domain = Domain.numbered([2, 3, 2, 4])
    table = np.log(rng.dirichlet(np.ones(3), size=(2, 2, 4)))
    dn = DependencyNetwork(
        domain,
        [
            TableCPD(domain.cards, 1, (0, 2, 3), table),
            *(
                TableCPD(domain.cards, i, (), np.log(np.full(c, 1 / c)))
                for i, c in ((0, 2), (2, 2), (3, 4))
            ),
        ],
    )
    for name in ("m.dn", "m.conjoin"):
        dn.save(tmp_path / name)
        same_conditionals(dn, load(tmp_path / name))


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("tests", ["+v0_1 +v1_1", "+v1_1 +v0_1"])
def test_certain_conjunctions_bind_the_target(tests, tmp_path):
    text = f"2,2\nDN {{\nv0 {{\n0.5 +v0_1\n}}\nv1 {{\ninf {tests}\n}}\n}}\n"
    dn = load(write(tmp_path, "m.dn", text))
    assert dn.conditional("v1", np.array([[0, 0], [1, 0]], np.uint8)).tolist() == [
        [0.5, 0.5],
        [0, 1],
    ]


def test_splits_on_one_state(tmp_path):
    text = "1,2\nMN {\ntree {\n(v0_0 (v1_1 1 0) (v1_1 3 0))\n}\n}\n"
    mn = load(write(tmp_path, "m.mn", text))
    states = all_states(mn.domain)
    assert mn.log_potential(states).tolist() == [0, 1]
    assert mn.to_features().log_potential(states).tolist() == [0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "2\nMN {\ntable {\ntree {\n(v0_1 5 0)\n}\n}\n}\n",
        "2\nMN {\n" + "table {\n" * 2000,
        "2\nMN {\ntree {\n(v0_1 inf 0)\n}\n}\n",
    ],
)
def test_what_libra_files_may_not_hold(text, tmp_path):
    with pytest.raises(FormatError, match="only features|inf"):
        load(write(tmp_path, "m.mn", text))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.data", "10, ,2\n", "column 2"),
        ("t.data", "*1,10\n", "column 1"),
        ("t.data", "1|\n", "no values after the weight"),
        ("t.data", "1|0,1\n\n2|0,x\n", "t.data:3: "),
        ("t.csv", "\na,b\n1,2\n", "name the columns"),
        ("t.csv", 'a,b\n1,"x\n2,y\n', "never closed"),
        ("t.csv", "a" * 200_000 + ",b\n1,2\n", "header cannot be read"),
        ("m.bif", 'network x { property "see http://x" ; }\n', None),
        (
            "m.uai",
            "MARKOV\n65\n" + "1 " * 65 + "\n1\n65 " + " ".join(map(str, range(65))),
            "0 to 64",
        ),
    ],
)
def test_odd_files(name, text, message, tmp_path):
    path = write(tmp_path, name, text)
    read = read_table if name.startswith("t.") else load
    if message is None:
        assert len(read(path).domain) == 0
        return
    with pytest.raises(FormatError, match=message):
        read(path)


def test_carriage_returns_alone_end_lines(tmp_path):
    assert read_table(write(tmp_path, "t.csv", "a,b\r1,x\r2,y\r")).codes.tolist() == [
        [0, 0],
        [1, 1],
    ]


def test_blanks_around_cells(tmp_path):
    table = read_table(write(tmp_path, "t.csv", "a, b\nx , p\nx,p\n y,?\n"))
    assert table.domain == Domain({"a": ["x", "y"], "b": ["p"]})
    assert table.codes.tolist() == [[0, 0], [0, 0], [1, 255]]


def test_truth_values_in_any_case(tmp_path):
    domain = Domain({"a": [False, True]})
    path = write(tmp_path, "t.csv", "a\ntrue\nFALSE\nTrue\n")
    assert read_table(path, domain).codes.tolist() == [[1], [0], [1]]


def test_parquet_corners(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": [1.0, None, 2.0]}), path)
    assert read_table(path, Domain({"a": [1, 2]})).codes.tolist() == [[0], [255], [1]]
    parquet.write_table(pa.table({"a": [[1], [2]]}), path)
    with pytest.raises(FormatError, match="cannot be states"):
        read_table(path)
    small = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.uint8()), ["x", "y"])
    parquet.write_table(pa.table({"a": small}), path)
    assert read_table(path).codes.tolist() == [[0], [255], [1]]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(FormatError, match="Parquet"):
        read_table(path)


def test_csv_refuses_what_it_would_lose(tmp_path):
    weighted = Table(Domain.numbered([2]), [[0]], weights=[2.0])
    with pytest.raises(FormatError, match="weights"):
        write_table(weighted, tmp_path / "t.csv")
    for states in (["", "x"], [" ", "x"], [1, "1"]):
        with pytest.raises(FormatError, match="missing value"):
            write_table(Table(Domain({"a": states}), [[0]]), tmp_path / "t.csv")


def test_data_keeps_states_that_no_row_has(tmp_path):
    domain = Domain.numbered([3, 1])
    write_table(Table(domain, [[0, 0], [1, 0]]), tmp_path / "t.data")
    assert read_table(tmp_path / "t.data").domain == domain
    with pytest.raises(FormatError, match="without rows"):
        write_table(Table(domain, np.zeros((0, 2), np.uint8)), tmp_path / "t.data")


def test_labels_are_checked_before_anything_is_written(tmp_path):
    path = tmp_path / "m.mn"
    MarkovNetwork(Domain({"a": ["x", "y"]})).save(path)
    before = path.read_bytes()
    with pytest.raises(FormatError, match="frozenset"):
        MarkovNetwork(Domain({"a": [frozenset("a"), frozenset("b"), frozenset("c")]})).save(path)
    assert path.read_bytes() == before
    assert load(path).domain == Domain({"a": ["x", "y"]})


def test_links_stay_links(tmp_path):
    (tmp_path / "link.mn").symlink_to(tmp_path / "real.mn")
    MarkovNetwork(Domain.numbered([2])).save(tmp_path / "link.mn")
    assert (tmp_path / "link.mn").is_symlink()
    assert len(load(tmp_path / "real.mn").domain) == 1


def test_infinite_states(tmp_path):
    domain = Domain({"a": [float("inf"), 1.0]})
    MarkovNetwork(domain).save(tmp_path / "m.conjoin")
    assert load(tmp_path / "m.conjoin").domain == domain


def test_small_log_values_do_not_vanish_in_uai(tmp_path):
    domain = Domain.numbered([2])
    terms = [(-800.0, {"v0": 1}), (-801.0, {"v0": 0})]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    mn.save(tmp_path / "m.uai")
    p = load(tmp_path / "m.uai").conditional("v0", {"v0": 0})[0]
    assert p == pytest.approx([1 / (1 + np.e), np.e / (1 + np.e)])


def test_models_without_variables(tmp_path):
    empty = MarkovNetwork(Domain.numbered([2])).condition({"v0": 1})
    empty.save(tmp_path / "m.conjoin")
    assert len(load(tmp_path / "m.conjoin").domain) == 0
    with pytest.raises(FormatError, match="without variables"):
        empty.save(tmp_path / "m.mn")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("indices", lambda f: f.indices * 0),
        ("weights", lambda f: f.weights * np.nan),
        ("weights", lambda f: f.weights + np.inf),
        ("indptr", lambda f: f.indptr[::-1].copy()),
        ("indptr", lambda f: f.indptr + 1),
        ("indices", lambda f: f.indices + 99),
        ("indices", lambda f: f.indices[::-1].copy()),
    ],
)
def test_native_checks_features(part, value, tmp_path):
    domain = Domain.numbered([2, 2])
    features = Features.from_terms(domain, [(1.0, {"v0": 1, "v1": 1}), (2.0, {"v0": 1, "v1": 0})])
    changed = Features(**{**features.__dict__, part: value(features)})
    mn = MarkovNetwork(domain, changed)
    mn.save(tmp_path / "m.conjoin")
    with pytest.raises(FormatError, match="damaged"):
        load(tmp_path / "m.conjoin")


@pytest.mark.parametrize("mask", [[[0], [2]], [[3], [2]], [[4], [2]], [[2], [1]]])
def test_native_checks_tests(mask, tmp_path):
    domain = Domain.numbered([2])
    features = Features.from_terms(domain, [(1.0, {"v0": 0}), (2.0, {"v0": 1})])
    features.tests.mask[:] = np.array(mask, np.uint64)
    MarkovNetwork(domain, features).save(tmp_path / "m.conjoin")
    with pytest.raises(FormatError, match="damaged"):
        load(tmp_path / "m.conjoin")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("child", [1, 1, 2, 3]),
        ("child", [1, 0, 2, 3]),
        ("ptr", [0, 0, 0, 1, 2]),
        ("value", [np.nan] * 3),
    ],
)
def test_native_checks_trees(part, value, tmp_path):
    domain = Domain.numbered([2, 2])
    cpds = [
        TreeCPD(domain.cards, 0, Tree.complete([], domain.cards, np.log([[0.5, 0.5]]))),
        TableCPD.of(domain, "v1", [], 0.5),
    ]
    dn = DependencyNetwork(domain, cpds)

    good = {
        "var": [0, 1, -1, -1, -1],
        "ptr": [0, 2, 0, 1, 2],
        "child": [1, 4, 2, 3],
        "value": [1, 2, 3],
    }
    good[part] = value
    arrays = [np.array(good[k], np.int32) for k in ("var", "ptr", "child")]
    tree = Tree(*arrays, np.array(good["value"], float))
    mn = MarkovNetwork(dn.domain, factors=[tree])
    mn.save(tmp_path / "m.conjoin")
    with pytest.raises(FormatError, match="damaged"):
        load(tmp_path / "m.conjoin")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.mn", ",".join(["65534"] * 200) + "\nMN {\n}\n"),
        ("m.dn", "20" + ",2" * 19 + "\nDN {\nv0 {\ntree {\n"
         + "".join(f"(v0_{k} (v{k + 1} 0 1) " for k in range(19)) + "0" + ")" * 19 + "\n}\n}\n"),
        ("m.mn", "65534\nMN {\ntree {\n" + "(v0_1 1 " * 1600 + "2" + ")" * 1600 + "\n}\n}\n"),
        ("m.mn", ",".join(["2"] * 22) + "\nMN {\n"
         + ("table {\n1 " + " ".join(f"+v{i}_1" for i in range(22)) + "\n}\n") * 50 + "}\n"),
        ("t.csv", ",".join(f"c{i}" for i in range(5000)) + "\n" + ",".join("1" * 5000) + "\n"),
        ("m.mn.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0" * 100_000),
    ],
)  # fmt: skip
def test_small_files_are_read_or_rejected_soon(name, text, tmp_path):
    """One of them once took minutes; the time limit of a test would notice."""
    path = write(tmp_path, name, text)
    try:
        (read_table if name.startswith("t.") else load)(path)
    except FormatError as error:
        assert str(path) in str(error)


def test_row_numbers_in_a_csv_are_pointed_out(tmp_path):
    pd.DataFrame({"a": [1, 2]}).to_csv(tmp_path / "i.csv")
    with pytest.raises(FormatError, match=r"i\.csv:1: column 1 has no name.*index=False"):
        read_table(tmp_path / "i.csv")


def test_marks_of_missing_values(tmp_path):
    marks = ["", "?", "*", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "None", "NULL", "null"]
    text = "a,b\n" + "".join(f"{mark},x\n" for mark in marks) + "none,y\n"
    table = read_table(write(tmp_path, "m.csv", text))
    assert table.domain["a"].states == ("none",)
    assert (table.codes[:, 0] == table.missing).tolist() == [True] * len(marks) + [False]


@pytest.fixture
def parquet_folder(tmp_path):
    """A folder of four files whose columns differ in order, with states that appear late and holes."""
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(
        {
            "a": rng.choice(["x", "y", None], 500),
            "n": rng.integers(0, 3, 500) + 300 * (np.arange(500) > 400),
            "b": rng.random(500) < 0.3,
        }
    )
    rows["wide"] = np.where(np.arange(500) < 300, 0, np.arange(500))
    for part in range(4):
        some = rows.iloc[125 * part : 125 * (part + 1)]
        file = tmp_path / "folder" / f"day={part}" / "part.parquet"
        file.parent.mkdir(parents=True)
        some[sorted(some.columns, reverse=part % 2 == 1)].to_parquet(file, index=False)
    return tmp_path / "folder", rows[sorted(rows.columns)]


def in_small_batches(monkeypatch, folder, **options):
    """Read a folder in batches of 70 rows, and merge 150 rows at a time."""
    with monkeypatch.context() as patched:
        patched.setattr("conjoin.formats.parquet.BATCH_ROWS", 70)
        patched.setattr("conjoin.formats.parquet.MERGE_AT", 150)
        return read_table(folder, **options)


def test_a_folder_of_parquet_files_is_one_table(parquet_folder, monkeypatch):
    folder, rows = parquet_folder
    expected = table_of_columns(columns_of(rows))
    options = {"kinds": {"wide": "category"}}
    batched = in_small_batches(monkeypatch, folder, **options)
    for whole in (read_table(folder, **options), batched):
        assert whole.domain == expected.domain and whole.weights is None
        np.testing.assert_array_equal(whole.codes, expected.codes)
    known = read_table(folder, expected.domain.subset([2, 0]))
    np.testing.assert_array_equal(known.codes, expected.codes[:, [2, 0]])
    with pytest.raises(FormatError, match="column 'n': 30. is not a state"):
        read_table(folder, Domain({"n": [0, 1, 2]}))
    with pytest.raises(FormatError, match="there is no column 'c'"):
        read_table(folder, Domain({"c": [0, 1]}))
    (folder / "empty").mkdir()
    with pytest.raises(FormatError, match="has no Parquet files"):
        read_table(folder / "empty")
    (folder / "z.parquet").write_bytes(b"no")
    with pytest.raises(FormatError, match="z.parquet: cannot be read as Parquet"):
        read_table(folder)


def test_equal_rows_of_a_folder_are_merged(parquet_folder, monkeypatch):
    folder, rows = parquet_folder
    expected = table_of_columns(columns_of(rows))
    options = {"merge": True, "kinds": {"wide": "category"}}
    often = in_small_batches(monkeypatch, folder, **options)
    for merged in (read_table(folder, **options), often):
        assert len(merged) < len(expected) and merged.domain == expected.domain
        counts = dict(zip(map(tuple, merged.codes.tolist()), merged.weights, strict=True))
        assert counts == Counter(map(tuple, expected.codes.tolist()))
    assert main(["info", str(folder)]) == 0
