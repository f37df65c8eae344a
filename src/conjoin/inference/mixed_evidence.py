"""Evidence of every kind for a mixed network, and its answers.

Evidence becomes a list of cases, each of which knows states and numbers for certain: a set of states has
one case per state, and a range of a number is cut into narrow cells, each as certain as a recorded value.
The answer is the mean of the answers of the cases, weighted by their probabilities. For states that is
exact; for ranges of numbers it is numerical integration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.data.number_scale import NumberScale
from conjoin.data.table import Table, code_dtype
from conjoin.errors import DataError, ModelError
from conjoin.inference.condition_text import conditions_text, parse_conditions
from conjoin.inference.conditions import (
    Condition,
    Interval,
    Likelihood,
    Marginal,
    Not,
    OneOf,
    Range,
)
from conjoin.inference.evidence import as_condition, joined, states_and_likelihoods
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.number_distribution import NumberDistribution, NumberDistributions
from conjoin.inference.results import Run
from conjoin.models.gaussians import Scores, drawn_states
from conjoin.models.hidden_states import log_sum
from conjoin.models.mixed import BinnedComponent, MixedNetwork

MAX_CASES = 4096
"""Maximum number of cases."""

CELLS = 160
"""Maximum number of cells of a range."""

WIDE = 5.0
"""Cells have the same width between these normal scores; one more on each side reaches to FAR."""

FAR = 12.0


def read_given(domain: MixedDomain, given: Any) -> dict[str, Any]:
    """Return evidence by name, as values and conditions, from a mapping or a text.

    Examples
    --------
    >>> from conjoin import Domain
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
            if name in domain.numeric:
                found[name] = OneOf(value) if isinstance(value, set | list | frozenset) else value
            else:
                found[name] = as_condition(domain.categories[name], value)
    else:
        raise ModelError(
            f"conditions are given as a mapping {{column: value}} or as a text, not {given!r}"
        )
    return found


@dataclass(frozen=True, eq=False)
class _Cases:
    """What a column may be: states or cells, and the log-weight of each."""

    log_weights: FloatArray
    codes: IntArray  # of a category
    middle: FloatArray  # the normal score of a number; NaN for an atom
    width: FloatArray
    values: FloatArray


