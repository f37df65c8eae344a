"""Learning a component of a mixed network in which numbers are cut into bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.table import Table
from conjoin.joint.learning import learn_joint
from conjoin.models.mixed import BinnedComponent
from conjoin.models.number_map import NumberMap

BINS = 8
"""Number of bins, which have about the same number of rows."""


def learn_binned(
    categories: Table,
    names: Sequence[str],
    values: FloatArray,
    maps: Sequence[NumberMap],
    effort: str,
    n_jobs: int | None = None,
) -> BinnedComponent:
    """Learn a network of categories and binned numbers.

    Parameters
    ----------
    categories : Table
        The categories, with the weights of the rows.
    names : sequence of str
        The numbers.
    values : array, shape (rows, numbers)
        Their values, NaN where missing.
    maps : sequence of NumberMap
        Their maps.
    effort : str
        The effort of `learn_joint`.
    n_jobs : int, optional
        The number of jobs at a time.
    """
    cuts = tuple(_cuts(mapped) for mapped in maps)
    variables = list(categories.domain.variables)
    missing = categories.codes == categories.missing
    columns = [np.where(missing, -1, categories.codes.astype(np.int64))]
    for j, mapped in enumerate(maps):
        variables.append(Variable(names[j], range(len(mapped.atoms) + len(cuts[j]) + 1)))
        state = mapped.atom_of(values[:, j])
        rest = state == len(mapped.atoms)
        state[rest] += np.searchsorted(cuts[j], mapped.to_scores(values[rest, j]), side="right")
        columns.append(state[:, None])
    table = Table(Domain(variables), np.concatenate(columns, axis=1), categories.weights)
    _, network = learn_joint(table, effort=effort, n_jobs=n_jobs)
    return BinnedComponent(network, cuts)


def _cuts(mapped: NumberMap) -> FloatArray:
    """Return the scores between bins, at ends of cells."""
    from scipy.special import ndtri

    inner = mapped.values[1:-1]
    values = mapped.to_values(ndtri(np.arange(1, BINS) / BINS))
    step = mapped.step
    snapped = np.unique(inner[0] + step * np.rint((values - inner[0]) / step))
    snapped = snapped[(snapped > inner[0] + step / 2) & (snapped < inner[-1] - step / 2)]
    return np.unique(mapped.to_scores(snapped))
