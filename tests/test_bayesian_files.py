"""Bayesian networks written for other programs, and read by them."""

from __future__ import annotations

import itertools
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conjoin
from conjoin import BayesianNetwork, Domain, TableCPD
from conjoin.errors import FormatError
from conjoin.formats import safe_domain, safe_words
from conjoin.models import Tree, TreeCPD
from strategies import generators


def random_bayesian_network(rng, low=1, high=5):
    n = int(rng.integers(low, high + 1))
    domain = Domain({f"x{i}": [f"s{k}" for k in range(int(rng.integers(2, 4)))] for i in range(n)})
    order = rng.permutation(n).tolist()
    cpds = []
    for place, target in enumerate(order):
        parents = [p for p in order[:place] if rng.random() < 0.5]
        shape = [int(domain.cards[v]) for v in (*parents, target)]
        table = rng.random(shape) * (rng.random(shape) < 0.85)
        table[..., 0] += table.sum(axis=-1) == 0
        with np.errstate(divide="ignore"):
            logs = np.log(table / table.sum(axis=-1, keepdims=True))
        cpds.append(TableCPD(domain.cards, target, parents, logs))
    return BayesianNetwork(domain, cpds)


def joint(network):
    states = np.array(list(itertools.product(*map(range, network.domain.cards))), np.uint8)
    return np.exp(network.log_likelihood(states))


ODD = Domain({
    "wet grass": ["dry", "soaking wet", 3],
    "table": [True, False],
    'a"b|c, {d}': ["x,y", "x;y", "x y"],
    "größe": [1.5, 2.5],
})  # fmt: skip


def odd_network():
    rng = np.random.default_rng(0)
    names = ODD.names

    def rows(target, parents):
        keys = itertools.product(*(ODD[p].states for p in parents))
        return {k if len(k) > 1 else k[0]: rng.dirichlet(np.ones(len(ODD[target]))) for k in keys}

    splits = {"table": (1, ["yes", "grass"]), "grass": (0, ["even", "few", "even"])}
    leaves = {"yes": [0.25, 0.75], "even": [0.5, 0.5], "few": [0.9, 0.1]}
    leaves = {name: np.log(p) for name, p in leaves.items()}
    tree = Tree.grow("table", lambda node: splits[node] if node in splits else leaves[node])
    return BayesianNetwork(ODD, [
        TableCPD.of(ODD, names[0], [], [0.5, 0.3, 0.2]),
        TableCPD.of(ODD, names[1], [names[0]], rows(names[1], [names[0]])),
        TableCPD.of(ODD, names[2], [names[3], names[0]], rows(names[2], [names[3], names[0]])),
        TreeCPD(ODD.cards, 3, tree),
    ])  # fmt: skip


@given(generators())
@settings(max_examples=40, deadline=None)
def test_bif_round_trip(rng):
    import tempfile
    from pathlib import Path

    network = random_bayesian_network(rng)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.bif", "a.bif.gz"):
            path = Path(folder) / name
            network.save(path)
            again = conjoin.load(path)
            assert again.domain == network.domain
            np.testing.assert_allclose(joint(again), joint(network), rtol=1e-12, atol=1e-15)
        assert len(list(Path(folder).iterdir())) == 2  # plain names need no file beside


def test_odd_names_survive_beside_the_file(tmp_path):
    network = odd_network()
    path = tmp_path / "odd.bif"
    network.save(path)
    again = conjoin.load(path)
    assert again.domain == ODD
    np.testing.assert_allclose(joint(again), joint(network), rtol=1e-12)
    (tmp_path / "odd.bif.names.json").unlink()
    assert conjoin.load(path).domain == safe_domain(ODD)
    np.testing.assert_allclose(joint(conjoin.load(path)), joint(network), rtol=1e-12)


LABELS = st.one_of(
    st.text(max_size=6),
    st.integers(-9, 99),
    st.booleans(),
    st.floats(allow_nan=False),
    st.dates(),
    st.tuples(st.integers(0, 3), st.text(max_size=2)),
)


