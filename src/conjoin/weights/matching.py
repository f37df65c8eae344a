"""Marginals of a network, made those of a table.

Conditionals say little of how probable states are that none of them lets change one at a time: where
columns nearly determine each other, a network may predict each from the others and still find the wrong
half of its states probable. One weight a state mends that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.frames import as_table
from conjoin.data.table import codes_of
from conjoin.errors import ModelError
from conjoin.inference.compilation import Compiled
from conjoin.inference.plan import TooLarge, find_order
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.vocabulary import mask_words, state_masks
from conjoin.weights.optimize import descend

MAX_CELLS = 1 << 20
"""Networks whose tables would have more cells are left as they are."""
MAX_STEPS = 100
CLOSE = 1e-4
"""Marginals that differ by less are the same."""


def match_marginals(model: Any, table: Any, *, max_cells: int = MAX_CELLS) -> MarkovNetwork:
    """Give every state of every variable a weight such that the marginals are those of a table.

    Of all networks with these marginals the result is the one closest to the model. It takes some ten
    to fifty runs of exact inference.

    Parameters
    ----------
    model : MarkovNetwork
        The network.
    table : Table, 2-dimensional array, or frame
        The rows; each variable's marginal is that of its known values, with half a row more a state. A
        state that is impossible stays so.
    max_cells : int
        A network is returned as it is if exact inference takes tables of more cells in all.

    Returns
    -------
    MarkovNetwork
        Its provenance tells how far marginals were off before and are now.

    Examples
    --------
    >>> from conjoin import Domain, Table, marginals
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> model = MarkovNetwork(domain, Features.from_terms(domain, [(2.0, {"a": 1, "b": 1})]))
    >>> rows = Table(domain, np.array([[0, 0]] * 30 + [[1, 1]] * 9 + [[0, 1]] * 10))
    >>> matched = match_marginals(model, rows)
    >>> round(marginals(matched)["a"][1], 3), (9 + 0.5) / (49 + 1)
    (0.19, 0.19)
    """
    if not isinstance(model, MarkovNetwork):
        raise ModelError(
            "marginals are matched by a Markov network; convert a dependency network first"
        )
    rows = as_table(table, model.domain)
    codes_of(model.domain, rows, complete=False)
    domain, cards = model.domain, model.domain.cards
    try:
        run = _Run(model, max_cells)
    except TooLarge:
        return model
    counts = np.concatenate([rows.counts(v) + 0.5 for v in range(len(domain))])
    start = np.zeros(len(counts))
    _, before = run(start)
    counts[before == 0] = 0.0  # no weight makes occur what cannot
    first = np.cumsum(cards) - cards
    target = counts / np.repeat(np.add.reduceat(counts, first), cards)
    last: dict[str, FloatArray] = {"marginals": before}

    def function(weights: FloatArray) -> tuple[float, FloatArray]:
        log_z, last["marginals"] = run(weights)
        return log_z - float(weights @ target), last["marginals"] - target

    found = start
    if np.abs(before - target).max() > CLOSE:
        steps = descend(function, start, scale=target * (1 - target) + 1e-3)
        for number, step in enumerate(steps, 1):
            found = step.point
            if np.abs(last["marginals"] - target).max() < CLOSE or number == MAX_STEPS:
                break
    _, after = run(found)
    size = np.arange(len(target))
    var = np.repeat(np.arange(len(domain)), cards)
    state = size - first[var]
    ones = Features.from_tests(cards, size, var, state_masks(state, mask_words(cards)), found)
    record = {"rows": len(rows), "off_before": _off(before, target), "off": _off(after, target)}
    features = Features.concatenate([model.features, ones]).merged()
    provenance = {**model.provenance, "marginals": record}
    return MarkovNetwork(domain, features, model.factors, provenance=provenance)


def _off(found: FloatArray, target: FloatArray) -> float:
    return float(np.abs(found - target).max())


class _Run:
    """Exact marginals of a network with weights for all states, planned once."""

    def __init__(self, model: MarkovNetwork, max_cells: int) -> None:
        cards = model.domain.cards.tolist()
        tables = [TableFactor((v,), np.zeros(card)) for v, card in enumerate(cards)]
        ready = Compiled(MarkovNetwork(model.domain, model.features, [*model.factors, *tables]))
        order = find_order(model.domain.cards, *ready.scopes, ready.single, 8.0 * max_cells)
        if order.total > max_cells:
            raise TooLarge("the tables would have too many cells")
        self.plan = ready.plan((), 8.0 * max_cells)
        operands = self.plan.operands
        at = np.zeros(len(cards), np.int64)  # where the values of each variable's table begin
        for i in range(operands.n_tables):
            scope = operands.var[operands.indptr[i] : operands.indptr[i + 1]]
            if len(scope) == 1 and scope[0] < len(cards):
                at[scope[0]] = operands.bases[i]
        self.places = np.concatenate([b + np.arange(c) for b, c in zip(at, cards, strict=True)])
        self.values = operands.values[self.places]
        self.slots = np.zeros((1, len(self.plan.place) - len(self.plan.size)), np.int64)
        first = self.plan.marginal_first
        self.cuts = [
            slice(first[p], first[p + 1]) if p >= 0 else None
            for p in self.plan.place[: len(cards)].tolist()
        ]

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return log Z and the marginals of all states."""
        self.plan.operands.values[self.places] = self.values + weights
        log_z, flat, _ = self.plan.run(self.slots, 1)
        parts = [np.ones(1) if cut is None else flat[0, cut] for cut in self.cuts]
        return float(log_z[0]), np.concatenate(parts)
