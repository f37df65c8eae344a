"""Learning a component of a mixed network in which numbers are cut into bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.table import Table
from conjoin.inference.completion import completed
from conjoin.joint.category_base import learn_base, relearned
from conjoin.joint.learning import learn_joint
from conjoin.models.mixed import BinnedComponent
from conjoin.models.number_map import NumberMap

BINS, CELLS = 8, 1 << 15
"""Number of bins, which have about the same number of rows, and of cells of the network's tables."""


def learn_binned(
    parts: Sequence[tuple[Table, FloatArray]],
    names: Sequence[str],
    maps: Sequence[NumberMap],
    effort: str | None = None,
    n_jobs: int | None = None,
) -> BinnedComponent:
    """Learn a network of categories and binned numbers.

    Parameters
    ----------
    parts : two pairs of Table and array, shape (rows, numbers)
        The categories of the rows to learn from, with their weights, and the values of their numbers, NaN
        where missing; then those of the rows that choose the prior of the weights.
    names : sequence of str
        The numbers.
    maps : sequence of NumberMap
        Their maps.
    effort : str, optional
        The effort of `learn_joint`, which holds out rows itself; by default, a thin network is learned.
    n_jobs : int, optional
        The number of jobs at a time.
    """
    cuts = tuple(_cuts(mapped) for mapped in maps)
    train, held = (_binned(*part, names, maps, cuts) for part in parts)
    if effort is None:
        return BinnedComponent(learn_base(train, held, n_jobs, CELLS)[0], cuts)
    return BinnedComponent(learn_joint(train, effort=effort, n_jobs=n_jobs)[1], cuts)


def relearn_binned(
    old: BinnedComponent,
    before: Sequence[NumberMap],
    rows: tuple[Table, FloatArray],
    names: Sequence[str],
    maps: Sequence[NumberMap],
    effort: str | None = None,
    n_jobs: int | None = None,
) -> BinnedComponent:
    """Continue to learn a network of bins on all rows, for other maps; bins are cut at the same values.

    Parameters
    ----------
    old : BinnedComponent
        The network.
    before : sequence of NumberMap
        The maps that it was learned with.
    rows : pair of Table and array
        The rows, as for `learn_binned`.
    names : sequence of str
        The numbers.
    maps : sequence of NumberMap
        Their maps.
    effort, n_jobs
        Those of `learn_binned`.
    """
    triples = zip(old.cuts, before, maps, strict=True)
    cuts = tuple(new.to_scores(mapped.to_values(own)) for own, mapped, new in triples)
    table = _binned(*rows, names, maps, cuts)
    if effort is None:
        return BinnedComponent(relearned(old.network, completed(old.network, table)), cuts)
    return BinnedComponent(learn_joint(table, effort=effort, n_jobs=n_jobs)[1], cuts)


def _binned(
    categories: Table,
    values: FloatArray,
    names: Sequence[str],
    maps: Sequence[NumberMap],
    cuts: Sequence[FloatArray],
) -> Table:
    """Return rows in which a number is one of its atoms or bins."""
    variables = list(categories.domain.variables)
    missing = categories.codes == categories.missing
    columns = [np.where(missing, -1, categories.codes.astype(np.int64))]
    for j, mapped in enumerate(maps):
        variables.append(Variable(names[j], range(len(mapped.atoms) + len(cuts[j]) + 1)))
        state = mapped.atom_of(values[:, j])
        rest = state == len(mapped.atoms)
        state[rest] += np.searchsorted(cuts[j], mapped.to_scores(values[rest, j]), side="right")
        columns.append(state[:, None])
    return Table(Domain(variables), np.concatenate(columns, axis=1), categories.weights)


def _cuts(mapped: NumberMap) -> FloatArray:
    """Return the scores between bins, at ends of cells."""
    from scipy.special import ndtri

    inner = mapped.values[1:-1]
    values = mapped.to_values(ndtri(np.arange(1, BINS) / BINS))
    step = mapped.step
    snapped = np.unique(inner[0] + step * np.rint((values - inner[0]) / step))
    snapped = snapped[(snapped > inner[0] + step / 2) & (snapped < inner[-1] - step / 2)]
    return np.unique(mapped.to_scores(snapped))
