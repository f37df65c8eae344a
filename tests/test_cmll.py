"""CMLL against enumeration; sampled scores within their stated errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as with_random
from hypothesis import settings

from conjoin import (
    ConjoinError,
    DependencyNetwork,
    Domain,
    Features,
    MarkovNetwork,
    Table,
    convert,
)
from conjoin.inference import Completion
from conjoin.inference.gibbs import gibbs
from conjoin.scoring import cmll, random_sets
from reference import all_states, feature_rows, log_potentials, normalized
from strategies import (
    generators,
    random_dependency_network,
    random_domain,
    random_features,
    random_markov_network,
)


def cmll_by_row(mn, codes, sets, missing=255):
    """The score of each row, from the potentials of all states."""
    states = all_states(mn.domain)
    potentials = log_potentials(mn, states)
    scores = []
    for row in codes:
        total = 0.0
        lacking = set(np.flatnonzero(row == missing).tolist())
        for part in sets:
            at = {mn.domain.index(name) for name in part}
            known = [v for v in range(len(mn.domain)) if v not in at | lacking]
            agree = (states[:, known] == row[known]).all(axis=1)
            p = np.exp(normalized(potentials[agree]))
            for v in at - lacking:
                total += np.log(p[states[agree, v] == row[v]].sum())
        scores.append(total)
    return np.array(scores)


def random_table(rng, domain, rows=12, missing=0.0):
    codes = np.stack([rng.integers(0, c, rows) for c in domain.cards], axis=1)
    return Table(domain, np.where(rng.random(codes.shape) < missing, -1, codes))


def binary_network(rng, n, count=60, longest=4, weight=0.7):
    domain = Domain({f"x{i}": [0, 1] for i in range(n)})
    terms = []
    for _ in range(count):
        scope = rng.choice(n, int(rng.integers(1, longest + 1)), replace=False)
        terms.append((float(rng.normal() * weight), {f"x{v}": int(rng.integers(2)) for v in scope}))
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


@settings(max_examples=25)
@with_random(generators())
def test_small_networks_are_exact(rng):
    mn = random_markov_network(rng, random_domain(rng, 2, 5))
    table = random_table(rng, mn.domain)
    sets = random_sets(mn.domain, int(rng.integers(1, 4)), int(rng.integers(99)))
    result = cmll(mn, table, sets=sets)
    assert result.by_row == pytest.approx(cmll_by_row(mn, table.codes, sets), abs=1e-9)
    assert result.exact == 1
    assert result.mc_stderr == 0
    assert result.mean == pytest.approx(result.by_row.mean())
    assert sum(result.by_variable.values()) == pytest.approx(result.mean)
    assert result.stderr == pytest.approx(result.by_row.std(ddof=1) / np.sqrt(len(table)))


@settings(max_examples=15)
@with_random(generators())
def test_missing_values_are_drawn_along_and_not_scored(rng):
    mn = random_markov_network(rng, random_domain(rng, 3, 5))
    table = random_table(rng, mn.domain, missing=0.2)
    result = cmll(mn, table, sets=2)
    expected = cmll_by_row(mn, table.codes, result.sets, table.missing)
    assert result.by_row == pytest.approx(expected, abs=1e-9)


@settings(max_examples=15)
@with_random(generators())
def test_features_with_off_values(rng):
    domain = random_domain(rng, 3, 5)
    mn = convert(
        random_dependency_network(rng, domain, kinds=("table", "tree")), orders="all", max_length=1
    )
    table = random_table(rng, domain)
    result = cmll(mn, table, sets=2)
    assert result.by_row == pytest.approx(cmll_by_row(mn, table.codes, result.sets), abs=1e-9)


def agree(result, expected, weights=None):
    """The mean within five Monte Carlo errors, and each row near its own value."""
    mean = np.average(expected, weights=weights)
    assert result.exact < 1
    assert 0 < result.mc_stderr < 0.05
    # The log of a noisy mean is low by half its relative variance; that is far below the error.
    assert abs(result.mean - mean) <= 5 * result.mc_stderr
    assert result.by_row == pytest.approx(expected, abs=0.35)


@pytest.fixture
def nothing_is_enumerated(monkeypatch):
    where = "conjoin.scoring.marginal_likelihood"
    monkeypatch.setattr(f"{where}._Sweeps.max_cells", lambda self, variables: 1)
    network_cells = lambda *args, **more: Completion(*args, **more, max_network_cells=1)  # noqa: E731
    monkeypatch.setattr(f"{where}.Completion", network_cells)


@pytest.mark.usefixtures("nothing_is_enumerated")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("longest", [2, 4])
def test_binary_variables_are_sampled(seed, longest):
    rng = np.random.default_rng(seed)
    mn = binary_network(rng, 12, longest=longest)
    table = random_table(rng, mn.domain, 20)
    result = cmll(mn, table, sets=3, samples=2000)
    agree(result, cmll_by_row(mn, table.codes, result.sets))


@pytest.mark.usefixtures("nothing_is_enumerated")
@pytest.mark.parametrize("seed", range(3))
def test_variables_of_several_states(seed):
    rng = np.random.default_rng(seed)
    domain = Domain({f"x{i}": list(range(2 + i % 3)) for i in range(9)})
    mn = MarkovNetwork(domain, random_features(rng, domain, count=30))
    table = random_table(rng, domain, 15)
    result = cmll(mn, table, sets=2, samples=2000)
    agree(result, cmll_by_row(mn, table.codes, result.sets))


@pytest.mark.usefixtures("nothing_is_enumerated")
@pytest.mark.parametrize("seed", range(3))
def test_hard_constraints_are_sampled(seed):
    rng = np.random.default_rng(seed)
    domain = Domain({f"x{i}": list(range(2 + i % 2)) for i in range(8)})
    impossible = Features.from_terms(domain, [(-np.inf, {"x0": 0, "x2": 1})])
    features = random_features(rng, domain, count=20)
    mn = MarkovNetwork(domain, Features.concatenate([features, impossible]))
    table = random_table(rng, domain, 15)
    table = Table(domain, table.codes[np.isfinite(mn.log_potential(table))])
    result = cmll(mn, table, sets=2, samples=2000)
    agree(result, cmll_by_row(mn, table.codes, result.sets))


@settings(max_examples=15)
@with_random(generators())
def test_one_free_variable_of_a_dependency_network_is_exact(rng):
    dn = random_dependency_network(rng, random_domain(rng, 2, 4))
    table = random_table(rng, dn.domain, 6)
    result = cmll(dn, table, sets=[[name] for name in dn.domain.names])
    expected = sum(
        dn.log_conditional(name, table)[np.arange(len(table)), table.codes[:, i]]
        for i, name in enumerate(dn.domain.names)
    )
    assert result.by_row == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kinds", [("tree",), ("loglinear",), ("table", "rules", "boosted")])
def test_dependency_networks_are_sampled(kinds):
    """The conditionals of a joint: CMLL of the dependency network is that of the joint."""
    rng = np.random.default_rng(6)
    mn = binary_network(rng, 9, longest=3)
    dn = DependencyNetwork.from_markov_network(mn)
    table = random_table(rng, mn.domain, 10)
    result = cmll(dn, table, sets=2, samples=3000)
    agree(result, cmll_by_row(mn, table.codes, result.sets))
    # Any kinds of CPD, against long chains of the general sampler.
    dn = random_dependency_network(rng, random_domain(rng, 4, 4, max_card=2), kinds=kinds)
    table = random_table(rng, dn.domain, 4)
    sets = [dn.domain.names]
    long = gibbs(dn, n_samples=20_000)
    expected = np.array(
        [
            sum(np.log(long.marginals[name][row[i]]) for i, name in enumerate(dn.domain.names))
            for row in table.codes
        ]
    )
    assert cmll(dn, table, sets=sets, samples=20_000).by_row == pytest.approx(expected, abs=0.1)


def test_impossible_conjunctions():
    rng = np.random.default_rng(9)
    domain = Domain({"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1], "d": [0, 1]})
    terms = [(-np.inf, {"a": 0, "b": 0}), (-np.inf, {"b": 2, "c": 1}), (0.7, {"a": 1, "d": 1})]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    table = random_table(rng, domain, 60)
    possible = np.isfinite(mn.log_potential(table))
    table = Table(domain, table.codes[possible])
    result = cmll(mn, table, sets=[["a", "b"], ["c", "d"]])
    expected = cmll_by_row(mn, table.codes, result.sets)
    assert result.by_row == pytest.approx(expected, abs=1e-9)
    broken = Table(domain, np.array([[0, 0, 0, 0]]))
    assert cmll(mn, broken, sets=[["a"], ["b", "c", "d"]]).mean == -np.inf


@pytest.mark.usefixtures("nothing_is_enumerated")
def test_equal_rows_weights_and_jobs():
    rng = np.random.default_rng(1)
    mn = binary_network(rng, 10)
    table = random_table(rng, mn.domain, 5)
    doubled = Table(mn.domain, np.concatenate([table.codes, table.codes[:3]]))
    weighted = Table(mn.domain, table.codes, [2, 2, 2, 1, 1])
    a, b = cmll(mn, doubled, sets=2), cmll(mn, weighted, sets=2)
    assert a.mean == pytest.approx(b.mean, abs=1e-12)
    assert a.mc_stderr == pytest.approx(b.mc_stderr, abs=1e-12)
    assert a.stderr == pytest.approx(b.stderr, abs=1e-12)
    many = random_table(rng, mn.domain, 400)
    one, two = cmll(mn, many, n_jobs=1), cmll(mn, many, n_jobs=2)
    assert one.by_row.tobytes() == two.by_row.tobytes()
    assert one.mc_stderr == two.mc_stderr


def test_sets():
    domain = Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"a": 1, "b": 1})]))
    table = Table(domain, np.array([[1, 1, 0]]))
    by_number = cmll(mn, table, sets={"a": 1, "b": 2, "c": 1})
    assert by_number.sets == (("a", "c"), ("b",))
    assert by_number.mean == cmll(mn, table, sets=[["a", "c"], ["b"]]).mean
    assert len(cmll(mn, table).sets) == 3  # there are no more variables
    assert "3 sets" in repr(cmll(mn, table))
    for bad, words in (
        ([["a"], ["b"]], "'c' is in no set"),
        ([["a", "b"], ["b", "c"]], "'b' is in two sets"),
        ([["a", "b", "nobody"]], "no variable 'nobody'"),
        (0, "number of sets"),
    ):
        with pytest.raises(ConjoinError, match=words):
            cmll(mn, table, sets=bad)
    with pytest.raises(ConjoinError, match="no rows"):
        cmll(mn, Table(domain, np.zeros((0, 3), np.uint8)))


def test_variables_of_one_state_score_nothing():
    domain = Domain({"a": ["only"], "b": [0, 1]})
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"b": 1})]))
    result = cmll(mn, Table(domain, np.array([[0, 1]])), sets=1)
    assert result.mean == pytest.approx(-np.log1p(np.exp(-1.0)))
    assert result.by_variable["a"] == 0


def test_arrays_and_frames():
    pandas = pytest.importorskip("pandas")
    domain = Domain({"v0": [0, 1], "v1": [0, 1]})
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"v0": 1, "v1": 1})]))
    rows = np.array([[1, 1], [0, 1]])
    expected = cmll(mn, Table(domain, rows)).by_row
    assert cmll(mn, rows).by_row.tolist() == expected.tolist()
    assert (
        cmll(mn, pandas.DataFrame(rows, columns=["v0", "v1"])).by_row.tolist() == expected.tolist()
    )


def test_random_states():
    rng = np.random.default_rng(2)
    mn = binary_network(rng, 24)
    table = random_table(rng, mn.domain, 6)
    one, two = (cmll(mn, table, random_state=np.random.default_rng(3)) for _ in range(2))
    assert one.sets == two.sets and one.by_row.tobytes() == two.by_row.tobytes()
    with pytest.raises(ConjoinError, match="random_state"):
        cmll(mn, table, random_state=-1)


def agreeing(domain, row, free):
    """The states that have the row's values of all variables that are not free."""
    states = all_states(domain)
    known = [v for v in range(len(domain)) if v not in free]
    return states[(states[:, known] == row[known]).all(axis=1)]