class MixedKnown:
    """A mixed network with evidence.

    Parameters
    ----------
    model : MixedNetwork
        The model.
    given : mapping or str, optional
        {column: value or condition}, or conditions as text.
    fitted : mapping, optional
        The log-likelihoods of states that produce new marginals, where they are known already.

    Attributes
    ----------
    given : dict
        The evidence by name.
    """

    def __init__(
        self,
        model: MixedNetwork,
        given: Any = None,
        fitted: Mapping[str, FloatArray] | None = None,
    ) -> None:
        self.model, self.given = model, read_given(model.domain, given)
        self._fitted = fitted
        self._lines: dict[str, list[Interval]] = {}
        self._targets: dict[str, FloatArray] = {}
        categories = self._categories()
        ranges = [
            name
            for name, value in self.given.items()
            if name in model.domain.numeric and isinstance(value, Condition)
        ]
        count = int(np.prod([len(cases.codes) for cases in categories.values()], dtype=float))
        budget = (MAX_CASES / max(1, count)) ** (1 / max(1, len(ranges)))
        if count > MAX_CASES or (ranges and budget < 4):
            raise ModelError(
                f"this evidence has too many cases (more than {MAX_CASES:,}); fix some columns "
                "to one state"
            )
        self._cells = int(min(CELLS, budget))
        self._cases = {**categories, **self._numbers()}
        self._ranges = len(ranges)

    def _categories(self) -> dict[str, _Cases]:
        found = {}
        for name, value in self.given.items():
            if name in self.model.domain.numeric:
                continue
            variable = self.model.domain.categories[name]
            weights, target, _ = states_and_likelihoods(variable, value, None)
            if target is not None:
                self._targets[name] = target
                weights = weights * (target > 0)
            codes = np.flatnonzero(weights)
            nothing = np.full(len(codes), np.nan)
            log = np.log(weights[codes])
            if self._fitted and name in self._fitted:
                log = log + self._fitted[name][codes]
            found[name] = _Cases(log, codes, nothing, nothing, nothing)
        return found

    def _numbers(self) -> dict[str, _Cases]:
        found = {}
        for name, value in self.given.items():
            if name not in self.model.domain.numeric:
                continue
            scale, mapped = self.model.scale(name), self.model.map_of(name)
            lines = self._lines[name] = _intervals(scale, mapped.step, value)
            inside = [a for a in mapped.atoms.tolist() if any(_has(x, a) for x in lines)]
            edges = [np.zeros(0), *(self._edges(name, x) for x in lines)]
            low = np.concatenate([e[:-1] for e in edges])
            high = np.concatenate([e[1:] for e in edges])
            starts, ends = mapped.cell(mapped.atoms)  # whoever is there is the atom
            own = (low[:, None] > starts - 1e-9) & (high[:, None] < ends + 1e-9)
            low, high = low[~own.any(axis=1)], high[~own.any(axis=1)]
            middle, width = (low + high) / 2, high - low
            values = mapped.to_values(middle)
            atom = mapped.atom_of(values) < len(mapped.atoms)
            values[atom] += 0.75 * mapped.step  # a cell around an atom is not the atom
            empty = np.full(len(inside), np.nan)
            if not isinstance(value, Condition) and inside:
                middle, width, values = empty[:0], empty[:0], empty[:0]
            n = len(inside) + len(middle)
            found[name] = _Cases(
                np.zeros(n),
                np.full(n, -1),
                np.concatenate([empty, middle]),
                np.concatenate([np.ones(len(inside)), width]),
                np.concatenate([inside, values]),
            )
        return found

    def _edges(self, name: str, line: Interval) -> FloatArray:
        """Return the normal scores between the cells of an interval."""
        mapped, j = self.model.map_of(name), self.model.numbers.index(name)
        ends = mapped.to_scores(np.clip([line.low, line.high], -1e300, 1e300))
        low, high = np.clip(ends, -FAR, FAR)
        if not isinstance(self.given[name], Condition):
            return np.array([low, high])
        inner = np.clip([low, high], -WIDE, WIDE)
        edges = [low, high, *self._inner_edges(name, inner)]
        for component in self.model.components:
            if isinstance(component, BinnedComponent):
                edges += [x for x in component.cuts[j].tolist() if low < x < high]
        return np.unique(edges) if high > low else np.zeros(0)

    def _inner_edges(self, name: str, ends: FloatArray) -> list[float]:
        """Return the edges between recorded values or, if those are many, cells of the same width."""
        step, mapped = self.model.scale(name).step, self.model.map_of(name)
        if step is not None:
            first, last = mapped.to_values(ends) / step
            if last - first <= self._cells:
                numbers = np.arange(np.ceil(first - 0.5), np.floor(last - 0.5) + 1)
                return list(mapped.to_scores((numbers + 0.5) * step).tolist())
        return np.linspace(ends[0], ends[1], self._cells + 1).tolist()

    @cached_property
    def _rows(self) -> tuple[MixedTable, Scores, FloatArray]:
        """The cases of all columns together: rows, their normal scores and their log-weights."""
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
        for k, name in enumerate(names):
            cases, own = self._cases[name], at[:, k]
            log += cases.log_weights[own]
            if name in domain.numeric:
                j = self.model.numbers.index(name)
                numbers[:, domain.numeric.index(name)] = cases.values[own]
                middle[:, j], width[:, j] = cases.middle[own], cases.width[own]
            else:
                codes[:, domain.categories.index(name)] = cases.codes[own]
        table = Table.adopt(domain.categories, codes.astype(dtype))
        return MixedTable(domain, table, numbers), Scores(middle, width), log

    @cached_property
    def _answers(self) -> MixedAnswers:
        table, scores, _ = self._rows
        return MixedAnswers(self.model, table, scores=scores)

    @cached_property
    def log_masses(self) -> FloatArray:
        """The log-probability of each case, times its likelihood."""
        return self._answers.log_mass() + self._rows[2]

    @cached_property
    def log_probability(self) -> float:
        """The log-probability of the evidence."""
        return float(log_sum(self.log_masses[None])[0])

    @cached_property
    def weights(self) -> FloatArray:
        """The probability of each case given the evidence."""
        if self.log_probability == -np.inf:
            raise impossible(self.given)
        p = np.exp(self.log_masses - self.log_probability)
        table = self._rows[0].categories
        for _ in range(1000 if self._targets and not self._fitted else 0):
            before = p
            for name, target in self._targets.items():
                own = table.codes[:, table.domain.index(name)].astype(np.int64)
                now = np.bincount(own, p, len(target))
                if (now[target > 0] == 0).any():
                    raise impossible(self.given)
                p = p * np.divide(target, now, out=np.zeros(len(now)), where=now > 0)[own]
            if np.abs(p - before).max() < 1e-14:
                break
        return p

    @cached_property
    def fitted(self) -> dict[str, FloatArray]:
        """The log-likelihoods of states that produce the new marginals."""
        if self._fitted or not self._targets:
            return dict(self._fitted or {})
        table = self._rows[0].categories
        left = np.log(self.weights) - self.log_masses + self.log_probability
        found = {}
        for name, target in self._targets.items():  # one column after another, up to a constant
            own = table.codes[:, table.domain.index(name)].astype(np.int64)
            log = np.full(len(target), -np.inf)
            for state in np.unique(own):
                log[state] = left[own == state][0]
            found[name] = log - log.max()
            left = left - found[name][own]
        return found

    @property
    def run(self) -> Run:
        """How answers are found."""
        note = ""
        if self._ranges:
            note = f"ranges of numbers are integrated numerically, over {len(self.weights):,} cells"
        return Run("exact", exact=True, note=note)

    def category(self, name: str) -> FloatArray:
        """Return the distribution of a category."""
        variable = self.model.domain.categories[name]
        if name in self._cases:
            table = self._rows[0].categories
            own = table.codes[:, table.domain.index(name)].astype(np.int64)
            return np.asarray(np.bincount(own, self.weights, len(variable)), np.float64)
        used = np.flatnonzero(self.weights > 1e-15)
        return np.asarray(self.weights[used] @ self._answers.select(used).category(name))

    def number(self, name: str) -> NumberDistribution:
        """Return the distribution of a number."""
        return self._number(name)[0]

    def _number(self, name: str) -> NumberDistributions:
        if name in self._cases:
            rest = {n: v for n, v in self.given.items() if n != name}
            whole = MixedKnown(self.model, rest, self.fitted or None)._number(name)
            return _restricted(whole, self._lines[name])
        used = np.flatnonzero(self.weights > 1e-15)
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
        table, scores, _ = self._rows
        drawn = self._answers.select(case, int(rng.integers(2**31))).draws(1)[0]
        numbers = drawn.numbers.copy()
        for name in self._lines:
            j, scale = self.model.numbers.index(name), self.model.scale(name)
            middle, width = scores.middle[case, j], scores.width[case, j]
            at = self.model.maps[j].to_values(middle + width * (rng.random(n) - 0.5))
            column = table.domain.numeric.index(name)
            cell = ~np.isnan(middle)
            numbers[cell, column] = np.asarray(scale.rounded(at))[cell]
        return MixedTable(drawn.domain, drawn.categories, numbers)

    def both(self, event: Any) -> MixedKnown:
        """Return the network with more evidence."""
        merged = dict(self.given)
        for name, value in read_given(self.model.domain, event).items():
            merged[name] = joined(merged[name], value) if name in merged else value
        return MixedKnown(self.model, merged, self.fitted or None)


