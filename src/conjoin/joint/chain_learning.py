"""Learning a `ConditionalChain`, and its share of the mixture with a network.

The columns whose conditionals gain most over the network come last, because their conditionals are given
the most columns. Held-out rows choose the number of trees of each, and the share of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Table, code_dtype
from conjoin.inference.completion import row_log_sums
from conjoin.inference.engines import log_partition
from conjoin.joint.candidates import mean_gain
from conjoin.joint.hidden_tables import stacking_weights
from conjoin.learning.boosted_conditional import (
    Boosted,
    Boosting,
    CodedRows,
    learn_boosted_conditional,
)
from conjoin.models.conditional_chain import ConditionalChain, log_mixture
from conjoin.models.markov import MarkovNetwork
from conjoin.progress import progress

MAX_COLUMNS, MAX_STATES = 64, 1024
"""Tables with more columns have no chain, nor have those in which a column has more states."""

MANY_STATES = 64
"""Columns with more states come first, because their trees take long with many columns."""

MOST_ROWS, MOST_CELLS, JUDGING_ROWS = 1 << 16, 1 << 24, 1 << 11
"""Maximum number of rows that a chain is learned from, also times columns times columns, and of held-out
rows of a part that are looked at."""

QUICK, QUICK_ROWS = Boosting(rounds=12, rate=0.5, leaves=15), 1 << 12
"""How columns are compared to find their order, and the maximum number of rows for that."""

LEAVES = ((20_000, 63), (8_000, 31), (0, 15))
"""Maximum number of leaves of trees, from a number of rows on."""

MIN_GAIN, ERRORS = 2e-3, 2.0
"""The mixture must be better than the network by this, in nats per row, and this number of standard
errors."""

LARGEST_SHARE = 0.99
"""The largest share of a chain."""

REFIT_ROWS = 10_000
"""Up to this number of rows, the conditionals are learned again from all of them in the end."""


class LearnedChain(NamedTuple):
    """The chain of all rows, and for each part one that has not learned from it."""

    chain: ConditionalChain
    of_parts: list[ConditionalChain]


def learn_chain(
    table: Table, part: IntArray, networks: Sequence[MarkovNetwork]
) -> LearnedChain | None:
    """Learn a chain of conditionals; None if held-out rows do not gain by it.

    `table`: complete states. `networks`: each has not learned from one part of the rows. `part`: the
    number of the part that each row belongs to.
    """
    cards = table.domain.cards
    columns = np.flatnonzero(cards > 1)
    if not 1 < len(columns) <= MAX_COLUMNS or cards.max() > MAX_STATES:
        return None
    weights = np.ones(len(table)) if table.weights is None else table.weights
    rows = CodedRows(table.domain, table.codes.astype(np.int64), weights)
    parts = [_Part.of(rows, part, k, network) for k, network in enumerate(networks)]
    columns = columns[np.argsort(_quick_gains(parts[0], columns), kind="stable")]
    large = cards[columns] > MANY_STATES
    order = np.concatenate([columns[large], columns[~large]])
    fits = [
        [_conditional(each.train, order[: k + 1], each.held) for each in parts]
        for k in progress(range(len(order)), "chains of conditionals")
    ]
    share = _share(parts, fits)
    if share is None:
        return None
    names = tuple(table.domain.names[v] for v in order)
    of_parts = [
        ConditionalChain(table.domain, names, tuple(fit.conditional for fit in own), share)
        for own in zip(*fits, strict=True)
    ]
    if len(of_parts) == 1 and len(rows.codes) > REFIT_ROWS:
        return LearnedChain(of_parts[0], of_parts)
    again = tuple(
        _conditional(rows, order[: k + 1], None, round(np.mean([fit.rounds for fit in own])))
        for k, own in enumerate(fits)
    )
    return LearnedChain(
        replace(of_parts[0], conditionals=tuple(fit.conditional for fit in again)), of_parts
    )


class _Part(NamedTuple):
    """Rows that are held out, those that are not, and a network that has not learned from the former."""

    held: CodedRows
    train: CodedRows  # in random order
    network: MarkovNetwork

    @classmethod
    def of(cls, rows: CodedRows, part: IntArray, number: int, network: MarkovNetwork) -> _Part:
        rng = np.random.default_rng(number)
        held, train = (rng.permutation(np.flatnonzero(x)) for x in (part == number, part != number))
        most = min(MOST_ROWS, MOST_CELLS // len(rows.domain) ** 2)
        return cls(rows.select(held[:JUDGING_ROWS]), rows.select(train[:most]), network)

    def log_densities(self) -> FloatArray:
        """Return the log-probabilities of the held-out rows under the network."""
        codes = self.held.codes.astype(code_dtype(self.held.domain.cards))
        return row_log_sums(self.network, codes)[0] - log_partition(self.network).value


def _quick_gains(part: _Part, columns: IntArray) -> FloatArray:
    """Return about how much better conditionals given all other columns are than the network."""
    some = np.arange(min(len(part.train.codes), QUICK_ROWS))
    rows, held, gains = part.train.select(some), part.held, []
    for v in columns.tolist():
        quick = learn_boosted_conditional(rows, v, np.setdiff1d(columns, [v]), held, QUICK)
        logs = part.network.log_conditional(rows.domain.names[v], held.codes)
        usual = logs[np.arange(len(held.codes)), held.codes[:, v]]
        gains.append(float(held.weights @ (quick.log_probabilities - usual)))
    return np.array(gains)


def _conditional(
    rows: CodedRows, columns: IntArray, held: CodedRows | None, rounds: int | None = None
) -> Boosted:
    """Return the conditional of the last of some columns given the others."""
    leaves = next(number for least, number in LEAVES if len(rows.codes) >= least)
    settings = Boosting(leaves=leaves)
    if rounds is not None:
        settings = settings._replace(rounds=rounds)
    return learn_boosted_conditional(rows, int(columns[-1]), np.sort(columns[:-1]), held, settings)


def _share(parts: Sequence[_Part], fits: Sequence[Sequence[Boosted]]) -> float | None:
    """Return the share with which held-out rows are most probable; None if they gain too little."""
    weights = np.concatenate([part.held.weights for part in parts])
    network = np.concatenate([part.log_densities() for part in parts])
    of_parts = [sum(fit.log_probabilities for fit in own) for own in zip(*fits, strict=True)]
    chain = np.concatenate(of_parts)
    share = float(np.clip(stacking_weights([network, chain], weights)[1], 0.0, LARGEST_SHARE))
    mean, error = mean_gain(log_mixture(share, network, chain) - network, weights)
    return share if mean > max(MIN_GAIN, ERRORS * error) else None
