"""Questions to a joint: known numbers as a factor over states, and distributions of numbers as answers.

The scores of known numbers are a likelihood of the states that their means depend on. If these are
known but for a few columns, the likelihood is one more table of the network, and any engine answers.
Otherwise a number is known to its state only, and the answer says so. A range is a factor as well: how
much of the states that it cuts lies within it. It does not move other numbers within their states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.label_values import ABSENT
from conjoin.data.number_map import normal_mass
from conjoin.data.number_states import NumberStates
from conjoin.data.table import joint_codes
from conjoin.inference import exact
from conjoin.inference.chain_evidence import chain_factor
from conjoin.inference.conditions import Condition, OneOf, Range, edges_of
from conjoin.inference.evidence import Evidence
from conjoin.inference.fine_answers import (
    MAX_STATES,
    FineTerms,
    fine_terms,
    log_likelihoods,
    parts_of,
)
from conjoin.inference.number_distribution import NumberDistribution, NumberDistributions, Parts
from conjoin.inference.results import Marginals
from conjoin.models.fine_numbers import FineNumbers
from conjoin.models.joint import Joint
from conjoin.models.markov import MarkovNetwork, TableFactor
from conjoin.models.network import Network


def with_fine(model: Network, known: Evidence) -> tuple[Network, Evidence]:
    """Return a network in which the chain and known numbers count, and the evidence on states."""
    return _with_fine(model, known)[:2]


def log_evidence(model: Network, known: Evidence, max_memory: float | None) -> float:
    """Return the log of the summed potentials that agree with evidence, and of densities."""
    network, reduced, scale = _with_fine(model, known)
    return exact.log_sum(network, reduced, max_memory) + scale


def _with_fine(model: Network, known: Evidence) -> tuple[Network, Evidence, float]:
    """Return what `with_fine` does, and the logarithm of the density that the factors lack."""
    if not isinstance(model, Joint):
        return model, known, 0.0
    factors, known = chain_factor(model, known)
    scale = 0.0
    if model.fine is not None:
        of_values, known, of_scores = _value_factors(model.fine, known)
        factors, scale = factors + of_values, of_scores
        for v, ends in known.ranges.items():
            if model.fine.domain.names[v] in model.fine.names:
                factors += _range_factor(model.fine, known, v, ends)
    if not factors:
        return model, known, scale
    both = [*model.factors, *factors]
    return MarkovNetwork(model.domain, model.features, both, model.provenance), known, scale


def _value_factors(fine: FineNumbers, known: Evidence) -> tuple[list[TableFactor], Evidence, float]:
    """Return the likelihood of the known scores as a factor."""
    scores = _scores(fine, known)
    used = np.flatnonzero(~np.isnan(scores))
    if not len(used):
        return [], known, 0.0
    scope = _open(fine, known, used)
    size = np.prod(fine.domain.cards[scope], dtype=float)
    if size > MAX_STATES:
        names = tuple(fine.names[j] for j in used)
        return [], replace(known, to_states=names), 0.0
    codes = _filled(fine, known, scope)
    rows = np.tile(scores, (len(codes), 1))
    logs = log_likelihoods(fine, codes, rows, fine.places(scope))
    scale = float(logs.max())
    if not len(scope):
        return [], known, scale
    table = (logs - scale).reshape(fine.domain.cards[scope].tolist())
    return [TableFactor(tuple(scope.tolist()), table)], known, scale


def _range_factor(
    fine: FineNumbers, known: Evidence, v: int, ends: tuple[float, float]
) -> list[TableFactor]:
    """Return how the share of the states that a range cuts follows from what else is known.

    The share that the evidence counts is that of the training table.
    """
    numbers = fine.domain.numbers(fine.domain.names[v])
    masses = numbers.masses(*ends)
    cut = numbers.intervals & (masses > 0) & (masses < 1)
    scores = _scores(fine, known)
    own = fine.names.index(fine.domain.names[v])
    used = np.flatnonzero(~np.isnan(scores))
    scope = _open(fine, known, np.append(used, own))
    scope = scope[scope != v]
    count = np.prod(fine.domain.cards[scope], dtype=float)
    if known.to_states or not len(used) or not cut.any() or count * len(numbers) > MAX_STATES:
        return []
    rows = np.tile(scores, (int(count), 1))
    terms = fine_terms(fine, _filled(fine, known, scope), rows, v, fine.places(scope))
    shares = (terms.shares * _fractions(terms, numbers, ends)).sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(cut, np.log(shares) - np.log(masses), 0.0)
    table = logs.reshape([*fine.domain.cards[scope].tolist(), len(numbers)])
    return [TableFactor((*scope.tolist(), v), table)]


def _fractions(terms: FineTerms, numbers: NumberStates, ends: tuple[float, float]) -> FloatArray:
    """Return the share of each part of a number that lies in a range; 1 outside intervals."""
    first, last = numbers.scores_of_ends(*ends)
    low, high = (end[:, None] for end in numbers.ends[:, numbers.intervals])
    sds = terms.sds[:, None]
    means = numbers.bounded(terms.means[:, numbers.intervals], sds)
    start, stop = np.clip(first, low, high), np.clip(last, low, high)
    part, whole = (
        normal_mass((below - means) / sds, (above - means) / sds)
        for below, above in ((start, stop), (low, high))
    )
    shares = np.ones(terms.means.shape)
    shares[:, numbers.intervals] = part / np.maximum(whole, 1e-300)
    return shares


def with_numbers(model: Network, network: Network, known: Evidence, found: Marginals) -> Marginals:
    """Return marginals in which columns of numbers have distributions of numbers."""
    domain = network.domain.observed
    numbers: dict[str, Any] = {}
    for name in found:
        variable = domain[name] if name in domain.names else None
        if variable is None or variable.numbers is None:
            continue
        v = domain.index(name)
        if v in known.values:
            numbers[name] = {known.given[name]: 1.0}
            continue
        p, states = found.array(name)[None], variable.numbers
        if v in known.ranges:
            states = states.within(*known.ranges[v])
        parts = _parts(model, network, known, v, p) if found.run.exact else None
        numbers[name] = NumberDistributions.of_states(states, p, parts)[0]
    found.numbers = numbers
    return found


def _parts(
    model: Network, network: Network, known: Evidence, v: int, p: FloatArray
) -> Parts | None:
    """Return where a number lies within its intervals; None if nothing tells, or too much is unknown.

    `p`: the probabilities of its states, in one row.
    """
    fine = getattr(model, "fine", None)
    if fine is None or fine.domain.names[v] not in fine.names:
        return None
    own = fine.names.index(fine.domain.names[v])
    scores = _scores(fine, known)
    used = np.flatnonzero(~np.isnan(scores))
    if known.to_states or not len(used):
        return None
    scope = _open(fine, known, np.append(used, own))
    if np.prod(fine.domain.cards[scope], dtype=float) > MAX_STATES:
        return None
    scope = scope[scope != v]
    count = int(np.prod(fine.domain.cards[scope]))
    states = fine.domain.numbers(fine.domain.names[v])
    names = [fine.domain.names[u] for u in (v, *scope.tolist())]
    if len(scope):
        table = exact.joint(network, names, known).table.reshape(len(states), count)
    else:
        table = np.ones((len(states), 1))
    weights = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
    rows = np.tile(scores, (count, 1))
    terms = fine_terms(fine, _filled(fine, known, scope), rows, v, fine.places(scope))
    if v in known.ranges:
        inside = terms.shares * _fractions(terms, states, known.ranges[v])
        total = inside.sum(axis=2, keepdims=True)
        inside = np.where(total > 0, inside / np.maximum(total, 1e-300), terms.shares)
        terms = replace(terms, shares=inside)
    return parts_of(terms, weights.T[None], p)


def row_values(model: Network, known: Evidence, states: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with values of numbers: the known ones, or medians within their states."""
    domain, row = model.domain.observed, dict(states)
    if not domain.numeric:
        return row
    codes = np.array([[domain[name].states.index(states[name]) for name in domain.names]])
    fine = getattr(model, "fine", None)
    for v, name in enumerate(domain.names):
        numbers = domain.variables[v].numbers
        if numbers is None or row[name] == ABSENT:
            continue
        if v in known.values:
            row[name] = known.given[name]
            continue
        p, parts = np.eye(len(numbers))[codes[:, v]], None
        if fine is not None and name in fine.names:
            terms = fine_terms(fine, codes, _scores(fine, known)[None], v)
            parts = parts_of(terms, np.ones((1, 1, len(numbers))), p)
        row[name] = NumberDistributions.of_states(numbers, p, parts)[0].median()
    return row


