"""Filling in missing values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray
from conjoin.data.table import Codes, Table, with_hidden
from conjoin.errors import ConvergenceWarning, ModelError
from conjoin.estimator.seeds import integer_seed
from conjoin.inference.completion import Completion
from conjoin.inference.hidden_mode import improved
from conjoin.inference.terms import as_markov_network
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network


def imputed_codes(
    model: Network, table: Table, draws: int | None = None, by: str = "row", random_state: Any = 0
) -> Any:
    """Return codes without missing values, rows by variables; with draws, one such array per draw.

    `draws`: the number of completions to draw for each row. `by`: without draws: the most probable
    completion of a row, or the most probable state of each cell. In a network with hidden columns,
    which are summed out, the former is the best completion found.

    Warns
    -----
    ConvergenceWarning
        If rows are too large for exact inference, so that their completions were searched for.
    """
    if by not in ("row", "cell"):
        raise ModelError(f"by must be 'row' or 'cell', not {by!r}")
    rows = Completion(model, table.codes, integer_seed(random_state))
    if draws is not None:
        if draws < 1:
            raise ModelError(f"draws must be 1 or more, not {draws}")
        return rows.draws(draws)
    if by == "row" and model.domain.hidden.any():
        return _best_found(as_markov_network(model), table, rows)
    codes, exact = rows.modes() if by == "row" else rows.likely()
    _say(exact)
    return codes


def _say(exact: BoolArray) -> None:
    """Warn if rows are not exact."""
    if not exact.all():
        warnings.warn(
            f"{np.count_nonzero(~exact):,} of {len(exact):,} rows were too large for exact inference, "
            "and are filled in approximately, by sampling",
            ConvergenceWarning,
            stacklevel=4,
        )


def _best_found(model: MarkovNetwork, table: Table, rows: Completion) -> Codes:
    """Return likely completions of rows, with the hidden columns of the network summed out.

    The better of two completions, that with the most probable hidden states and that of the most
    probable state of each cell, is improved by changes of single cells.
    """
    (modes, exact), (likely, _) = rows.modes(), rows.likely()
    _say(exact)
    candidates = [modes, likely]
    scores = [model.log_potential(codes) for codes in candidates]
    codes = np.where((scores[0] >= scores[1])[:, None], *candidates)
    holes = table.codes == table.missing
    full = with_hidden(model.domain, codes)
    return improved(model.hidden_states, full, holes)[0][:, : codes.shape[1]].astype(codes.dtype)
