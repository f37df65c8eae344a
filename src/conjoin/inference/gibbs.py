"""Marginals by Gibbs sampling, as an engine among the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conjoin.inference.results import Marginals, Run
from conjoin.models.network import Network
from conjoin.sampling.gibbs import estimate


def marginals(
    model: Network,
    given: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str] | None = None,
    n_samples: int = 1000,
    burn_in: int = 100,
    chains: int = 4,
    seed: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> Marginals:
    """Return the distribution of each variable as Gibbs chains estimate it.

    Parameters
    ----------
    model : Network
        Any kind of model.
    given : mapping, optional
        The evidence.
    targets : sequence of str, optional
        The variables that are asked for; by default all.
    n_samples, burn_in, chains : int
        Sweeps of each chain that count, those before that do not, and how many chains.
    seed : int or Generator
        For the chains.
    n_jobs : int, optional
        Chains that run at once; results do not depend on it.

    Returns
    -------
    Marginals
        `run.converged` says whether the chains agree, `run.error` the largest standard error.
    """
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**31))
    found = estimate(model, given, n_samples, burn_in, chains, random_state=seed, n_jobs=n_jobs)
    arrays = []
    for variable in model.domain:
        if variable.name in found.marginals:
            arrays.append(found.marginals[variable.name])
        else:
            known = variable.index(found.given[variable.name])
            arrays.append(np.eye(len(variable))[known])
    error = max((float(e.max()) for e in found.stderr.values()), default=0.0)
    unsettled, (r_hat, _) = found.unsettled(), found.worst()
    note = f"{found.chains} chains of {found.n_samples:,} sweeps "
    if unsettled:
        note += (
            f"disagree on {len(unsettled)} of {len(found.marginals)} variables (R-hat up to "
            f"{r_hat:.3g}): do not trust them"
        )
    else:
        note += f"agree (R-hat up to {r_hat:.3f}), standard errors up to {error:.2g}"
    run = Run("gibbs", converged=not unsettled, note=note, error=error)
    return Marginals(model.domain, arrays, run, None if targets is None else tuple(targets))
