"""`learn_joint`: from a table to the joint distribution that is recommended for it, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from conjoin.conversion.closed_form import convert
from conjoin.data.frames import as_table
from conjoin.data.holdout import sample_rows
from conjoin.data.row_hashing import content_order
from conjoin.data.table import Table
from conjoin.errors import names_lack_of_memory
from conjoin.inference.completion import completed
from conjoin.jobs import one_thread
from conjoin.joint.chain_learning import learn_chain
from conjoin.joint.dependence_tree import check_pairs, tree_network
from conjoin.joint.fine_learning import learn_fine
from conjoin.joint.refinement import HELD_OUT, MIN_ROWS, HeldOut, refined
from conjoin.learning.conditional_learning import learn_conditionals
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.joint import Joint
from conjoin.models.markov import MarkovNetwork

QUICK_ROWS = 1 << 14
"""With little effort, conditionals are learned from at most this number of rows."""


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
) -> tuple[DependencyNetwork, Joint]:
    """Learn the conditionals of a table, convert them, refine the result, and add its numbers.

    This is what `JointModel` and ``conjoin learn`` do. The result does not depend on the order of the
    columns.

    Parameters
    ----------
    table : Table, 2-dimensional array, or frame
        The rows. If only a sample of them has the values of numbers (see `Table.with_sample`), the
        network of the states is learned from all rows, and numbers within states from the sample.
    cpd : {'auto', 'hybrid', 'tree', 'logistic', 'mixed', 'boosted'}, or a classifier
        How the conditional of each column is learned (see `learn_conditionals`); "auto" is "mixed".
    valid : Table, array or frame, optional
        Rows that choose settings and networks; by default some rows are held out.
    effort : {'quick', 'default', 'thorough'}
        How much work `refine` does; with "quick", conditionals are learned from a sample of the rows.
    closed_form : bool
        Return the converted network without refining it.
    random_state : int or numpy Generator
        The source of all random choices.
    n_jobs : int, optional
        The number of jobs at a time; it does not change the result.
    **options
        Further options of `learn_conditionals`.

    Returns
    -------
    conditionals : DependencyNetwork
        The conditionals.
    joint : Joint
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
    ordered = _in_content_order(rows.reordered(rows.domain.sorted_names()))
    held = None if valid is None else as_table(valid, rows.domain).reordered(ordered.domain.names)
    kind = "mixed" if isinstance(cpd, str) and cpd == "auto" else cpd
    rng = np.random.default_rng(random_state)
    some = sample_rows(ordered, QUICK_ROWS, rng) if effort == "quick" else ordered
    conditionals = learn_conditionals(
        some, kind, valid=held, random_state=random_state, n_jobs=n_jobs, **options
    )
    network = convert(conditionals, ordered)
    folds: list[HeldOut] = []
    if not closed_form:
        network, folds = refined(
            network, ordered, valid=held, effort=effort, random_state=random_state, n_jobs=n_jobs
        )
    valued = ordered if ordered.sample is None else _in_content_order(ordered.sample)
    if options.get("forbidden") is None:  # other parts would link such pairs
        judges = folds if effort != "quick" else []
        if judges and ordered.sample is not None:
            judges = [_of_sample(valued, judges[0].network)]
        with one_thread():
            joint = _with_more(network, valued, judges)
    else:
        joint = Joint(network)
    hidden = [variable.name for variable in network.domain if variable.hidden]
    return conditionals.reordered(names), joint.reordered([*names, *hidden])


def _in_content_order(table: Table) -> Table:
    """Return the rows of a table with numbers in an order that depends on their contents only."""
    if table.numbers is None:
        return table  # rows of states are counted
    codes = table.codes.astype(np.float64)
    codes[table.holes] = np.nan
    weights = np.ones(len(table)) if table.weights is None else table.weights
    return table.select(content_order(np.column_stack([codes, table.numbers]), weights))


def _with_more(network: MarkovNetwork, table: Table, folds: Sequence[HeldOut]) -> Joint:
    """Return the joint with a chain of conditionals, and with numbers within their states.

    Missing states are drawn. What is learned is chosen by held-out rows, and by networks that have not
    learned from these.
    """
    if not folds:
        if table.numbers is None:
            return Joint(network)
        source = tree_network(table) if table.holes.any() else network
        return Joint(network, learn_fine(_complete(source, table)))
    parts = [fold.held for fold in folds]
    if len(folds) == 1:
        parts.append(folds[0].train)
    rows = reduce(Table.with_rows, [_complete(network, part) for part in parts])
    number = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    honest = [fold.network for fold in folds]
    learned = learn_chain(rows, number, honest)
    if learned is not None:
        honest = [Joint(n, None, c) for n, c in zip(honest, learned.of_parts, strict=True)]
    fine = None if rows.numbers is None else learn_fine(rows, number, honest)
    return Joint(network, fine, None if learned is None else learned.chain)


def _of_sample(sample: Table, network: MarkovNetwork) -> HeldOut:
    """Return a tenth of a sample, in random order, as rows that are held out from the fine part.

    The network has learned from most of these rows, but they are few among all that it has learned from.
    """
    held = np.arange(len(sample)) < HELD_OUT * len(sample)
    return HeldOut(sample.select(held), sample.select(~held), network)


def _complete(network: MarkovNetwork, table: Table) -> Table:
    """Return a table with missing states drawn; the values of these numbers stay missing."""
    table = table.reordered(network.domain.observed.names)
    states = completed(network, table)
    return Table.adopt(table.domain, states.codes, table.weights, table.numbers)