@given(
    st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3, unique=True),
    st.lists(LABELS, min_size=1, max_size=4, unique_by=lambda s: s if s == s else None),
)
@settings(max_examples=100, deadline=None)
def test_any_labels_survive_beside_the_file(names, states):
    import tempfile
    from pathlib import Path

    try:
        domain = Domain(dict.fromkeys(names, states))
    except conjoin.ConjoinError:  # a state that means "missing"
        return
    p = np.full(len(states), 1 / len(states))
    network = BayesianNetwork(domain, [TableCPD.of(domain, n, [], p) for n in names])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.bif"
        network.save(path)
        again = conjoin.load(path)
    assert again.domain == domain
    assert [v.states for v in again.domain] == [v.states for v in domain]


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_pyagrum_reads_what_we_write(tmp_path, seed):
    gum = pytest.importorskip("pyagrum")
    rng = np.random.default_rng(seed)
    network = odd_network() if seed is None else random_bayesian_network(rng, 4, 6)
    path = tmp_path / "model.bif"
    network.save(path)
    other = gum.loadBN(str(path))
    words = safe_domain(network.domain)
    assert sorted(other.names()) == sorted(words.names)
    states = itertools.product(*(v.states for v in words))
    for chosen, p in zip(states, joint(network), strict=True):
        labels = dict(zip(words.names, chosen, strict=True))
        found = 1.0
        for name in words.names:
            found *= other.cpt(name)[{n: labels[n] for n in other.cpt(name).names}]
        assert found == pytest.approx(p, abs=1e-7)  # its reader keeps single precision only


def test_probabilities_are_written_in_full(tmp_path):
    domain = Domain({"a": ["x", "y"], "b": ["x", "y", "z"]})
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 2)
    b = TableCPD.of(domain, "b", ["a"], {"x": rows[0], "y": rows[1]})
    network = BayesianNetwork(domain, [TableCPD.of(domain, "a", [], 1 / 3), b])
    path = tmp_path / "model.bif"
    network.save(path)
    written = [float(word) for word in re.findall(r"[0-9]\.[0-9]+(?:e-[0-9]+)?", path.read_text())]
    for p in [1 / 3, 2 / 3, *rows.ravel()]:
        assert min(abs(p - w) for w in written) < 1e-15


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_pgmpy_reads_what_we_write(tmp_path, seed):
    readwrite = pytest.importorskip("pgmpy.readwrite")
    rng = np.random.default_rng(seed)
    network = odd_network() if seed is None else random_bayesian_network(rng, 3, 5)
    path = tmp_path / "model.bif"
    network.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = readwrite.BIFReader(str(path)).get_model()
    words = safe_domain(network.domain)
    states = itertools.product(*(v.states for v in words))
    for chosen, p in zip(states, joint(network), strict=True):
        labels = dict(zip(words.names, chosen, strict=True))
        found = 1.0
        for name in words.names:
            factor = other.get_cpds(name).to_factor()
            found *= factor.get_value(**{n: labels[n] for n in factor.scope()})
        assert found == pytest.approx(p, abs=1e-9)


def test_safe_words_are_different_words():
    labels = ["a", "a b", "a-b", "a_b", "", " ", 1, "1", True, "é", "table"]
    assert safe_words(["wet grass", "wet-grass", 3]) == ["wet_grass", "wet_grass_2", "s3"]
    words = safe_words(labels)
    assert len(set(words)) == len(labels)
    assert words[0] == "a" and words[3] == "a_b"
    assert all(word.isascii() and word.isidentifier() for word in words)


def test_tables_that_would_be_too_large_are_refused(tmp_path):
    domain = Domain.numbered([2] * 40)
    tree = Tree.grow(1, lambda v: (v, [0, v + 1]) if 0 < v < 40 else np.log([0.5, 0.5]))
    cpds = [TreeCPD(domain.cards, 0, tree)]
    cpds += [TableCPD.of(domain, f"v{i}", [], 0.5) for i in range(1, 40)]
    with pytest.raises(FormatError, match="'v0' has 39 parents, too many for a table"):
        BayesianNetwork(domain, cpds).save(tmp_path / "a.bif")
    with pytest.raises(FormatError, match="a Markov network cannot be written as .bif"):
        conjoin.MarkovNetwork(domain).save(tmp_path / "a.bif")
