"""Networks with hidden columns, compared with sums over all joint states."""

from __future__ import annotations

import json
from itertools import permutations, product

import numpy as np
import pytest

from conjoin import (
    Domain,
    Features,
    JointModel,
    MarkovNetwork,
    Table,
    Variable,
    load,
    log_partition,
    marginals,
    most_probable,
    probability,
    read_table,
    refine,
    sample,
    write_table,
)
from conjoin.cli.main import main
from conjoin.data import as_table, codes_of
from conjoin.errors import DataError, ModelError
from conjoin.inference import forecast
from conjoin.inference import joint_distribution as cj_joint
from conjoin.inference.gibbs import gibbs
from conjoin.joint import learn_weights, pair_joints, thin
from conjoin.models import TableFactor
from conjoin.scoring import cmll, log_likelihood, pll, score
from conjoin.views.reports import interactions, to_networkx


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


CASES = [
    (seed, zeros, columns) for seed in range(3) for zeros in (False, True) for columns in (1, 2)
]
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
    domain = Domain(
        [Variable("a", "xy"), Variable("b", [1, 2]), Variable("z", range(300), hidden=True)]
    )
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
    with pytest.raises(DataError, match="differ from the model's"):
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
    domain = Domain(
        [Variable("a", "xy"), Variable("b", "xyz"), Variable("z", range(3), hidden=True)]
    )
    terms = [(0.7, {"a": "x", "z": [0, 2]}), (-1.0, {"b": ["y", "z"], "a": "y"}), (0.3, {})]
    rng = np.random.default_rng(0)
    factors = [TableFactor((2, 1), rng.normal(size=(3, 3)))]
    model = MarkovNetwork(domain, Features.from_terms(domain, terms), factors)
    np.testing.assert_allclose(
        np.exp(model.log_potential(all_rows(model))), joint(model).ravel(), atol=1e-9
    )


def test_blankets_reach_through_hidden_columns():
    domain = Domain(
        [*(Variable(f"v{i}", "ab") for i in range(4)), Variable("z", "ab", hidden=True)]
    )
    tables = [TableFactor(scope, np.zeros((2, 2))) for scope in ((0, 1), (1, 4), (2, 4))]
    model = MarkovNetwork(domain, factors=tables)
    assert model.blanket("v0") == ("v1",)
    assert model.blanket("v1") == ("v0", "v2")
    assert model.blanket("v3") == ()
    assert (
        repr(model) == "<MarkovNetwork: 4 variables, 0 features, 3 table factors, 1 hidden columns>"
    )


def normalized(model):
    p = joint(model)
    return p / p.sum()


def with_holes(model, seed=0, rows=40):
    """Return possible rows over the visible variables, some values of which are missing."""
    rng = np.random.default_rng(seed)
    p = normalized(model)
    drawn = rng.choice(p.size, rows, p=p.ravel())
    codes = np.stack(np.unravel_index(drawn, p.shape), axis=1)
    codes[rng.random(codes.shape) < 0.3] = -1
    return Table(model.domain.observed, codes)


def given_row(p, row, shape):
    """Return the part of a joint table that agrees with the known values of a row."""
    return p[
        tuple(slice(None) if c >= k else slice(c, c + 1) for c, k in zip(row, shape, strict=True))
    ]


@networks
def test_answers_sum_over_hidden_columns(seed, zeros, columns):
    model = hidden_network(seed, zeros=zeros, columns=columns)
    raw, p = joint(model), normalized(model)
    shown = model.domain.observed
    assert log_partition(model).value == pytest.approx(np.log(raw.sum()), abs=1e-9)
    found = marginals(model)
    assert list(found) == list(shown.names)
    assert len(found.arrays()) == len(shown)
    assert "hidden" not in repr(found)
    for i, name in enumerate(shown.names):
        expected = p.sum(axis=tuple(j for j in range(p.ndim) if j != i))
        np.testing.assert_allclose(found.array(name), expected, atol=1e-9)
    pair = cj_joint(model, [shown.names[2], shown.names[0]])
    expected = p.sum(axis=tuple(j for j in range(p.ndim) if j not in (0, 2))).T
    np.testing.assert_allclose(pair.table, expected, atol=1e-9)
    state = int(p.sum(axis=tuple(range(1, p.ndim))).argmax())
    given = {shown.names[0]: shown.variables[0].states[state]}
    query = {shown.names[1]: "a"}
    below = p[state].sum()
    assert probability(model, query, given) == pytest.approx(p[state, 0].sum() / below, abs=1e-9)
    assert forecast(model).bytes > 0


