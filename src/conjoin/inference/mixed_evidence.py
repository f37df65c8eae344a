"""Evidence of every kind for a mixed network, and its answers.

Evidence becomes a list of cases, each of which knows states and numbers for certain: a set of states has
one case per state, and a range of a number is cut into narrow cells. The answer is the mean of the
answers of the cases, weighted by their probabilities. For states that is exact; for ranges of numbers it
is numerical integration. New marginals (Jeffrey's evidence) change the weights of the cases. Sets of
states that would have many cases become factors of the networks instead, which is exact, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.label_values import is_missing
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.data.table import Table, code_dtype
from conjoin.errors import ModelError
from conjoin.inference.condition_text import conditions_text, parse_conditions
from conjoin.inference.conditions import Condition, OneOf
from conjoin.inference.evidence import (
    as_condition,
    joined,
    number_value,
    states_and_likelihoods,
)
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.new_marginals import MAX_PASSES
from conjoin.inference.number_distribution import NumberDistribution, NumberDistributions
from conjoin.inference.number_evidence import Piece, pieces_of, restricted
from conjoin.inference.results import Run
from conjoin.inference.weighted_networks import weighted_mixed_network
from conjoin.models.gaussians import Scores, drawn_states
from conjoin.models.hidden_states import log_sum
from conjoin.models.mixed import BinnedComponent, MixedNetwork, points_of

MAX_CASES = 4096
"""Maximum number of cases."""

FEW_CASES = 32
"""If sets of states have more cases than this, the largest sets become factors of the networks."""

CELLS = 160
"""Maximum number of cells of a range."""

WIDE = 5.0
"""Cells have the same width between these normal scores; one more on each side reaches to FAR."""

FAR = 12.0

NEGLIGIBLE = 1e-15
"""Cases with less probability are left out of answers."""

CLOSE = 1e-14
"""New marginals are fitted until no probability of a case changes by more than this."""


def read_given(domain: MixedDomain, given: Any) -> dict[str, Any]:
    """Return evidence by name, as values and conditions, from a mapping or a text.

    Examples
    --------
    >>> from conjoin import Domain
    >>> from conjoin.data.number_scale import NumberScale
    >>> age = NumberScale.of("age", [20, 35, 61])
    >>> domain = MixedDomain(Domain({"ill": ["no", "yes"]}), (age,), ("ill", "age"))
    >>> read_given(domain, "ill=yes, age > 40")
    {'ill': 'yes', 'age': Range(above=40)}
    """
    if given is None:
        return {}
    found: dict[str, Any] = {}
    if isinstance(given, str):
        for name, value in parse_conditions(given, domain):
            found[name] = joined(found[name], value, name) if name in found else value
    elif isinstance(given, Mapping):
        for name, value in given.items():
            domain.check(name)
            if is_missing(value):
                continue
            if name not in domain.numeric:
                found[name] = as_condition(domain.categories[name], value)
            elif isinstance(value, set | list | frozenset):
                found[name] = OneOf(value)
            else:
                if not isinstance(value, Condition):
                    number_value(domain.scale(name), value)  # raises if it is none
                found[name] = value
    else:
        raise ModelError(
            f"conditions are given as a mapping {{column: value}} or as a text, not {given!r}"
        )
    return found


@dataclass(frozen=True, eq=False)
class _Cases:
    """What a column may be: states, or points and cells of a number."""

    log_weights: FloatArray
    groups: IntArray  # of a new marginal
    codes: IntArray  # of a category
    middle: FloatArray  # the normal score of a number; NaN for an atom
    width: FloatArray
    values: FloatArray


class _Rows(NamedTuple):
    """The cases of all columns together."""

    table: MixedTable
    scores: Scores
    log_weights: FloatArray
    groups: dict[str, IntArray]


class MixedKnown:
    """A mixed network with evidence.

    Parameters
    ----------
    model : MixedNetwork
        The model.
    given : mapping or str, optional
        {column: value or condition}, or conditions as text.
    fitted : mapping, optional
        The log-likelihoods of states or ranges that produce new marginals, where they are known already.

    Attributes
    ----------
    given : dict
        The evidence by name.
    pieces : dict
        That on numbers, as intervals.
    targets : dict
        The new marginals: the probability of each group of states, or range.
    """

    def __init__(
        self,
        model: MixedNetwork,
        given: Any = None,
        fitted: Mapping[str, FloatArray] | None = None,
    ) -> None:
        self.model, self.given = model, read_given(model.domain, given)
        self._known_fit = dict(fitted or {})
        self.pieces: dict[str, list[Piece]] = {}
        self.targets: dict[str, FloatArray] = {}
        numeric = model.domain.numeric
        self._cases = {n: self._category(n) for n in self.given if n not in numeric}
        self._ranges = [
            n for n, value in self.given.items() if n in numeric and isinstance(value, Condition)
        ]
        self._factors = self._as_factors()
        count = int(np.prod([len(cases.codes) for cases in self._cases.values()], dtype=float))
        budget = (MAX_CASES / max(1, count)) ** (1 / max(1, len(self._ranges)))
        if count > MAX_CASES or (self._ranges and budget < 4):
            raise ModelError(
                f"this evidence has too many cases (more than {MAX_CASES:,}); fix some columns "
                "to one state"
            )
        self._cells = int(min(CELLS, budget))
        self._cases |= {n: self._number_cases(n) for n in self.given if n in numeric}

    def _as_factors(self) -> dict[str, FloatArray]:
        """Take the sets with most states out of the cases; return the log-likelihoods of their states."""
        found: dict[str, FloatArray] = {}
        free = [n for n in self._cases if n not in self.targets]
        for name in sorted(free, key=lambda n: -len(self._cases[n].codes)):
            sizes = [len(cases.codes) for cases in self._cases.values()]
            if np.prod(sizes, dtype=float) <= FEW_CASES or len(self._cases[name].codes) < 2:
                break
            cases = self._cases.pop(name)
            found[name] = np.full(len(self.model.domain.categories[name]), -np.inf)
            found[name][cases.codes] = cases.log_weights
        return found

    @classmethod
    def asked(cls, model: MixedNetwork, given: Any = None) -> MixedKnown:
        """Return a network with the evidence of a question.

        Warns
        -----
        DataWarning
            Evidence is far outside the recorded numbers of its column (see `NumberScale.is_far`).
        """
        known = cls(model, given)
        for name, pieces in known.pieces.items():
            scale = model.scale(name)
            nearest = [np.clip(scale.low, piece.line.low, piece.line.high) for piece in pieces]
            if pieces and scale.is_far(nearest).all():
                value = known.given[name]
                if not isinstance(value, Condition):
                    value = scale.short(scale.number(value))
                scale.warn_of_far(conditions_text({name: value}))
        return known

    @property
    def certain(self) -> dict[str, Any]:
        """The columns whose values are known, and these values."""
        return {n: v for n, v in self.given.items() if not isinstance(v, Condition)}

    def _group_logs(self, name: str) -> FloatArray:
        """Return the known log-likelihoods of the groups of a column."""
        return self._known_fit.get(name, np.zeros(len(self.targets.get(name, (1,)))))

    def _category(self, name: str) -> _Cases:
        variable = self.model.domain.categories[name]
        weights, new, _ = states_and_likelihoods(variable, self.given[name], None)
        groups = np.zeros(len(variable), np.int64)
        if new is not None:
            self.targets[name], groups = new.p, new.group
            weights = weights * new.possible
        codes = np.flatnonzero(weights)
        nothing = np.full(len(codes), np.nan)
        log = np.log(weights[codes]) + self._group_logs(name)[groups[codes]]
        return _Cases(log, groups[codes], codes, nothing, nothing, nothing)

    def _number_cases(self, name: str) -> _Cases:
        scale, mapped, value = self.model.scale(name), self.model.map_of(name), self.given[name]
        pieces, target = pieces_of(scale, mapped.step, value)
        self.pieces[name] = pieces
        if target is not None:
            self.targets[name] = target
        if isinstance(value, Condition):
            parts = [self._cells_of(name, piece) for piece in pieces]
        else:
            values = np.array([scale.number(value)])
            point = points_of([mapped], values[:, None])
            parts = [np.stack([point.middle[:, 0], point.width[:, 0], values], axis=1)]
        middle, width, values = np.concatenate([np.zeros((0, 3)), *parts]).T
        sizes = [len(part) for part in parts]
        groups = np.repeat(np.array([piece.group for piece in pieces], np.int64), sizes)
        log = np.repeat(np.array([piece.log for piece in pieces], np.float64), sizes)
        none = np.full(len(groups), -1)
        return _Cases(log + self._group_logs(name)[groups], groups, none, middle, width, values)

    def _cells_of(self, name: str, piece: Piece) -> FloatArray:
        """Return the atoms and cells of an interval: normal scores, widths and values."""
        mapped = self.model.map_of(name)
        edges = self._edges(name, piece)
        low, high = edges[:-1], edges[1:]
        middle = (low + high) / 2
        cells = np.stack([middle, high - low, mapped.to_values(middle)], axis=1)
        inside = [[np.nan, 1.0, a] for a in mapped.atoms.tolist() if piece.has(a)]
        return np.concatenate([np.array(inside, np.float64).reshape(len(inside), 3), cells])

    def _edges(self, name: str, piece: Piece) -> FloatArray:
        """Return the normal scores between the cells of an interval."""
        j = self.model.numbers.index(name)
        low, high = np.clip(piece.scores(self.model.maps[j]), -FAR, FAR).tolist()
        if high <= low:
            return np.zeros(0)
        edges = [low, high, *self._inner_edges(name, np.clip([low, high], -WIDE, WIDE))]
        for component in self.model.components:
            if isinstance(component, BinnedComponent):
                edges += [x for x in component.cuts[j].tolist() if low < x < high]
        return np.unique(edges)

    def _inner_edges(self, name: str, ends: FloatArray) -> list[float]:
        """Return the edges between recorded values or, if those are many, cells of the same width."""
        step, mapped = self.model.scale(name).step, self.model.map_of(name)
        count = max(4, self._cells // max(1, len(self.pieces[name])))
        if step is not None:
            first, last = mapped.to_values(ends) / step
            if last - first <= count:
                numbers = np.arange(np.ceil(first - 0.5), np.floor(last - 0.5) + 1)
                return list(mapped.to_scores((numbers + 0.5) * step).tolist())
        return np.linspace(ends[0], ends[1], count + 1).tolist()

    @cached_property
    def _rows(self) -> _Rows:
        """The cases of all columns together."""
        domain, names = self.model.domain, list(self._cases)
        sizes = [range(len(self._cases[name].log_weights)) for name in names]
        listed = list(product(*sizes))
        if not listed:
            raise impossible(self.given)
        at = np.array(listed, np.int64).reshape(len(listed), len(names))
        dtype = code_dtype(domain.categories.cards)
        codes = np.full((len(at), len(domain.categories)), np.iinfo(dtype).max, np.int64)
        numbers = np.full((len(at), len(domain.numeric)), np.nan)
        shape = (len(at), len(self.model.numbers))
        middle, width, log = np.full(shape, np.nan), np.ones(shape), np.zeros(len(at))
        groups = {}
        for k, name in enumerate(names):
            cases, own = self._cases[name], at[:, k]
            log += cases.log_weights[own]
            groups[name] = cases.groups[own]
            if name in domain.numeric:
                j = self.model.numbers.index(name)
                numbers[:, domain.numeric.index(name)] = cases.values[own]
                middle[:, j], width[:, j] = cases.middle[own], cases.width[own]
            else:
                codes[:, domain.categories.index(name)] = cases.codes[own]
        table = Table.adopt(domain.categories, codes.astype(dtype))
        cells = np.array([name in self._ranges for name in self.model.numbers], bool)
        return _Rows(MixedTable(domain, table, numbers), Scores(middle, width, cells), log, groups)

    @cached_property
    def _answers(self) -> MixedAnswers:
        model = weighted_mixed_network(self.model, self._factors) if self._factors else self.model
        return MixedAnswers(model, self._rows.table, scores=self._rows.scores)

    @cached_property
    def log_masses(self) -> FloatArray:
        """The log-probability of each case, times its likelihood; known numbers count per step."""
        return self._answers.log_likelihood() + self._rows.log_weights

    @cached_property
    def log_probability(self) -> float:
        """The log-probability of the evidence, new marginals apart; known numbers count per step."""
        return float(log_sum(self.log_masses[None])[0])

    @cached_property
    def fitted(self) -> dict[str, FloatArray]:
        """The log-likelihoods of states or ranges that produce the new marginals."""
        if self._known_fit or not self.targets:
            return self._known_fit
        if self.log_probability == -np.inf:
            raise impossible(self.given)
        p, groups = np.exp(self.log_masses - self.log_probability), self._rows.groups
        logs = {name: np.zeros(len(target)) for name, target in self.targets.items()}
        for _ in range(MAX_PASSES):
            before = p
            for name, target in self.targets.items():
                now = np.bincount(groups[name], p, len(target))
                if (now[target > 0] == 0).any():
                    raise ModelError(
                        f"the new marginal of {name!r} cannot be reached: a part of it is impossible "
                        f"given the other evidence ({conditions_text(self.given, 8)})"
                    )
                change = np.divide(target, now, out=np.ones(len(now)), where=target > 0)
                logs[name] += np.log(change)
                p = p * change[groups[name]]
            if np.abs(p - before).max() < CLOSE:
                return logs
        raise ModelError(
            "no distribution with the new marginals was found: they contradict each other, or nearly "
            f"so ({conditions_text(self.given, 8)})"
        )

    @cached_property
    def weights(self) -> FloatArray:
        """The probability of each case given the evidence."""
        if self.log_probability == -np.inf:
            raise impossible(self.given)
        logs = self.log_masses - self.log_probability
        for name in () if self._known_fit else self.targets:
            logs = logs + self.fitted[name][self._rows.groups[name]]
        p = np.exp(logs)
        return np.asarray(p / p.sum())

    @property
    def run(self) -> Run:
        """How answers are found."""
        if not self._ranges:
            return Run("exact", exact=True)
        return Run("numerical integration", note=f"over {self.count:,} cells of the ranges")

    @property
    def count(self) -> int:
        """The number of cases."""
        return len(self._rows.log_weights)

    def category(self, name: str) -> FloatArray:
        """Return the distribution of a category."""
        variable = self.model.domain.categories[name]
        if name in self._cases:
            table = self._rows.table.categories
            own = table.codes[:, table.domain.index(name)].astype(np.int64)
            return np.asarray(np.bincount(own, self.weights, len(variable)), np.float64)
        used = np.flatnonzero(self.weights > NEGLIGIBLE)
        return np.asarray(self.weights[used] @ self._answers.select(used).category(name))

    def number(self, name: str) -> NumberDistribution:
        """Return the distribution of a number."""
        return self._number(name)[0]

    def _number(self, name: str) -> NumberDistributions:
        if name in self._cases:
            rest = {n: v for n, v in self.given.items() if n != name}
            whole = MixedKnown(self.model, rest, self.fitted)._number(name)
            fitted = self.fitted.get(name, self._group_logs(name))
            found = restricted(whole, self.pieces[name], fitted)
            if found is None:
                raise impossible(self.given)
            return found
        used = np.flatnonzero(self.weights > NEGLIGIBLE)
        found = self._answers.select(used).number(name)
        w = self.weights[used] / self.weights[used].sum()
        return NumberDistributions(
            found.scale,
            found.map,
            (w @ found.atoms)[None],
            (w[:, None] * found.weights).T.reshape(1, -1),
            found.means.T.reshape(1, -1),
            found.sds.T.reshape(1, -1),
            np.repeat(found.low, len(used)),
            np.repeat(found.high, len(used)),
        )

    def sample(self, n: int, random_state: int = 0) -> MixedTable:
        """Return rows drawn given the evidence."""
        rng = np.random.default_rng(random_state)
        case = drawn_states(np.tile(self.weights, (n, 1)), rng)
        drawn = self._answers.select(case, int(rng.integers(2**31))).draws(1)[0]
        numbers = drawn.numbers.copy()
        for name in self._ranges:
            j, scale = self.model.numbers.index(name), self.model.scale(name)
            scores = self._rows.scores
            middle, width = scores.middle[case, j], scores.width[case, j]
            at = self.model.maps[j].to_values(middle + width * (rng.random(n) - 0.5))
            column = drawn.domain.numeric.index(name)
            cell = ~np.isnan(middle)
            numbers[cell, column] = np.asarray(scale.rounded(at))[cell]
        return MixedTable(drawn.domain, drawn.categories, numbers)

    def both(self, event: Any) -> MixedKnown:
        """Return the network with more evidence, an event.

        The event that a number has a value is that of its cell, which has a probability.
        """
        merged = dict(self.given)
        numeric = self.model.domain.numeric
        for name, value in read_given(self.model.domain, event).items():
            own = merged.get(name)
            if name in numeric and own is not None and not isinstance(own, Condition):
                pieces, _ = pieces_of(self.model.scale(name), self.model.map_of(name).step, value)
                x = self.model.scale(name).number(own)
                if not any(piece.has(x) for piece in pieces):
                    raise impossible({**merged, name: joined(own, value)})
            elif name in merged:
                merged[name] = joined(own, value)
            else:
                cell = name in numeric and not isinstance(value, Condition)
                merged[name] = OneOf(value) if cell else value
        return MixedKnown(self.model, merged, self.fitted)


def impossible(given: Mapping[str, Any]) -> ModelError:
    """Return the error for evidence of probability 0."""
    return ModelError(
        f"the evidence is impossible (its probability is 0): {conditions_text(given, 8)}"
    )
