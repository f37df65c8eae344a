"""Candidates of a top-down search: conjunctions of an active feature and one more state.

The share of every candidate in the rows is counted once. Its probability under the network is first
estimated from rows that are drawn from the network, which ranks all candidates at once; those that are
short-listed are then evaluated by the network itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.table import Table
from conjoin.feature_search.conjunctions import (
    States,
    membership,
    new_conjunctions,
    pair_shares,
    scopes,
)
from conjoin.feature_search.growing_network import GrowingNetwork
from conjoin.feature_search.weight_methods import FITS, NOT_TRIED, REFUSED, Method
from conjoin.models.features import Features

MAX_PAIRS = 1 << 23
"""Maximum number of candidates that are counted; active features beyond it are not extended."""

SHORT_LIST = 2
"""Number of short-listed candidates for each one that is wanted."""

MAX_TRIES = 16
"""Maximum number of lists per round; there is another one if most candidates do not fit."""

MAX_DRAWS = 1 << 16
"""Maximum number of rows that are drawn from the network to rank candidates."""

Score = Callable[[FloatArray, FloatArray], FloatArray]
"""How much a candidate is worth, given its share in the rows and its probability."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Short-listed candidates, the best first.

    Attributes
    ----------
    features : Features
        The conjunctions.
    share, expected, score : arrays of float
        The share of the rows in which each holds, its probability under the network, and its score.
    """

    features: Features
    share: FloatArray
    expected: FloatArray
    score: FloatArray

    def __len__(self) -> int:
        return len(self.features)

    def best(self, count: int, least: float) -> Candidates:
        """Return the best ones with a score of at least `least`, at most `count`."""
        order = np.argsort(-self.score, kind="stable")[:count]
        keep = order[self.score[order] >= least]
        return Candidates(
            self.features.select(keep), self.share[keep], self.expected[keep], self.score[keep]
        )


class CandidateSearch:
    """Finds the candidates with the highest scores.

    The number of rows that are drawn is doubled whenever most of the candidates that seemed best turn out
    not to be worth adding.

    Parameters
    ----------
    grown : GrowingNetwork
        The network at the start of the search.
    train : Table
        The rows.
    max_tests : int
        Maximum number of tests of a candidate.
    draws : int
        Number of rows to draw in the first round.
    rng : Generator
        Draws the rows.
    """

    def __init__(
        self,
        grown: GrowingNetwork,
        train: Table,
        max_tests: int,
        draws: int,
        rng: np.random.Generator,
    ) -> None:
        self.train, self.max_tests, self.draws, self.rng = train, max_tests, draws, rng
        self.states = States.of(grown.domain, train)
        self.parents = Features.empty(grown.domain.cards)
        self.shares = np.zeros((0, len(self.states)))
        self.other = np.zeros((0, len(self.states)), bool)
        self.fitting = self.other
        self.apart = np.zeros((len(grown.domain), len(grown.domain)), bool)
        self.refused: set[tuple[int, ...]] = set()
        self.extend(self.states.features())
        plain = ~grown.features.soft_rows() & (grown.features.lengths > 1)
        self.extend(grown.features.select(np.flatnonzero(plain)))

    def extend(self, features: Features) -> None:
        """Make features active: their conjunctions with states become candidates."""
        short = np.flatnonzero(features.lengths < self.max_tests)
        room = MAX_PAIRS // max(1, len(self.states)) - len(self.parents)
        new = features.select(short[: max(0, room)])
        if not len(new):
            return
        tested = membership(new)
        other, near = ~tested[:, self.states.var], ~(tested @ self.apart)[:, self.states.var]
        self.parents = Features.concatenate([self.parents, new])
        self.shares = np.concatenate([self.shares, pair_shares(new, self.states, self.train)])
        self.other = np.concatenate([self.other, other])
        self.fitting = np.concatenate([self.fitting, other & near])

    def find(
        self, grown: GrowingNetwork, method: Method, score: Score, count: int, least: float
    ) -> Candidates:
        """Return the best candidates that fit into the network, at most `count`.

        Their exact scores are at least `least`. If there are none, more rows are drawn, to the maximum,
        and there is more room for candidates.
        """
        while True:
            wider = method.widen()
            if wider:
                self._forget_refusals()
            drawn = method.draws(grown, self.draws, int(self.rng.integers(2**31)))
            listed = self.listed(grown, method, score, drawn, count)
            found = listed.best(count, least)
            poor = 2 * len(found) < min(count, len(listed)) and self.draws < MAX_DRAWS
            self.draws *= 1 + poor
            if len(found) or not (poor or wider):
                return found

    def listed(
        self, grown: GrowingNetwork, method: Method, score: Score, drawn: Table, count: int
    ) -> Candidates:
        """Return short-listed candidates that fit into the network, with their exact scores.

        Of the candidates over the same variables only the best is listed, because the others are worth
        less once it has been added.
        """
        estimate = pair_shares(self.parents, self.states, drawn)
        # As if one more row had been drawn, distributed as in the table: no estimate is 0 by chance.
        estimate = (len(drawn) * estimate + self.shares) / (len(drawn) + 1)
        worth = np.where(self.other, score(self.shares, estimate), 0.0)
        for _ in range(MAX_TRIES):
            ranked = self._ranked(np.where(self.fitting, worth, 0.0), grown, SHORT_LIST * count)
            fits = method.admitted(ranked)
            self._refuse(ranked.select(np.flatnonzero(fits == REFUSED)))
            if (fits == FITS).sum() >= count or (fits != REFUSED).all() or NOT_TRIED in fits:
                break
        listed = ranked.select(np.flatnonzero(fits == FITS))
        share = listed.sums(self.train.codes, self.train.weights) / total_weight(self.train)
        expected = method.expected(grown, listed, drawn)
        return Candidates(listed, share, expected, score(share, expected))

    def _ranked(self, worth: FloatArray, grown: GrowingNetwork, count: int) -> Features:
        """Return the candidates that seem best, one for each set of variables."""
        flat = worth.ravel()
        # Every set of variables is reached from several parents, and some candidates are known already.
        many = min(len(flat), 4 * self.max_tests * count)
        some = np.sort(np.argpartition(-flat, many - 1)[:many]) if many else np.zeros(0, np.int64)
        order = some[np.argsort(-flat[some], kind="stable")]
        parent, state = np.divmod(order[flat[order] > 0], len(self.states))
        found = self.states.extend(self.parents.select(parent), state)
        found = found.select(new_conjunctions(grown.features, found))
        keep, seen = [], set(self.refused)
        for number, scope in enumerate(scopes(found)):
            if scope not in seen:
                seen.add(scope)
                keep.append(number)
        return found.select(np.array(keep[:count], np.int64))

    def _refuse(self, candidates: Features) -> None:
        """Do not list candidates over these variables again, until there is more room."""
        tested, lengths = membership(self.parents), self.parents.lengths
        for scope in scopes(candidates):
            self.refused.add(scope)
            if len(scope) == 2:
                self.apart[scope, scope[::-1]] = True
                continue
            inside = tested[:, scope]
            near = np.flatnonzero((lengths == len(scope) - 1) & (inside.sum(1) == len(scope) - 1))
            for parent, rest in zip(near, inside[near].argmin(axis=1), strict=True):
                self.fitting[parent, self.states.var == scope[rest]] = False
        self.fitting &= ~(tested @ self.apart)[:, self.states.var]

    def _forget_refusals(self) -> None:
        self.apart[:], self.fitting = False, self.other.copy()
        self.refused.clear()


def total_weight(table: Table) -> float:
    """Return the number of rows, weighted."""
    return float(len(table) if table.weights is None else table.weights.sum())
