"""Exact answers of random networks against sums over all states, and against each other."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import conjoin
from conjoin.errors import ConjoinError
from fuzz.examples import random_bayesian_network, random_markov_network

CLOSE = 1e-9


def joint(network: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return all joint states and their probabilities (up to rounding), factor by factor."""
    markov = network if isinstance(network, conjoin.MarkovNetwork) else network.to_markov_network()
    cards = network.domain.cards.tolist()
    states = np.array(list(itertools.product(*map(range, cards))), np.uint8)
    logs = np.zeros(len(states))
    for factor in markov.factors:
        logs += factor.evaluate(states)
    for weight, when in terms(markov):
        logs += weight * np.all([np.isin(states[:, v], list(s)) for v, s in when], axis=0)
    return states, logs


def terms(network: conjoin.MarkovNetwork) -> Iterator[tuple[float, list[tuple[int, set[int]]]]]:
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


def case(rng: np.random.Generator) -> str:
    """Ask a random network with random evidence every question."""
    network = random_bayesian_network(rng) if rng.random() < 0.4 else random_markov_network(rng)
    domain, observed = network.domain, network.domain.observed
    states, logs = joint(network)
    if not np.isfinite(log_sum(logs)):
        return "impossible network"
    known = [v for v in range(len(observed)) if rng.random() < 0.3]
    given = {v: int(rng.integers(domain.cards[v])) for v in known}
    evidence = {domain.names[v]: domain.variables[v].states[s] for v, s in given.items()}
    fits = (
        np.all([states[:, v] == s for v, s in given.items()], axis=0)
        if given
        else np.ones(len(states), bool)
    )
    total = log_sum(logs[fits])
    if not np.isfinite(total):
        try:
            conjoin.marginals(network, evidence)
        except ConjoinError:
            return "impossible evidence"
        raise AssertionError("evidence of probability 0 was answered")
    check_marginals(network, evidence, states[fits], logs[fits] - total)
    check_events(rng, network, evidence, given, states, logs)
    check_most_probable(network, evidence, states[fits], logs[fits])
    if rng.random() < 0.3:
        check_permuted(rng, network, evidence)
    if rng.random() < 0.2:
        check_saved(network, evidence)
    if rng.random() < 0.2:
        check_samples(rng, network, evidence, states[fits], logs[fits])
    return "hidden column" if domain.hidden.any() else type(network).__name__


def check_marginals(
    network: Any, evidence: dict[str, Any], states: np.ndarray, log_p: np.ndarray
) -> None:
    """Compare all distributions, asked for together and one by one."""
    together = conjoin.marginals(network, evidence)
    p = np.exp(log_p)
    for name in network.domain.observed.names:
        v = network.domain.index(name)
        expected = np.bincount(states[:, v], p, int(network.domain.cards[v]))
        np.testing.assert_allclose(together.array(name), expected, atol=CLOSE)
        alone = conjoin.marginals(network, evidence, targets=[name]).array(name)
        np.testing.assert_allclose(alone, expected, atol=CLOSE)


def check_events(
    rng: np.random.Generator, network: Any, evidence: dict[str, Any], given: dict[int, int],
    states: np.ndarray, logs: np.ndarray,
) -> None:  # fmt: skip
    """Compare P(event | evidence) with sums, and with P(event, evidence) / P(evidence)."""
    domain = network.domain
    free = [v for v in range(len(domain.observed)) if v not in given]
    event = {v: int(rng.integers(domain.cards[v])) for v in free if rng.random() < 0.6}
    if not event:
        return
    named = {domain.names[v]: domain.variables[v].states[s] for v, s in event.items()}
    within = np.ones(len(states), bool)
    for v, s in given.items():
        within &= states[:, v] == s
    inside = within.copy()
    for v, s in event.items():
        inside &= states[:, v] == s
    expected = np.exp(log_sum(logs[inside]) - log_sum(logs[within]))
    found = conjoin.probability(network, named, evidence)
    np.testing.assert_allclose(float(found), expected, rtol=1e-8, atol=CLOSE)
    both = conjoin.probability(network, {**named, **evidence})
    if evidence:
        alone = conjoin.probability(network, evidence)
        np.testing.assert_allclose(float(both), float(found) * float(alone), rtol=1e-8, atol=CLOSE)


def check_most_probable(
    network: Any, evidence: dict[str, Any], states: np.ndarray, logs: np.ndarray
) -> None:
    """Compare the score of the most probable row with the maximum over all rows."""
    found = conjoin.most_probable(network, evidence)
    seen = len(network.domain.observed)
    rows, which = np.unique(states[:, :seen], axis=0, return_inverse=True)
    scores = np.array([log_sum(logs[which.ravel() == r]) for r in range(len(rows))])
    codes = [network.domain[n].index(found[n]) for n in network.domain.observed.names]
    own = scores[int(np.flatnonzero((rows == codes).all(axis=1))[0])]
    if found.run.exact:
        np.testing.assert_allclose(own, scores.max(), rtol=1e-9, atol=1e-7)
    else:  # with a hidden column, a search may end with a bound
        assert network.domain.hidden.any()
        assert found.score - 1e-7 <= scores.max() <= found.bound + 1e-7


def check_permuted(rng: np.random.Generator, network: Any, evidence: dict[str, Any]) -> None:
    """Answers do not depend on the order of the columns."""
    shown = list(network.domain.observed.names)
    hidden = [v.name for v in network.domain if v.hidden]
    other = network.reordered([*rng.permutation(shown).tolist(), *hidden])
    before, after = conjoin.marginals(network, evidence), conjoin.marginals(other, evidence)
    for name in shown:
        np.testing.assert_allclose(after.array(name), before.array(name), atol=CLOSE)


def check_saved(network: Any, evidence: dict[str, Any]) -> None:
    """A saved and loaded network gives the same answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.conjoin"
        network.save(path)
        other = conjoin.load(path)
    before, after = conjoin.marginals(network, evidence), conjoin.marginals(other, evidence)
    for name in before:
        assert np.array_equal(after.array(name), before.array(name))


def check_samples(
    rng: np.random.Generator,
    network: Any,
    evidence: dict[str, Any],
    states: np.ndarray,
    logs: np.ndarray,
) -> None:
    """Exact samples are possible rows, with frequencies within five standard errors."""
    n = 2000
    rows = conjoin.sample(
        network, n, evidence, method="exact", random_state=int(rng.integers(2**31))
    )
    p = np.exp(logs - log_sum(logs))
    for v in range(len(network.domain.observed)):
        expected = np.bincount(states[:, v], p, int(network.domain.cards[v]))
        seen = np.bincount(rows.codes[:, v], minlength=len(expected)) / n
        assert (seen[expected < 1e-15] == 0).all(), "an impossible state was drawn"
        error = np.sqrt(np.clip(expected * (1 - expected), 0, 1) / n) + 1 / n
        assert (np.abs(seen - expected) <= 6 * error).all(), (seen, expected)


def prepare() -> None:
    """Nothing to prepare."""
