"""Exact answers of random networks against sums over all states, and against each other."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import conjoin
from conjoin import ConjoinError, Domain, Features, Likelihood, MarkovNetwork, Variable
from conjoin.inference import joint_distribution as joint_of
from conjoin.models import TableFactor
from fuzz.evidence import Known, random_evidence, random_marginal
from fuzz.examples import random_bayesian_network, random_markov_network
from fuzz.trials import count

CLOSE = 1e-9

try:
    import pyagrum as gum
except ImportError:  # it is compared with where it is installed
    gum = None


class Truth(NamedTuple):
    """All joint states, and their log-probabilities given the evidence."""

    states: np.ndarray
    logs: np.ndarray

    def marginal(self, domain: Domain, name: str) -> np.ndarray:
        """Return the distribution of a variable."""
        v = domain.index(name)
        return np.bincount(self.states[:, v], np.exp(self.logs), int(domain.cards[v]))


def joint(network: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return all joint states and their log-potentials, factor by factor."""
    markov = network if isinstance(network, MarkovNetwork) else network.to_markov_network()
    cards = network.domain.cards.tolist()
    states = np.array(list(itertools.product(*map(range, cards))), np.uint8)
    logs = np.zeros(len(states))
    for factor in markov.factors:
        logs += factor.evaluate(states)
    for weight, when in terms(markov):
        logs += weight * np.all([np.isin(states[:, v], list(s)) for v, s in when], axis=0)
    return states, logs


def terms(network: MarkovNetwork) -> Iterator[tuple[float, list[tuple[int, set[int]]]]]:
    """Yield the weight and the tests of each feature, read off its arrays one by one."""
    features = network.features
    for f in range(len(features)):
        tests = features.indices[features.indptr[f] : features.indptr[f + 1]]
        when = []
        for test in tests.tolist():
            mask = int(features.tests.mask[test, 0])
            when.append((int(features.tests.var[test]), {s for s in range(64) if mask >> s & 1}))
        yield float(features.weights[f]), when


def log_sum(values: np.ndarray) -> float:
    """Return the logarithm of a sum of exponentials."""
    top = values.max(initial=-np.inf)
    return float(top + np.log(np.exp(values - top).sum())) if np.isfinite(top) else -np.inf


def random_network(rng: np.random.Generator) -> Any:
    """Return a Bayesian or a Markov network."""
    return random_bayesian_network(rng) if rng.random() < 0.4 else random_markov_network(rng)


def case(rng: np.random.Generator) -> str:
    """Ask a random network with random evidence every question."""
    network = random_network(rng)
    states, prior = joint(network)
    if not np.isfinite(log_sum(prior)):
        return "impossible network"
    known = random_evidence(rng, network.domain)
    logs = prior + known.log_weights(states)
    total = log_sum(logs)
    if not np.isfinite(total):
        count("questions")
        try:
            conjoin.marginals(network, known.given)
        except ConjoinError:
            return "impossible evidence"
        raise AssertionError("evidence of probability 0 was answered")
    truth = Truth(states, logs - total)
    check_marginals(network, known, truth)
    check_partition(network, known, total, log_sum(prior))
    check_events(rng, network, known, truth)
    check_most_probable(network, known, truth, total)
    chosen = rng.random(len(SOMETIMES)) < [share for _, share in SOMETIMES]
    for (check, _), now in zip(SOMETIMES, chosen, strict=True):
        if now:
            check(rng, network, known, truth)
    return "hidden column" if network.domain.hidden.any() else type(network).__name__


def check_marginals(network: Any, known: Known, truth: Truth) -> None:
    """Compare all distributions, asked for together and one by one."""
    together = conjoin.marginals(network, known.given)
    for name in network.domain.observed.names:
        expected = truth.marginal(network.domain, name)
        np.testing.assert_allclose(together.array(name), expected, atol=CLOSE)
        alone = conjoin.marginals(network, known.given, targets=[name]).array(name)
        np.testing.assert_allclose(alone, expected, atol=CLOSE)
    count("questions", 1 + len(network.domain.observed))


def check_partition(network: Any, known: Known, total: float, whole: float) -> None:
    """Compare log Z, which includes the likelihood of the evidence, with the sum; and P(evidence)."""
    found = conjoin.log_partition(network, known.given)
    assert found.run.exact
    np.testing.assert_allclose(found.value, total, rtol=1e-9, atol=1e-8)
    count("questions")
    if known.events and known.weights:
        p = conjoin.probability(network, known.given)
        np.testing.assert_allclose(p.log, total - whole, rtol=1e-8, atol=1e-8)
        count("questions")


