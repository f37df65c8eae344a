"""Networks with hidden columns, compared with sums over all joint states."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from conjoin import Domain, Features, MarkovNetwork, Table
from conjoin.data.domain import Variable
from conjoin.data.frames import as_table
from conjoin.data.table import codes_of
from conjoin.errors import DataError, ModelError
from conjoin.models.markov import TableFactor


def hidden_network(seed, *, zeros=False, columns=1):
    """Return a random network of 3 to 8 visible variables and some hidden columns."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9 if columns == 1 else 6))
    variables = [Variable(f"v{i}", "abcd"[: rng.integers(2, 5)]) for i in range(n)]
    states = [int(rng.integers(2, 6)) for _ in range(columns)]
    variables += [Variable(f"(hidden {h})", range(k), hidden=True) for h, k in enumerate(states)]
    domain = Domain(variables)
    factors = [TableFactor((n + h,), rng.normal(size=k)) for h, k in enumerate(states)]
    for i in range(n):
        near = rng.choice(i, size=min(i, int(rng.integers(0, 3))), replace=False).tolist()
        scope = [*near, i, *(n + h for h in range(columns) if rng.random() < 0.8)]
        if columns > 1:
            rng.shuffle(scope)
        table = rng.normal(size=[len(variables[v]) for v in scope])
        if zeros:
            table[rng.random(table.shape) < 0.15] = -np.inf
        factors.append(TableFactor(tuple(scope), table))
    return MarkovNetwork(domain, factors=factors)


def joint(model):
    """Return the unnormalised joint table of the visible variables, hidden ones summed out."""
    cards = model.domain.cards.tolist()
    log = np.zeros(cards)
    for row in product(*map(range, cards)):
        codes = np.array([row])
        log[row] = model.features.evaluate(codes)[0] + sum(
            f.evaluate(codes)[0] for f in model.factors
        )
    shown = len(model.domain.observed)
    return np.exp(log).sum(axis=tuple(range(shown, len(cards))))


def all_rows(model):
    return np.array(list(product(*map(range, model.domain.observed.cards.tolist()))))


CASES = [(seed, zeros, columns) for seed in range(3) for zeros in (False, True) for columns in (1, 2)]
networks = pytest.mark.parametrize(("seed", "zeros", "columns"), CASES)


def test_domains_know_their_hidden_variables():
    hidden = Variable("z", range(3), hidden=True)
    assert hidden != Variable("z", range(3))
    assert hash(hidden) != hash(Variable("z", range(3)))
    assert hidden.renamed("y").hidden
    assert repr(hidden) == "Variable('z', [0, 1, 2], hidden=True)"
    domain = Domain([Variable("b", "xy"), Variable("a", "xy"), hidden])
    assert domain.hidden.tolist() == [False, False, True]
    assert domain.observed.names == ("b", "a")
    assert domain.observed.observed is domain.observed
    assert domain.observed is domain.observed
    assert domain.sorted_names() == ["a", "b", "z"]
    assert domain.reordered(["a", "b"]).names == ("a", "b", "z")
    assert domain.reordered(["z", "a", "b"]).names == ("a", "b", "z")
    with pytest.raises(DataError, match="reordered"):
        domain.reordered(["a", "z"])


def test_hidden_variables_come_last_and_belong_to_markov_networks():
    from conjoin import BayesianNetwork

    hidden = Variable("z", range(3), hidden=True)
    with pytest.raises(ModelError, match="after all others"):
        MarkovNetwork(Domain([hidden, Variable("a", "xy")]))
    with pytest.raises(ModelError, match="cannot have hidden"):
        BayesianNetwork(Domain([Variable("a", "xy"), hidden]), [])


