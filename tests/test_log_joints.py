"""Log-sums of rows together with each state of a variable, against sums over all instances."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import logsumexp

from conjoin import Domain, MarkovNetwork
from conjoin.inference import Completion, row_log_joints
from conjoin.models import TableFactor

CARDS = (2, 3, 2, 4, 3, 6)
SCOPES = ((0, 1, 5), (1, 2, 5), (2, 5), (3, 4))  # the last pair is a component of its own


def network(seed):
    """A network of tables, in which some states are impossible."""
    rng = np.random.default_rng(seed)
    factors = []
    for scope in SCOPES:
        table = rng.normal(0, 2, [CARDS[v] for v in scope])
        table[rng.random(table.shape) < 0.1] = -np.inf
        factors.append(TableFactor(scope, table))
    return MarkovNetwork(Domain({f"v{i}": range(c) for i, c in enumerate(CARDS)}), factors=factors)


def brute_force(model, row, target):
    logs = [[] for _ in range(CARDS[target])]
    states = [range(c) if row[v] < 0 else [row[v]] for v, c in enumerate(CARDS)]
    for instance in product(*states):
        value = sum(f.table[tuple(instance[v] for v in f.variables)] for f in model.factors)
        logs[instance[target]].append(value)
    return [logsumexp(found) for found in logs]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", range(len(CARDS)))
def test_log_joints_are_sums_over_all_instances(seed, target):
    model, rng = network(seed), np.random.default_rng([seed, target])
    rows = np.stack([rng.integers(0, c, 30) for c in CARDS], axis=1)
    rows[rng.random(rows.shape) < 0.4] = -1
    rows[:, target] = -1
    exact = np.array([brute_force(model, row, target) for row in rows.tolist()])
    possible = np.isfinite(exact).any(axis=1)
    rows, exact = rows[possible], exact[possible]
    codes = np.where(rows < 0, 255, rows).astype(np.uint8)
    found = row_log_joints(model, codes, target)[0]
    assert len(rows) > 5
    assert np.where(np.isfinite(found), found, -1e9) == pytest.approx(
        np.where(np.isfinite(exact), exact, -1e9), abs=1e-9
    )


def test_states_that_are_nearly_impossible_keep_their_logarithms():
    table = np.array([[0.0, -2000.0], [-5000.0, -1000.0]])
    model = MarkovNetwork(Domain({"a": [0, 1], "b": [0, 1]}), factors=[TableFactor((0, 1), table)])
    codes = np.array([[0, 255], [255, 255]], np.uint8)
    assert row_log_joints(model, codes, 1)[0] == pytest.approx(
        np.array([[0.0, -2000.0], [0.0, -1000.0]])
    )


def test_networks_of_tables_are_answered_exactly_beyond_their_own_size():
    rng = np.random.default_rng(0)
    domain = Domain({f"v{i}": range(16) for i in range(5)})
    pairs = list(combinations(range(5), 2))  # 2,560 values, and 16 ** 5 cells in the junction tree
    tables = [rng.normal(size=(16, 16)) for _ in pairs]
    mn = MarkovNetwork(
        domain, factors=[TableFactor(p, t) for p, t in zip(pairs, tables, strict=True)]
    )
    joint = np.zeros((16,) * 5)
    for (a, b), table in zip(pairs, tables, strict=True):
        shape = [1] * 5
        shape[a] = shape[b] = 16
        joint += table.reshape(shape)
    rows = np.full((2, 5), 255, np.uint8)
    rows[1, 2] = 7
    sums, exact = Completion(mn, rows).log_sums()
    assert exact.all()
    assert sums == pytest.approx([logsumexp(joint), logsumexp(joint[:, :, 7])], rel=1e-12)