def check_events(rng: np.random.Generator, network: Any, known: Known, truth: Truth) -> None:
    """Compare P(event | evidence) with sums, and with P(event, evidence) / P(evidence)."""
    domain = network.domain
    free = [v for v in range(len(domain.observed)) if v not in known.weights]
    event = {v: int(rng.integers(domain.cards[v])) for v in free if rng.random() < 0.6}
    if not event:
        return
    named = {domain.names[v]: domain.variables[v].states[s] for v, s in event.items()}
    inside = np.all([truth.states[:, v] == s for v, s in event.items()], axis=0)
    expected = np.exp(log_sum(truth.logs[inside]))
    found = conjoin.probability(network, named, known.given)
    np.testing.assert_allclose(float(found), expected, rtol=1e-8, atol=CLOSE)
    scope = list(named)[:2]
    table = joint_of(network, scope, known.given).table
    places = truth.states[:, [domain.index(name) for name in scope]]
    sums = np.zeros(table.shape)
    np.add.at(sums, tuple(places.T), np.exp(truth.logs))
    np.testing.assert_allclose(table, sums, atol=CLOSE)
    count("questions", 2)
    if known.events and known.weights and isinstance(known.given, dict):
        both = conjoin.probability(network, {**named, **known.given})
        alone = conjoin.probability(network, known.given)
        np.testing.assert_allclose(float(both), float(found) * float(alone), rtol=1e-8, atol=CLOSE)
        count("questions", 2)


def check_most_probable(network: Any, known: Known, truth: Truth, total: float) -> None:
    """Compare the score of the most probable row with the maximum over all rows."""
    found = conjoin.most_probable(network, known.given)
    count("questions")
    seen = len(network.domain.observed)
    rows, which = np.unique(truth.states[:, :seen], axis=0, return_inverse=True)
    scores = np.array([log_sum(truth.logs[which.ravel() == r]) for r in range(len(rows))])
    codes = [network.domain[n].index(found[n]) for n in network.domain.observed.names]
    own = scores[int(np.flatnonzero((rows == codes).all(axis=1))[0])]
    if found.run.exact:
        np.testing.assert_allclose(own, scores.max(), rtol=1e-9, atol=1e-7)
        np.testing.assert_allclose(found.score, own + total, rtol=1e-9, atol=1e-7)
    else:  # with a hidden column, a search may end with a bound
        assert network.domain.hidden.any()
        assert found.score - 1e-7 <= scores.max() + total <= found.bound + 1e-7


# ---- checks that are made now and then ------------------------------------------------------------


def same_answers(one: Any, other: Any, given: Any, other_given: Any = None) -> None:
    """Two networks, or two ways to give evidence, have the same answers."""
    before = conjoin.marginals(one, given)
    after = conjoin.marginals(other, given if other_given is None else other_given)
    count("questions", 2)
    for name in before:
        assert {*before[name]} == {*after[name]}
        for state, p in before[name].items():
            assert abs(after[name][state] - p) < CLOSE, (name, state, p, after[name][state])


def check_columns_permuted(rng: np.random.Generator, network: Any, known: Known, _: Truth) -> None:
    """Answers do not depend on the order of the columns."""
    shown = list(network.domain.observed.names)
    hidden = [v.name for v in network.domain if v.hidden]
    other = network.reordered([*rng.permutation(shown).tolist(), *hidden])
    same_answers(network, other, known.given)


def check_states_permuted(rng: np.random.Generator, network: Any, known: Known, _: Truth) -> None:
    """Answers do not depend on the order of the states."""
    markov = network if isinstance(network, MarkovNetwork) else network.to_markov_network()
    domain = markov.domain
    orders = [rng.permutation(len(v)) for v in domain]
    other = Domain(
        Variable(v.name, [v.states[k] for k in order], hidden=v.hidden)
        for v, order in zip(domain, orders, strict=True)
    )
    factors = [
        TableFactor(f.variables, f.table[np.ix_(*(orders[v] for v in f.variables))])
        for f in markov.factors
    ]
    named = [
        (w, {domain.names[v]: {domain.variables[v].states[k] for k in s} for v, s in when})
        for w, when in terms(markov)
    ]
    permuted = MarkovNetwork(other, Features.from_terms(other, named), factors)
    same_answers(markov, permuted, known.given)


