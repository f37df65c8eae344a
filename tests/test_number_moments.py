"""Means and standard deviations of single Gaussians and mixtures against numerical integrals."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from conjoin.data import NumberMap, NumberScale, NumberStates
from conjoin.inference import NumberDistributions


def random_map(rng, knots=40):
    """A map with steep and flat segments."""
    scores = np.sort(rng.normal(0, 1.5, knots))
    values = np.cumsum(rng.exponential(1, knots) ** 3)
    return NumberMap(values, scores, 0.01, np.array([-3e3]))


def distributions(mapped, weights, means, sds, low, high):
    """One row of Gaussians, side by side in an interval; what the weights leave is the single value."""
    scale = NumberScale("x", "number", False, None, 0.0, 1.0)
    edges = np.array([mapped.values[0] - 1e3])
    columns = NumberStates(scale, mapped, edges)
    ends = np.array([[-np.inf, low], [-np.inf, high]])
    columns.__dict__["ends"] = ends
    p = np.array([[1 - sum(weights), sum(weights)]])
    parts = (np.array([[x]], float) for x in (np.array(weights) / sum(weights), means, sds))
    return NumberDistributions(columns, p, *parts)


def integrals(mapped, mean, sd, low, high):
    """The mean and the mean square of a cut Gaussian, with its density relative to the highest one."""
    top = np.clip(mean, low, high)
    low, high = max(low, top - 12 * sd), min(high, top + 12 * sd)
    ends = np.unique(np.clip([low, *mapped.scores, mean, high], low, high))
    # The density falls fastest near the end that is closest to the mean.
    ends = np.unique(np.concatenate([np.linspace(a, b, 9) for a, b in pairwise(ends)]))

    def integral(power):
        def at(s):
            density = np.exp(-0.5 * (s - top) * (s + top - 2 * mean) / sd**2)
            return density * mapped.to_values(np.array([s]))[0] ** power

        parts = [
            integrate.quad(at, a, b, epsabs=0, epsrel=1e-12, limit=200)[0]
            for a, b in pairwise(ends)
        ]
        return sum(parts)

    total = integral(0)
    return integral(1) / total, integral(2) / total


@pytest.mark.parametrize(
    ("mean", "sd", "low", "high"),
    [
        (0.3, 1.0, -np.inf, np.inf),
        (-2.0, 0.01, -np.inf, np.inf),  # within a segment or two
        (9.0, 1.5, -np.inf, np.inf),  # beyond most knots
        (0.1, 0.8, -0.5, 0.4),
        (0.1, 0.8, -np.inf, 0.4),
        (0.1, 0.8, 1.0, np.inf),
        (0.0, 0.1, 1.0, 1.5),  # ten deviations above
        (0.0, 0.1, -1.5, -1.0),
        (0.0, 0.05, 1.0, np.inf),  # twenty deviations above
        (1.0, 0.04, -np.inf, 0.0),
    ],
)  # fmt: skip
def test_moments_of_a_gaussian_are_integrals(mean, sd, low, high):
    rng = np.random.default_rng(3)
    for _ in range(3):
        mapped = random_map(rng)
        first, second = integrals(mapped, mean, sd, low, high)
        one = distributions(mapped, [1.0], [mean], [sd], low, high)
        assert one.mean()[0] == pytest.approx(first, rel=1e-9)
        assert one.sd()[0] ** 2 + first**2 == pytest.approx(second, rel=1e-9)


def test_mixtures_and_single_values_are_weighted_sums():
    rng = np.random.default_rng(4)
    mapped = random_map(rng)
    weights, means, sds = [0.5, 0.2, 0.1], [0.2, -1.0, 0.4], [0.7, 0.3, 1.1]
    for low, high in ((-np.inf, np.inf), (-0.6, 1.2)):
        one = distributions(mapped, weights, means, sds, low, high)
        parts = [integrals(mapped, *part, low, high) for part in zip(means, sds, strict=True)]
        first, second = np.array(weights) @ parts + 0.2 * np.array([-3e3, 9e6])
        assert one.mean()[0] == pytest.approx(first, rel=1e-10)
        assert one.sd()[0] == pytest.approx(np.sqrt(second - first**2), rel=1e-9)


def test_a_part_of_which_nothing_is_left_is_a_point():
    mapped = random_map(np.random.default_rng(5))
    for mean, sd, low, high, point in [
        (0.0, 0.01, 1.0, 1.2, 1.0), (0.0, 0.01, -1.2, -1.0, -1.0), (0.7, 1e-200, -np.inf, np.inf, 0.7),
    ]:  # fmt: skip
        one = distributions(mapped, [1.0], [mean], [sd], low, high)
        assert one.mean()[0] == pytest.approx(mapped.to_values(np.array([point]))[0], rel=1e-14)
        assert one.sd()[0] == pytest.approx(0, abs=1e-5)


def test_more_rows_than_are_answered_at_once():
    rng = np.random.default_rng(6)
    one = distributions(random_map(rng), [0.5, 0.5], [0.0, 1.0], [1.0, 1.0], -np.inf, np.inf)
    shape = (10_000, 1, 2)
    many = np.zeros(len(one.p[0]) * 10_000).reshape(10_000, -1) + one.p
    parts = np.full(shape, 0.5), rng.normal(size=shape), rng.uniform(0.1, 1, shape)
    rows = NumberDistributions(one.states, many, *parts)
    for r in (0, 4_095, 4_096, 9_999):
        assert rows.mean()[r] == rows[r].mean()
