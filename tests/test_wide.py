"""Engines for many free variables, against enumeration and the matrix of a sweep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as with_random
from hypothesis import settings

from conjoin import DependencyNetwork, Domain, Features, MarkovNetwork, Table
from conjoin.sampling import wide
from conjoin.sampling.engine import Settings
from conjoin.sampling.rows import ChainEngine, engine_for
from conjoin.sampling.rules import Rules
from conjoin.sampling.wide import BitEngine, Layout, LiveEngine
from conjoin.scoring import cmll
from conjoin.scoring.marginal_likelihood import random_sets
from reference import all_states, feature_rows, log_potentials, normalized
from strategies import generators, random_dependency_network, random_features


def binary_domain(n):
    return Domain({f"x{i}": [0, 1] for i in range(n)})


def mixed_domain(n):
    return Domain({f"x{i}": list(range(2 + i % 3)) for i in range(n)})


def random_network(rng, domain, count, longest=5):
    terms = []
    for _ in range(count):
        scope = rng.choice(len(domain), int(rng.integers(1, longest + 1)), replace=False)
        when = {}
        for v in scope.tolist():
            card = int(domain.cards[v])
            some = rng.choice(card, int(rng.integers(1, card)), replace=False)
            when[f"x{v}"] = {int(s) for s in some}
        terms.append((float(rng.normal() * 0.7), when))
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


def random_codes(rng, domain, rows):
    return np.stack([rng.integers(0, c, rows) for c in domain.cards], axis=1).astype(np.uint8)


def agreeing(domain, row, free):
    """The states that have the row's values of all variables that are not free."""
    states = all_states(domain)
    known = [v for v in range(len(domain)) if v not in free]
    return states[(states[:, known] == row[known]).all(axis=1)]


def marginals_of_joint(mn, row, free):
    """The marginals of the free variables, side by side, from the potentials of all states."""
    states = agreeing(mn.domain, row, free)
    p = np.exp(normalized(log_potentials(mn, states)))
    return np.concatenate(
        [np.bincount(states[:, v], weights=p, minlength=mn.domain.cards[v]) for v in free]
    )


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


def check(made, cards, free, codes, expected, chosen):
    """Exact values to 1e-9; sampled ones within five of their stated errors."""
    counters = np.random.default_rng(5).integers(0, 2**64, len(codes), dtype=np.uint64)
    mean, batch, exact = made.marginals(codes, counters)
    sure = np.repeat(exact, cards[free], axis=1)
    assert mean[sure] == pytest.approx(expected[sure], abs=1e-9)
    length = chosen.samples // chosen.batches
    means = batch[:, :, : len(codes)].transpose(0, 2, 1) / length
    assert means.mean(axis=0)[~sure] == pytest.approx(mean[~sure], abs=1e-5)
    error = means.std(axis=0, ddof=1) / np.sqrt(chosen.batches)
    assert error[~sure].max() < 0.03
    assert (np.abs(mean - expected)[~sure] <= 5 * error[~sure] + 2e-4).all()
    return exact


def order_of(free):
    return np.arange(len(free))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["bits", "live", "mixed"])
@pytest.mark.parametrize("directed", [False, True])
def test_marginals_of_a_joint(seed, kind, directed):
    rng = np.random.default_rng(seed)
    domain = (mixed_domain if kind == "mixed" else binary_domain)(9)
    mn = random_network(rng, domain, 150)
    model = DependencyNetwork.from_markov_network(mn) if directed else mn
    free, chosen = [0, 2, 3, 5, 8], Settings.of(200, 10_000)
    layout = Layout.of(Rules.of(model), free)
    engine = BitEngine if kind == "bits" else LiveEngine
    made = engine(layout, order_of(free), chosen)
    if kind == "bits":  # features joined and not, with one other free test and with more
        size = made.unit_end - made.unit_first
        assert size.min() == 1
        assert size.max() >= wide.MANY
        assert layout.lengths.max() > 2
    codes = random_codes(rng, domain, 70 if kind == "bits" else 15)
    expected = np.stack([marginals_of_joint(mn, row, free) for row in codes])
    check(made, domain.cards, free, codes, expected, chosen)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("engine", [BitEngine, LiveEngine])
def test_dependency_networks_without_a_joint(seed, engine):
    rng = np.random.default_rng(seed)
    domain = binary_domain(6) if engine is BitEngine else mixed_domain(5)
    dn = random_dependency_network(rng, domain, kinds=("tree", "table"))
    rules = Rules.of(dn)
    assert rules.features.off is None
    free, chosen = [0, 1, 3, 4], Settings.of(200, 10_000)
    made = engine(Layout.of(rules, free), order_of(free), chosen)
    codes = random_codes(rng, domain, 12)
    expected = np.stack([marginals_of_sweeps(dn, row, free) for row in codes])
    check(made, domain.cards, free, codes, expected, chosen)


