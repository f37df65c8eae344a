"""`learn_features`: Markov networks by a search for features, as an alternative to conditionals.

Each method is a function in a module of its own; its keyword arguments are the settings of the method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conjoin.data import as_table
from conjoin.errors import ModelError, did_you_mean
from conjoin.jobs import off_main_thread, one_thread
from conjoin.models import MarkovNetwork
from conjoin.research.feature_search.bottom_up import bottom_up
from conjoin.research.feature_search.conjunctions import total_weight
from conjoin.research.feature_search.feature_task import FeatureTask
from conjoin.research.feature_search.top_down import top_down

METHODS: dict[str, Callable[..., tuple[MarkovNetwork, dict[str, Any]]]] = {
    "top-down": top_down,
    "bottom-up": bottom_up,
}
"""The function of each method, by its name."""


def learn_features(
    table: Any,
    method: str = "top-down",
    *,
    valid: Any = None,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
    **options: Any,
) -> MarkovNetwork:
    """Learn a Markov network by searching for features.

    The result does not depend on the order of rows and columns.

    Parameters
    ----------
    table : Table, 2-dimensional array, or frame
        The rows. Missing values are drawn once, from the maximum-likelihood tree.
    method : {'top-down', 'bottom-up'}
        "top-down" adds conjunctions of features and states that increase the likelihood most (Della
        Pietra, Della Pietra and Lafferty, 1997). "bottom-up" generalises rows to their neighbours (Davis
        and Domingos, 2010).
    valid : Table, array or frame, optional
        Rows that choose when to stop. By default a tenth of the table's rows is held out for that, and
        the weights are finally learned from all rows.
    random_state : int or numpy Generator
        The source of all random choices.
    n_jobs : int, optional
        Number of parts of the rows that are evaluated at the same time. It does not change the result.
    **options
        Settings of the method, which bound its work: the keyword arguments of `top_down` or `bottom_up`.

    Returns
    -------
    MarkovNetwork
        Its provenance records the search.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((2, 1000)) < 0.5
    >>> mn = learn_features(np.stack([a, b, a | b], axis=1).astype(int))
    >>> mn.conditional("v2", {"v0": 1, "v1": 0, "v2": 0}).round(1)
    array([[0., 1.]])
    """
    if method not in METHODS:
        raise ModelError(f"there is no method {method!r}. " + did_you_mean(method, METHODS))
    rows = as_table(table, None)
    task = FeatureTask.of(rows, valid, np.random.default_rng(random_state), n_jobs)
    with one_thread():
        network, record = off_main_thread(lambda: METHODS[method](task, **options), n_jobs)
    search = {"method": method, "rows": round(total_weight(rows)), **record}
    learned = MarkovNetwork(network.domain, network.features, provenance={"features": search})
    return learned.merged().reordered(rows.domain.names)
