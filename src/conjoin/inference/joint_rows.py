"""Answers for the rows of a table: distributions of columns, missing values, log-densities.

The states of a row come from the network, and known numbers multiply their likelihoods (see
`fine_answers`). If other columns are missing that the means of known numbers depend on, these are summed
over as well, as long as they have few joint states. Otherwise a number is known to its state only.
A chain of conditionals counts in the same way, where few enough joint states are to be summed over.

An empty cell of a column that may be absent says that there is no value. But where a row also lacks
another value, which got lost, this one may be lost, too: it is unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.number_states import NumberStates
from conjoin.data.row_hashing import distinct_rows
from conjoin.data.table import Table, code_dtype, joint_codes
from conjoin.errors import ConvergenceWarning, ModelError
from conjoin.inference.completion import Completion, row_log_joints, row_log_sums
from conjoin.inference.fine_answers import MAX_STATES, fine_terms, log_likelihoods, parts_of
from conjoin.inference.number_distribution import NumberDistributions, Parts
from conjoin.models.conditional_chain import ConditionalChain, log_mixture
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.fine_numbers import FineNumbers, KnownScores, patterns
from conjoin.models.network import Network

CHECKED_ROWS, MAX_DIFFERENCE = 32, 0.1
"""Maximum number of sampled rows that are sampled a second time, and the largest difference of
probabilities that is accepted without a warning."""

MAX_CHAIN_STATES = 1 << 5
"""Maximum number of joint states of unknown columns of a row that a chain is summed over."""

CELLS_AT_ONCE = 1 << 20
"""Maximum number of values that are computed together, in rows by joint states by classes."""

STATISTICS = ("mean", "median", "mode")


@dataclass(frozen=True, eq=False)
class Answer:
    """The distribution of a column in each row."""

    p: FloatArray  # of its states; shape (rows, states)
    exact: BoolArray  # which rows are exact
    parts: Parts | None = None  # where a number lies within its states; None if nothing tells


class Group(NamedTuple):
    """Rows that are answered in the same way."""

    rows: IntArray
    columns: IntArray  # unknown columns whose joint states are summed over
    scored: bool  # whether the scores of known numbers count
    conditionals: int  # how many conditionals of a chain count


class JointRows:
    """Answers for the rows of a table from a network or a joint.

    `random_state`: the seed, for draws and for rows on which exact inference is too expensive.
    `max_states`: the maximum number of joint states of missing columns that are summed over, so that
    known numbers count.
    """

    def __init__(
        self, model: Network, table: Table, random_state: int = 0, max_states: int = MAX_STATES
    ) -> None:
        self.model, self.table, self.seed = model, table, random_state
        self.max_states = max_states
        self.domain: Domain = model.domain.observed
        self.codes = table.signed_codes()
        self.fine: FineNumbers | None = getattr(model, "fine", None)
        if table.numbers is None:
            self.fine = None
        self.chain: ConditionalChain | None = getattr(model, "chain", None)
        self.absent: BoolArray = table.absent
        # The distributions of all columns that the rows lack, side by side, and which rows are exact
        self.marginals: tuple[FloatArray, BoolArray] | None = None

    @cached_property
    def scores(self) -> FloatArray:
        """The normal scores of the numbers that are evidence."""
        assert self.fine is not None and self.table.numbers is not None
        return self.fine.scores(self.table.numbers)

    def select(self, rows: IntArray | BoolArray) -> JointRows:
        """Return the answers for some of the rows."""
        return JointRows(self.model, self.table.select(rows), self.seed, self.max_states)

    def states(self, name: str) -> FloatArray:
        """Return the distribution of the states of a column given the rest of each row."""
        return self.answer(name).p

    def number(self, name: str) -> NumberDistributions:
        """Return the distribution of a column of numbers given the rest of each row."""
        return numbers_of(self.domain, name, self.answer(name))

    def answer(self, name: str) -> Answer:
        """Return the distribution of a column given the rest of each row."""
        v = self.domain.index(name)
        given = self._given(v)
        found = self._refined(given, v)
        if not found.exact.all():
            self._warn_of_sampling(given, v, found)
        return found

    def _given(self, v: int) -> IntArray:
        """Return what the rows know beside a column, -1 for all that they do not know."""
        given = self.codes.copy()
        given[:, v] = -1
        if self.absent.any():
            others_lost = self._lost.sum(axis=1) > self._lost[:, v]
            given[others_lost[:, None] & self.absent] = -1
        return given

    @cached_property
    def _lost(self) -> BoolArray:
        """Which values got lost: all that are missing in columns that the table has."""
        return (self.codes < 0) & ~np.isin(self.domain.names, self.table.lacking)

    def _warn_of_sampling(self, given: IntArray, v: int, found: Answer) -> None:
        """Warn if sampling some rows again gives other answers."""
        some = np.flatnonzero(~found.exact)[:CHECKED_ROWS]
        codes = _unsigned(self.domain, given[some])
        again = Completion(self.model, codes, self.seed + 1).marginals(v)[0]
        off = np.abs(found.p[some] - again).max(axis=1)
        if (off > MAX_DIFFERENCE).any():
            warnings.warn(
                f"{np.count_nonzero(~found.exact):,} of {len(found.p):,} rows had to be sampled, and on "
                f"{np.count_nonzero(off > MAX_DIFFERENCE)} of {len(some)} of them a second run differs "
                f"by up to {off.max():.2f}: do not trust these probabilities. Inference is exact in a "
                "thinner network (`refine`), and for rows with fewer missing values",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _coarse(self, given: IntArray, rows: IntArray, v: int) -> tuple[FloatArray, BoolArray]:
        """Return the distribution of a column in some rows, numbers known to their states."""
        if self.marginals is None:
            return self._marginals(given[rows], v)
        p, exact = self.marginals
        first = int(self.domain.cards[:v].sum())
        return p[rows, first : first + int(self.domain.cards[v])], exact[rows]

    def _marginals(self, codes: IntArray, v: int) -> tuple[FloatArray, BoolArray]:
        if isinstance(self.model, DependencyNetwork):  # its conditionals need complete rows
            p = self.model.conditional(self.domain.names[v], _unsigned(self.domain, codes))
            return p, np.ones(len(p), bool)
        return Completion(self.model, _unsigned(self.domain, codes), self.seed).marginals(v)

    def _refined(self, given: IntArray, v: int) -> Answer:
        """Return the distribution of a column in which known numbers and conditionals count."""
        card = int(self.domain.cards[v])
        p, exact = np.empty((len(given), card)), np.ones(len(given), bool)
        parts: list[tuple[IntArray, Parts]] = []
        fine = self.fine
        width = card * (1 if fine is None else len(fine.log_shares))
        is_number = fine is not None and self.domain.names[v] in fine.names
        for group in self._groups(given, v):
            if not group.scored and not group.conditionals:
                p[group.rows], exact[group.rows] = self._coarse(given, group.rows, v)
                continue
            for block, full in self._completed(given, group, width):
                count = len(full) // len(block)
                logs, sure = self._log_joints(full, v, count, group.conditionals)
                if fine is not None and group.scored:
                    scores = np.repeat(self.scores[block], count, axis=0)
                    terms = fine_terms(fine, full, scores, v, fine.places(group.columns))
                    logs = logs + terms.log_likelihood
                logs = logs.reshape(len(block), count, card)
                top = logs.max(axis=(1, 2), keepdims=True)
                weights = np.exp(logs - top)
                total = weights.sum(axis=1)
                p[block] = total / total.sum(axis=1, keepdims=True)
                exact[block] = sure.reshape(len(block), count).all(axis=1)
                if is_number and group.scored:
                    weights /= np.maximum(total, 1e-300)[:, None]
                    parts.append((block, parts_of(terms, weights, p[block])))
        return Answer(p, exact, _assembled(parts, len(given), card) if parts else None)

    def _log_joints(
        self, codes: IntArray, v: int, count: int, conditionals: int
    ) -> tuple[FloatArray, BoolArray]:
        """Return the log-probabilities of rows and each state, up to a constant per `count` rows.

        `conditionals`: how many conditionals of a chain count.
        """
        if self.chain is None or not conditionals:
            return self._of_network(codes, v, count)
        logs, exact = self._of_network(codes, v, 1)
        whole = codes.copy()  # with the most probable state: how probable such a row is follows
        whole[:, v] = logs.argmax(axis=1)
        sums, also = self._log_sums(whole)
        logs, exact = logs + (sums - logs.max(axis=1))[:, None], exact & also
        chain = self.chain.log_likelihoods(codes, v, conditionals)
        return self._mixed(logs, chain), exact

    def _mixed(self, network: FloatArray, chain: FloatArray) -> FloatArray:
        """Return the log-probabilities of a mixture, in which the network is not normalised."""
        assert self.chain is not None
        return log_mixture(self.chain.share, network, self._log_partition + chain)

    @cached_property
    def _log_partition(self) -> float:
        from conjoin.inference.engines import log_partition

        return log_partition(getattr(self.model, "network", self.model)).value

    def _of_network(self, codes: IntArray, v: int, count: int) -> tuple[FloatArray, BoolArray]:
        """Return the same by the network alone."""
        if count == 1:
            p, exact = self._marginals(codes, v)
            with np.errstate(divide="ignore"):
                return np.log(p), exact
        return row_log_joints(self.model, _unsigned(self.domain, codes), v, self.seed)

    def _groups(self, given: IntArray, v: int | None = None) -> Iterator[Group]:
        """Yield rows that lack the same columns that matter, other than v.

        What counts is, in this order, what can be summed over: known numbers and the chain, known
        numbers and the network, the network alone.
        """
        told, matter = self._told(given, v)
        asked = np.zeros(given.shape, bool)
        asked[:, [] if v is None else v] = True
        lacking = (given < 0) & ~asked
        summed = lacking & matter & told[:, None]
        counts = np.zeros(len(given), np.int64)
        if self.chain is not None:
            counts = self.chain.counting((given >= 0) | asked | summed)
            dropped = np.zeros(given.shape, bool)
            dropped[:, self.chain.places] = np.arange(len(self.chain.places)) >= counts[:, None]
            every = lacking & ~dropped
            fits = self._fits(every, min(self.max_states, MAX_CHAIN_STATES))
            counts, summed = np.where(fits, counts, 0), np.where(fits[:, None], every, summed)
        fits = self._fits(summed, self.max_states)
        yield from _alike(summed & fits[:, None], told & fits, counts)

    def _told(self, given: IntArray, v: int | None) -> tuple[BoolArray, BoolArray]:
        """Return which rows have scores that count, and which columns matter for what they say.

        Columns matter for known numbers other than v, and for the mean of v.
        """
        if self.fine is None:
            return np.zeros(len(given), bool), np.zeros(given.shape, bool)
        known = ~np.isnan(self.scores)
        name = "" if v is None else self.domain.names[v]
        if name in self.fine.names:
            known[:, self.fine.names.index(name)] = False
        told = known.any(axis=1)
        if name in self.fine.names:
            known[:, self.fine.names.index(name)] = True
        count = known.astype(np.int64) @ self.fine.matters.T.astype(np.int64)
        return np.asarray(told), np.asarray(count > 0)

    def _fits(self, summed: BoolArray, most: int) -> BoolArray:
        """Return whether some columns of each row have at most a number of joint states."""
        size = np.where(summed, np.log(self.domain.cards), 0.0).sum(axis=1)
        return np.asarray(size <= np.log(most) + 1e-9)

    def _completed(
        self, codes: IntArray, group: Group, width: int
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield blocks of rows, and each of these once for every joint state of the group's columns.

        `width`: the number of values that are computed for each of these.
        """
        cards = self.domain.cards[group.columns]
        count = int(np.prod(cards))
        states = joint_codes(self.domain.cards, group.columns.tolist())[:, group.columns]
        size = max(1, CELLS_AT_ONCE // (count * width))
        for low in range(0, len(group.rows), size):
            block = group.rows[low : low + size]
            full = np.repeat(codes[block], count, axis=0)
            full[:, group.columns] = np.tile(states, (len(block), 1))
            yield block, full

    def log_density(self) -> FloatArray:
        """Return the log-density of the known values of each row, per unit of each number.

        A number that is no evidence for others, and known numbers of rows that lack too many other
        columns, lie within their states as in the training table.
        """
        result = np.full(len(self.table), -self._log_partition)
        alone = np.zeros((len(self.table), len(self.domain.numeric)), bool)
        fine = self.fine
        width = 1 if fine is None else len(fine.log_shares)
        for group in self._groups(self.codes):
            alone[group.rows] = not group.scored
            for block, full in self._completed(self.codes, group, width):
                count = len(full) // len(block)
                logs = self._log_rows(full, group.conditionals)
                if fine is not None and group.scored:
                    scores = np.repeat(self.scores[block], count, axis=0)
                    logs += log_likelihoods(fine, full, scores, fine.places(group.columns))
                result[block] += np.logaddexp.reduce(logs.reshape(len(block), count), axis=1)
        return result + self._of_values(alone)

    def _log_rows(self, codes: IntArray, conditionals: int) -> FloatArray:
        """Return the log-probability of rows, up to the constant of the network."""
        network = self._log_sums(codes)[0]
        if self.chain is None or not conditionals:
            return network
        return self._mixed(network, self.chain.log_likelihood(codes, conditionals))

    def _log_sums(self, codes: IntArray) -> tuple[FloatArray, BoolArray]:
        return row_log_sums(self.model, _unsigned(self.domain, codes), self.seed)

    def _of_values(self, alone: BoolArray) -> FloatArray:
        """Return the log-density of values per unit, given their scores; `alone`: and of the scores."""
        result = np.zeros(len(self.table))
        if self.table.numbers is None:
            return result
        for j, name in enumerate(self.domain.numeric):
            states, values = self.domain.numbers(name), self.table.numbers[:, j]
            code = states.codes(values)
            inside = (code >= 0) & states.intervals[code]
            result[(code >= 0) & ~inside] -= np.log(states.map.step)
            result[inside] += np.log(states.map.slopes_at(values[inside]))
            scored = np.zeros(len(values), bool)
            if self.fine is not None and name in self.fine.names:
                scored = ~np.isnan(self.scores[:, self.fine.names.index(name)])
            rest = inside & (alone[:, j] | ~scored)
            result[rest] += states.log_densities(values[rest])
        return result

    def filled(self, statistic: str = "mean", *, fill_absent: bool = False) -> Table:
        """Return the table with each missing value filled in, given what its row knows.

        An empty cell that is probably absent stays empty, unless `fill_absent`.
        """
        if statistic not in STATISTICS:
            raise ModelError(f"numbers must be 'mean', 'median' or 'mode', not {statistic!r}")
        codes = self.codes.copy()
        numbers = None if self.table.numbers is None else self.table.numbers.copy()
        unknown, marginals = self._unknown(), None
        if not isinstance(self.model, DependencyNetwork):  # one pass for all columns
            known = _unsigned(self.domain, np.where(unknown, -1, self.codes))
            marginals = Completion(self.model, known, self.seed).all_marginals()
        for v, name in enumerate(self.domain.names):
            for empty in (unknown[:, v], self.absent[:, v] & ~unknown[:, v]):
                rows = np.flatnonzero(empty)
                if not len(rows):
                    continue
                part = self.select(rows)
                if marginals is not None and unknown[rows[0], v]:
                    part.marginals = marginals[0][rows], marginals[1][rows]
                answer = part.answer(name)
                variable = self.domain.variables[v]
                codes[rows, v] = answer.p[:, : len(variable.values)].argmax(axis=1)
                absent = np.zeros(len(rows), bool)
                if variable.absent and not fill_absent:
                    absent = answer.p[:, -1] > 0.5
                    codes[rows[absent], v] = len(variable) - 1
                if numbers is not None and variable.numbers is not None:
                    values = getattr(numbers_of(self.domain, name, answer), statistic)()
                    values = np.where(absent, np.nan, variable.numbers.scale.rounded(values))
                    numbers[rows, self.domain.numeric.index(name)] = values
        return self._table(codes, numbers)

    def _unknown(self) -> BoolArray:
        """Return which cells are unknown, as far as all columns of a row agree about that."""
        several_lost = self._lost.sum(axis=1) > 1
        return (self.codes < 0) | (several_lost[:, None] & self.absent)

    def drawn(self, count: int) -> list[Table]:
        """Return the table with its missing values drawn given what each row knows, several times."""
        rng = np.random.default_rng(self.seed)
        if self.fine is None:
            codes = np.where(self._unknown(), -1, self.codes)
            rows = Completion(self.model, _unsigned(self.domain, codes), self.seed).draws(count)
            known = self.table.numbers
            return [with_values(self.model, self._table(codes, None), known, rng) for codes in rows]
        return [self._drawn_in_turn(rng) for _ in range(count)]

    def _drawn_in_turn(self, rng: np.random.Generator) -> Table:
        """Draw each missing value given the known ones and those drawn before."""
        table = self._table(np.where(self._unknown(), -1, self.codes), self.table.numbers)
        for v, name in enumerate(self.domain.names):
            rows = np.flatnonzero(table.holes[:, v])
            if not len(rows):
                continue
            answer = JointRows(self.model, table.select(rows), self.seed).answer(name)
            codes = table.signed_codes()
            numbers = None if table.numbers is None else table.numbers.copy()
            cumulative = answer.p.cumsum(axis=1)
            draws = rng.random((len(rows), 1)) * cumulative[:, -1:]
            codes[rows, v] = (cumulative > draws).argmax(axis=1)
            states = self.domain.variables[v].numbers
            if numbers is not None and states is not None:
                values = states.scale.rounded(numbers_of(self.domain, name, answer).sample(rng))
                absent = states.absent & (codes[rows, v] == len(states) - 1)
                numbers[rows, self.domain.numeric.index(name)] = np.where(absent, np.nan, values)
            table = self._table(codes, numbers)
        return table

    def _table(self, codes: Any, numbers: FloatArray | None) -> Table:
        """Return rows that are known to be absent where they say so."""
        if numbers is None:
            return Table.adopt(self.domain, codes, self.table.weights, None, self.domain.names)
        whole = Table.of_values(self.domain, codes, numbers, self.table.weights)
        return Table.adopt(self.domain, whole.codes, whole.weights, numbers, self.domain.names)


def _alike(summed: BoolArray, told: BoolArray, counts: IntArray) -> Iterator[Group]:
    """Yield groups of rows in which all is the same."""
    if not len(told):
        return
    keys = np.column_stack([summed, told, counts]).astype(np.uint8)
    first, number = distinct_rows(keys)
    order = np.argsort(number, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(number))[:-1])
    for row, rows in zip(first.tolist(), members, strict=True):
        yield Group(rows, np.flatnonzero(summed[row]), bool(told[row]), int(counts[row]))


