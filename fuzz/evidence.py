"""Random evidence of every kind, as one may write it and as the weight of each state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import conjoin
from conjoin import Likelihood, Marginal, Not, OneOf
from conjoin.inference import conditions_text

KINDS = ("state", "one of", "set", "not", "likelihood", "certain likelihood")


@dataclass(frozen=True)
class Known:
    """Random evidence.

    Attributes
    ----------
    given : mapping or str
        What a user would write.
    weights : dict
        {position: likelihood of each state}, read off the definitions.
    events : bool
        Whether each part holds or does not hold, so that the evidence has a probability.
    """

    given: Any
    weights: dict[int, np.ndarray]
    events: bool

    def log_weights(self, states: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of joint states."""
        total = np.zeros(len(states))
        with np.errstate(divide="ignore"):
            for v, weights in self.weights.items():
                total += np.log(weights)[states[:, v]]
        return total


def random_evidence(
    rng: np.random.Generator, domain: conjoin.Domain, share: float = 0.35, text: float = 0.25
) -> Known:
    """Return evidence on some visible variables; sometimes as text."""
    given: dict[str, Any] = {}
    weights: dict[int, np.ndarray] = {}
    events = True
    for v in range(len(domain.observed)):
        if rng.random() >= share:
            continue
        variable = domain.variables[v]
        kind = str(rng.choice(KINDS, p=[0.5, 0.1, 0.1, 0.1, 0.15, 0.05]))
        given[variable.name], weights[v] = _condition(rng, variable, kind)
        events &= "likelihood" not in kind
    if given and rng.random() < text:
        listed = {name: OneOf(x) if isinstance(x, set) else x for name, x in given.items()}
        return Known(conditions_text(listed), weights, events)
    return Known(given, weights, events)


def _condition(
    rng: np.random.Generator, variable: conjoin.Variable, kind: str
) -> tuple[Any, np.ndarray]:
    """Return a condition of one kind, and the weight of each state."""
    size, states = len(variable), variable.states
    chosen = int(rng.integers(size))
    some = np.sort(rng.choice(size, int(rng.integers(1, size + 1)), replace=False))
    weights = np.zeros(size)
    if kind == "state":
        weights[chosen] = 1
        return states[chosen], weights
    if kind in ("one of", "set"):
        weights[some] = 1
        listed = [states[k] for k in some]
        return (OneOf(listed) if kind == "one of" else set(listed)), weights
    if kind == "not":
        some = some[: size - 1]  # at least one state is left
        weights[np.setdiff1d(np.arange(size), some)] = 1
        return Not([states[k] for k in some]), weights
    if kind == "certain likelihood":
        weights[chosen] = 1
    else:
        weights = np.round(rng.random(size) * (rng.random(size) > 0.2) + 1e-3, 6)
    return Likelihood(dict(zip(states, weights.tolist(), strict=True))), weights


def random_marginal(rng: np.random.Generator, variable: conjoin.Variable) -> tuple[Any, np.ndarray]:
    """Return a new marginal of a variable, as a condition and as an array."""
    target = np.round(rng.dirichlet(np.ones(len(variable))), 6)
    target[0] += 1 - target.sum()
    return Marginal(dict(zip(variable.states, target.tolist(), strict=True))), target
