"""Evidence of every kind for a mixed network, and its answers.

Evidence becomes a few cases (see `component_cases`): in each, a number is in one interval, or is one of
its atoms. The answer is the mean of the answers of the cases, weighted by their probabilities. A set of
states is a likelihood of the states in all cases. A column with a new marginal (Jeffrey's evidence) has
cases for each of its states or ranges, whose weights change.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.label_values import is_missing
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.data.table import Table, code_dtype
from conjoin.errors import ModelError
from conjoin.inference.component_cases import (
    BinnedCase,
    Case,
    GaussianCase,
    component_case,
)
from conjoin.inference.condition_text import conditions_text, parse_conditions
from conjoin.inference.conditions import Condition, OneOf
from conjoin.inference.evidence import (
    as_condition,
    joined,
    number_value,
    states_and_likelihoods,
)
from conjoin.inference.new_marginals import MAX_PASSES
from conjoin.inference.number_distribution import NumberDistribution, NumberDistributions
from conjoin.inference.number_evidence import Piece, pieces_of, restricted
from conjoin.inference.results import Run
from conjoin.models.gaussian_boxes import Box
from conjoin.models.hidden_states import log_sum
from conjoin.models.mixed import MixedNetwork, points_of

MAX_CASES = 4096
"""Maximum number of cases."""

MAX_RANGES = 10
"""Maximum number of columns with ranges."""

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


class _Option(NamedTuple):
    """What a column may be: a state, an atom, or in an interval of scores; nothing if all are -1."""

    log: float = 0.0
    group: int = 0
    state: int = -1
    atom: int = -1
    box: Box | None = None


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
        self._numbers: dict[str, NumberDistributions] = {}
        numeric = model.domain.numeric
        self._ranges = [
            n for n, value in self.given.items() if n in numeric and isinstance(value, Condition)
        ]
        self._logs: dict[str, FloatArray] = {}
        self._options = {
            name: self._number_options(name) if name in numeric else self._state_options(name)
            for name in self.given
        }
        count = np.prod([len(options) for options in self._options.values()], dtype=float)
        if count > MAX_CASES or len(self._ranges) > MAX_RANGES:
            raise ModelError(
                f"this evidence has too many cases (more than {MAX_CASES:,}) or ranges (more than "
                f"{MAX_RANGES}); fix some columns to one value"
            )

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

    def _state_options(self, name: str) -> list[_Option]:
        """Return the states of a category that are cases; other conditions are a likelihood."""
        variable = self.model.domain.categories[name]
        weights, new, _ = states_and_likelihoods(variable, self.given[name], None)
        groups = np.zeros(len(variable), np.int64)
        if new is not None:
            self.targets[name], groups = new.p, new.group
            weights = weights * new.possible
        with np.errstate(divide="ignore"):
            logs = np.log(weights) + self._group_logs(name)[groups]
        possible = np.flatnonzero(weights).tolist()
        if len(possible) < 2 or (new is not None and not self._known_fit):
            return [_Option(float(logs[s]), int(groups[s]), state=s) for s in possible]
        self._logs[name] = logs
        return [_Option()]

    def _number_options(self, name: str) -> list[_Option]:
        """Return the intervals and atoms that a number may be in."""
        scale, mapped, value = self.model.scale(name), self.model.map_of(name), self.given[name]
        self.pieces[name], target = pieces_of(scale, mapped.step, value)
        if target is not None:
            self.targets[name] = target
        if not isinstance(value, Condition):
            values = np.array([scale.number(value)])
            point = points_of([mapped], values[:, None])
            middle, width = float(point.middle[0, 0]), float(point.width[0, 0])
            if np.isnan(middle):
                return [_Option(atom=int(mapped.atom_of(values)[0]))]
            return [_Option(box=Box(middle, middle, width))]
        found = []
        for piece in self.pieces[name]:
            log = piece.log + float(self._group_logs(name)[piece.group])
            for k, atom in enumerate(mapped.atoms.tolist()):
                if piece.has(atom):
                    found.append(_Option(log, piece.group, atom=k))
            low, high = piece.scores(mapped).tolist()
            if low < high:
                found.append(_Option(log, piece.group, box=Box(low, high)))
        return found

    @cached_property
    def _cases(self) -> list[Case]:
        """The cases of all columns together."""
        names, numbers, found = list(self._options), self.model.numbers, []
        for chosen in product(*self._options.values()):
            own = dict(zip(names, chosen, strict=True))
            at = {numbers.index(n): option for n, option in own.items() if n in numbers}
            found.append(
                Case(
                    {n: option.state for n, option in own.items() if option.state >= 0},
                    self._logs,
                    {j: option.atom for j, option in at.items() if option.atom >= 0},
                    {j: option.box for j, option in at.items() if option.box is not None},
                    sum(option.log for option in chosen),
                    {n: option.group for n, option in own.items()},
                )
            )
        if not found:
            raise impossible(self.given)
        return found

    @cached_property
    def _answers(self) -> list[list[GaussianCase | BinnedCase]]:
        """The answers of each component in each case."""
        components = self.model.components
        return [[component_case(self.model, c, case) for c in components] for case in self._cases]

    @cached_property
    def _log_parts(self) -> FloatArray:
        """The log-probability of each case and component, times the likelihood of the case."""
        with np.errstate(divide="ignore"):
            shares = np.log(self.model.shares)
        masses = np.array([[one.log_mass for one in row] for row in self._answers])
        return masses + shares + np.array([[case.log_weight] for case in self._cases])

    @cached_property
    def log_masses(self) -> FloatArray:
        """The log-probability of each case, times its likelihood; known numbers count per step."""
        return log_sum(self._log_parts)

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
        p, groups = np.exp(self.log_masses - self.log_probability), self._groups
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

    @property
    def _groups(self) -> dict[str, IntArray]:
        """The group of each case, by column."""
        return {n: np.array([case.groups[n] for case in self._cases]) for n in self.targets}

    @cached_property
    def weights(self) -> FloatArray:
        """The probability of each case given the evidence."""
        if self.log_probability == -np.inf:
            raise impossible(self.given)
        logs = self.log_masses - self.log_probability
        for name in () if self._known_fit else self.targets:
            logs = logs + self.fitted[name][self._groups[name]]
        p = np.exp(logs)
        return np.asarray(p / p.sum())

    @cached_property
    def _weighted(self) -> list[tuple[float, Case, GaussianCase | BinnedCase]]:
        """The cases and components that matter, with their probabilities."""
        with np.errstate(invalid="ignore"):  # cases of probability 0 become NaN, and are left out
            shares = np.exp(self._log_parts - self.log_masses[:, None]) * self.weights[:, None]
        return [
            (float(shares[c, k]), self._cases[c], self._answers[c][k])
            for k in range(shares.shape[1])
            for c in np.flatnonzero(shares[:, k] > NEGLIGIBLE).tolist()
        ]

    @property
    def run(self) -> Run:
        """How answers are found."""
        if not self._ranges:
            return Run("exact", exact=True)
        return Run("numerical integration", note=f"over {', '.join(self._ranges)}")

    @property
    def count(self) -> int:
        """The number of cases."""
        return len(self._cases)

    def category(self, name: str) -> FloatArray:
        """Return the distribution of a category."""
        result = np.zeros(len(self.model.domain.categories[name]))
        for weight, case, answers in self._weighted:
            if name in case.states:
                result[case.states[name]] += weight
            else:
                result += weight * answers.category(name)
        return result / result.sum()

    def number(self, name: str) -> NumberDistribution:
        """Return the distribution of a number."""
        return self._number(name)[0]

    def _number(self, name: str) -> NumberDistributions:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = (
                self._known_number(name) if name in self.given else self._free_number(name)
            )
        return found

    def _known_number(self, name: str) -> NumberDistributions:
        """Return the distribution of a number of which something is known: given the rest, restricted."""
        rest = {n: v for n, v in self.given.items() if n != name}
        whole = MixedKnown(self.model, rest, self.fitted)._number(name)
        fitted = self.fitted.get(name, self._group_logs(name))
        found = restricted(whole, self.pieces[name], fitted)
        if found is None:
            raise impossible(self.given)
        return found

    def _free_number(self, name: str) -> NumberDistributions:
        j, weighted = self.model.numbers.index(name), self._weighted
        parts = [answers.number(j) for _, _, answers in weighted]
        weights = [w * part.weights for (w, _, _), part in zip(weighted, parts, strict=True)]
        atoms = sum(w * part.atoms for (w, _, _), part in zip(weighted, parts, strict=True))
        total = sum(w for w, _, _ in weighted)

        def joined_parts(field: str) -> FloatArray:
            return np.concatenate([getattr(part, field) for part in parts])

        return NumberDistributions(
            self.model.scale(name),
            self.model.maps[j],
            np.asarray(atoms)[None] / total,
            np.concatenate(weights)[None] / total,
            joined_parts("means")[None],
            joined_parts("sds")[None],
            joined_parts("low"),
            joined_parts("high"),
        )

    def sample(self, n: int, random_state: int = 0) -> MixedTable:
        """Return rows drawn given the evidence."""
        rng = np.random.default_rng(random_state)
        model, domain = self.model, self.model.domain
        codes = np.zeros((n, len(domain.categories)), code_dtype(domain.categories.cards))
        numbers = np.zeros((n, len(domain.numeric)))
        weights = np.array([weight for weight, _, _ in self._weighted])
        chosen = rng.choice(len(weights), n, p=weights / weights.sum())
        for k in np.unique(chosen).tolist():
            rows, answers = np.flatnonzero(chosen == k), self._weighted[k][2]
            states, middle = answers.draw(len(rows), rng)
            own = answers.component.network.domain
            for i, name in enumerate(domain.categories.names):
                codes[rows, i] = states[:, own.index(name)]
            for j, name in enumerate(model.numbers):
                values, mapped = model.maps[j].to_values(middle[:, j]), model.maps[j]
                values = np.asarray(model.scale(name).rounded(values))
                if len(mapped.atoms):
                    state = states[:, own.index(name)]
                    atom = mapped.atoms[np.minimum(state, len(mapped.atoms) - 1)]
                    values = np.where(state < len(mapped.atoms), atom, values)
                if name in self.certain:
                    values = np.full(len(rows), model.scale(name).number(self.certain[name]))
                numbers[rows, domain.numeric.index(name)] = values
        return MixedTable(domain, Table.adopt(domain.categories, codes), numbers)

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