def with_values(
    model: Network,
    table: Table,
    known: FloatArray | dict[int, float] | None,
    rng: np.random.Generator,
    ranges: Mapping[int, tuple[float, float]] | None = None,
) -> Table:
    """Return complete rows of states with values of their numbers: known ones, and draws for others.

    `known`: the known values, NaN for others; or {position: value} for all rows. `ranges`: the ends
    between which the values of some columns lie.
    """
    domain = table.domain
    if not domain.numeric:
        return table
    numbers = np.full((len(table), len(domain.numeric)), np.nan)
    if isinstance(known, dict):
        for v, value in known.items():
            numbers[:, domain.numeric.index(domain.names[v])] = value
    elif known is not None:
        numbers[:] = known
    codes = table.codes.astype(np.int64)
    columns = {name: domain.numbers(name) for name in domain.numeric}
    for v, ends in (ranges or {}).items():
        columns[domain.names[v]] = columns[domain.names[v]].within(*ends)
    fine = getattr(model, "fine", None)
    scores = np.full((len(table), len(domain.numeric)), np.nan)
    if fine is not None:
        at = [domain.numeric.index(name) for name in fine.names]
        scores[:, at] = _drawn_scores(fine, columns, codes, fine.scores(numbers), rng)
    for j, name in enumerate(domain.numeric):
        states, code = columns[name], codes[:, domain.index(name)]
        hole = np.isnan(numbers[:, j])
        single = hole & ~states.intervals[code]
        numbers[single, j] = states.single[code[single]]
        rows = np.flatnonzero(hole & states.intervals[code])
        drawn = scores[rows, j]
        alone = np.isnan(drawn)
        zeros = np.zeros(int(alone.sum()))
        drawn[alone] = _cut_draws(zeros, zeros + 1.0, states.ends[:, code[rows[alone]]], rng)
        numbers[rows, j] = states.scale.rounded(states.map.to_values(drawn))
    return Table.adopt(domain, table.codes, table.weights, numbers)