def test_a_hidden_column_is_answered_for_only_by_name():
    model = hidden_network(1)
    name = model.domain.hidden_names[0]
    found = marginals(model, targets=["v0", name])
    assert list(found) == ["v0", name]
    assert sum(found[name].values()) == pytest.approx(1)
    assert float(probability(model, {name: 0})) == pytest.approx(found[name][0])
    sampled = marginals(model, targets=[name], method="gibbs", n_samples=4000)
    np.testing.assert_allclose(sampled.array(name), found.array(name), atol=0.1)
    assert name not in gibbs(model).marginals
    with pytest.raises(DataError, match="no variable 'hiden'") as error:
        marginals(model, targets=["hiden"])
    assert name not in str(error.value)


@networks
def test_the_most_probable_row_is_within_its_bound(seed, zeros, columns):
    model = hidden_network(seed, zeros=zeros, columns=columns)
    raw = joint(model)
    found = most_probable(model)
    assert list(found) == list(model.domain.observed.names)
    row = tuple(model.domain.observed.encode(found))
    assert found.score == pytest.approx(np.log(raw[row]), abs=1e-9)
    best = np.log(raw.max())
    assert found.score <= best + 1e-9 <= found.bound + 2e-9
    if found.run.exact:
        assert found.score == pytest.approx(best, abs=1e-9)
    else:
        assert "nats better" in found.run.note
    # No change of one variable makes it more probable.
    for i in range(len(row)):
        line = raw[(*row[:i], slice(None), *row[i + 1 :])]
        assert line.max() <= raw[row] * (1 + 1e-9)
    first = model.domain.observed.variables[0]
    given = {first.name: first.states[row[0]]}
    assert most_probable(model, given)[first.name] == first.states[row[0]]
    with pytest.raises(ModelError, match="instead of summing"):
        most_probable(model, method="annealing")


def test_the_most_probable_row_is_exact_if_the_hidden_state_is_decided():
    domain = Domain(
        [Variable("a", "xy"), Variable("b", "xy"), Variable("z", range(3), hidden=True)]
    )
    table = np.full((2, 2, 3), -40.0)
    table[1, 0, 2] = 3.0
    found = most_probable(MarkovNetwork(domain, factors=[TableFactor((0, 1, 2), table)]))
    assert found.states == {"a": "y", "b": "x"}
    assert found.run.exact
    given = most_probable(MarkovNetwork(domain, factors=[TableFactor((0, 1, 2), table)]), {"z": 2})
    assert given.states == {"a": "y", "b": "x", "z": 2}


@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_samples_have_no_hidden_columns(method):
    model = hidden_network(2)
    p = normalized(model)
    table = sample(model, 20_000, method=method)
    assert table.domain == model.domain.observed
    for i, q in enumerate(table.marginals(pseudo=0)):
        expected = p.sum(axis=tuple(j for j in range(p.ndim) if j != i))
        np.testing.assert_allclose(q, expected, atol=0.03)
    first = model.domain.observed.names[0]
    assert set(sample(model, 50, {first: "a"}, method=method).codes[:, 0].tolist()) == {0}