def check_saved(_: np.random.Generator, network: Any, known: Known, __: Truth) -> None:
    """A saved and loaded network gives the same answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.conjoin"
        network.save(path)
        other = conjoin.load(path)
    before, after = conjoin.marginals(network, known.given), conjoin.marginals(other, known.given)
    count("questions", 2)
    for name in before:
        assert np.array_equal(after.array(name), before.array(name))


def check_soft_as_hard(_: np.random.Generator, network: Any, known: Known, __: Truth) -> None:
    """A likelihood of 0 or 1 per state is a set of states."""
    if not known.events or not known.weights:
        return
    variables = network.domain.variables
    soft = {
        variables[v].name: Likelihood(dict(zip(variables[v].states, w.tolist(), strict=True)))
        for v, w in known.weights.items()
    }
    same_answers(network, network, known.given, soft)


def check_new_marginal(rng: np.random.Generator, network: Any, known: Known, truth: Truth) -> None:
    """Jeffrey's rule: a new marginal leaves the conditional distributions given its states."""
    free = [v for v in range(len(network.domain.observed)) if v not in known.weights]
    if not free or not isinstance(known.given, dict):
        return
    v = int(rng.choice(free))
    variable = network.domain.variables[v]
    old = truth.marginal(network.domain, variable.name)
    condition, target = random_marginal(rng, variable)
    count("questions")
    given = {**known.given, variable.name: condition}
    if (old[target > 0] < 1e-12).any():  # the new marginal may be out of reach
        return
    with np.errstate(divide="ignore"):
        logs = truth.logs + np.log(target)[truth.states[:, v]] - np.log(old)[truth.states[:, v]]
    expected = Truth(truth.states, np.where(np.isnan(logs), -np.inf, logs))
    found = conjoin.marginals(network, given)
    for name in network.domain.observed.names:
        own = expected.marginal(network.domain, name)
        np.testing.assert_allclose(found.array(name), own, atol=1e-8)


def check_samples(rng: np.random.Generator, network: Any, known: Known, truth: Truth) -> None:
    """Exact samples are possible rows, with frequencies within six standard errors."""
    n = 2000
    rows = conjoin.sample(
        network, n, known.given, method="exact", random_state=int(rng.integers(2**31))
    )
    count("questions")
    for v, name in enumerate(network.domain.observed.names):
        expected = truth.marginal(network.domain, name)
        seen = np.bincount(rows.codes[:, v], minlength=len(expected)) / n
        assert (seen[expected < 1e-15] == 0).all(), "an impossible state was drawn"
        error = np.sqrt(np.clip(expected * (1 - expected), 0, 1) / n) + 1 / n
        assert (np.abs(seen - expected) <= 6 * error).all(), (seen, expected)


def check_information(rng: np.random.Generator, network: Any, known: Known, truth: Truth) -> None:
    """The expected information of each question is the mutual information with the target."""
    free = [v for v in range(len(network.domain.observed)) if v not in known.weights]
    if len(free) < 2:
        return
    target = network.domain.names[int(rng.choice(free))]
    t = network.domain.index(target)
    p = np.exp(truth.logs)
    for question in conjoin.next_questions(network, target, known.given):
        v = network.domain.index(question.name)
        both = np.zeros(network.domain.cards[[t, v]])
        np.add.at(both, (truth.states[:, t], truth.states[:, v]), p)
        apart = both.sum(1)[:, None] * both.sum(0)
        some = both > 0
        expected = float((both[some] * np.log2(both[some] / apart[some])).sum())
        assert abs(question.information - expected) < 1e-8, (question.name, expected)
        count("questions")


def check_other_program(_: np.random.Generator, network: Any, known: Known, __: Truth) -> None:
    """PyAgrum has the same posteriors of a Bayesian network."""
    if gum is None or not isinstance(network, conjoin.BayesianNetwork):
        return
    domain, theirs = network.domain, gum.BayesNet()
    for v in domain:
        theirs.add(gum.LabelizedVariable(v.name, v.name, list(map(str, v.states))))
    for cpd in network.cpds:
        for parent in cpd.parents:
            theirs.addArc(domain.names[parent], domain.names[cpd.target])
    for cpd in network.cpds:
        table = theirs.cpt(domain.names[cpd.target])
        for states in itertools.product(
            *(range(domain.cards[v]) for v in (*cpd.parents, cpd.target))
        ):
            at = {
                domain.names[v]: s for v, s in zip((*cpd.parents, cpd.target), states, strict=True)
            }
            table[at] = float(np.exp(cpd.table[states]))
    engine = gum.LazyPropagation(theirs)
    engine.setEvidence({domain.names[v]: w.tolist() for v, w in known.weights.items()})
    engine.makeInference()
    found = conjoin.marginals(network, known.given)
    for name in domain.names:
        np.testing.assert_allclose(found.array(name), engine.posterior(name).toarray(), atol=1e-8)
    count("questions compared with pyAgrum", len(domain))


SOMETIMES = (
    (check_columns_permuted, 0.3),
    (check_states_permuted, 0.2),
    (check_saved, 0.2),
    (check_soft_as_hard, 0.2),
    (check_new_marginal, 0.2),
    (check_samples, 0.2),
    (check_information, 0.2),
    (check_other_program, 0.3),
)
"""Further checks, and the share of the cases in which each is made."""


def prepare() -> None:
    """Nothing to prepare."""