@settings(max_examples=25)
@with_random(generators())
def test_what_depends_on_nothing_is_exact(rng):
    domain = binary_domain(7) if rng.random() < 0.5 else mixed_domain(6)
    mn = random_network(rng, domain, 9, longest=4)
    free, chosen = [1, 3, 4, 5], Settings.of(5, 50)
    rules = Rules.of(mn)
    layout = Layout.of(rules, free)
    codes = random_codes(rng, domain, 5)
    counters = np.arange(5, dtype=np.uint64)
    for engine in (LiveEngine, BitEngine) if domain.cards.max() == 2 else (LiveEngine,):
        mean, _, exact = engine(layout, order_of(free), chosen).marginals(codes, counters)
        for r, row in enumerate(codes):
            given = {v: int(row[v]) for v in range(len(domain)) if v not in free}
            left = [tests for w, tests in feature_rows(rules.features.condition(given)) if w != 0]
            tied = {v for tests in left if len(tests) > 1 for v in tests}
            assert exact[r].tolist() == [v not in tied for v in free]
            sure = np.repeat(exact[r], domain.cards[free])
            expected = marginals_of_joint(mn, row, free)
            assert mean[r][sure] == pytest.approx(expected[sure], abs=1e-9)


@pytest.mark.parametrize("engine", [BitEngine, LiveEngine])
def test_rows_do_not_depend_on_their_block(engine):
    rng = np.random.default_rng(3)
    domain = binary_domain(40)
    mn = random_network(rng, domain, 800, longest=4)
    free = list(range(0, 40, 2))
    made = engine(Layout.of(Rules.of(mn), free), order_of(free), Settings.of(5, 50))
    codes = random_codes(rng, domain, 128)
    counters = rng.integers(0, 2**64, 128, dtype=np.uint64)
    mean, batch, exact = made.marginals(codes, counters)
    for some in (slice(0, 1), slice(60, 67), slice(90, 128)):
        part = made.marginals(codes[some], counters[some])
        rows = some.stop - some.start
        assert part[0].tobytes() == mean[some].tobytes()
        assert part[1][:, :, :rows].tobytes() == batch[:, :, some].tobytes()
        assert (part[2] == exact[some]).all()


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


@pytest.mark.parametrize(
    ("cards", "engine", "rows"), [((2, 2, 2, 2, 2), BitEngine, 150), ((2, 3, 2, 4), LiveEngine, 30)]
)
def test_cmll_of_many_variables(cards, engine, rows):
    rng = np.random.default_rng(4)
    mn, parts = in_groups(rng, cards, 40)
    table = Table(mn.domain, random_codes(rng, mn.domain, rows))
    sets = random_sets(mn.domain, 2)
    free = sorted(mn.domain.index(name) for name in sets[0])
    assert len(free) > 64
    sweep = np.arange(len(mn.domain))
    assert type(engine_for(Rules.of(mn), free, sweep, Settings.of(100, 1000))) is engine
    result = cmll(mn, table, sets=sets)
    expected = np.zeros(len(table))
    for g, part in enumerate(parts):
        own = table.codes[:, g * len(cards) : (g + 1) * len(cards)]
        inside = [[name for name in some if name in part.domain.names] for some in sets]
        small = cmll(part, Table(part.domain, own), sets=[some for some in inside if some])
        assert small.exact == 1
        expected += small.by_row
    assert 0 < result.exact < 1
    assert 0 < result.mc_stderr < 0.1
    assert abs(result.mean - expected.mean()) <= 5 * result.mc_stderr
    again = cmll(mn, table, sets=sets, n_jobs=2)
    assert again.by_row.tobytes() == result.by_row.tobytes()
    assert again.mc_stderr == result.mc_stderr


def test_rules_and_off_values_go_by_the_general_chain():
    rng = np.random.default_rng(0)
    domain = binary_domain(80)
    hard = Features.from_terms(domain, [(-np.inf, {"x0": 0, "x1": 0}), (0.5, {"x1": 1, "x2": 1})])
    soft = Features(hard.tests, hard.indptr, hard.indices, np.ones(2), rng.random(4))
    free, sweep = list(range(70)), np.arange(80)
    for features in (hard, soft):
        rules = Rules.of(MarkovNetwork(domain, features))
        assert type(engine_for(rules, free, sweep, Settings.of(1, 2))) is ChainEngine


def test_a_network_of_no_features():
    domain = binary_domain(70)
    mn = MarkovNetwork(domain, Features.empty(domain.cards))
    result = cmll(mn, Table(domain, np.zeros((2, 70), np.uint8)), sets=1)
    assert result.exact == 1
    assert result.mean == pytest.approx(70 * np.log(0.5), abs=1e-9)
