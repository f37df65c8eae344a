"""Filling in missing values."""

from __future__ import annotations

from typing import Any

from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.estimator.seeds import integer_seed
from conjoin.inference.completion import Completion
from conjoin.models.network import Network


def imputed_codes(
    model: Network, table: Table, draws: int | None = None, by: str = "row", random_state: Any = 0
) -> Any:
    """Return codes without missing values, rows by variables; with draws, one such array per draw.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    table : Table
        Rows with missing values.
    draws : int, optional
        The number of completions to draw for each row.
    by : {'row', 'cell'}
        Without draws: the most probable completion of a row, or the most probable state of each cell.
    random_state : int, numpy Generator, RandomState or None
        The source of randomness.
    """
    if by not in ("row", "cell"):
        raise ModelError(f"by must be 'row' or 'cell', not {by!r}")
    rows = Completion(model, table.codes, integer_seed(random_state))
    if draws is not None:
        if draws < 1:
            raise ModelError(f"draws must be 1 or more, not {draws}")
        return rows.draws(draws)
    return rows.modes()[0] if by == "row" else rows.likely()[0]