def impossible(given: Mapping[str, Any]) -> ModelError:
    """Return the error for evidence of probability 0."""
    return ModelError(
        f"the evidence is impossible (its probability is 0): {conditions_text(given, 8)}"
    )


def _has(line: Interval, value: float) -> bool:
    return bool(line.low <= value <= line.high)


def _intervals(scale: NumberScale, step: float, value: Any) -> list[Interval]:
    """Return what a condition allows, as intervals between the edges of recorded values."""
    parts: Sequence[Any] = value.parts() if isinstance(value, Condition) else (value,)
    lines = [Interval(-np.inf, np.inf)]
    for part in parts:
        if isinstance(part, Likelihood | Marginal):
            raise DataError(
                f"{part.word} needs states, and {scale.name!r} has numbers; give a range instead"
            )
        if isinstance(part, Range):
            allowed = [_range(scale, part)]
        else:
            values = part.states if isinstance(part, OneOf | Not) else (part,)
            points = sorted(scale.number(v) for v in values)
            allowed = [Interval(x - step / 2, x + step / 2) for x in points]
            if isinstance(part, Not):
                ends = [-np.inf, *(e for x in allowed for e in (x.low, x.high)), np.inf]
                allowed = [
                    Interval(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if b > a
                ]
        lines = [x.both(y) for x in lines for y in allowed]
        lines = [x for x in lines if x.low < x.high]
    return lines


def _range(scale: NumberScale, part: Range) -> Interval:
    """Return a range of recorded values by the edges between them."""
    step = scale.step

    def edge(end: Any, after: bool) -> float:
        """Return the edge before the first recorded value from `end` on, or after it."""
        x = scale.number(end)
        if step is None:
            return x
        number = np.floor(x / step + 1e-6) + 0.5 if after else np.ceil(x / step - 1e-6) - 0.5
        return float(number * step)

    low, high = -np.inf, np.inf
    if part.above is not None:
        low = edge(part.above, True)
    elif part.at_least is not None:
        low = edge(part.at_least, False)
    if part.below is not None:
        high = edge(part.below, False)
    elif part.at_most is not None:
        high = edge(part.at_most, True)
    return Interval(low, high)


def _restricted(rows: NumberDistributions, lines: list[Interval]) -> NumberDistributions:
    """Return the distribution of a number that lies in one of some intervals."""
    from scipy.special import ndtr

    atoms = np.array([[any(_has(x, a) for x in lines) for a in rows.map.atoms.tolist()]])
    parts = []
    for line in lines:
        ends = rows.map.to_scores(np.clip([line.low, line.high], -1e300, 1e300))
        low, high = np.maximum(rows.low, ends[0]), np.minimum(rows.high, ends[1])
        used = np.flatnonzero(low < high)
        mean, sd = rows.means[:, used], rows.sds[:, used]
        whole = ndtr((rows.high[used] - mean) / sd) - ndtr((rows.low[used] - mean) / sd)
        inside = ndtr((high[used] - mean) / sd) - ndtr((low[used] - mean) / sd)
        share = np.divide(inside, whole, out=np.zeros_like(inside), where=whole > 0)
        parts.append((rows.weights[:, used] * share, mean, sd, low[used], high[used]))
    weights, means, sds = (np.concatenate([p[k] for p in parts], axis=1) for k in range(3))
    low, high = (np.concatenate([p[k] for p in parts]) for k in (3, 4))
    kept = rows.atoms * atoms
    total = kept.sum() + weights.sum()
    return replace(
        rows, atoms=kept / total, weights=weights / total, means=means, sds=sds, low=low, high=high
    )