def test_rows_need_no_hidden_columns():
    domain = Domain([Variable("a", "xy"), Variable("b", [1, 2]), Variable("z", range(300), hidden=True)])
    shown = Table.from_rows(domain.observed, [("x", 2), ("y", None)])
    expected = [[0, 1, 65535], [1, 65535, 65535]]
    frame = {"a": np.array(["x", "y"], object), "b": np.array([2.0, np.nan])}
    pandas = pytest.importorskip("pandas")
    for rows in (
        shown,
        shown.over(domain),
        np.array([[0, 1], [1, -1]]),
        np.array([[0, 1, -1], [1, -1, -1]]),
        [{"a": "x", "b": 2}, {"a": "y"}],
        [("x", 2), ("y", None)],
    ):
        assert codes_of(domain, rows, complete=False).tolist() == expected
    for data in (shown, pandas.DataFrame(frame), np.array([["x", 2], ["y", None]], object)):
        table = as_table(data, domain)
        assert table.domain == domain
        assert table.codes.tolist() == expected
    assert codes_of(domain, [("x", 2)]).tolist() == expected[:1]
    assert codes_of(domain, [("x", None)], ignored=1).tolist() == [[0, 0, 65535]]
    with pytest.raises(DataError, match="no value for 'b'"):
        codes_of(domain, shown)
    assert shown.over(domain).over(domain.observed).codes.tolist() == shown.codes.tolist()
    with pytest.raises(DataError, match="not the model's"):
        codes_of(domain, Table(Domain.numbered([2]), [[0]]))


@networks
def test_log_potentials_sum_over_hidden_columns(seed, zeros, columns):
    model = hidden_network(seed, zeros=zeros, columns=columns)
    with np.errstate(divide="ignore"):
        expected = np.log(joint(model)).ravel()
    rows = all_rows(model)
    np.testing.assert_allclose(model.log_potential(rows), expected, atol=1e-9)
    some = np.array([0] * len(model.domain))
    direct = sum(f.evaluate(some[None])[0] for f in model.factors)
    np.testing.assert_allclose(model.log_potential(some), [direct], atol=1e-9)


@networks
def test_conditionals_sum_over_hidden_columns(seed, zeros, columns):
    model = hidden_network(seed, zeros=zeros, columns=columns)
    p = joint(model)
    rows = all_rows(model)
    for i, name in enumerate(model.domain.observed.names):
        with np.errstate(invalid="ignore"):
            expected = p / p.sum(axis=i, keepdims=True)
        expected = np.moveaxis(expected, i, -1)
        index = tuple(np.delete(rows, i, axis=1).T)
        np.testing.assert_allclose(model.conditional(name, rows), expected[index], atol=1e-9)


def test_the_posterior_of_a_hidden_column_can_be_asked_for_by_name():
    model = hidden_network(3, columns=2)
    rows = all_rows(model)
    shape = model.domain.cards[model.domain.hidden]
    for h, name in enumerate(model.domain.hidden_names):
        logs = np.zeros((len(rows), *shape))
        for z in product(*map(range, shape)):
            whole = np.concatenate([rows, np.repeat([z], len(rows), axis=0)], axis=1)
            logs[(slice(None), *z)] = sum(f.evaluate(whole) for f in model.factors)
        expected = np.exp(logs).sum(axis=2 - h)
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.conditional(name, rows), expected, atol=1e-9)


def test_features_and_tables_together():
    domain = Domain([Variable("a", "xy"), Variable("b", "xyz"), Variable("z", range(3), hidden=True)])
    terms = [(0.7, {"a": "x", "z": [0, 2]}), (-1.0, {"b": ["y", "z"], "a": "y"}), (0.3, {})]
    rng = np.random.default_rng(0)
    factors = [TableFactor((2, 1), rng.normal(size=(3, 3)))]
    model = MarkovNetwork(domain, Features.from_terms(domain, terms), factors)
    np.testing.assert_allclose(
        np.exp(model.log_potential(all_rows(model))), joint(model).ravel(), atol=1e-9
    )


def test_blankets_reach_through_hidden_columns():
    domain = Domain([*(Variable(f"v{i}", "ab") for i in range(4)), Variable("z", "ab", hidden=True)])
    tables = [TableFactor(scope, np.zeros((2, 2))) for scope in ((0, 1), (1, 4), (2, 4))]
    model = MarkovNetwork(domain, factors=tables)
    assert model.blanket("v0") == ("v1",)
    assert model.blanket("v1") == ("v0", "v2")
    assert model.blanket("v3") == ()
    assert repr(model) == "<MarkovNetwork: 4 variables, 0 features, 3 table factors, 1 hidden columns>"
