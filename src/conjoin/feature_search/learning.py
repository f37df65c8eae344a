"""`learn_features`: Markov networks by a search for features, as an alternative to conditionals.

Each method is a class of settings with a function `learn`: `TopDown`, `BottomUp`,
`GenerateSelect` and `Staged`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from conjoin.data.frames import as_table
from conjoin.errors import ModelError, did_you_mean
from conjoin.feature_search.bottom_up import BottomUp
from conjoin.feature_search.candidates import total_weight
from conjoin.feature_search.generate_select import GenerateSelect
from conjoin.feature_search.staged import Staged
from conjoin.feature_search.task import FeatureTask
from conjoin.feature_search.top_down import TopDown
from conjoin.jobs import off_main_thread, one_thread
from conjoin.models.markov import MarkovNetwork

METHODS = {
    "top-down": TopDown,
    "bottom-up": BottomUp,
    "generate-select": GenerateSelect,
    "staged": Staged,
}
"""The settings of each method, by its name."""


def learn_features(
    table: Any,
    method: str = "top-down",
    *,
    valid: Any = None,
    holdout: float = 0.1,
    start: MarkovNetwork | None = None,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
    **options: Any,
) -> MarkovNetwork:
    """Learn a Markov network by searching for features.

    The result does not depend on the order of rows and columns.

    Parameters
    ----------
    table : Table, 2-dimensional array, or frame
        The rows. Missing values are drawn once, from the network to start from or from the
        maximum-likelihood tree.
    method : {'top-down', 'bottom-up', 'generate-select', 'staged'}
        "top-down" adds conjunctions of features and states that increase the likelihood most (Della
        Pietra, Della Pietra and Lafferty, 1997). "bottom-up" generalises rows to their neighbours (Davis
        and Domingos, 2010). "generate-select" generates parts of rows, from which
        an L1 penalty on the pseudo-likelihood chooses (Van Haaren and Davis, 2012). "staged" adds
        features by the gradients of the likelihood with an L1 penalty on all weights (Lee, Ganapathi and
        Koller, 2006).
    valid : Table, array or frame, optional
        Rows that choose when to stop. By default a share of the table's rows is held out for that, and
        the weights are finally learned from all rows.
    holdout : float
        The share of the rows to hold out.
    start : MarkovNetwork, optional
        A network to extend; by default all columns are independent. If it has a hidden column, its
        weights stay as they are, and the objective must be the likelihood.
    random_state : int or numpy Generator
        The source of all random choices.
    n_jobs : int, optional
        Number of parts of the rows that are evaluated at the same time. It does not change the result.
    **options
        Settings of the method, which bound its work: the attributes of
        `conjoin.feature_search.top_down.TopDown`, `conjoin.feature_search.bottom_up.BottomUp`,
        `conjoin.feature_search.generate_select.GenerateSelect` or `conjoin.feature_search.staged.Staged`.

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
    settings = _settings(method, options)
    if start is not None and not isinstance(start, MarkovNetwork):
        raise ModelError(f"a {start.kind} cannot be extended by features; convert it first")
    rows = as_table(table, None if start is None else start.domain.observed)
    rng = np.random.default_rng(random_state)
    task = FeatureTask.of(rows, valid, holdout, start, rng, n_jobs)
    with one_thread():
        network, record = off_main_thread(lambda: settings.learn(task), n_jobs)
    search = {"method": method, "rows": round(total_weight(rows)), **record}
    provenance = {**({} if start is None else start.provenance), "features": search}
    learned = MarkovNetwork(network.domain, network.features, provenance=provenance)
    hidden = [variable.name for variable in network.domain if variable.hidden]
    return learned.merged().reordered([*rows.domain.names, *hidden])


def _settings(method: str, options: dict[str, Any]) -> Any:
    """Return the settings of a method, checked."""
    kind = METHODS[method]
    known = {field.name: field.default for field in fields(kind)}
    for name, value in options.items():
        if name not in known:
            raise ModelError(
                f"the method {method!r} has no option {name!r}. " + did_you_mean(name, known)
            )
        if isinstance(known[name], str) or (known[name] is None and value is None):
            continue
        if not isinstance(value, int | float | np.number) or not value > 0:
            raise ModelError(f"{name} must be a number greater than 0, not {value!r}")
    return kind(**options)
