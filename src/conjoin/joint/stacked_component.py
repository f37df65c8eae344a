"""Several fits of a hidden column as one component of a mixed network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.domain import Domain, Variable
from conjoin.joint.mixture_fit import MixtureFit
from conjoin.models.gaussians import Gaussians
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.mixed import GaussianComponent


class _HiddenStates(NamedTuple):
    """The hidden states of a fit: its own, for each combination of the parents of its offsets.

    Attributes
    ----------
    log_shares : array, shape (states,)
        Their log-probabilities, less the log Z of the categories.
    means, covariances : arrays
        Their Gaussians.
    values : array, shape (cells, states), or None
        The log-values of the cells of the thin network; None without categories.
    possible : list of dict
        The states of the parents that each hidden state allows.
    """

    log_shares: FloatArray
    means: FloatArray
    covariances: FloatArray
    values: FloatArray | None
    possible: list[dict[int, BoolArray]]

    @classmethod
    def of(cls, fit: MixtureFit, share: float) -> _HiddenStates:
        """Return the hidden states of a fit with a share."""
        log_shares, gaussians = np.log(share) + fit.log_shares, fit.gaussians
        means, values = gaussians.means[None], None
        possible: list[dict[int, BoolArray]] = [{}]
        if fit.offsets is not None:
            combinations = fit.offsets.combinations
            means = means + fit.offsets.of(combinations)[:, None]
            possible = [fit.offsets.states(groups) for groups in combinations]
        count = len(possible)
        if fit.categories is not None:
            log_shares = log_shares - fit.categories.log_z
            own = fit.categories.tables.matrix @ fit.categories.weights.T
            values = np.tile(own, (1, count))
        return cls(
            np.tile(log_shares, count),
            means.reshape(-1, means.shape[-1]),
            np.tile(gaussians.covariances, (count, 1, 1)),
            values,
            [one for one in possible for _ in log_shares],
        )


def stacked_component(
    fits: Sequence[MixtureFit], shares: FloatArray, domain: Domain, name: str
) -> GaussianComponent:
    """Return one component whose hidden column has the states of all fits.

    Where categories move the numbers, a hidden state is one of the fit together with a combination of
    states of the parents, and all other combinations are impossible given it.

    Parameters
    ----------
    fits : sequence of MixtureFit
        Fits over the same thin network.
    shares : array, shape (fits,)
        Their weights.
    domain : Domain
        The categories and atoms.
    name : str
        The name of the hidden column.
    """
    parts = [_HiddenStates.of(fit, float(s)) for fit, s in zip(fits, shares, strict=True)]
    log_shares = np.concatenate([part.log_shares for part in parts])
    at = len(domain)
    factors = [TableFactor((at,), log_shares)]
    values = [part.values for part in parts if part.values is not None]
    if values:
        assert fits[0].tables is not None
        laid_out, together = fits[0].tables.tables, np.concatenate(values, axis=1)
        axes = zip(laid_out.scopes, laid_out.shapes, laid_out.first, strict=False)
        for scope, shape, low in axes:
            part = together[low : low + int(np.prod(shape))]
            factors.append(TableFactor((*scope, at), part.reshape(*shape, len(log_shares))))
    possible = [one for part in parts for one in part.possible]
    for v in sorted({v for one in possible for v in one}):
        every = np.ones(int(domain.cards[v]), bool)
        allowed = np.stack([one.get(v, every) for one in possible], axis=1)
        factors.append(TableFactor((v, at), np.where(allowed, 0.0, -np.inf)))
    hidden = Variable(name, range(len(log_shares)), hidden=True)
    network = MarkovNetwork(Domain([*domain.variables, hidden]), factors=factors)
    means = np.concatenate([part.means for part in parts])
    covariances = np.concatenate([part.covariances for part in parts])
    return GaussianComponent(network, Gaussians(means, covariances))