def _drawn_scores(
    fine: FineNumbers,
    columns: Mapping[str, NumberStates],
    codes: IntArray,
    scores: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the scores of complete states with unknown ones drawn, one number after another."""
    logs = fine.log_densities(codes, scores)
    shares = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None]).cumsum(axis=1)
    drawn = (shares > rng.random((len(codes), 1)) * shares[:, -1:]).argmax(axis=1)
    scores = scores.copy()
    for z in np.unique(drawn).tolist():
        own = np.flatnonzero(drawn == z)
        means = fine.means(codes[own])[z]
        for j, name in enumerate(fine.names):
            states = columns[name]
            code = codes[own, fine.domain.index(name)]
            todo = np.flatnonzero(np.isnan(scores[own, j]) & states.intervals[code])
            for known, rows in patterns(scores[own[todo]]):
                given = KnownScores.of(fine.covariances[z : z + 1], known)
                at = todo[rows]
                residual = scores[np.ix_(own[at], known)] - means[np.ix_(at, known)]
                center = np.clip(means[at, j] + residual @ given.gains[0, :, j], *states.reach)
                spread = np.full(len(at), np.sqrt(given.variances[0, j]))
                scores[own[at], j] = _cut_draws(center, spread, states.ends[:, code[at]], rng)
    return scores


def _cut_draws(
    mean: FloatArray, sd: FloatArray, ends: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return draws from Gaussians that are cut at two ends."""
    from scipy.special import ndtr, ndtri

    low, high = ends
    side = np.where(low > mean, -1.0, 1.0)  # small probabilities are more exact
    first, last = ndtr(side * (low - mean) / sd), ndtr(side * (high - mean) / sd)
    p = first + rng.random(len(mean)) * (last - first)
    inside = mean + side * sd * ndtri(np.clip(p, 1e-300, 1 - 1e-16))
    return np.asarray(np.clip(inside, low, high))


def numbers_of(domain: Domain, name: str, answer: Answer) -> NumberDistributions:
    """Return the distributions of a column of numbers whose states have probabilities."""
    return NumberDistributions.of_states(domain.numbers(name), answer.p, answer.parts)


def _assembled(parts: list[tuple[IntArray, Parts]], rows: int, states: int) -> Parts:
    """Put the parts of blocks of rows together; rows without parts have a standard normal one."""
    width = max(shares.shape[2] for _, (shares, _, _) in parts)
    shares, means = np.zeros((rows, states, width)), np.zeros((rows, states, width))
    sds = np.ones((rows, states, width))
    shares[:, :, 0] = 1.0
    for block, (own, mean, sd) in parts:
        used = own.shape[2]
        shares[block, :, 0] = 0.0
        shares[block, :, :used], means[block, :, :used], sds[block, :, :used] = own, mean, sd
    return shares, means, sds


def _unsigned(domain: Domain, codes: IntArray) -> Any:
    """Return codes in which the largest value of their type is missing."""
    dtype = code_dtype(domain.cards)
    return np.where(codes < 0, np.iinfo(dtype).max, codes).astype(dtype)
