"""Samplers, distributions and error bars against simulation.

Each case is a statistical test whose probability of a false alarm is at most 1e-9, so that thousands of
cases raise none. Seeds are fixed by the number of the case.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import chi2

import conjoin
from conjoin import Domain, MarkovNetwork, Variable
from conjoin.inference.mixed_evidence import MixedKnown
from conjoin.models.markov import TableFactor
from fuzz.examples import random_mixed_network
from fuzz.queries import joint, log_sum
from fuzz.trials import count

FALSE_ALARM = 1e-9
"""The probability that a case fails although all is well."""


def check_counts(seen: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Chi-square test of counts; cells of small expected counts are taken together."""
    small = expected < 5
    if small.any():
        seen = np.append(seen[~small], seen[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
        if expected[-1] < 5 and len(expected) > 1:  # with the smallest of the others
            at = int(expected[:-1].argmin())
            seen[at] += seen[-1]
            expected[at] += expected[-1]
            seen, expected = seen[:-1], expected[:-1]
    if len(seen) < 2:
        return
    statistic = float(((seen - expected) ** 2 / expected).sum())
    p = float(chi2.sf(statistic, len(seen) - 1))
    assert p > FALSE_ALARM, f"{what}: p = {p:.1g}; {seen} instead of {expected}"
    count("draws", int(seen.sum()))


def mild_network(rng: np.random.Generator) -> MarkovNetwork:
    """Return a network that Gibbs sampling mixes well in: no zeros, no strong weights."""
    size = int(rng.integers(2, 5))
    variables = [Variable(f"x{i}", range(int(rng.integers(2, 4)))) for i in range(size)]
    if rng.random() < 0.3:
        variables.append(Variable("z", [0, 1], hidden=True))
    domain = Domain(variables)
    factors = []
    for _ in range(len(domain)):
        scope = tuple(rng.choice(len(domain), min(2, len(domain)), replace=False).tolist())
        factors.append(TableFactor(scope, rng.normal(0, 0.7, domain.cards[list(scope)])))
    return MarkovNetwork(domain, factors=factors)


def case(rng: np.random.Generator) -> str:
    """Run one test."""
    check = CHECKS[int(rng.integers(len(CHECKS)))]
    check(rng)
    return check.__name__.replace("_", " ")


def exact_draws(rng: np.random.Generator) -> None:
    """Rows drawn by exact inference have the frequencies of the joint distribution."""
    network = mild_network(rng)
    n = 5000
    rows = conjoin.sample(network, n, method="exact", random_state=int(rng.integers(2**31)))
    check_counts(*_cells(network, rows.codes, n), "exact draws")


def gibbs_draws(rng: np.random.Generator) -> None:
    """Final rows of independent Gibbs chains have the frequencies of the joint distribution."""
    network = mild_network(rng)
    n = 400
    rows = conjoin.sample(
        network, n, method="gibbs", chains=n, burn_in=60, n_jobs=1,
        random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    check_counts(*_cells(network, rows.codes, n), "Gibbs draws")


def _cells(network: MarkovNetwork, codes: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the seen and the expected count of each joint state of the visible variables."""
    states, logs = joint(network)
    shape = network.domain.observed.cards.tolist()
    expected = np.zeros(shape)
    np.add.at(expected, tuple(states[:, : len(shape)].T), np.exp(logs - log_sum(logs)))
    seen = np.zeros(shape)
    np.add.at(seen, tuple(codes.astype(int).T), 1)
    return seen.ravel(), expected.ravel() * n


def ranks_of_posteriors(rng: np.random.Generator) -> None:
    """Simulation-based calibration: a row ranks evenly among rows drawn given a part of it."""
    network = mild_network(rng)
    domain = network.domain.observed
    method = str(rng.choice(["exact", "gibbs"]))
    draws, trials = 9, 120
    ranks = np.zeros(draws + 1)
    truth = conjoin.sample(network, trials, method="exact", random_state=int(rng.integers(2**31)))
    for row in truth.codes.astype(int):
        known = {
            domain.names[v]: domain.variables[v].states[row[v]] for v in range(len(domain) // 2)
        }
        options: dict[str, Any] = {"random_state": int(rng.integers(2**31)), "n_jobs": 1}
        if method == "gibbs":
            options |= {"chains": draws, "burn_in": 40}
        rows = conjoin.sample(network, draws, known, method=method, **options).codes.astype(int)
        direction = rng.normal(size=len(domain))
        own, others = row @ direction, rows @ direction
        ties = np.isclose(others, own)
        ranks[int((others[~ties] < own).sum() + rng.integers(ties.sum() + 1))] += 1
    check_counts(ranks, np.full(draws + 1, trials / (draws + 1)), f"ranks, {method}")


def numbers_and_intervals(rng: np.random.Generator) -> None:
    """Rows drawn from a mixed network fall evenly into the quantiles that it predicts for them."""
    model = random_mixed_network(rng)
    n, name = 1500, str(rng.choice(model.numbers))
    given: dict[str, Any] = {}
    others = [other for other in model.numbers if other != name]
    if others and rng.random() < 0.5:
        given[others[0]] = int(rng.integers(3, 15))
    known = MixedKnown(model, given)
    drawn = known.sample(n, int(rng.integers(2**31))).column(name)
    found = known.number(name)
    below = {x: found.cdf(x) for x in np.unique(np.concatenate([drawn, drawn - 1])).tolist()}
    low = np.array([below[x - 1] for x in drawn.tolist()])
    high = np.array([below[x] for x in drawn.tolist()])
    place = low + rng.random(n) * (high - low)
    seen = np.histogram(place, np.linspace(0, 1, 11))[0].astype(float)
    check_counts(seen, np.full(10, n / 10), f"quantiles of {name} given {given}")
    ends = found.interval(0.8)
    inside = float(((drawn >= ends[0]) & (drawn <= ends[1])).mean())
    spread = 6.2 * np.sqrt(0.25 / n)
    exact = found.probability(*ends)
    assert abs(inside - exact) < spread, (inside, exact)


def error_bars(rng: np.random.Generator) -> None:
    """Errors of estimates are as large as they say: their mean square is not above 6 times that."""
    network = mild_network(rng)
    _, logs = joint(network)
    truth, squares = log_sum(logs), []
    for _ in range(40):
        seed = int(rng.integers(2**31))
        found = conjoin.log_partition(network, method="ais", chains=30, steps=60, random_state=seed)
        squares.append(((found.value - truth) / max(found.error, 1e-12)) ** 2)
    assert np.mean(squares) < 6, f"errors are understated: {np.sqrt(np.mean(squares)):.1f} times"
    count("estimates", len(squares))


CHECKS = (exact_draws, gibbs_draws, ranks_of_posteriors, numbers_and_intervals, error_bars)


def prepare() -> None:
    """Nothing to prepare."""
