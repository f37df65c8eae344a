"""Exact answers by messages over a junction tree.

A network is prepared once, and a plan is made once for each set of variables with evidence; answering a
question is then one run of a kernel. Conjunctions are never written out as tables of their own: they are
added to the cliques of an elimination order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.labels import shown
from conjoin.data.table import Codes, Table, code_dtype, joint_codes
from conjoin.errors import ModelError
from conjoin.inference.compilation import compiled, refusal
from conjoin.inference.condition_text import conditions_text
from conjoin.inference.evidence import Evidence, Given, event_of, evidence_of, no_new_marginals
from conjoin.inference.free_memory import memory_limit
from conjoin.inference.plan import Forecast, Plan
from conjoin.inference.results import (
    Assignment,
    JointProbabilities,
    LogValue,
    Marginals,
    Probability,
    Run,
    of_all_variables,
)
from conjoin.inference.soft_evidence import with_new_marginals
from conjoin.inference.terms import as_markov_network
from conjoin.kernels.elimination_layouts import MARGINALS, MAXIMUM, SUM
from conjoin.models.network import Network

EXACT = Run("exact", exact=True)


def impossible(given: Mapping[str, Any]) -> ModelError:
    """Return the error for evidence of probability 0."""
    if not given:
        return ModelError("every instance of the model has probability 0")
    return ModelError(
        f"the evidence is impossible (its probability is 0): {shown(conditions_text(given, 8))}"
    )


def _known(model: Network, given: Given, max_memory: float | None) -> Evidence:
    """Return the evidence, with new marginals turned into likelihoods."""
    known = evidence_of(compiled(model).domain, given)
    return with_new_marginals(model, known, max_memory)


def run_of(known: Evidence) -> Run:
    """Return how an answer of exact inference was found."""
    run = replace(EXACT, by_network=known.by_network)
    if not known.to_states:
        return run
    return replace(run, note=f"known to its interval: {', '.join(known.to_states)}")


def forecast(model: Network, given: Given = None, *, max_memory: float | None = None) -> Forecast:
    """Return the cost of the marginals of all variables, without running anything."""
    ready = compiled(model)
    known = evidence_of(ready.domain, given)
    return ready.plan(tuple(known.states), max_memory, soft=known.likelihoods).forecast()


def answered(
    model: Network,
    known: Evidence,
    mode: int,
    max_memory: float | None,
    varied: Sequence[int] = (),
    targets: Sequence[int] | None = None,
    *,
    keep_tables: bool = True,
) -> tuple[Plan, FloatArray, FloatArray, IntArray]:
    """Answer possible evidence together with each joint state of some variables (see `Plan.run`)."""
    ready, codes = compiled(model), known.states
    plan = ready.plan((*codes, *varied), max_memory, targets, keep_tables, known.likelihoods)
    states = joint_codes(ready.domain.cards, varied)[:, list(varied)]
    slots = plan.slots(list(codes.values()), len(states))
    slots[:, len(codes) : len(codes) + len(varied)] = states
    log_z, flat, modes = plan.run(slots, mode, known.tilt())
    if log_z.max() == -np.inf:
        raise impossible(known.given)
    return plan, log_z, flat, modes


def marginals(
    model: Network,
    given: Given = None,
    *,
    targets: Sequence[str] | None = None,
    max_memory: float | None = None,
) -> Marginals:
    """Return the exact distribution of each variable given the evidence."""
    ready = compiled(model)
    domain = ready.domain
    known = _known(model, given, max_memory)
    wanted = None if targets is None else [domain.index(name) for name in targets]
    plan, _, flat, _ = answered(model, known, MARGINALS, max_memory, targets=wanted)
    first, place = plan.marginal_first.tolist(), plan.place.tolist()
    free = {v: flat[0, first[p] : first[p + 1]] for v, p in enumerate(place) if p >= 0}
    single = dict.fromkeys(ready.single.tolist(), 0)
    # Others were left out, because no target depends on them.
    arrays = of_all_variables(domain, free, {**single, **known.states})
    return Marginals(domain, arrays, run_of(known), targets)


def log_partition(
    model: Network, given: Given = None, *, max_memory: float | None = None
) -> LogValue:
    """Return log Z: the logarithm of the sum over all instances that agree with the evidence."""
    known = evidence_of(compiled(model).domain, given)
    no_new_marginals(known)
    log_z = log_sum(model, known, max_memory, None)
    return LogValue(log_z, run_of(known), given=dict(known.given))


def probability(
    model: Network,
    query: Given,
    given: Given = None,
    *,
    max_memory: float | None = None,
) -> Probability:
    """Return P(query | evidence), exactly."""
    known = _known(model, given, max_memory)
    below = log_sum(model, known, max_memory)
    if below == -np.inf:
        raise impossible(known.given)
    event = event_of(known.domain, query)
    together = known.both(event)
    log = log_sum(model, together, max_memory) - below
    return Probability(log, run_of(together), query=event.given, given=known.given)


def log_sum(
    model: Network,
    known: Evidence,
    max_memory: float | None,
    targets: Sequence[int] | None = (),
) -> float:
    """Return the logarithm of the sum over all instances that agree with evidence."""
    codes, soft = known.states, known.likelihoods
    plan = compiled(model).plan(tuple(codes), max_memory, targets, keep_tables=False, soft=soft)
    log_z = plan.run(plan.slots(list(codes.values())), SUM, known.tilt())[0]
    return float(log_z[0]) + known.constant


def joint(
    model: Network,
    targets: Sequence[str],
    given: Given = None,
    *,
    max_memory: float | None = None,
) -> JointProbabilities:
    """Return the joint distribution of a few variables given the evidence, exactly."""
    domain = model.domain
    evidence = _known(model, given, max_memory)
    known = evidence.states
    scope = [domain.index(name) for name in targets]
    if len(set(scope)) != len(scope):
        raise ModelError("a target is named twice")
    asked = [v for v in scope if v not in known]
    shape = [int(domain.cards[v]) for v in asked]
    size, limit = 8 * np.prod(shape, dtype=float), memory_limit(max_memory)
    if size > limit:
        raise refusal(size, None, limit)
    _, log_p, _, _ = answered(model, evidence, SUM, max_memory, asked, (), keep_tables=False)
    p = np.exp(log_p - log_p.max())
    table = np.zeros([int(domain.cards[v]) for v in scope])
    index = tuple(known.get(v, slice(None)) for v in scope)
    order = [asked.index(v) for v in scope if v not in known]
    table[index] = (p / p.sum()).reshape(shape).transpose(order) if shape else 1.0
    return JointProbabilities(domain.subset(scope), table, run_of(evidence))


def most_probable(
    model: Network, given: Given = None, *, max_memory: float | None = None
) -> Assignment:
    """Return the most probable instance that agrees with the evidence."""
    domain = model.domain
    known = _known(model, given, max_memory)
    codes = known.states
    if not set(np.flatnonzero(domain.hidden).tolist()) <= set(codes):
        from conjoin.inference import hidden_mode

        return hidden_mode.most_probable(as_markov_network(model), known, max_memory)
    plan, scores, _, states = answered(model, known, MAXIMUM, max_memory)
    row, score = whole_rows(domain, plan, states, codes)[0], float(scores[0]) + known.constant
    return Assignment(domain.decode(row), score, run_of(known), bound=score)


def whole_rows(domain: Domain, plan: Plan, states: IntArray, codes: dict[int, int]) -> Codes:
    """Return complete rows: the states of the free variables and those of the evidence."""
    rows = np.zeros((len(states), len(domain)), code_dtype(domain.cards))
    free = np.flatnonzero(plan.place >= 0)
    rows[:, free] = states[:, plan.place[free]]
    for v, state in codes.items():
        rows[:, v] = state
    return rows


def sample(
    model: Network,
    size: int,
    given: Given = None,
    *,
    random_state: int | np.random.Generator = 0,
    max_memory: float | None = None,
) -> Table:
    """Draw independent instances from the exact distribution given the evidence."""
    ready = compiled(model)
    known = _known(model, given, max_memory)
    codes = known.states
    plan = ready.plan(tuple(codes), max_memory, soft=known.likelihoods)
    uniform = np.random.default_rng(random_state).random((size, max(1, plan.n_cliques)))
    log_z, states = plan.draw(plan.slots(list(codes.values()))[0], uniform, known.tilt())
    if log_z == -np.inf:
        raise impossible(known.given)
    drawn = Table.adopt(ready.domain, whole_rows(ready.domain, plan, states, codes))
    return drawn.over(ready.domain.observed)
