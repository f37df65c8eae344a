"""Missing values while a joint distribution is learned: Monte Carlo EM in two rounds.

The likelihood of a row with missing values sums over them. Its gradient is that of complete rows,
averaged over the distribution of the missing values given the known ones. So a first network is learned
from rows whose missing values were drawn from the maximum-likelihood tree. Then several values are
drawn from this network for each one that is missing, and the final network is learned from these rows.
All draws are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from conjoin.data.table import Table
from conjoin.inference.completion import Completion, completed
from conjoin.joint.dependence_tree import tree_network
from conjoin.models.markov import MarkovNetwork

DRAWS, DRAWN_ROWS = 4, 1 << 13
"""Number of completions of each row, and maximum number of rows for which there is more than one."""

HIDDEN_ROWS = 1 << 14
"""Maximum number of rows with missing values for which the first network may have a hidden column."""

FirstNetwork = Callable[[bool, Table, Table, np.random.Generator], MarkovNetwork]
"""Learns a network from complete rows and held-out rows, with or without a hidden column."""


def without_holes(
    model: MarkovNetwork, parts: Sequence[Table], learn: FirstNetwork, rng: np.random.Generator
) -> list[Table]:
    """Return the rows of a table, which come in several parts, with missing values drawn.

    `model`: the converted network. If it has hard constraints, all missing values are drawn from it
    at once. `parts`: the rows. The first network is learned from all parts but the last one, which
    stops it.
    """
    lacking = sum(int((t.codes == t.missing).any(axis=1).sum()) for t in parts)
    if not lacking:
        return list(parts)
    hard = bool(model.form.hard.any())
    source = model if hard else tree_network(joined(*parts[:-1]))
    first = [completed(source, table, int(rng.integers(2**31))) for table in parts]
    if hard:
        return first
    network = learn(lacking <= HIDDEN_ROWS, joined(*first[:-1]), first[-1], rng)
    draws = DRAWS if sum(map(len, parts)) <= DRAWN_ROWS else 1
    return [drawn(network, table, draws, rng) for table in parts]


def drawn(network: MarkovNetwork, table: Table, draws: int, rng: np.random.Generator) -> Table:
    """Return several completions of each row, which share its weight.

    Examples
    --------
    >>> from conjoin import Domain
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> rows = Table(domain, np.array([[0, 0], [1, 1], [1, -1]]))
    >>> full = drawn(tree_network(rows), rows, 4, np.random.default_rng(0))
    >>> len(full), float(full.weights.sum()), full.complete
    (12, 3.0, True)
    """
    table = table.reordered(network.domain.observed.names)
    seed = int(rng.integers(2**31))
    codes = Completion(network, table.codes, seed).draws(draws)
    weights = np.ones(len(table)) if table.weights is None else table.weights
    flat = codes.reshape(-1, codes.shape[-1]).astype(table.codes.dtype)
    return Table.adopt(table.domain, flat, np.tile(weights / draws, draws))


def joined(*tables: Table) -> Table:
    """Return the rows of tables over the same domain."""
    codes = np.concatenate([table.codes for table in tables])
    if all(table.weights is None for table in tables):
        return Table.adopt(tables[0].domain, codes)
    weights = [np.ones(len(t)) if t.weights is None else t.weights for t in tables]
    return Table.adopt(tables[0].domain, codes, np.concatenate(weights))
