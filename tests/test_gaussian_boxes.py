"""Gaussians of which points and intervals are known, against distribution functions and rejection."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal

from conjoin.models.gaussian_boxes import (
    Box,
    box_points,
    conditional_parts,
    drawn_scores,
    log_box,
)
from conjoin.models.gaussians import Gaussians

INFINITE = np.inf


def gaussians(correlation=0.6):
    covariance = np.array([[1.0, correlation, 0.3], [correlation, 1.0, 0.3], [0.3, 0.3, 2.0]])
    return Gaussians([[0.0, 0.0, 0.0], [0.5, -1.0, 0.2]], [covariance, np.diag([0.5, 2.0, 1.0])])


@pytest.mark.parametrize("correlation", [-0.5, 0.6, 0.98, 0.999])
def test_probabilities_of_boxes(correlation):
    states = gaussians(correlation)
    for known in (
        {0: Box(0.2, 1.3)},
        {0: Box(0.2, 1.3), 1: Box(-INFINITE, 0.7)},
        {1: Box(-1.0, INFINITE), 2: Box(0.3, 2.0)},
    ):
        columns = list(known)
        ends = np.clip([known[c][:2] for c in columns], -30, 30).T
        for s, log in enumerate(log_box(states, known)):
            expected = multivariate_normal.cdf(
                ends[1],
                states.means[s][columns],
                states.covariances[s][np.ix_(columns, columns)],
                lower_limit=ends[0],
                abseps=1e-13,
                releps=1e-13,
            )
            assert np.exp(log) == pytest.approx(expected, rel=1e-9)


def test_three_intervals():
    states = gaussians()
    known = {0: Box(0.2, 1.3), 1: Box(-INFINITE, 0.7), 2: Box(0.0, INFINITE)}
    for s, log in enumerate(log_box(states, known)):
        expected = multivariate_normal.cdf(
            [1.3, 0.7, 30], states.means[s], states.covariances[s], lower_limit=[0.2, -30, 0.0],
            abseps=1e-9, releps=1e-9, maxpts=10**6,
        )  # fmt: skip
        assert np.exp(log) == pytest.approx(expected, rel=1e-6)


def test_far_intervals_and_points():
    states = gaussians()
    far = log_box(states, {0: Box(40.0, INFINITE)})
    assert far[0] == pytest.approx(log_ndtr(-40.0), rel=1e-10)
    both = log_box(states, {0: Box(0.4, 0.4, 0.5), 1: Box(1.0, INFINITE)})
    density = np.exp(-0.08) / np.sqrt(2 * np.pi) * 0.5
    assert np.exp(both[0]) == pytest.approx(density * ndtr((0.24 - 1) / 0.8), rel=1e-12)


def test_other_columns_and_draws_agree_with_rejection():
    states, known = gaussians(0.9), {0: Box(0.2, 1.3), 1: Box(-INFINITE, 0.7)}
    rng = np.random.default_rng(0)
    rows = rng.multivariate_normal(states.means[0], states.covariances[0], 400_000)
    rows = rows[(rows[:, 0] > 0.2) & (rows[:, 0] < 1.3) & (rows[:, 1] < 0.7)]
    points = box_points(states, known)
    weights, means, sds = conditional_parts(states, points, 2, np.array([1.0, 0.0]))
    assert weights.sum() == pytest.approx(1)
    drawn = drawn_scores(states, known, np.zeros(40_000, np.int64), rng)
    assert np.isnan(drawn[:, 2]).all()
    for x in (-1.0, 0.0, 0.5, 2.0):
        p = weights @ ndtr((x - means) / sds)
        assert p == pytest.approx((rows[:, 2] < x).mean(), abs=0.01)
    for column in (0, 1):
        for x in (-0.5, 0.3, 0.6, 1.0):
            assert (drawn[:, column] < x).mean() == pytest.approx(
                (rows[:, column] < x).mean(), abs=0.015
            )
    corr = [np.corrcoef(table[:, 0], table[:, 1])[0, 1] for table in (rows, drawn)]
    assert corr[0] == pytest.approx(corr[1], abs=0.03)
    one = drawn_scores(states, {1: Box(3.0, 3.5)}, np.array([1, 1, 0]), rng)
    assert ((one[:, 1] > 3) & (one[:, 1] < 3.5)).all()


def test_covariances_that_are_not_positive():
    flat = Gaussians(np.zeros((1, 2)), np.ones((1, 2, 2)) - 2 * np.eye(2))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        log_box(flat, {0: Box(0.0, 1.0), 1: Box(0.0, 1.0)})
