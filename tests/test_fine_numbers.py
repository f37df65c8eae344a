"""Joints of states and numbers against their definition (`fine_reference`), and against themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import fine_reference as slow
from conjoin import Range, load, log_partition, marginals, probability, sample, save
from conjoin.inference import JointRows
from conjoin.scoring import log_likelihood, pll
from random_joints import random_joint, random_rows, sums_over_chain

seeds = st.integers(0, 2**32 - 1)
AT = (-4.0, 0.0, 3.0, 8.0, 15.0, 19.0, 24.0)


def known_of(joint, table, row, without=None):
    """What is known of a row: codes, and the scores that are evidence."""
    fine, domain = joint.fine, joint.domain.observed
    codes = np.where(table.holes[row], -1, table.codes[row].astype(int))
    if without is not None and (np.delete(codes, domain.index(without)) < 0).any():
        codes[table.absent[row]] = -1  # other values got lost, so these may have been, too
    scores = np.full(len(fine.names), np.nan)
    for j, name in enumerate(fine.names):
        column = domain.numbers(name)
        code, value = codes[domain.index(name)], table.column(name)[row]
        if name != without and code >= 0 and column.intervals[code]:
            scores[j] = slow.score(column, value)
    if without is not None:
        codes[domain.index(without)] = -1
    return codes, scores


def check_number(found, row, joint, log_p, codes, scores, name):
    mean, sd, below = slow.number_of(log_p, joint.fine, codes, scores, name, AT)
    assert found.mean()[row] == pytest.approx(mean, rel=1e-9, abs=2e-8)  # the column has 20 units
    assert found.sd()[row] == pytest.approx(sd, rel=1e-7, abs=2e-8)
    np.testing.assert_allclose([found.cdf(x)[row] for x in AT], below, rtol=0, atol=1e-9)


@given(seeds)
def test_rows_with_one_or_two_columns_missing(seed):
    rng = np.random.default_rng(seed)
    joint, log_p = random_joint(rng)
    domain = joint.domain.observed
    table = random_rows(rng, domain, 4, missing=int(rng.integers(0, 3)))
    rows = JointRows(joint, table)
    for v, name in enumerate(domain.names):
        answer = rows.answer(name)
        assert answer.exact.all()
        for row in range(len(table)):
            codes, scores = known_of(joint, table, row, name)
            if sums_over_chain(joint, codes, v):
                expected = slow.states_of(log_p, joint.fine, codes, scores, v)
                np.testing.assert_allclose(answer.p[row], expected, rtol=0, atol=1e-9)
        codes, scores = known_of(joint, table, 0, name)
        if name in joint.fine.names and sums_over_chain(joint, codes, v):
            check_number(rows.number(name), 0, joint, log_p, codes, scores, name)


def evidence_of_row(joint, table, row, names):
    """Some of the values of a row, as `marginals` takes them."""
    given, domain = {}, joint.domain.observed
    for name in names:
        v = domain.index(name)
        if table.holes[row, v]:
            continue
        given[name] = domain[name].states[table.codes[row, v]]
        if name in domain.numeric and not table.absent[row, v]:
            given[name] = int(table.column(name)[row])
    return given


@given(seeds)
def test_marginals(seed):
    rng = np.random.default_rng(seed)
    joint, log_p = random_joint(rng)
    domain = joint.domain.observed
    table = random_rows(rng, domain, 1, missing=int(rng.integers(1, len(domain) + 1)))
    known = evidence_of_row(joint, table, 0, domain.names)
    found = marginals(joint, known)
    assert found.run.exact
    codes, scores = known_of(joint, table, 0)
    for v, name in enumerate(domain.names):
        expected = slow.states_of(log_p, joint.fine, codes, scores, v)
        np.testing.assert_allclose(found.array(name), expected, rtol=0, atol=1e-9)
        if name in known:
            assert found.array(name)[codes[v]] == 1
        elif name in joint.fine.names:
            check_number(found[name]._rows, 0, joint, log_p, codes, scores, name)
            low, high = sorted(rng.integers(-2, 23, 2).tolist())
            p = probability(joint, f"{low} <= {name} <= {high}", known)
            inside = (1 - found[name].absent) * found[name].probability(low, high)
            assert p == pytest.approx(inside, rel=1e-9, abs=1e-12)


@given(seeds)
def test_log_densities(seed):
    """Those of complete rows are those of the definition, per unit of each number."""
    rng = np.random.default_rng(seed)
    joint, log_p = random_joint(rng)
    domain = joint.domain.observed
    table = random_rows(rng, domain, 5)
    expected = np.zeros(len(table))
    for row in range(len(table)):
        codes, scores = known_of(joint, table, row)
        for name in domain.numeric:
            column, x = domain.numbers(name), table.column(name)[row]
            code = codes[domain.index(name)]
            if column.intervals[code]:
                if name not in joint.fine.names or np.isnan(scores[joint.fine.names.index(name)]):
                    # only the state counts: standard normal within its interval
                    ends = slow.ends_of(column)[code]
                    expected[row] += norm.logpdf(slow.score(column, x))
                    expected[row] -= slow.log_masses(0.0, 1.0, *ends)
                rise = slow.score(column, np.array([x - 1e-6, x + 1e-6]))
                expected[row] += np.log((rise[1] - rise[0]) / 2e-6)
        expected[row] += slow.log_probability(log_p, joint.fine, codes, scores)
    np.testing.assert_allclose(
        JointRows(joint, table).log_density(), expected, rtol=1e-7, atol=1e-7
    )
    np.testing.assert_allclose(log_likelihood(joint, table).by_row, expected, rtol=1e-7, atol=1e-7)


@given(seeds)
def test_the_order_of_columns_changes_no_answer(seed):
    rng = np.random.default_rng(seed)
    joint, _ = random_joint(rng)
    domain = joint.domain.observed
    table = random_rows(rng, domain, 3, missing=1)
    names = rng.permutation(domain.names).tolist()
    hidden = joint.domain.hidden_names
    twin = joint.reordered([*names, *hidden])
    first, second = JointRows(joint, table), JointRows(twin, table.reordered(names))
    for name in names:
        np.testing.assert_allclose(first.states(name), second.states(name), rtol=0, atol=1e-9)
        if name in domain.numeric:
            means = (rows.number(name).mean() for rows in (first, second))
            np.testing.assert_allclose(*means, rtol=0, atol=1e-9)
    np.testing.assert_allclose(first.log_density(), second.log_density(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_files(seed, tmp_path):
    rng = np.random.default_rng(seed)
    joint, _ = random_joint(rng)
    path = tmp_path / "m.conjoin"
    save(joint, path)
    again = load(path)
    table = random_rows(rng, joint.domain.observed, 3, missing=1)
    first, second = JointRows(joint, table), JointRows(again, table)
    np.testing.assert_array_equal(first.log_density(), second.log_density())
    for name in table.names:
        np.testing.assert_array_equal(first.states(name), second.states(name))
    assert repr(marginals(joint)) == repr(marginals(again))


def test_draws():
    """Means of draws are those of the distributions, within five standard errors."""
    rng = np.random.default_rng(5)
    count = 20_000
    for _ in range(4):
        joint, _ = random_joint(rng)
        domain = joint.domain.observed
        drawn = sample(joint, count, random_state=1)
        for name, own in marginals(joint).items():
            p = [*(own.states() if name in domain.numeric else own).values()]
            if name in domain.numeric and domain[name].absent:
                p = [*(x * (1 - own.absent) for x in p), own.absent]
            shares = np.bincount(drawn.codes[:, domain.index(name)], minlength=len(p)) / count
            for share, expected in zip(shares, p, strict=True):
                assert share == pytest.approx(expected, abs=5 * np.sqrt(0.25 / count))
        for v, name in enumerate(domain.names):
            if name not in domain.numeric:
                continue
            table = random_rows(rng, domain, 1).select(np.zeros(count, int))
            codes, numbers = table.codes.astype(int), table.numbers.copy()
            codes[:, v], numbers[:, domain.numeric.index(name)] = -1, np.nan
            rows = JointRows(joint, type(table).of_values(domain, codes, numbers))
            values = rows.drawn(1)[0].column(name)
            own = rows.select(slice(1)).number(name)
            error = own.sd()[0] / np.sqrt(count)
            # Draws are recorded values: quantiles, which are rounded to whole numbers
            present = ~np.isnan(values)
            if own.absent is not None:
                assert present.mean() == pytest.approx(1 - own.absent[0], abs=0.02)
            values, error = values[present], error / np.sqrt(present.mean())
            assert values.mean() == pytest.approx(own.mean()[0], abs=5 * error + 0.05)
            assert (values == np.rint(values)).all()


@given(seeds)
def test_surprise_of_a_value_and_score_of_a_number_agree(seed):
    """The log-densities that `pll` adds up are those of the distributions, in steps of the column."""
    rng = np.random.default_rng(seed)
    joint, _ = random_joint(rng)
    table = random_rows(rng, joint.domain.observed, 2)
    rows = JointRows(joint, table)
    total = 0.0
    for v, name in enumerate(table.names):
        if name in table.domain.numeric:
            found, values = rows.number(name), table.column(name)
            absent = np.zeros(2) if found.absent is None else found.absent
            logs = found.log_likelihood(np.nan_to_num(values)) + np.log1p(-absent)
            total += np.where(np.isnan(values), np.log(np.maximum(absent, 1e-300)), logs)
        else:
            total += np.log(rows.states(name)[np.arange(2), table.codes[:, v]])
    np.testing.assert_allclose(pll(joint, table).by_row, total, rtol=1e-9)


@given(seeds)
def test_the_chain_rule(seed):
    """P(a state, a range) is the same whichever of both is asked for first, given another number."""
    rng = np.random.default_rng(seed)
    joint, _ = random_joint(rng)
    domain = joint.domain.observed
    column = next(v for v in domain if v.numbers is None)
    name, other = rng.choice(domain.numeric, 2, replace=False).tolist()
    low, high = sorted(rng.choice(np.arange(0, 21), 2, replace=False).tolist())
    event, state = f"{low} <= {name} <= {high}", {column.name: column.states[0]}
    given = {other: 7} if rng.random() < 0.5 else {}
    inside = probability(joint, event, given)
    if inside < 1e-9:
        return
    both = probability(joint, {**state, name: Range(at_least=low, at_most=high)}, given)
    after = probability(joint, state, {**given, name: Range(at_least=low, at_most=high)})
    assert both == pytest.approx(after * inside, rel=1e-9)
    first = probability(joint, state, given)
    assert both == pytest.approx(probability(joint, event, {**given, **state}) * first, rel=1e-6)


@given(seeds)
def test_a_number_lies_in_the_range_that_it_is_given(seed):
    rng = np.random.default_rng(seed)
    joint, _ = random_joint(rng)
    name, other = rng.choice(joint.domain.numeric, 2, replace=False).tolist()
    low = int(rng.integers(0, 15))
    known = {name: Range(at_least=low, at_most=low + 4)}
    if rng.random() < 0.5:
        known[other] = 7
    own = marginals(joint, {other: 7} if other in known else None)[name]
    found = marginals(joint, known)[name]
    assert found.cdf(low - 1) == pytest.approx(0, abs=1e-9)
    assert found.cdf(low + 4) == pytest.approx(1, abs=1e-9)
    expected = own.probability(low, low + 2) / own.probability(low, low + 4)
    assert found.probability(low, low + 2) == pytest.approx(expected, rel=1e-7)
    drawn = sample(joint, 50, known).column(name)
    assert (drawn >= low).all() and (drawn <= low + 4).all()


def test_log_partition_of_states():
    joint, log_p = random_joint(np.random.default_rng(3), hidden=False)
    name = joint.domain.names[0]
    state = joint.domain.variables[0].states[0]
    difference = log_partition(joint, {name: state}).value - log_partition(joint).value
    assert difference == pytest.approx(np.logaddexp.reduce(log_p[0], axis=None), abs=1e-9)
