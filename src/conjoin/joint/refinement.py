"""`refine`: from converted weights to a joint distribution that answers any question well.

The closed form makes every conditional a good one. It does not determine the probabilities of whole
groups of states that cannot be left by changing one column at a time; the likelihood does. So the
network is made thin enough for exact inference, its weights maximise the likelihood of the rows, and a
hidden column takes over the many weak interactions that thinning loses. Rows that are held out choose
among networks of different size, with and without a hidden column (see `network_search`). The
maximum-likelihood tree and a Bayesian network are candidates, too, so the result is never worse than
these on these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.frames import as_table
from conjoin.data.holdout import deal_out, hold_out
from conjoin.data.row_hashing import in_content_order
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError, did_you_mean, names_lack_of_memory
from conjoin.jobs import off_main_thread, one_thread
from conjoin.joint.candidates import Fold
from conjoin.joint.incomplete_rows import incomplete
from conjoin.joint.missing_values import joined, without_holes
from conjoin.joint.network_search import FEW_ROWS, MANY_ROWS, NetworkSearch
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import no_hidden_variables, takes_estimators

HELD_OUT = 0.1
"""The share of the rows that chooses among networks, if there is no validation table."""

MIN_ROWS = 50
"""Fewer rows are too few to hold some out."""

FOLDS = 4
"""The number of folds that few rows are dealt into."""

MOST_FEW_ROWS, MAX_COLUMNS, MAX_VALUES = 1 << 11, 64, 1 << 16
"""Tables with more columns than this, or with more rows and more values (rows times columns) than these,
have one part of the rows held out instead."""


class HeldOut(NamedTuple):
    """Rows that were held out, and all others."""

    held: Table
    train: Table
    network: MarkovNetwork  # like the result, but has not learned from the rows held out


class Refined(NamedTuple):
    """The result of `refine`, and what its choices were made by."""

    network: MarkovNetwork
    folds: list[HeldOut]


@takes_estimators
@names_lack_of_memory
def refine(
    model: MarkovNetwork,
    table: Any,
    *,
    valid: Any = None,
    effort: str = "default",
    max_cells: int | None = None,
    min_rows: int = MIN_ROWS,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> MarkovNetwork:
    """Turn a converted network into the joint distribution that predicts held-out rows best.

    Thin networks of different size, with weights that maximise the likelihood of the rows, with and
    without a hidden column, a Bayesian network and the maximum-likelihood tree are compared on held-out
    rows. The result allows exact inference, and does not depend on the order of rows and
    columns.

    Parameters
    ----------
    model : MarkovNetwork
        The result of `convert` for conditionals that were learned from the table.
    table : Table, 2-dimensional array, or frame
        The rows. Missing values are drawn from a first network, which is learned with values drawn from
        the maximum-likelihood tree.
    valid : Table, array or frame, optional
        Rows that choose among the networks. By default a tenth of the table's rows are held out for
        that, and the network that is chosen is then learned further on all rows. Tables with few rows
        and columns are dealt into folds instead, each of which is held out in turn.
    effort : {'quick', 'default', 'thorough'}
        How many networks are compared, and how large they are. With "quick" there is no hidden column.
    max_cells : int, optional
        The cells of the thin network's tables, instead of several sizes to choose from.
    min_rows : int
        With fewer rows the network is returned unchanged; its provenance says so.
    random_state : int or numpy Generator
        Draws the rows to hold out, missing values, and where the fits start.
    n_jobs : int, optional
        The number of parts of the rows to evaluate at the same time. It does not change the result.

    Returns
    -------
    MarkovNetwork
        Its provenance records the candidates and their scores.

    Examples
    --------
    >>> import numpy as np
    >>> from conjoin import Domain, Table, convert, learn_conditionals, marginals
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((2, 3000)) < [[0.02], [0.1]]
    >>> seen = (a | b) ^ (rng.random(3000) < 0.05)
    >>> domain = Domain({"a": [0, 1], "b": [0, 1], "either": [0, 1], "seen": [0, 1]})
    >>> rows = Table(domain, np.stack([a, b, a | b, seen], axis=1).astype(int))
    >>> closed = convert(learn_conditionals(rows, "hybrid", penalty=1.0), rows)
    >>> refined = refine(closed, rows)
    >>> share = float((a | b).mean())  # 0.12
    >>> [abs(marginals(model)["either"][1] - share) < 0.02 for model in (closed, refined)]
    [False, True]
    """
    return refined(
        model, table, valid=valid, effort=effort, max_cells=max_cells, min_rows=min_rows,
        random_state=random_state, n_jobs=n_jobs,
    ).network  # fmt: skip


def refined(
    model: MarkovNetwork,
    table: Any,
    *,
    valid: Any = None,
    effort: str = "default",
    max_cells: int | None = None,
    min_rows: int = MIN_ROWS,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> Refined:
    """Do what `refine` does, and return the held-out rows, too, with the numbers beside them."""
    if not isinstance(model, MarkovNetwork):
        raise ModelError(
            f"only Markov networks can be refined, not a {model.kind}; convert it first"
        )
    no_hidden_variables(model, "refined")
    if effort not in MANY_ROWS:
        raise ModelError(f"effort {effort!r} is not known. " + did_you_mean(effort, MANY_ROWS))
    rows = _rows_of(model, table)
    if len(rows) < min_rows:
        reason = f"{len(rows)} rows are fewer than min_rows={min_rows}"
        record = {"objective": "closed form", "rows": len(rows), "reason": reason}
        provenance = {**model.provenance, "weights": record}
        network = MarkovNetwork(model.domain, model.features, model.factors, provenance)
        return Refined(network, [])
    rng, whole = np.random.default_rng(random_state), model.in_canonical_order()
    names = whole.domain.names
    rows = rows.reordered(names)
    few = valid is None and effort != "quick" and _has_few_rows(rows)
    if few:
        splits = deal_out(rows, FOLDS, rng)
    elif valid is None:
        splits = [hold_out(rows, HELD_OUT, rng)]
    else:
        splits = [(rows, _rows_of(model, valid).reordered(names))]
    settings = (FEW_ROWS if few else MANY_ROWS)[effort]

    def run() -> tuple[MarkovNetwork, list[MarkovNetwork]]:
        parts = [held for _, held in splits] if few else list(splits[0])
        states = _states(parts)
        complete = without_holes(whole, states, partial(_first_network, whole), rng)
        everything = joined(*complete)
        if few:
            folds = [Fold.of(all_but(complete, k), held) for k, held in enumerate(complete)]
        else:
            folds = [Fold.of(*complete)]
        if valid is not None:
            everything = folds[0].train
        lacking = None
        if few and any(incomplete(part).any() for part in states):
            lacking = [(all_but(states, k), part) for k, part in enumerate(states)]
        search = NetworkSearch(whole, folds, everything, settings, rng, lacking)
        return search.run(max_cells)

    with one_thread():
        network, honest = off_main_thread(run, n_jobs)
    pairs = zip(splits, honest, strict=True)
    folds = [HeldOut(held, train, _like(model, of_others)) for (train, held), of_others in pairs]
    return Refined(_like(model, network), folds)


def _like(model: MarkovNetwork, network: MarkovNetwork) -> MarkovNetwork:
    """Return a network with its columns in the order of another one, hidden ones last."""
    hidden = [v.name for v in network.domain if v.hidden]
    return network.reordered([*model.domain.names, *hidden])


def _first_network(
    model: MarkovNetwork, hidden: bool, train: Table, held: Table, rng: Any
) -> MarkovNetwork:
    """Return a smaller network than the final one, quickly learned, to draw missing values from."""
    effort = MANY_ROWS["default"]
    fewer = effort._replace(
        cells=effort.cells[:1],
        states=effort.states[:2] if hidden else (),
        settings=effort.settings[:2],
        directed=False,
    )
    return NetworkSearch(model, [Fold.of(train, held)], train, fewer, rng).run()[0]


def _states(tables: Sequence[Table]) -> list[Table]:
    """Return tables without the values of their numbers."""
    return [Table.adopt(table.domain, table.codes, table.weights) for table in tables]


def all_but(parts: Sequence[Table], number: int) -> Table:
    """Return the rows of all parts but one."""
    return joined(*(part for other, part in enumerate(parts) if other != number))


def _has_few_rows(table: Table) -> bool:
    """Return whether a table is small enough for fits without each part of its rows."""
    weight = float(len(table) if table.weights is None else table.weights.sum())
    columns = len(table.domain)
    few = weight <= MOST_FEW_ROWS or weight * columns <= MAX_VALUES
    return few and columns <= MAX_COLUMNS and len(table) >= FOLDS


def _rows_of(model: MarkovNetwork, table: Any) -> Table:
    rows = as_table(table, model.domain)
    codes_of(model.domain, rows, complete=False)
    return in_content_order(rows)
