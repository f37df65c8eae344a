"""The thin network of the categories of a mixed table, before a hidden column shifts it."""

from __future__ import annotations

import numpy as np

from conjoin.bayesian.dependence_tree import COUNTED_CELLS, MAX_PAIR_CELLS, tree_network
from conjoin.conversion.convert import convert
from conjoin.data.table import Table
from conjoin.inference.completion import completed
from conjoin.joint.likelihood import Expectations
from conjoin.joint.refine import MIN_ROWS
from conjoin.joint.thin_weights import with_weights
from conjoin.joint.thinning import thin
from conjoin.joint.weight_learning import learn_weights
from conjoin.learning.learn import learn
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork

THIN_CELLS = 1 << 12
"""Cells of the tables of the thin network."""

DRAWN_VALUES = 1 << 15
"""Maximum number of values (incomplete rows times columns) for which missing ones are drawn from the
converted network. For more, they are drawn from the tree, and then again from the thin network."""


def learn_base(
    train: Table,
    held: Table,
    n_jobs: int | None = None,
    max_cells: int = THIN_CELLS,
    max_pair_cells: int = MAX_PAIR_CELLS,
) -> tuple[MarkovNetwork, Table, Table]:
    """Learn a thin network, and complete rows with draws.

    Parameters
    ----------
    train, held : Table
        Rows over the same domain; the second ones choose the prior of the weights.
    n_jobs : int, optional
        The number of jobs at a time.
    max_cells : int
        Cells of the tables of the network.
    max_pair_cells : int
        Maximum number of joint states of two columns that are linked (see `tree_network`).

    Returns
    -------
    base : MarkovNetwork
        The network, over features.
    train, held : Table
        The rows, with missing values drawn.
    """
    if len(train) < MIN_ROWS:
        base = independent(train)
        return base, completed(base, train), completed(base, held)
    model = convert(learn(train, "mixed", n_jobs=n_jobs), train).in_canonical_order()
    names = train.domain.names
    parts = [part.reordered(model.domain.names) for part in (train, held)]
    lacking = sum(int((t.codes == t.missing).any(axis=1).sum()) for t in parts)
    few = lacking * len(names) <= DRAWN_VALUES
    source = model if few else tree_network(parts[0])
    full, valid = (completed(source, part) for part in parts)
    edges = [
        f.variables for f in tree_network(full, max_pair_cells).factors if len(f.variables) == 2
    ]
    left, right = np.array(edges, np.int64).reshape(-1, 2).T
    cards = full.domain.cards
    cells = cards[left] * cards[right]
    max_cells += int(cells[cells > COUNTED_CELLS].sum())
    thinned = thin(model, full, max_cells=max_cells, tree=(left, right))
    base = with_weights(thinned, left, right, full, valid)
    if not few:
        full, valid = (completed(base, part) for part in parts)
    base = with_single_states(base.reordered(names))
    return base, full.reordered(names), valid.reordered(names)


def relearned(base: MarkovNetwork, table: Table) -> MarkovNetwork:
    """Continue to learn the weights of a network on all rows."""
    if "weights" not in base.provenance:
        return independent(table)
    return learn_weights(
        base, table, valid=table, objective="likelihood", start="model",
        prior_sd=base.provenance["weights"]["prior_sd"], max_iterations=100, patience=100,
        tolerance=1e-6,
    )  # fmt: skip


def independent(table: Table) -> MarkovNetwork:
    """Return a network of independent variables."""
    terms = [
        (float(np.log(p)), {variable.name: state})
        for variable, marginal in zip(table.domain, table.marginals(), strict=True)
        for state, p in zip(variable.states, marginal, strict=True)
    ]
    return MarkovNetwork(table.domain, Features.from_terms(table.domain, terms))


def softened(base: MarkovNetwork, share: float) -> MarkovNetwork:
    """Return a network between one of independent variables (0) and the given one (1).

    The independent variables have the distributions that they have in the network.
    """
    if share == 1:
        return base
    features = base.features
    _, means = Expectations(features)(features.weights)
    test = features.indices[np.minimum(features.indptr[:-1], len(features.indices) - 1)]
    sizes = np.bitwise_count(features.tests.mask[test]).sum(axis=1)
    single = (features.lengths == 1) & (sizes == 1)
    alone = np.where(single, np.log(np.maximum(means, 1e-9)), 0.0)
    weights = share * features.weights + (1 - share) * alone
    return MarkovNetwork(base.domain, features.reweighted(weights), provenance=base.provenance)


def with_single_states(base: MarkovNetwork) -> MarkovNetwork:
    """Return the network with a feature for every state, of weight 0 if there was none."""
    terms = [(0.0, {v.name: s}) for v in base.domain if len(v.states) > 1 for s in v.states]
    parts = [base.features, Features.from_terms(base.domain, terms)]
    features = Features.concatenate(parts).merged()
    return MarkovNetwork(base.domain, features, provenance=base.provenance)
