"""`refine`: from converted weights to a joint distribution that answers any question well."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.frames import as_table
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError
from conjoin.inference.completion import completed
from conjoin.inference.gibbs import estimate
from conjoin.inference.plan import MAX_VARIABLES
from conjoin.joint.thinning import MAX_CELLS, ThinningSearch
from conjoin.joint.weight_learning import learn_weights
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network, no_hidden_variables

CELLS_PER_ROW = 256
"""Default number of cells of the tables of exact inference per row of data."""

SWEEPS = (200, 1000)
"""Numbers of Gibbs sweeps by which the marginals of a network are checked; the second, less noisy
number is for networks that fail with the first."""

MAX_DISTANCE = 0.1
"""The largest distance from the marginals of the rows at which a network passes the check."""

ITERATIONS = 60
"""Number of steps towards the highest likelihood; the next hundred gain little."""

PRIOR_SDS = (0.02, 0.1, 0.5)
"""Standard deviations of the prior around converted weights, for pseudo-likelihood."""


def refine(
    model: MarkovNetwork,
    table: Any,
    *,
    max_cells: float | None = None,
    min_explained: float = 0.75,
    min_rows: int = 50,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> MarkovNetwork:
    """Learn the weights of a converted network further.

    The closed form makes every conditional a good one. It does not determine the probabilities of whole
    groups of states that cannot be left by changing one variable at a time, and neither does
    pseudo-likelihood; the likelihood does. So the network is made thin enough for exact inference
    (`thin`) and its weights maximise the likelihood of the rows. If too much would be lost, as in wide
    tables in which everything interacts with everything, all features are kept and the weights are
    improved by pseudo-likelihood, provided that a sampler then finds the marginals of the rows.

    The result does not depend on the order of the columns.

    Parameters
    ----------
    model : MarkovNetwork
        The result of `convert` for conditionals that were learned from the table.
    table : Table, 2-dimensional array, or frame
        The rows. Missing values are drawn once from the model.
    max_cells : float, optional
        The size of the tables of exact inference, as for `thin`. By default 256 cells per row, at most
        131,072: tables much larger than the data take time and improve nothing.
    min_explained : float
        The thinned network is used if it explains this share of the variance of the log-potential.
    min_rows : int
        Fewer rows are too few to hold some out: then the network is returned with its weights
        unchanged, and its provenance says so.
    random_state : int or numpy Generator
        Draws the rows to hold out, and missing values.
    n_jobs : int, optional
        The number of parts of the rows to evaluate at the same time. It does not change the result.

    Returns
    -------
    MarkovNetwork
        Its provenance records the choices, ``provenance["weights"]["objective"]`` above all.

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
    if not isinstance(model, MarkovNetwork):
        raise ModelError(f"Markov networks are refined, not a {model.kind}; convert it first")
    no_hidden_variables(model, "refined")
    rows = as_table(table, model.domain)
    codes_of(model.domain, rows, complete=False)
    if len(rows) < min_rows:
        reason = f"{len(rows)} rows are fewer than min_rows={min_rows}"
        record = {"objective": "closed form", "rows": len(rows), "reason": reason}
        provenance = {**model.provenance, "weights": record}
        return MarkovNetwork(model.domain, model.features, model.factors, provenance)
    if max_cells is None:
        max_cells = min(MAX_CELLS, CELLS_PER_ROW * len(rows))
    seed = random_state
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**31))
    sorted_model = model.in_canonical_order()
    rows = rows.reordered(sorted_model.domain.names)
    refined = _refine(sorted_model, rows, max_cells, min_explained, seed, n_jobs)
    return refined.reordered(model.domain.names)


def _refine(
    model: MarkovNetwork,
    table: Table,
    max_cells: float,
    min_explained: float,
    seed: int,
    n_jobs: int | None,
) -> MarkovNetwork:
    """Refine a network whose columns are sorted."""
    rows = completed(model, table, seed)

    def by_likelihood(thinned: MarkovNetwork) -> MarkovNetwork:
        return learn_weights(
            thinned, rows, objective="likelihood", start="model", max_iterations=ITERATIONS,
            random_state=seed, n_jobs=n_jobs,
        )  # fmt: skip

    search = None
    if len(model.domain) <= MAX_VARIABLES:
        search = ThinningSearch(model, rows, max_cells)
        thinned = search.network(min_explained)
        if search.fits or thinned.provenance["thin"]["explained"] >= min_explained:
            return by_likelihood(thinned)
    whole = learn_weights(
        model, rows, start="model", prior_sd=PRIOR_SDS, max_iterations=20, patience=4,
        random_state=seed, n_jobs=n_jobs,
    )  # fmt: skip
    if search is None or _finds_marginals(whole, rows, seed, n_jobs):
        return whole
    return by_likelihood(search.network())


def _finds_marginals(model: Network, rows: Table, seed: int, n_jobs: int | None) -> bool:
    """Return whether a few Gibbs chains find the marginals of the rows."""
    expected = dict(zip(model.domain.names, rows.marginals(), strict=True))
    for sweeps in SWEEPS:
        found = estimate(model, None, sweeps, sweeps // 2, 4, random_state=seed, n_jobs=n_jobs)
        distances = [np.abs(found.marginals[name] - p).max() for name, p in expected.items()]
        if max(distances, default=0.0) <= MAX_DISTANCE:
            return True
    return False