@networks
def test_scores_sum_over_hidden_columns(seed, zeros, columns):
    model = hidden_network(seed, zeros=zeros, columns=columns)
    p = normalized(model)
    rows = with_holes(model, seed)
    known = rows.codes != rows.missing
    expected = [np.log(given_row(p, row, p.shape).sum()) for row in rows.codes]
    found = log_likelihood(model, rows)
    np.testing.assert_allclose(found.by_row, expected, atol=1e-9)
    assert found.exact
    assert found.report()["estimated"] is False
    full = Table(rows.domain, all_rows(model)[p.ravel() > 0])
    np.testing.assert_allclose(
        log_likelihood(model, full).by_row, np.log(p[p > 0].ravel()), atol=1e-9
    )
    by_row = np.zeros(len(full))
    for i in range(p.ndim):
        with np.errstate(divide="ignore", invalid="ignore"):
            conditional = np.log(p / p.sum(axis=i, keepdims=True))
        by_row += conditional[p > 0]
    np.testing.assert_allclose(pll(model, full).by_row, by_row, atol=1e-9)
    sets = [rows.domain.names[::2], rows.domain.names[1::2]]
    by_row = np.zeros(len(rows))
    for part in sets:
        at = [rows.domain.index(name) for name in part]
        for r, row in enumerate(rows.codes):
            evidence = row.copy()
            evidence[at] = rows.missing
            given = given_row(p, evidence, p.shape)
            for i in at:
                if known[r, i]:
                    line = given.sum(axis=tuple(j for j in range(p.ndim) if j != i))
                    by_row[r] += np.log(line[row[i]] / line.sum())
    scored = cmll(model, rows, sets=sets)
    np.testing.assert_allclose(scored.by_row, by_row, atol=1e-9)
    assert scored.exact == 1


def test_pseudo_likelihood_averages_over_missing_values():
    model = hidden_network(4)
    rows = with_holes(model, 1)
    given = rows.marginals()
    shape, k = model.domain.observed.cards, int(model.domain.cards[-1])
    score = pll(model, rows)
    assert list(score.by_variable) == list(model.domain.observed.names)
    for r, row in enumerate(rows.codes):
        total = 0.0
        for i in np.flatnonzero(row < shape):
            logs = np.zeros((shape[i], k))
            for s in range(shape[i]):
                own = row.copy()
                own[i] = s
                holes = np.flatnonzero(own >= shape)
                for states in product(*(range(shape[j]) for j in holes)):
                    own[holes] = states
                    weight = np.prod([given[j][t] for j, t in zip(holes, states, strict=True)])
                    whole = np.concatenate([np.repeat(own[None], k, 0), np.arange(k)[:, None]], 1)
                    logs[s] += weight * sum(f.evaluate(whole) for f in model.factors)
            p = np.exp(logs).sum(axis=1)
            total += np.log(p[row[i]] / p.sum())
        assert score.by_row[r] == pytest.approx(total, abs=1e-9)


def test_an_estimated_likelihood_says_so():
    model = hidden_network(0)
    rows = with_holes(model, 2)
    exact = log_likelihood(model, rows)
    found = log_likelihood(model, rows, max_memory=16.0)
    assert not found.exact
    assert "estimated" in found.notes()[0]
    assert "estimated" in repr(found)
    assert found.log_z.error > 0
    assert abs(found.log_z.value - exact.log_z.value) < 6 * found.log_z.error + 0.01
    assert score(model, rows, "ll").mean == exact.mean
    with pytest.raises(ModelError, match="no metric"):
        score(model, rows, "lll")


def fitted(model, rows=200):
    """Return a JointModel with another network in place of the one that it learned."""
    table = sample(model, rows)
    frame = np.array([list(table.domain.decode(row).values()) for row in table.codes], object)
    estimator = JointModel(refine=False, cpd="tree").fit(frame)
    names = dict(zip(table.domain.names, estimator.domain_.names, strict=True))
    variables = [v.renamed(names.get(v.name, v.name)) for v in model.domain]
    estimator.model_ = MarkovNetwork(Domain(variables), factors=model.factors)
    assert estimator.domain_ == estimator.model_.domain.observed
    estimator.log_partition_ = None
    return estimator, frame


@pytest.fixture(scope="module")
def estimator():
    return fitted(hidden_network(5))


def holes(frame, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(frame.shape) < 0.3, None, frame)[:30]


