"""The columns that each regression considers in a wide table: those that tell most about its target."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.packed_table import state_ranges
from conjoin.data.parent_rules import FORBIDDEN, REQUIRED
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Table
from conjoin.learning.logistic_features import Design
from conjoin.learning.options import LIMITS, Limits

ROWS_AT_A_TIME = 256
"""The number of indicators whose information is computed together."""


def columns_to_keep(columns: int, cells: int, limits: Limits = LIMITS) -> int:
    """Return how many columns each regression considers, given the size of the indicators' matrix."""
    if columns <= limits.screened_columns:
        return columns
    return min(columns, max(limits.kept_columns, limits.products // max(1, cells)))


def choosing_targets(table: Table, limits: Limits = LIMITS) -> range | None:
    """Return the targets that choose kappa and the penalty for all, at equal distances.

    None if all of them choose, as they do unless each regression considers some of the columns.
    """
    domain = table.domain
    apart = len(domain) // limits.probe_targets
    if len(domain) <= limits.screened_columns or apart < 2:
        return None
    rows, _ = merge_rows(table.codes, table.weights)
    indicators = len(state_ranges(domain.cards, domain.ordered)[0])
    screen = columns_to_keep(len(domain), len(rows) * indicators, limits) < len(domain)
    return range(0, len(domain), apart) if screen else None


def mutual_information(design: Design) -> FloatArray:
    """Return the largest mutual information of any indicators of two variables, variables by variables.

    With two states each it is that of the variables, otherwise less. It is 0 on the diagonal.
    """
    rho, mean, deviation = design.correlations
    used, first = np.unique(design.var, return_index=True)
    rows = np.empty((len(mean), len(used)))
    for low in range(0, len(mean), ROWS_AT_A_TIME):
        part = slice(low, low + ROWS_AT_A_TIME)
        both = rho[part] * np.outer(deviation[part], deviation) + np.outer(mean[part], mean)
        information = _information(both, mean[part, None], mean)
        rows[part] = np.maximum.reduceat(information, first, axis=1)
    result = np.zeros((len(design.cards), len(design.cards)))
    result[np.ix_(used, used)] = np.maximum.reduceat(rows, first, axis=0)
    np.fill_diagonal(result, 0.0)
    return result


def _information(both: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the mutual information of events, from the probabilities of both, and of each."""
    total = np.zeros_like(both)
    for cell, expected in (
        (both, a * b),
        (a - both, a * (1 - b)),
        (b - both, (1 - a) * b),
        (1 - a - b + both, (1 - a) * (1 - b)),
    ):
        possible = (cell > 1e-12) & (expected > 0)
        total += np.where(
            possible,
            cell * np.log(np.where(possible, cell / np.where(possible, expected, 1), 1)),
            0,
        )
    return np.maximum(total, 0.0)


def strongest_tree(information: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the variables of the maximum spanning tree, neighbours close together, and their parents."""
    n = len(information)
    order, parent = np.zeros(n, np.int64), np.zeros(n, np.int64)
    left = np.ones(n, bool)
    left[0] = False
    best = np.where(left, information[0], -np.inf)
    for i in range(1, n):
        order[i] = new = int(np.argmax(best))
        left[new], best[new] = False, -np.inf
        closer = left & (information[new] > best)
        parent[closer] = new
        best[closer] = information[new, closer]
    return order, parent


def screened_columns(
    information: FloatArray, rules: npt.NDArray[np.int8], parent: IntArray, count: int
) -> BoolArray:
    """Return which variables the regression of each target considers, variables by targets.

    They are the allowed ones with the most information, neighbours in the tree, and the required ones.
    """
    n = len(information)
    allowed = np.where(rules == FORBIDDEN, -1.0, information)
    kept = rules == REQUIRED
    most = np.argpartition(-allowed, count - 1, axis=0)[:count]
    kept[most, np.arange(n)] = True
    kept[parent, np.arange(n)] = kept[np.arange(n), parent] = True
    return kept & (rules != FORBIDDEN)
