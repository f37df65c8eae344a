"""`refine`: from converted weights to a joint that answers well whatever is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.frames import as_table
from conjoin.data.table import Table
from conjoin.inference.completion import completed
from conjoin.inference.gibbs import estimate
from conjoin.inference.plan import MAX_VARIABLES
from conjoin.models.markov import MarkovNetwork
from conjoin.weights.learn import learn_weights
from conjoin.weights.thin import MAX_CELLS, thin

ENOUGH = 0.75
"""A thin network is taken if it explains so much of the variance of the whole one's log-potential."""

SWEEPS, FAR = 200, 0.1
"""A whole network is checked by so many sweeps; marginals that are further off make it unsound."""

ENOUGH_ROWS = 50
"""Fewer rows than this are too few to hold some out: converted weights are better left as they are."""

CELLS_A_ROW = 256
"""The tables of exact inference may have so many cells for each row of data."""

ITERATIONS = 60
"""So many steps towards the highest likelihood; the next hundred gain little."""

PRIORS = (0.02, 0.1, 0.5)
"""Standard deviations of the prior around converted weights, for pseudo-likelihood."""


def refine(
    model: MarkovNetwork,
    table: Any,
    *,
    max_cells: float | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> MarkovNetwork:
    """Learn the weights of a converted network further.

    The closed form makes every conditional a good one. How probable whole groups of states are that
    cannot be left one variable at a time, it leaves open, and so does pseudo-likelihood; the likelihood
    does not. So the network is made thin enough for exact inference (`thin`) and its weights maximise the
    likelihood of the rows. If too much would be lost by that, as in wide tables where everything acts on
    everything, all features are kept and the weights are mended by pseudo-likelihood, provided that a
    sampler then finds the marginals of the rows.

    Parameters
    ----------
    model : MarkovNetwork
        What `convert` made of the conditionals learned from the table.
    table : Table, 2-dimensional array, or frame
        The rows. Missing values are drawn once from the model.
    max_cells : float, optional
        How thin; see `thin`. By default 256 for each row, 131,072 at most: tables that are much larger
        than the data take time and tell no more.
    random_state : int
        Draws the rows that are held out, and missing values.
    n_jobs : int, optional
        How many parts of the rows to look at at a time. The result is the same for any number.

    Examples
    --------
    >>> import numpy as np
    >>> from conjoin import Domain, Table, convert, learn, marginals
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((2, 3000)) < [[0.02], [0.1]]
    >>> seen = (a | b) ^ (rng.random(3000) < 0.05)
    >>> domain = Domain({"a": [0, 1], "b": [0, 1], "either": [0, 1], "seen": [0, 1]})
    >>> rows = Table(domain, np.stack([a, b, a | b, seen], axis=1).astype(int))
    >>> closed = convert(learn(rows, "hybrid", penalty=1.0), rows)
    >>> refined = refine(closed, rows)
    >>> share = float((a | b).mean())  # 0.12
    >>> [abs(marginals(model)["either"][1] - share) < 0.02 for model in (closed, refined)]
    [False, True]
    """
    rows = completed(model, as_table(table, model.domain), random_state)
    if max_cells is None:
        max_cells = min(MAX_CELLS, CELLS_A_ROW * len(rows))
    thinned = None
    if len(model.domain) <= MAX_VARIABLES:
        thinned = thin(model, rows, max_cells=max_cells, least=ENOUGH)
    kept = 1.0 if thinned is None or thinned is model else thinned.provenance["thin"]["explained"]
    if thinned is None or kept < ENOUGH:
        whole = learn_weights(
            model, rows, start="model", prior_sd=PRIORS, max_iterations=20, patience=4,
            random_state=random_state, n_jobs=n_jobs,
        )  # fmt: skip
        if thinned is None or _sound(whole, rows, random_state, n_jobs):
            return whole
        thinned = thin(model, rows, max_cells=max_cells)
    return learn_weights(
        thinned, rows, objective="likelihood", start="model", max_iterations=ITERATIONS,
        random_state=random_state, n_jobs=n_jobs,
    )  # fmt: skip


def _sound(model: MarkovNetwork, rows: Table, random_state: int, n_jobs: int | None) -> bool:
    """Tell whether a few Gibbs chains find the marginals of the rows."""
    found = estimate(model, None, SWEEPS, SWEEPS // 2, 4, random_state=random_state, n_jobs=n_jobs)
    return all(
        np.abs(found.marginals[name] - p).max() <= FAR
        for name, p in zip(model.domain.names, rows.marginals(), strict=True)
    )
