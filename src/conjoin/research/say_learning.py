"""How loudly conditionals should speak in a conversion, measured on held-out rows.

About the interaction of a pair of variables, the conditional of either has an opinion. Its reliability is
r = strength^c * exp(e): the strength of the opinion to a power c that all pairs share, and an effect e of
the conditional and the pair. The shares of the two conditionals are in proportion to their
reliabilities, so their log-odds are c * log(ratio of the strengths) + d, where d is the difference of two
effects, with a normal prior. The power, the standard deviation of the prior and the differences are
those with the best pseudo-likelihood of rows that the conditionals were not learned from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy.special import expit

from conjoin.conversion.base_distribution import resolve_base
from conjoin.conversion.closed_form import check_kind, convert
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
from conjoin.research.pair_opinions import DifferenceEntries, PairOpinions, Say
from conjoin.scoring.conditionals import ConditionalBlock, ConditionalScorer

POWERS = (0.0, 0.25, 0.5, 1.0)
"""The powers of the strength that are tried; with 0, all opinions speak alike."""

PRIOR_SDS = (0.5, 1.0, 2.0)
"""The standard deviations of the prior that are tried, until the score falls."""

MAX_RATIO = 1000.0
"""The largest ratio of two strengths that counts, even if one of them is 0."""

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
        For ``weighted_conversion(dn, table, say, orders=...)``.

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
    rows = sample_rows(_distinct_rows(dn.domain, held_out), max_rows, np.random.default_rng(0))
    base = resolve_base(dn.domain, None, table)[0]
    opinions = PairOpinions.of(dn.form, base)
    mean = convert(dn, base=base, orders=orders).form
    halves = [half for _, half in deal_out(rows, 2, np.random.default_rng(0))]
    with one_thread():
        log_odds = _learn(opinions, *(_Objective.of(opinions, mean, half) for half in halves))
    return Say(opinions.pairs, expit(log_odds))


def log_ratio(opinions: PairOpinions) -> FloatArray:
    """Return the log of the first conditional's strength over the second's, at most log `MAX_RATIO`."""
    floor = np.maximum(opinions.strength.max(axis=0) / MAX_RATIO, np.finfo(float).tiny)
    left, right = np.log(np.maximum(opinions.strength, floor))
    return np.asarray(left - right)


def _learn(opinions: PairOpinions, first: _Objective, second: _Objective) -> FloatArray:
    """Return the log-odds of the shares, with the prior that predicts either half best from the other."""
    ratio = log_ratio(opinions)

    def score(for_first: FloatArray, for_second: FloatArray) -> float:
        return first.value(expit(for_first)) + second.value(expit(for_second))

    # The power is a single number, so it is chosen on the rows that it is used for.
    power = max(POWERS, key=lambda c: score(c * ratio, c * ratio))
    centre = power * ratio
    best, chosen = score(centre, centre), None
    of_first = of_second = centre
    for sd in PRIOR_SDS:
        of_first = first.learn(centre, sd, of_first)
        of_second = second.learn(centre, sd, of_second)
        crossed = score(of_second, of_first)
        if crossed <= best:
            break
        best, chosen = crossed, sd
    if chosen is None:
        return centre
    return first.joined(second).learn(centre, chosen, (of_first + of_second) / 2)


@dataclass(frozen=True, eq=False)
class _Objective:
    """The pseudo-likelihood of some rows as a function of the shares.

    Columns are the states of all variables but their first ones.
    """

    entries: DifferenceEntries
    left: (
        IntArray  # the numbers of each entry's two columns, counted from 1; 0 if it is of one state
    )
    right: IntArray
    start: IntArray  # the first column of each variable with two or more states
    column: IntArray  # for each state, the number of its variable among these
    present: FloatArray  # 1 where a row has a state, its probability where the value is missing
    offset: FloatArray  # the log-odds of states against the first ones if all shares are 1/2
    scored: BoolArray  # rows by variables with two or more states
    weights: FloatArray  # of the rows

    @classmethod
    def of(cls, opinions: PairOpinions, mean: LogLinearForm, table: Table) -> _Objective:
        more, entries = opinions.cards - 1, opinions.entries()
        before = (np.cumsum(more) - more)[opinions.pairs[entries.pair]].T
        left, right = (
            np.where(state > 0, first + state, 0)
            for first, state in zip(before, (entries.left, entries.right), strict=True)
        )
        start = (np.cumsum(more) - more)[more > 0]
        column = np.repeat(np.arange(len(start)), more[more > 0])
        var, state = _states(opinions.cards)
        codes, missing = table.codes, table.codes == table.missing
        marginals = table.marginals()
        averaged = np.concatenate([p[1:] for p in marginals])
        present = np.where(missing[:, var], averaged, codes[:, var] == state)
        offset = np.empty(present.shape)
        incomplete = missing.any(axis=1)
        for rows, given in ((~incomplete, None), (incomplete, marginals)):
            offset[rows] = _log_odds(mean, codes[rows], given)
        assert table.weights is not None
        return cls(
            entries, left, right, start, column, present, offset, ~missing[:, more > 0], table.weights
        )  # fmt: skip

    def joined(self, other: _Objective) -> _Objective:
        """Return the objective of the rows of both."""
        names = ("present", "offset", "scored", "weights")
        both: dict[str, Any] = {
            n: np.concatenate([getattr(self, n), getattr(other, n)]) for n in names
        }
        return replace(self, **both)

    def value(self, share: FloatArray) -> float:
        log_odds = self._log_odds(share)
        return self._value(log_odds, self._log_norm(log_odds))

    def value_and_gradient(self, share: FloatArray) -> tuple[float, FloatArray]:
        log_odds = self._log_odds(share)
        log_norm = self._log_norm(log_odds)
        error = self.present - np.exp(log_odds - log_norm[:, self.column])
        error *= self.scored[:, self.column] * self.weights[:, None]
        slope = np.zeros((self.present.shape[1] + 1,) * 2)
        slope[1:, 1:] = self.present.T @ error
        slope[0, 1:] = error.sum(axis=0)
        slope += slope.T
        by_entry = slope[self.left, self.right] * self.entries.weight
        gradient = np.bincount(self.entries.pair, by_entry, len(share)).astype(np.float64)
        return self._value(log_odds, log_norm), gradient

    def _log_odds(self, share: FloatArray) -> FloatArray:
        """Return the log-odds of each state against the first one, rows by states."""
        change = self.entries.weight * (share - 0.5)[self.entries.pair]
        square = np.zeros((self.present.shape[1] + 1,) * 2)
        np.add.at(square, (self.left, self.right), change)
        square += square.T
        return self.offset + self.present @ square[1:, 1:] + square[0, 1:]

    def _log_norm(self, log_odds: FloatArray) -> FloatArray:
        """Return the log of the sum over a variable's states, the first one being 1."""
        return np.logaddexp(np.logaddexp.reduceat(log_odds, self.start, axis=1), 0.0)

    def _value(self, log_odds: FloatArray, log_norm: FloatArray) -> float:
        chosen = np.add.reduceat(self.present * log_odds, self.start, axis=1)
        return float(self.weights @ np.where(self.scored, chosen - log_norm, 0.0).sum(axis=1))

    def learn(self, centre: FloatArray, sd: float, start: FloatArray) -> FloatArray:
        """Return the log-odds of the shares that maximise the pseudo-likelihood times the prior."""

        def function(log_odds: FloatArray) -> tuple[float, FloatArray]:
            share, shift = expit(log_odds), (log_odds - centre) / sd
            value, by_share = self.value_and_gradient(share)
            return float(shift @ shift) / 2 - value, shift / sd - by_share * share * (1 - share)

        share = expit(centre)
        # A state and the one that it is paired with have a variance of at most 1/4 each.
        by_entry = self.weights.sum() / 16 * self.entries.weight**2
        curvature = np.bincount(self.entries.pair, by_entry, len(centre))
        scale = curvature * (share * (1 - share)) ** 2 + 1 / sd**2
        for step in islice(descend(function, start, scale=scale), MAX_STEPS):
            start = step.point
            if step.change < TOLERANCE * abs(step.value):
                break
        return start


