"""How loudly conditionals should speak in a conversion, measured on held-out rows.

About the interaction of a pair of variables, the conditional of either has an opinion. Its reliability is
r = strength^c * exp(e): the strength of the opinion to a power c that all pairs share, and an effect e of
the conditional and the pair. The shares of the two conditionals are in proportion to their
reliabilities, so their log-odds are c * log(ratio of the strengths) + d, where d is the difference of two
effects, with a normal prior. The power, the standard deviation of the prior and the differences are
those with the best pseudo-likelihood of rows that the conditionals were not learned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from conjoin.conversion.base_distribution import resolve_base
from conjoin.conversion.closed_form import check_kind, convert
from conjoin.conversion.pair_opinions import DifferenceEntries, PairOpinions, Say
from conjoin.data import Domain, as_table
from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.holdout import deal_out, sample_rows
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table, codes_of
from conjoin.errors import DataError, ModelError
from conjoin.jobs import one_thread
from conjoin.joint.lbfgs import descend
from conjoin.kernels.layouts import ROWS_PER_BLOCK
from conjoin.models import DependencyNetwork
from conjoin.models.features import segment_index
from conjoin.models.loglinear import LogLinearForm
from conjoin.scoring.conditionals import ConditionalBlock, ConditionalScorer

POWERS = (0.0, 0.25, 0.5, 1.0)
"""The powers of the strength that are tried; with 0, all opinions speak alike."""

PRIOR_SDS = (0.5, 1.0, 2.0)
"""The standard deviations of the prior that are tried, until the score falls."""

MAX_STEPS = 50
TOLERANCE = 1e-6

MAX_ROWS, MAX_STATES = 10_000, 3_000
"""Defaults of the maximum numbers of held-out rows and of states."""


def learn_say(
    dn: DependencyNetwork,
    table: Any,
    held_out: Any,
    *,
    orders: str = "all",
    max_rows: int = MAX_ROWS,
    max_states: int = MAX_STATES,
) -> Say:
    """Learn how loudly each conditional should speak in a conversion, from held-out rows.

    Parameters
    ----------
    dn : DependencyNetwork
        Its CPDs must be positive.
    table : Table, 2-dimensional array, or frame
        Data whose marginals are the base of the conversion, such as the training rows.
    held_out : Table, 2-dimensional array, or frame
        At least two rows that the CPDs were not learned from.
    orders : {'all', 'rotations', 'single'}
        As for `convert`, with the reverse of each order: the average that the shares change.
    max_rows : int
        Maximum number of held-out rows to learn from; of more, a sample is drawn.
    max_states : int
        Maximum number of states, not counting the first of each variable; memory grows with its square.

    Returns
    -------
    Say
        For ``convert(dn, table, orders=..., say=...)``.

    Examples
    --------
    Both conditionals should say how strongly rain and a wet street go together. One was learned from
    sound data, the other was not:

    >>> from conjoin import DependencyNetwork, Domain, Table, TableCPD, convert
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> dn = DependencyNetwork(domain, [
    ...     TableCPD.of(domain, "rain", ["wet"], {"no": 0.1, "yes": 0.9}),
    ...     TableCPD.of(domain, "wet", ["rain"], {"no": 0.6, "yes": 0.4}),
    ... ])
    >>> rows = Table(domain, [[0, 0]] * 90 + [[0, 1]] * 10 + [[1, 0]] * 10 + [[1, 1]] * 90)
    >>> say = learn_say(dn, rows, rows)
    >>> say.share.round(2).tolist()  # of the first conditional
    [0.96]
    """
    check_kind(dn)
    if int((dn.domain.cards - 1).sum()) > max_states:
        raise ModelError(
            f"the shares of conditionals can be learned for up to {max_states:,} states besides the "
            "first of each variable; raise max_states, or give `say` as {name: reliability}"
        )
    distinct_rows = _in_canonical_order(dn.domain, held_out)
    rows = sample_rows(distinct_rows, max_rows, np.random.default_rng(0))
    base = resolve_base(dn.domain, None, table)[0]
    opinions = PairOpinions.of(dn.form, base)
    mean = convert(dn, base=base, orders=orders).form
    half_tables = [half for _, half in deal_out(rows, 2, np.random.default_rng(0))]
    with one_thread():
        layout = _Layout.of(opinions)
        halves = [_Objective.of(layout, mean, half) for half in half_tables]
        log_odds = _learn(opinions, halves)
    return Say(opinions.pairs, expit(log_odds))


def _learn(opinions: PairOpinions, halves: list[_Objective]) -> FloatArray:
    """Return the log-odds of the shares, with the prior that predicts either half best from the other."""
    ratio = opinions.log_ratio()

    def score(by_half: list[FloatArray]) -> float:
        pairs = zip(halves, by_half, strict=True)
        return sum(half.value(expit(log_odds)) for half, log_odds in pairs)

    # The power is a single number, so it is chosen on the rows that it is used for.
    power = max(POWERS, key=lambda c: score([c * ratio] * 2))
    centre = power * ratio
    best, chosen = score([centre] * 2), None
    starts = [centre, centre]
    for sd in PRIOR_SDS:
        starts = [half.learn(centre, sd, start) for half, start in zip(halves, starts, strict=True)]
        crossed = score(starts[::-1])
        if crossed <= best:
            break
        best, chosen = crossed, sd
    if chosen is None:
        return centre
    return halves[0].joined(halves[1]).learn(centre, chosen, (starts[0] + starts[1]) / 2)


@dataclass(frozen=True, eq=False)
class _Objective:
    """The pseudo-likelihood of some rows as a function of the shares.

    Columns are the states of all variables but their first ones. The log-odds of each against the first
    state are `offset` if all shares are 1/2.
    """

    layout: _Layout
    present: FloatArray  # 1 where a row has a state, its probability where the value is missing
    offset: FloatArray
    scored: BoolArray  # rows by variables with two or more states
    weights: FloatArray  # of the rows

    @classmethod
    def of(cls, layout: _Layout, mean: LogLinearForm, table: Table) -> _Objective:
        codes, weights = table.codes, table.weights
        assert weights is not None
        var, state = _states(table.domain.cards)
        present = (codes[:, var] == state).astype(np.float64)
        missing = codes == table.missing
        marginals = None
        if missing.any():
            marginals = table.marginals()
            averaged = np.concatenate([p[1:] for p in marginals])
            present = np.where(missing[:, var], averaged, present)
        offset = np.empty(present.shape)
        incomplete = missing.any(axis=1)
        for rows, given in ((~incomplete, None), (incomplete, marginals)):
            offset[rows] = _log_odds(mean, codes[rows], given)
        return cls(layout, present, offset, ~missing[:, table.domain.cards > 1], weights)

    def joined(self, other: _Objective) -> _Objective:
        arrays = zip(
            *([o.present, o.offset, o.scored, o.weights] for o in (self, other)), strict=True
        )
        return _Objective(self.layout, *(np.concatenate(both) for both in arrays))

    def value(self, share: FloatArray) -> float:
        log_odds = self._log_odds(share)
        return self._value(log_odds, self._log_norm(log_odds))

    def value_and_gradient(self, share: FloatArray) -> tuple[float, FloatArray]:
        log_odds = self._log_odds(share)
        log_norm = self._log_norm(log_odds)
        column = self.layout.column
        error = self.present - np.exp(log_odds - log_norm[:, column])
        error *= self.scored[:, column] * self.weights[:, None]
        by_square = error.T @ self.present
        by_square += by_square.T
        gradient = self.layout.by_share(by_square, error.sum(axis=0))
        return self._value(log_odds, log_norm), gradient

    def _log_odds(self, share: FloatArray) -> FloatArray:
        """Return the log-odds of each state against the first one, rows by states."""
        square, alone = self.layout.weights(share)
        return self.offset + self.present @ square + alone

    def _log_norm(self, log_odds: FloatArray) -> FloatArray:
        """Return the log of the sum over a variable's states, the first one being 1."""
        return np.logaddexp(np.logaddexp.reduceat(log_odds, self.layout.start, axis=1), 0.0)

    def _value(self, log_odds: FloatArray, log_norm: FloatArray) -> float:
        chosen = np.add.reduceat(self.present * log_odds, self.layout.start, axis=1)
        return float(self.weights @ np.where(self.scored, chosen - log_norm, 0.0).sum(axis=1))

    def learn(self, centre: FloatArray, sd: float, start: FloatArray) -> FloatArray:
        """Return the log-odds of the shares that maximise the pseudo-likelihood times the prior."""

        def function(log_odds: FloatArray) -> tuple[float, FloatArray]:
            share, shift = expit(log_odds), (log_odds - centre) / sd
            value, by_share = self.value_and_gradient(share)
            return float(shift @ shift) / 2 - value, shift / sd - by_share * share * (1 - share)

        share, entries = expit(centre), self.layout.entries
        # A state and the one that it is paired with have a variance of at most 1/4 each.
        rows = self.weights.sum() / 16
        curvature = np.bincount(entries.pair, rows * entries.weight**2, len(centre))
        scale = curvature * (share * (1 - share)) ** 2 + 1 / sd**2
        for step in islice(descend(function, start, scale=scale), MAX_STEPS):
            start = step.point
            if step.change < TOLERANCE * abs(step.value):
                break
        return start


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where the entries of the opinions' differences are among the states."""

    entries: DifferenceEntries
    pairs: int  # the number of pairs
    size: int  # the number of states
    start: IntArray  # the first column of each variable with two or more states
    column: IntArray  # for each state, the number of its variable among these
    alone: BoolArray  # whether an entry is of one state; the others are of two
    place: IntArray  # its column, or its place in the square of all columns

    @classmethod
    def of(cls, opinions: PairOpinions) -> _Layout:
        more = opinions.cards - 1
        entries = opinions.entries()
        # State 1 of a variable is in the variable's first column.
        left, right = (np.cumsum(more) - more - 1)[opinions.pairs[entries.pair]].T
        left, right = left + entries.left, right + entries.right
        alone = (entries.left == 0) | (entries.right == 0)
        size = int(more.sum())
        place = np.where(entries.right == 0, left, np.where(alone, right, left * size + right))
        start = (np.cumsum(more) - more)[more > 0]
        column = np.repeat(np.arange(len(start)), more[more > 0])
        return cls(entries, len(opinions.pairs), size, start, column, alone, place)

    def weights(self, share: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the shares add to pairs of states, as a symmetric matrix, and to single states."""
        change = self.entries.weight * (share - 0.5)[self.entries.pair]
        square = np.zeros((self.size, self.size))
        square.ravel()[self.place[~self.alone]] = change[~self.alone]
        singles = np.bincount(self.place[self.alone], change[self.alone], self.size)
        return square + square.T, singles.astype(np.float64, copy=False)

    def by_share(self, by_square: FloatArray, by_single: FloatArray) -> FloatArray:
        """Return the derivatives by the shares, given those by the two results of `weights`."""
        slope = np.empty(len(self.place))
        slope[self.alone] = by_single[self.place[self.alone]]
        slope[~self.alone] = by_square.ravel()[self.place[~self.alone]]
        total = np.bincount(self.entries.pair, slope * self.entries.weight, self.pairs)
        return total.astype(np.float64, copy=False)


def _states(cards: IntArray) -> tuple[IntArray, IntArray]:
    """Return the variable and the number of each state but the first ones."""
    more = cards - 1
    return np.repeat(np.arange(len(cards)), more), segment_index(np.ones_like(more), more)


def _log_odds(form: LogLinearForm, codes: Codes, marginals: list[FloatArray] | None) -> FloatArray:
    """Return the log-odds of each state against the first one in a network, rows by states."""
    var, state = _states(form.features.tests.cards)
    tests = form.features.tests
    member = tests.members()
    # How much the gain of each test counts for each state.
    counts = (member[:, state] - member[:, :1].astype(float)) * (tests.var[:, None] == var)
    scorer = ConditionalScorer.of(form)
    result = np.zeros((len(codes), len(var)))
    for low in range(0, len(codes), ROWS_PER_BLOCK):
        block = ConditionalBlock(form, codes[low : low + ROWS_PER_BLOCK], marginals)
        result[low : low + block.size] = scorer.gains(block)[:, : block.size].T @ counts
    return result


def _in_canonical_order(domain: Domain, held_out: Any) -> Table:
    """Return the distinct rows with their counts, in an order that depends on nothing else."""
    table = as_table(held_out, domain)
    codes_of(domain, table, complete=False)
    codes, weights = merge_rows(table.codes, table.weights)
    codes, weights = codes[weights > 0], weights[weights > 0]
    if weights.sum() < 2:
        raise DataError("learning how reliable conditionals are needs at least two held-out rows")
    columns = sorted(range(len(domain)), key=lambda i: domain.names[i])
    order = np.lexsort(codes[:, columns[::-1]].T)
    return Table.adopt(domain, codes[order], weights[order])


def expit(log_odds: FloatArray) -> FloatArray:
    """Return the probability with the given log-odds."""
    result: FloatArray = 0.5 * (1 + np.tanh(log_odds / 2))
    return result
