"""Required parents: what each kind of CPD makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from conjoin import Domain, Table, learn_conditionals
from conjoin.errors import ModelError
from conjoin.learning import LogisticPath, parent_rules
from test_learning import indicators, slow_objective


def noisy_table(seed=0, rows=600):
    """Two variables that depend on each other, and two that nothing depends on."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < 0.8, a % 2, rng.integers(0, 2, rows))
    columns = [a, b, rng.integers(0, 2, rows), rng.integers(0, 3, rows)]
    domain = Domain({"a": [0, 1, 2], "b": [0, 1], "coin": [0, 1], "die": [1, 2, 3]})
    return Table(domain, np.stack(columns, axis=1))


REQUIRED = {"a": ["coin"], "b": ["coin", "die"]}


@pytest.mark.parametrize("cpd", ["tree", "logistic", "hybrid"])
@pytest.mark.parametrize("tuned", [False, True])
def test_required_parents_are_in_the_blanket(cpd, tuned):
    table = noisy_table()
    options = {} if tuned else {"kappa": 1e-4, "penalty": 50.0}
    free = learn_conditionals(table, cpd, **options)
    bound = learn_conditionals(table, cpd, required=REQUIRED, **options)
    if not tuned:
        assert not {"coin", "die"} & set(free.blanket("b"))
    for target, parents in REQUIRED.items():
        assert set(parents) <= set(bound.blanket(target))
    if not tuned:  # the others are as they were
        for target in (2, 3):
            np.testing.assert_allclose(
                bound.cpds[target].log_probabilities(table.codes),
                free.cpds[target].log_probabilities(table.codes),
                atol=1e-4,
            )


@pytest.mark.parametrize("penalty", [50.0, 3.0])
def test_logistic_terms_of_required_parents_have_a_light_penalty(penalty):
    table = noisy_table(rows=300)
    path = LogisticPath(table, None, parent_rules(table.domain, None, REQUIRED))
    path.advance(100.0)
    path.advance(penalty)
    rows = np.arange(len(table))
    for name in ("b", *REQUIRED):
        target = table.domain.index(name)
        required = [table.domain.index(p) for p in REQUIRED.get(name, [])]
        _, columns = indicators(table, target)
        cost = np.array([penalty / 1000 if v in required else penalty for v, _ in columns])
        expected = slow_objective(table, target, cost[:, None], steps=4000)
        cpd = path.cpds(penalty)[target]
        features = cpd.features()
        got = -cpd.log_probabilities(table.codes)[rows, table.codes[:, target]].sum()
        for f in range(len(features)):
            others = [int(v) for v in features.entry_var[features.entry_feature == f]]
            others = [v for v in others if v != target]
            if others:
                light = others[0] in required
                got += (penalty / 1000 if light else penalty) * abs(features.weights[f])
        assert got == pytest.approx(expected, rel=1e-5)


def test_what_cannot_be_required_is_an_error():
    table = noisy_table()
    constant = Table(Domain({"x": [0, 1], "c": [0, 1]}), [[0, 1], [1, 1]] * 30)
    for cpd in ("tree", "logistic", "hybrid", "boosted"):
        with pytest.raises(ModelError, match="'c' is required for 'x', but has only one state"):
            learn_conditionals(constant, cpd, required={"x": ["c"]})
    linear = pytest.importorskip("sklearn.linear_model")
    with pytest.raises(ModelError, match="a LogisticRegression cannot be made to use it"):
        learn_conditionals(table, linear.LogisticRegression(), required={"b": ["coin"]})
    with pytest.raises(ModelError, match="boosted trees cannot be made to use it"):
        learn_conditionals(table, "boosted", required={"b": ["coin"]})
