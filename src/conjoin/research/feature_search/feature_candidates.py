"""Candidates of a top-down search: conjunctions of an active feature and one more state.

The share of every candidate in the rows is counted once. Its probability under the network is first
estimated from rows that are drawn from the network, which ranks all candidates at once; those that are
short-listed are then evaluated by the network itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conjoin.data import Table
from conjoin.data.arrays import FloatArray
from conjoin.inference.sampling import sample
from conjoin.joint.expectations import Expectations
from conjoin.models import Features
from conjoin.research.feature_search.conjunctions import (
    States,
    membership,
    new_conjunctions,
    pair_shares,
    scopes,
    total_weight,
)
from conjoin.research.feature_search.growing_network import (
    FITS,
    NOT_TRIED,
    REFUSED,
    GrowingNetwork,
    Room,
)

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
    """Short-listed candidates and their exact scores."""

    features: Features
    score: FloatArray

    def best(self, count: int, least: float) -> Candidates:
        """Return the best ones with a score of at least `least`, at most `count`."""
        order = np.argsort(-self.score, kind="stable")[:count]
        keep = order[self.score[order] >= least]
        return Candidates(self.features.select(keep), self.score[keep])


def expected(grown: GrowingNetwork, candidates: Features) -> FloatArray:
    """Return the exact probability of each candidate."""
    features = Features.concatenate([grown.features, candidates])
    return Expectations(features)(features.weights)[1][len(grown.features) :]


class CandidateSearch:
    """Finds the candidates with the highest scores.

    More rows are drawn if most of the candidates that seemed best turn out not to be worth adding.
    """

    def __init__(
        self,
        grown: GrowingNetwork,
        room: Room,
        train: Table,
        max_tests: int,
        draws: int,
        rng: np.random.Generator,
    ) -> None:
        self.room, self.train, self.max_tests = room, train, max_tests
        self.draws, self.rng = draws, rng
        self.states = States.of(grown.domain, train)
        # Candidates are cells of matrices of active features (parents) by states.
        self.parents = Features.empty(grown.domain.cards)
        self.shares = np.zeros((0, len(self.states)))
        self.other = np.zeros((0, len(self.states)), bool)  # the state is of another variable
        self.fitting = self.other  # and was not refused
        # Sets of variables that do not fit into the network; in `apart`, those of two.
        self.refused: set[tuple[int, ...]] = set()
        self.apart = np.zeros((len(grown.domain), len(grown.domain)), bool)
        self.extend(self.states.features())

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

    def extended(
        self, grown: GrowingNetwork, score: Score, batch: int | None, least: float
    ) -> GrowingNetwork | None:
        """Return the network with the best candidates that fit into it; None if there are none.

        If there are none with a score of `least`, more rows are drawn, and there is more room.
        """
        count = max(32, len(self.train.domain) // 2) if batch is None else batch
        while True:
            wider = self.room.widen()
            if wider:
                self._forget_refusals()
            seed = int(self.rng.integers(2**31))
            drawn = sample(grown.network(), self.draws, method="exact", random_state=seed)
            listed = self.listed(grown, score, drawn, count)
            best = listed.best(count, least).features
            poor = 2 * len(best) < min(count, len(listed.features)) and self.draws < MAX_DRAWS
            self.draws *= 1 + poor
            if len(best) or not (poor or wider):
                break
        accepted = self.room.accept(best)
        if not len(accepted):
            return None
        self.extend(accepted)
        return grown.extended(accepted)

    def listed(self, grown: GrowingNetwork, score: Score, drawn: Table, count: int) -> Candidates:
        """Return short-listed candidates that fit into the network, with their exact scores.

        Of those over the same variables only the best is listed: then the others are worth less.
        """
        estimate = pair_shares(self.parents, self.states, drawn)
        # As if one more row had been drawn, distributed as in the table: no estimate is 0 by chance.
        estimate = (len(drawn) * estimate + self.shares) / (len(drawn) + 1)
        worth = np.where(self.other, score(self.shares, estimate), 0.0)
        for _ in range(MAX_TRIES):
            ranked = self._ranked(np.where(self.fitting, worth, 0.0), grown, SHORT_LIST * count)
            fits = self.room.admitted(ranked)
            self._refuse(ranked.select(np.flatnonzero(fits == REFUSED)))
            if (fits == FITS).sum() >= count or (fits != REFUSED).all() or NOT_TRIED in fits:
                break
        listed = ranked.select(np.flatnonzero(fits == FITS))
        share = listed.sums(self.train.codes, self.train.weights) / total_weight(self.train)
        return Candidates(listed, score(share, expected(grown, listed)))

    def _ranked(self, worth: FloatArray, grown: GrowingNetwork, count: int) -> Features:
        """Return the candidates that seem best, one for each set of variables."""
        flat = worth.ravel()
        # Every set of variables is reached from several parents, and some candidates are known already.
        many = min(len(flat), 4 * self.max_tests * count)
        top = np.sort(np.argpartition(-flat, many - 1)[:many]) if many else np.zeros(0, np.int64)
        order = top[np.argsort(-flat[top], kind="stable")]
        parent, state = np.divmod(order[flat[order] > 0], len(self.states))
        candidates = self.states.extend(self.parents.select(parent), state)
        candidates = candidates.select(new_conjunctions(grown.features, candidates))
        keep, seen = [], set(self.refused)
        for number, scope in enumerate(scopes(candidates)):
            if scope not in seen:
                seen.add(scope)
                keep.append(number)
        return candidates.select(np.array(keep[:count], np.int64))

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