def marginals_of_sweeps(dn, row, free):
    """What sweeps in ascending order converge to, from the matrix of a sweep over all states."""
    states = agreeing(dn.domain, row, free)
    number = {tuple(state): k for k, state in enumerate(states.tolist())}
    table = Table(dn.domain, states)
    steps = []
    for v in free:
        conditional = np.exp(dn.log_conditional(dn.domain.names[v], table))
        step = np.zeros((len(states), len(states)))
        for k, state in enumerate(states.tolist()):
            for s in range(int(dn.domain.cards[v])):
                step[k, number[(*state[:v], s, *state[v + 1 :])]] += conditional[k, s]
        steps.append(step)
    p = np.full(len(states), 1.0 / len(states))
    for _ in range(2000):
        for step in steps:
            p = p @ step
    parts = []
    for v, step in zip(free, steps, strict=True):
        p = p @ step
        parts.append(np.bincount(states[:, v], weights=p, minlength=dn.domain.cards[v]))
    return np.concatenate(parts)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cards", [(2,) * 6, (2, 3, 4, 2, 3)])
def test_dependency_networks_without_a_joint(seed, cards):
    rng = np.random.default_rng(seed)
    domain = Domain({f"x{i}": list(range(c)) for i, c in enumerate(cards)})
    dn = random_dependency_network(rng, domain, kinds=("tree", "table"))
    table = random_table(rng, domain, 12)
    result = cmll(dn, table, sets=2, samples=10_000)
    expected = np.zeros(len(table))
    for part in result.sets:
        free = sorted(domain.index(name) for name in part)
        first = np.cumsum(domain.cards[free]) - domain.cards[free]
        for r, row in enumerate(table.codes):
            p = marginals_of_sweeps(dn, row, free)
            expected[r] += np.log(p[first + row[free]]).sum()
    # In some of these networks, nothing depends on another variable of its set.
    assert abs(result.mean - expected.mean()) <= 5 * result.mc_stderr + 1e-9
    assert result.by_row == pytest.approx(expected, abs=0.1)


