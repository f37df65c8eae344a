"""EM of Gaussians with missing numbers, row by row with SciPy's densities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from conjoin.joint.gaussian_mixture import GaussianPrior, GaussianRows
from conjoin.kernels.gaussian_states import posteriors
from conjoin.models.gaussians import Gaussians, Scores, log_cell


def random_gaussians(rng, states, columns):
    roots = rng.normal(0, 1, (states, columns, columns))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(columns)
    return Gaussians(rng.normal(0, 1, (states, columns)), covariances)


def random_scores(rng, rows, columns, missing=0.4):
    middle = rng.normal(0, 1, (rows, columns))
    middle[rng.random(middle.shape) < missing] = np.nan
    middle[0] = np.nan
    return Scores(middle, rng.uniform(0.01, 0.8, middle.shape))


def parts(row, gaussians, s):
    """The known columns of a row, and the mean and covariance of a state there."""
    known = np.flatnonzero(~np.isnan(row))
    return known, gaussians.means[s, known], gaussians.covariances[s][np.ix_(known, known)]


@pytest.mark.parametrize(("columns", "cells"), [(1, 1.0), (4, 1.0), (5, 0.1)])
def test_expected_log_densities(columns, cells):
    rng = np.random.default_rng(columns)
    gaussians, scores = random_gaussians(rng, 3, columns), random_scores(rng, 40, columns)
    found = GaussianRows(scores, np.ones(40), 100).log_densities(gaussians, cells)
    for r, row in enumerate(scores.middle):
        for s in range(3):
            known, mean, covariance = parts(row, gaussians, s)
            if not len(known):
                assert found[r, s] == 0
                continue
            # A quadratic function of a number spread over a cell: its value in the middle, and half the
            # second derivative times the variance.
            within = np.diagonal(np.linalg.inv(covariance)) @ scores.width[r, known] ** 2 / 12
            exact = stats.multivariate_normal(mean, covariance).logpdf(row[known])
            assert found[r, s] == pytest.approx(exact - cells * within / 2, rel=1e-10)


def test_the_m_step_is_that_of_completed_rows():
    rng = np.random.default_rng(0)
    rows, states, columns, prior = 60, 3, 4, GaussianPrior(5, 0.01, 0.5, 0.7)
    gaussians, scores = random_gaussians(rng, states, columns), random_scores(rng, rows, columns)
    posterior = rng.dirichlet(np.ones(states), rows)
    found = GaussianRows(scores, np.ones(rows), 100).update(gaussians, posterior, prior)
    # The expected value of each row, and the covariance of what is not known of it.
    values = np.empty((states, rows, columns))
    left = np.zeros((states, rows, columns, columns))
    for s in range(states):
        for r, row in enumerate(scores.middle):
            known, mean, within = parts(row, gaussians, s)
            gap = np.setdiff1d(np.arange(columns), known)
            cross = gaussians.covariances[s][np.ix_(gap, known)]
            values[s, r] = row
            values[s, r, gap] = gaussians.means[s, gap] + cross @ np.linalg.solve(
                within, row[known] - mean
            )
            full = np.zeros((columns, columns))
            full[known, known] = prior.cells * scores.width[r, known] ** 2 / 12
            lift = np.eye(columns)[:, known]
            lift[gap] = np.linalg.solve(within, cross.T).T
            left[s, r] = lift @ full[np.ix_(known, known)] @ lift.T
            unknown = gaussians.covariances[s][np.ix_(gap, gap)]
            left[s, r][np.ix_(gap, gap)] += unknown - cross @ np.linalg.solve(within, cross.T)
    count = posterior.sum(axis=0)
    overall = np.einsum("rs,src->c", posterior, values) / rows
    means = np.einsum("rs,src->sc", posterior, values) + prior.mean_rows * overall
    means /= (count + prior.mean_rows)[:, None]
    apart = values - means[:, None]
    scatter = np.einsum("rs,sri,srj->sij", posterior, apart, apart)
    scatter += np.einsum("rs,srij->sij", posterior, left)
    covariances = scatter + prior.rows * scatter.sum(axis=0) / rows
    covariances /= (count + prior.rows)[:, None, None]
    assert found.means == pytest.approx(means, abs=1e-12)
    assert found.covariances == pytest.approx(covariances + 0.01 * np.eye(columns), abs=1e-12)


def test_masses_of_rows_are_products_of_conditional_probabilities():
    rng = np.random.default_rng(2)
    rows, columns = 600, 3  # more than one block
    gaussians, scores = random_gaussians(rng, 2, columns), random_scores(rng, rows, columns)
    found, densities = gaussians.log_masses(scores), gaussians.log_likelihoods(scores)
    for r in (*range(1, 20), rows - 1):
        row, width = scores.middle[r], scores.width[r]
        for s in range(2):
            known, mean, covariance = parts(row, gaussians, s)
            total = 0.0
            for k in range(len(known)):
                slope = np.linalg.solve(covariance[:k, :k], covariance[:k, k])
                centre = mean[k] + slope @ (row[known[:k]] - mean[:k])
                one = stats.norm(centre, np.sqrt(covariance[k, k] - slope @ covariance[:k, k]))
                half = width[known[k]] / 2
                total += np.log(one.cdf(row[known[k]] + half) - one.cdf(row[known[k]] - half))
            assert found[r, s] == pytest.approx(total, abs=1e-8)
            if len(known):
                exact = stats.multivariate_normal(mean, covariance).logpdf(row[known])
                exact += np.log(width[known]).sum()
                assert densities[r, s] == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("z", [0.0, 0.3, -4.0, 17.0, 19.9, 20.4, -36.0, 60.0])
@pytest.mark.parametrize("width", [1e-6, 0.01, 0.1499, 0.16, 1.0, 3.0])
def test_log_probabilities_of_cells_far_out(z, width):
    # The distance from z is integrated over, with the density relative to that at z.
    integral, _ = integrate.quad(
        lambda t: np.exp(-abs(z) * t - t * t / 2), -width / 2, width / 2, epsabs=0, epsrel=1e-12
    )
    exact = np.log(integral) - z**2 / 2 - np.log(2 * np.pi) / 2
    assert log_cell(np.array([z]), np.array([width]))[0] == pytest.approx(exact, abs=1e-9)


def test_gaussians_without_a_density_are_an_error():
    flat = Gaussians(np.zeros((1, 2)), np.ones((1, 2, 2)))
    scores = Scores(np.zeros((3, 2)), np.full((3, 2), 0.1))
    rows = GaussianRows(scores, np.ones(3))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        rows.log_densities(flat)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        flat.log_masses(scores)
    one = Scores(np.array([[0.0, 0.0, np.nan]]), np.full((1, 3), 0.1))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        GaussianRows(one, np.ones(1)).update(
            Gaussians(np.zeros((1, 3)), np.ones((1, 3, 3))), np.ones((1, 1)), GaussianPrior(1, 0.0)
        )


def test_posteriors_add_up_to_weights():
    rng = np.random.default_rng(1)
    logs, weights = rng.normal(0, 300, (50, 7)), rng.uniform(0, 3, 50)
    found = logs.copy()
    posteriors(found, weights)
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    assert found == pytest.approx(p / p.sum(axis=1, keepdims=True) * weights[:, None], abs=1e-14)


def test_draws_of_missing_numbers_are_regressions_on_known_ones():
    rng = np.random.default_rng(1)
    gaussians, scores = random_gaussians(rng, 3, 4), random_scores(rng, 30, 4)
    state = rng.integers(0, 3, 30)
    seed = 5
    found = gaussians.drawn(scores, state, np.random.default_rng(seed))
    noise = np.random.default_rng(seed).standard_normal((30, 4))
    for r, row in enumerate(scores.middle):
        covariance = gaussians.covariances[state[r]]
        free = gaussians.means[state[r]] + np.linalg.cholesky(covariance) @ noise[r]
        known, hole = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        slope = covariance[np.ix_(hole, known)] @ np.linalg.inv(covariance[np.ix_(known, known)])
        np.testing.assert_array_equal(found[r, known], row[known])
        expected = free[hole] + slope @ (row[known] - free[known])
        np.testing.assert_allclose(found[r, hole], expected, atol=1e-9)
