"""Missing values filled in."""

from __future__ import annotations

from typing import Any

from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.inference.completion import Completion
from conjoin.models.network import Network


def completed(
    model: Network, table: Table, draws: int | None = None, by: str = "row", random_state: int = 0
) -> Any:
    """Return codes without holes, rows by variables; with draws, one such array a draw.

    Parameters
    ----------
    model : MarkovNetwork or BayesianNetwork
        The model.
    table : Table
        Rows with holes.
    draws : int, optional
        Draw so many completions of each row.
    by : {'row', 'cell'}
        Without draws: the most probable completion of a row, or the most probable state of each cell.
    random_state : int
        The seed.
    """
    if by not in ("row", "cell"):
        raise ModelError(f"by must be 'row' or 'cell', not {by!r}")
    rows = Completion(model, table.codes, random_state)
    if draws is not None:
        if draws < 1:
            raise ModelError(f"draws must be 1 or more, not {draws}")
        return rows.draws(draws)
    return rows.modes()[0] if by == "row" else rows.likely()[0]