def number_event(found: NumberDistribution, value: Any) -> float | None:
    """Return the probability that a number fulfils a condition; None for other kinds."""
    rows, present = found._rows, 1 - found.absent
    if isinstance(value, Range):
        low, high = edges_of(rows.states, value)
        half = rows.map.step / 2
        return present * float(rows.probability(low + half, high - half)[0]) if low < high else 0.0
    if not isinstance(value, Condition):
        value = OneOf(value)
    if not isinstance(value, OneOf):
        return None
    numbers = [rows.scale.number(state) for state in value.states if not isinstance(state, str)]
    if len(numbers) < len(value.states):
        return None
    return present * float(sum(np.exp(rows.log_mass(np.array([x])))[0] for x in set(numbers)))


def _scores(fine: FineNumbers, known: Evidence) -> FloatArray:
    """Return the scores of the known numbers that are evidence, NaN for others."""
    numbers = np.full((1, len(fine.domain.numeric)), np.nan)
    for v, value in known.values.items():
        numbers[0, fine.domain.numeric.index(fine.domain.names[v])] = value
    return fine.scores(numbers)[0]


def _open(fine: FineNumbers, known: Evidence, used: IntArray) -> IntArray:
    """Return the unknown columns that the means of some numbers depend on.

    A number that is known to its state only is one of them, because it lies inside its interval.
    """
    matter = np.asarray(fine.matters[:, used].any(axis=1))
    names = fine.domain.names
    matter[[v for v in known.states if v in known.values or names[v] not in fine.names]] = False
    return np.flatnonzero(matter)


def _filled(fine: FineNumbers, known: Evidence, scope: IntArray) -> IntArray:
    """Return the known states once for every joint state of some columns; others have no effect."""
    domain: Domain = fine.domain
    codes = np.full(len(domain), -1, np.int64)
    for v, state in known.states.items():
        codes[v] = state
    rows = joint_codes(domain.cards, scope.tolist())[:, scope].astype(np.int64)
    full = np.tile(codes, (len(rows), 1))
    full[:, scope] = rows
    return full
