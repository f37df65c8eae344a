"""Bayesian networks: conditionals, scores and samples without a junction tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from conjoin import BayesianNetwork, Domain, Features, Table, log_partition, pll, sample
from conjoin.errors import ModelError
from conjoin.inference import ancestral, evidence_of, samples, sampling_method
from conjoin.models import LogLinearCPD
from conjoin.scoring import log_likelihood
from reference import all_states
from strategies import generators, random_bayesian_network


def with_regressions(rng, size, links):
    """Binary columns; the CPDs of the last ten are regressions on many earlier columns."""
    domain = Domain.numbered([2] * size)
    cpds = []
    for v in range(size):
        parents = rng.permutation(v)[: links if v >= size - 10 else min(links, 3)].tolist()
        terms = [(rng.normal(), {f"v{v}": 1})]
        terms += [(rng.normal(), {f"v{v}": 1, f"v{u}": 1}) for u in parents]
        cpds.append(LogLinearCPD(v, Features.from_terms(domain, terms)))
    return BayesianNetwork(domain, cpds)


@given(generators())
@settings(max_examples=40, deadline=None)
def test_conditionals_are_those_of_the_joint_distribution(rng):
    bn = random_bayesian_network(rng)
    states = all_states(bn.domain)
    with np.errstate(divide="ignore"):
        log_p = bn.log_likelihood(states)
    p = np.exp(log_p)
    assert p.sum() == pytest.approx(1, abs=1e-9)
    for i, name in enumerate(bn.domain.names):
        found = bn.conditional(name, states)
        others = np.delete(states, i, axis=1)
        for row in range(len(states)):
            same = (others == others[row]).all(axis=1)
            total = p[same].sum()
            if total > 0:
                wanted = [
                    p[same & (states[:, i] == s)].sum() / total for s in range(found.shape[1])
                ]
                np.testing.assert_allclose(found[row], wanted, atol=1e-9)


def test_regressions_on_many_columns_are_scored_exactly():
    """A table over 41 columns would not fit into memory."""
    rng = np.random.default_rng(0)
    bn = with_regressions(rng, 45, 40)
    rows = sample(bn, 20, random_state=1)
    score = log_likelihood(bn, rows)
    assert score.exact
    np.testing.assert_allclose(score.by_row, bn.log_likelihood(rows), atol=1e-12)
    by_hand = np.zeros(20)
    for name in bn.domain.names:
        i = bn.domain.index(name)
        both = []
        for state in (0, 1):
            codes = rows.codes.copy()
            codes[:, i] = state
            both.append(bn.log_likelihood(codes))
        own = np.where(rows.codes[:, i] == 1, both[1], both[0])
        by_hand += own - np.logaddexp(*both)
    np.testing.assert_allclose(pll(bn, rows).by_row, by_hand, atol=1e-9)
    with pytest.raises(ModelError, match="too many for a table"):
        bn.to_markov_network()


def test_small_regressions_have_the_same_scores_as_tables():
    rng = np.random.default_rng(1)
    bn = with_regressions(rng, 14, 12)
    assert not bn.has_small_factors
    rows = sample(bn, 100)
    np.testing.assert_allclose(
        pll(bn, rows).by_row, pll(bn.to_markov_network(), rows).by_row, atol=1e-9
    )
    mn = bn.to_markov_network()
    np.testing.assert_allclose(
        log_likelihood(bn, rows).by_row, log_likelihood(mn, rows).by_row, atol=1e-9
    )
    holes = Table(bn.domain, np.where(rng.random(rows.codes.shape) < 0.1, -1, rows.codes))
    np.testing.assert_allclose(
        log_likelihood(bn, holes).by_row, log_likelihood(mn, holes).by_row, atol=1e-9
    )


def test_log_z_is_zero_without_evidence():
    bn = with_regressions(np.random.default_rng(2), 45, 40)
    found = log_partition(bn)
    assert found.value == 0 and found.run.exact
    small = with_regressions(np.random.default_rng(2), 6, 3)
    assert log_partition(small, method="exact").value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_ancestral_samples_have_the_exact_distribution(seed):
    rng = np.random.default_rng(seed)
    bn = random_bayesian_network(rng)
    n = 40_000
    table = ancestral.sample(bn, n, evidence_of(bn.domain, None), rng)
    states = all_states(bn.domain)
    with np.errstate(divide="ignore"):
        p = np.exp(bn.log_likelihood(states))
    place = {tuple(s): k for k, s in enumerate(states.tolist())}
    counts = np.bincount([place[tuple(r)] for r in table.codes.tolist()], minlength=len(states))
    assert (counts[p == 0] == 0).all()
    error = np.sqrt(p * (1 - p) / n)
    assert (np.abs(counts / n - p) <= 5 * error + 1e-9).all()


def test_evidence_on_roots_needs_no_junction_tree():
    bn = with_regressions(np.random.default_rng(3), 45, 40)
    given_first = {"v0": 1, "v1": 0}
    known = evidence_of(bn.domain, given_first)
    closed = set(bn.cpds[1].blanket) <= {0}
    assert closed and ancestral.can_draw(bn, known)
    assert sampling_method(bn, given_first) == "exact"
    rows = sample(bn, 50, given_first)
    assert (rows.codes[:, 0] == 1).all() and (rows.codes[:, 1] == 0).all()
    assert not ancestral.can_draw(bn, evidence_of(bn.domain, {"v44": 1}))
    assert not ancestral.can_draw(bn, evidence_of(bn.domain, "v0 likelihood {0: 0.5, 1: 1}"))


def test_samples_do_not_depend_on_the_size_of_blocks():
    bn = with_regressions(np.random.default_rng(4), 10, 5)
    whole = sample(bn, 1000, random_state=7).codes
    parts = [part.codes for part in samples(bn, 1000, random_state=7, block=300)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert len(parts) == 4


def test_impossible_evidence_is_an_error():
    from conjoin import TableCPD

    domain = Domain({"a": [0, 1], "b": [0, 1]})
    bn = BayesianNetwork(
        domain, [TableCPD.of(domain, "a", [], 0.0), TableCPD.of(domain, "b", ["a"], {0: 1, 1: 0.5})]
    )
    for evidence in ({"a": 1}, {"a": 0, "b": 0}):
        with pytest.raises(ModelError, match="the evidence is impossible"):
            sample(bn, 3, evidence)