def test_the_estimator_scores_and_predicts(estimator):
    model, frame = estimator
    p = normalized(model.model_)
    rows = holes(frame)
    codes = Table.from_rows(model.domain_, rows).codes
    expected = np.array([given_row(p, row, p.shape).sum() for row in codes])
    np.testing.assert_allclose(model.score_samples(rows), np.log(expected), atol=1e-9)
    assert model.score(rows) == pytest.approx(np.log(expected).mean(), abs=1e-9)
    full = frame[:30]
    assert model.score(full, metric="pll") == pytest.approx(
        pll(model.model_, Table.from_rows(model.domain_, full)).mean
    )
    target = model.domain_.names[1]
    codes = codes.copy()
    codes[:, 1] = 255
    lines = [given_row(p, row, p.shape) for row in codes]
    lines = [q.sum(axis=tuple(j for j in range(p.ndim) if j != 1)) for q in lines]
    expected = np.array([q / q.sum() for q in lines])
    np.testing.assert_allclose(model.predict_proba(rows, target), expected, atol=1e-9)
    assert model.predict(rows, target).tolist() == [
        model.domain_.variables[1].states[q.argmax()] for q in lines
    ]


def test_the_estimator_fills_in_missing_values(estimator):
    model, frame = estimator
    p = normalized(model.model_)
    rows = holes(frame)
    codes = Table.from_rows(model.domain_, rows).codes
    filled = model.impute(rows)
    assert filled.shape == rows.shape
    for row, before in zip(Table.from_rows(model.domain_, filled).codes, codes, strict=True):
        assert (row == before)[before != 255].all()
        for i in np.flatnonzero(before == 255):  # no change of one value is better
            assert p[(*row[:i], slice(None), *row[i + 1 :])].max() <= p[tuple(row)] * (1 + 1e-9)
    likely = Table.from_rows(model.domain_, model.impute(rows, by="cell")).codes
    for row, before in zip(likely, codes, strict=True):
        line = given_row(p, before, p.shape)
        for i in np.flatnonzero(before == 255):
            each = line.sum(axis=tuple(j for j in range(p.ndim) if j != i))
            assert each[row[i]] == pytest.approx(each.max())
    drawn = model.impute(rows, draws=2)
    assert len(drawn) == 2
    assert (drawn[0][rows != None] == rows[rows != None]).all()  # noqa: E711


def test_the_estimator_draws_and_reports(estimator, tmp_path):
    model, frame = estimator
    assert model.sample(50).shape == (50, frame.shape[1])
    assert list(model.marginals()) == list(model.domain_.names)
    assert list(model.most_probable()) == list(model.domain_.names)
    assert "hidden states" in repr(model)
    assert "(hidden" not in model._repr_html_()
    model.report(tmp_path / "report.html", frame)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "(hidden" not in page
    assert "hidden column" in page


@pytest.mark.parametrize("limit", [8, 2])
def test_explanations_sum_over_hidden_columns(estimator, limit):
    model, frame = estimator
    names = model.domain_.names
    row = dict(zip(names, frame[0].tolist(), strict=True))
    row.pop(names[2])
    found = model.explain(row, names[0], all_sets_up_to=limit)
    p = normalized(model.model_)
    codes = {
        model.domain_.index(n): model.domain_[n].index(s) for n, s in row.items() if n != names[0]
    }

    def log_odds(known):
        line = p[
            (slice(None), *(codes[v] if v in known else slice(None) for v in range(1, p.ndim)))
        ]
        line = line.sum(axis=tuple(range(1, line.ndim)))
        a, b = (model.domain_[names[0]].index(s) for s in (found.state, found.against))
        return np.log(line[a] / line[b])

    assert found.base == pytest.approx(log_odds(()), abs=1e-9)
    assert found.log_odds == pytest.approx(log_odds(set(codes)), abs=1e-9)
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.log_odds, abs=1e-9)
    assert not any("hidden" in name for name in found.contributions)
    if limit == 8:
        shares = dict.fromkeys(codes, 0.0)
        orders = list(permutations(codes))
        for order in orders:
            for k, v in enumerate(order):
                gain = log_odds(set(order[: k + 1])) - log_odds(set(order[:k]))
                shares[v] += gain / len(orders)
        for v, share in shares.items():
            assert found.contributions.get(names[v], 0.0) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("columns", [1, 2])