def in_groups(rng, cards, groups):
    """A network of unconnected groups of variables; the network and those of the groups."""
    domain = Domain(
        {f"{g}.{i}": list(range(c)) for g in range(groups) for i, c in enumerate(cards)}
    )
    terms, parts = [], []
    for g in range(groups):
        names = [f"{g}.{i}" for i in range(len(cards))]
        own = Domain({name: list(range(c)) for name, c in zip(names, cards, strict=True)})
        features = random_features(rng, own, count=25)
        parts.append(MarkovNetwork(own, features))
        for w, tests in feature_rows(features):
            terms.append((w, {names[v]: states for v, (states, _) in tests.items()}))
    return MarkovNetwork(domain, Features.from_terms(domain, terms)), parts


@pytest.mark.parametrize("cards", [(2, 2, 2, 2, 2), (2, 3, 2, 4)])
def test_cmll_of_many_variables(cards):
    rng = np.random.default_rng(4)
    mn, parts = in_groups(rng, cards, 40)
    table = Table(mn.domain, random_table(rng, mn.domain, 150).codes)
    sets = random_sets(mn.domain, 2)
    result = cmll(mn, table, sets=sets)
    expected = np.zeros(len(table))
    for g, part in enumerate(parts):
        own = table.codes[:, g * len(cards) : (g + 1) * len(cards)]
        inside = [[name for name in some if name in part.domain.names] for some in sets]
        small = cmll(part, Table(part.domain, own), sets=[some for some in inside if some])
        assert small.exact == 1
        expected += small.by_row
    assert result.exact == 1  # each group is a component of few states
    assert result.by_row == pytest.approx(expected, abs=1e-9)


def test_a_network_of_no_features():
    domain = Domain({f"x{i}": [0, 1] for i in range(70)})
    mn = MarkovNetwork(domain, Features.empty(domain.cards))
    result = cmll(mn, Table(domain, np.zeros((2, 70), np.uint8)), sets=1)
    assert result.exact == 1
    assert result.mean == pytest.approx(70 * np.log(0.5), abs=1e-9)
