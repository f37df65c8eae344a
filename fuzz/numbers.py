"""Answers of random networks of categories and numbers against their definition, state by state.

A known number is a point: its density times the step of the column. A range, or the event that a number
has a recorded value, is an interval.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

import conjoin
from conjoin.errors import ConjoinError
from conjoin.inference.conditions import Range
from conjoin.models.mixed import BinnedComponent, GaussianComponent, MixedNetwork
from fuzz.evidence import random_evidence
from fuzz.examples import random_mixed_network
from fuzz.trials import count


class World(NamedTuple):
    """One component in one joint state: its weight given the evidence, and what it says of numbers."""

    weight: float
    states: dict[str, Any]
    numbers: dict[str, tuple[float, float, float, float] | float]  # mean, sd, low, high; or an atom


def worlds(model: MixedNetwork, given: dict[str, float], weights: dict[str, Any]) -> list[World]:
    """Return all that may be true, given numbers and a weight per state of some categories."""
    found = []
    for share, component in zip(model.shares, model.components, strict=True):
        domain = component.network.domain
        table = np.exp(sum(f.table for f in component.network.factors))
        for codes in itertools.product(*map(range, domain.cards)):
            states = {v.name: v.states[k] for v, k in zip(domain, codes, strict=True)}
            p = float(share * table[codes])
            for name, weight in weights.items():
                p *= weight[domain.variables[domain.index(name)].index(states[name])]
            if p > 0:
                part = _gaussian if isinstance(component, GaussianComponent) else _binned
                mass, numbers = part(model, component, states, given)
                if mass > 0:
                    found.append(World(p * mass, states, numbers))
    return found


def _gaussian(
    model: MixedNetwork, component: GaussianComponent, states: dict[str, Any], given: dict[str, float]
) -> tuple[float, dict[str, Any]]:  # fmt: skip
    """Return the probability of the given numbers, and the distributions of all others."""
    z = states["(hidden)"]
    mean, cov = component.gaussians.means[z], component.gaussians.covariances[z]
    mass, seen, at = 1.0, [], []

    def conditional(j: int) -> tuple[float, float]:
        if not seen:
            return float(mean[j]), float(np.sqrt(cov[j, j]))
        slope = np.linalg.solve(cov[np.ix_(seen, seen)], cov[seen, j])
        return float(mean[j] + slope @ (np.array(at) - mean[seen])), float(
            np.sqrt(cov[j, j] - slope @ cov[seen, j])
        )

    for j, name in enumerate(model.numbers):
        mapped, value = model.maps[j], given.get(name)
        if value is None:
            continue
        atom = value in mapped.atoms
        if len(mapped.atoms) and states[name] != (value if atom else "other"):
            return 0.0, {}
        if atom:
            continue
        low, high = (float(e[0]) for e in mapped.cell(np.array([value])))
        m, s = conditional(j)
        mass *= _density(((low + high) / 2 - m) / s) / s * (high - low)
        seen.append(j)
        at.append((low + high) / 2)
    numbers: dict[str, Any] = {}
    for j, name in enumerate(model.numbers):
        if name not in given:
            state = states.get(name, "other")
            numbers[name] = (*conditional(j), -np.inf, np.inf) if state == "other" else float(state)
    return mass, numbers


def _binned(
    model: MixedNetwork, component: BinnedComponent, states: dict[str, Any], given: dict[str, float]
) -> tuple[float, dict[str, Any]]:  # fmt: skip
    """Return the probability of the given numbers, and the distributions of all others."""
    mass, numbers = 1.0, {}
    for j, name in enumerate(model.numbers):
        mapped, state, value = model.maps[j], states[name], given.get(name)
        atoms = len(mapped.atoms)
        ends = [-np.inf, *component.cuts[j].tolist(), np.inf]
        place = float(mapped.atoms[state]) if state < atoms else None
        low, high = (0.0, 0.0) if place is not None else ends[state - atoms : state - atoms + 2]
        if value is None:
            numbers[name] = (0.0, 1.0, low, high) if place is None else place
        elif place is not None or value in mapped.atoms:
            if place != value:
                return 0.0, {}
        else:
            first, last = (float(e[0]) for e in mapped.cell(np.array([value])))
            if not low <= (first + last) / 2 < high:
                return 0.0, {}
            inside = ndtr(high) - ndtr(low)
            mass *= _density((first + last) / 2) * (last - first) / inside
    return mass, numbers


def _density(z: float) -> float:
    return float(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


def shares_between(
    model: MixedNetwork, found: list[World], name: str, low: float, high: float
) -> np.ndarray:
    """Return the probability in each world that a number is recorded from `low` to `high`."""
    ends = model.map_of(name).to_scores(np.array([low - 0.5, high + 0.5]))
    result = np.zeros(len(found))
    for i, world in enumerate(found):
        known = world.numbers[name]
        if isinstance(known, float):
            result[i] = low <= known <= high
            continue
        m, s, first, last = known
        p = ndtr((np.array([*np.clip(ends, first, last), first, last]) - m) / s)
        result[i] = (p[1] - p[0]) / (p[3] - p[2])
    return result


def cdf(model: MixedNetwork, found: list[World], name: str, x: float) -> float:
    """Return the probability that a number is at most x."""
    weights = np.array([world.weight for world in found])
    return float(weights @ shares_between(model, found, name, -1e9, x) / weights.sum())


def case(rng: np.random.Generator) -> str:
    """Ask a random network with random evidence every question."""
    model = random_mixed_network(rng)
    known = random_evidence(rng, model.domain.categories, text=0)
    categories = model.domain.categories
    weights = {categories.names[v]: w for v, w in known.weights.items()}
    numbers = {n: float(rng.integers(-4, 25)) for n in model.numbers if rng.random() < 0.4}
    given = {**known.given, **numbers}
    found = worlds(model, numbers, weights)
    total = sum(world.weight for world in found)
    if total < 1e-250:
        try:
            conjoin.marginals(model, given)
        except ConjoinError:
            return "impossible evidence"
        return "improbable evidence"
    check_distributions(model, given, numbers, found, total)
    check_events(rng, model, given, found)
    if rng.random() < 0.3:
        check_range(rng, model, given, found)
    if rng.random() < 0.2:
        check_saved(model, given)
    kinds = sorted({type(c).__name__.removesuffix("Component").lower() for c in model.components})
    return " and ".join(kinds)


def check_distributions(
    model: MixedNetwork, given: dict[str, Any], numbers: dict[str, float], found: list[World],
    total: float,
) -> None:  # fmt: skip
    """Compare the distributions of all columns."""
    answer = conjoin.marginals(model, given)
    count("questions", len(model.names))
    for variable in model.domain.categories:
        for state in variable.states:
            own = sum(w.weight for w in found if w.states[variable.name] == state) / total
            assert abs(answer[variable.name].get(state, 0.0) - own) < 1e-7, (variable.name, state)
    for name in model.numbers:
        if name in numbers:
            continue
        for x in (-5.0, 0.0, 3.0, 7.0, 12.0, 19.0, 30.0):
            expected = cdf(model, found, name, x)
            assert abs(answer[name].cdf(x) - expected) < 1e-7, (name, x, expected)
        quartile = answer[name].quantile(0.25)
        assert cdf(model, found, name, quartile) > 0.25 - 1e-7
        assert cdf(model, found, name, quartile - 1) < 0.25 + 1e-7


def check_events(
    rng: np.random.Generator, model: MixedNetwork, given: dict[str, Any], found: list[World],
) -> None:  # fmt: skip
    """Compare the probability of states and of one range or recorded value of a number."""
    weights = np.array([world.weight for world in found])
    inside = weights.copy()
    event: dict[str, Any] = {}
    for variable in model.domain.categories:
        if variable.name not in given and rng.random() < 0.5:
            state = event[variable.name] = variable.states[int(rng.integers(len(variable)))]
            inside *= [world.states[variable.name] == state for world in found]
    free = [name for name in model.numbers if name not in given]
    if free and rng.random() < 0.7:
        name, low = str(rng.choice(free)), int(rng.integers(-2, 20))
        high = low + int(rng.integers(0, 10))
        event[name] = low if low == high else Range(at_least=low, at_most=high)
        inside *= shares_between(model, found, name, low, high)
    if event:
        answer = conjoin.probability(model, event, given)
        count("questions")
        expected = inside.sum() / weights.sum()
        np.testing.assert_allclose(float(answer), expected, rtol=1e-5, atol=1e-9)


def check_range(
    rng: np.random.Generator, model: MixedNetwork, given: dict[str, Any], found: list[World]
) -> None:
    """A range of a number as evidence changes the probabilities of states as it should."""
    free = [name for name in model.numbers if name not in given]
    open_categories = [v for v in model.domain.categories if v.name not in given]
    if not free or not open_categories:
        return
    name, low = str(rng.choice(free)), int(rng.integers(-2, 12))
    high = low + int(rng.integers(2, 12))
    weights = np.array([world.weight for world in found])
    weights *= shares_between(model, found, name, low, high)
    if weights.sum() < 1e-12 * sum(world.weight for world in found):
        return
    answer = conjoin.marginals(model, {**given, name: Range(at_least=low, at_most=high)})
    count("questions")
    for variable in open_categories:
        for state in variable.states:
            chosen = np.array([world.states[variable.name] == state for world in found])
            expected = weights[chosen].sum() / weights.sum()
            assert abs(answer[variable.name][state] - expected) < 1e-6, (variable.name, state)


def check_saved(model: MixedNetwork, given: dict[str, Any]) -> None:
    """A saved and loaded network gives the same answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.conjoin"
        conjoin.save(model, path)
        other = conjoin.load(path)
    before, after = conjoin.marginals(model, given), conjoin.marginals(other, given)
    count("questions", 2)
    for name in before:
        assert repr(before[name]) == repr(after[name])


def prepare() -> None:
    """Nothing to prepare."""