def test_interactions_are_those_of_the_pairs(columns):
    model = hidden_network(6, columns=columns)
    p = normalized(model)
    joints = pair_joints(model)
    cards = model.domain.observed.cards
    first = np.concatenate([[0], np.cumsum(cards)])
    for i in range(len(cards)):
        for j in range(len(cards)):
            block = joints[first[i] : first[i + 1], first[j] : first[j + 1]]
            expected = p.sum(axis=tuple(k for k in range(p.ndim) if k not in (i, j)))
            expected = np.diag(expected) if i == j else expected if i < j else expected.T
            np.testing.assert_allclose(block, expected, atol=1e-9)
    found = interactions(model)
    assert found.domain == model.domain.observed
    link = found[0]
    i, j = (model.domain.index(name) for name in link.variables)
    log = np.log(p.sum(axis=tuple(k for k in range(p.ndim) if k not in (i, j))))
    centred = log - log.mean(axis=0) - log.mean(axis=1, keepdims=True) + log.mean()
    np.testing.assert_allclose(link.table, centred, atol=1e-9)
    assert link.strength == pytest.approx(np.sqrt((centred**2).mean()))
    graph = to_networkx(model)
    assert list(graph) == list(model.domain.observed.names)


@pytest.mark.parametrize("ending", [".conjoin", ".mn", ".uai", ".conjoin.gz"])
def test_files_keep_hidden_columns(ending, tmp_path):
    model = hidden_network(7)
    path = tmp_path / f"model{ending}"
    model.save(path)
    again = load(path)
    assert again.domain == model.domain
    rows = all_rows(model)
    tolerance = 0 if "conjoin" in ending else 1e-9
    np.testing.assert_allclose(
        again.log_potential(rows) - again.log_potential(rows)[0],
        model.log_potential(rows) - model.log_potential(rows)[0],
        atol=tolerance,
    )


def test_other_steps_refuse_hidden_columns():
    model = hidden_network(8)
    rows = sample(model, 60)
    for step in (
        lambda: thin(model),
        lambda: refine(model, rows),
        lambda: learn_weights(model, rows),
    ):
        with pytest.raises(ModelError, match="a network with hidden columns cannot be"):
            step()


def test_reordering_keeps_the_distribution():
    model = hidden_network(9)
    names = model.domain.observed.names[::-1]
    moved = model.reordered(names)
    assert moved.domain.names == (*names, *model.domain.hidden_names)
    rows = all_rows(model)
    np.testing.assert_allclose(
        moved.log_potential(rows[:, ::-1]), model.log_potential(rows), atol=1e-9
    )
    assert model.reordered(model.domain.observed.names) is model


def test_commands(tmp_path, capsys):
    model = hidden_network(10)
    path, rows = str(tmp_path / "model.conjoin"), str(tmp_path / "rows.csv")
    model.save(path)
    table = sample(model, 80)
    write_table(table, rows)

    def say(*words):
        assert main([*words]) == 0
        return capsys.readouterr().out

    k = int(model.domain.cards[-1])
    assert f"1 hidden column with {k} states" in say("info", path)
    assert "(hidden" not in say("info", path, "--json")
    found = json.loads(say("score", path, rows, "--metric", "ll", "--json"))
    assert found["mean"] == pytest.approx(log_likelihood(model, table).mean)
    assert found["exact"]
    assert "exact" in say("score", path, rows, "--metric", "ll")
    for metric in ("pll", "cmll"):
        assert say("score", path, rows, "--metric", metric)
    assert "(hidden" not in say("query", path)
    assert "(hidden" not in say("query", path, "--map")
    for task in ("MAR", "MAP", "PR"):
        assert say("query", path, "--task", task)
    drawn = str(tmp_path / "drawn.csv")
    say("sample", path, "-n", "20", "-o", drawn)
    assert read_table(drawn, model.domain).domain == model.domain.observed
    say("impute", path, rows, "-o", str(tmp_path / "full.csv"))
    say("predict", path, rows, "--target", "v1", "-o", str(tmp_path / "predicted.csv"))
    say("report", path, "-o", str(tmp_path / "page.html"), "--test", rows)