def _states(cards: IntArray) -> tuple[IntArray, IntArray]:
    """Return the variable and the number of each state but the first ones."""
    more = cards - 1
    return np.repeat(np.arange(len(cards)), more), segment_index(np.ones_like(more), more)


def _log_odds(form: LogLinearForm, codes: Codes, marginals: list[FloatArray] | None) -> FloatArray:
    """Return the log-odds of each state against the first one in a network, rows by states."""
    tests = form.features.tests
    var, state = _states(tests.cards)
    member = tests.members()
    # How much the gain of each test counts for each state.
    counts = (member[:, state] - member[:, :1].astype(float)) * (tests.var[:, None] == var)
    scorer = ConditionalScorer.of(form)
    result = np.zeros((len(codes), len(var)))
    for low in range(0, len(codes), ROWS_PER_BLOCK):
        block = ConditionalBlock(form, codes[low : low + ROWS_PER_BLOCK], marginals)
        result[low : low + block.size] = scorer.gains(block)[:, : block.size].T @ counts
    return result


def _distinct_rows(domain: Domain, held_out: Any) -> Table:
    """Return the distinct rows with their counts, in an order that depends on nothing else."""
    table = as_table(held_out, domain)
    codes_of(domain, table, complete=False)
    codes, weights = merge_rows(table.codes, table.weights)
    codes, weights = codes[weights > 0], weights[weights > 0]
    if weights.sum() < 2:
        raise DataError("learning how reliable conditionals are needs at least two held-out rows")
    columns = sorted(range(len(domain)), key=domain.names.__getitem__)
    order = np.lexsort(codes[:, columns[::-1]].T)
    return Table.adopt(domain, codes[order], weights[order])
