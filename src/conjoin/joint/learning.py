"""`learn_joint`: from a table to the joint distribution that is recommended for it, in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.bayesian.dependence_tree import check_pairs
from conjoin.conversion.convert import convert
from conjoin.data.frames import as_table
from conjoin.errors import names_lack_of_memory
from conjoin.joint.refine import MIN_ROWS, refine
from conjoin.learning.learn import learn
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.markov import MarkovNetwork


@names_lack_of_memory
def learn_joint(
    table: Any,
    cpd: Any = "auto",
    *,
    valid: Any = None,
    effort: str = "default",
    closed_form: bool = False,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
    **options: Any,
) -> tuple[DependencyNetwork, MarkovNetwork]:
    """Learn the conditionals of a table, convert them, and refine the result.

    This is what `JointModel` and ``conjoin learn`` do. The result does not depend on the order of the
    columns.

    Parameters
    ----------
    table : Table, 2-dimensional array, or frame
        The rows.
    cpd : {'auto', 'hybrid', 'tree', 'logistic', 'mixed', 'boosted'}, or a classifier
        How the conditional of each column is learned (see `learn`); "auto" is "mixed".
    valid : Table, array or frame, optional
        Rows that choose settings and networks; by default some rows are held out.
    effort : {'quick', 'default', 'thorough'}
        How much work `refine` does.
    closed_form : bool
        Return the converted network without refining it.
    random_state : int or numpy Generator
        The source of all random choices.
    n_jobs : int, optional
        The number of jobs at a time; it does not change the result.
    **options
        Further options of `learn`.

    Returns
    -------
    conditionals : DependencyNetwork
        The conditionals.
    joint : MarkovNetwork
        The joint distribution.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.random(500) < 0.3
    >>> wet = np.where(rng.random(500) < 0.9, rain, ~rain)
    >>> _, joint = learn_joint(np.stack([rain, wet], axis=1).astype(int))
    >>> joint.conditional("v0", {"v0": 0, "v1": 1}).round(1)
    array([[0.2, 0.8]])
    """
    rows = as_table(table)
    if not closed_form and len(rows) >= MIN_ROWS:
        check_pairs(rows.domain)
    names = rows.domain.names
    ordered = rows.reordered(rows.domain.sorted_names())
    held = None if valid is None else as_table(valid, rows.domain).reordered(ordered.domain.names)
    kind = "mixed" if isinstance(cpd, str) and cpd == "auto" else cpd
    conditionals = learn(
        ordered, kind, valid=held, random_state=random_state, n_jobs=n_jobs, **options
    )
    joint = convert(conditionals, ordered)
    if not closed_form:
        joint = refine(
            joint, ordered, valid=held, effort=effort, random_state=random_state, n_jobs=n_jobs
        )
    hidden = [variable.name for variable in joint.domain if variable.hidden]
    return conditionals.reordered(names), joint.reordered([*names, *hidden])
