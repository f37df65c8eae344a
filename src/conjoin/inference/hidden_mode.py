"""The most probable instance of a network with hidden columns, which are summed out.

For each hidden state the best instance of the visible variables is found exactly. The probability of
each of these, with the hidden columns summed out, decides between them, and the best ones are improved by
changes of single variables. No instance can be more probable than the sum, over all hidden states, of
the probability of the best instance with that state.
"""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.table import Codes
from conjoin.inference.evidence import Evidence
from conjoin.inference.exact import answered, whole_rows
from conjoin.inference.results import Assignment, Run
from conjoin.inference.soft_evidence import weighted_markov_network
from conjoin.kernels.elimination_layouts import MAXIMUM
from conjoin.models.hidden_states import HiddenStates, log_sum
from conjoin.models.markov import MarkovNetwork

TOLERANCE = 1e-9
"""An instance whose score is this close to the bound is the most probable one."""

CANDIDATES = 16
"""Maximum number of instances that are improved."""

MAX_CHANGES = 1000
"""Maximum number of changes of single variables per row."""


def most_probable(model: MarkovNetwork, known: Evidence, max_memory: float | None) -> Assignment:
    """Return the best instance found that agrees with the evidence, and an upper bound."""
    domain = model.domain
    codes = known.states
    summed = [v for v in np.flatnonzero(domain.hidden).tolist() if v not in codes]
    plan, best, _, modes = answered(model, known, MAXIMUM, max_memory, summed)
    bound = float(log_sum(best[None])[0])
    model = weighted_markov_network(model, known.likelihoods)
    rows = whole_rows(domain, plan, modes[best > -np.inf], codes)
    rows[:, summed] = np.iinfo(rows.dtype).max
    rows = np.unique(rows, axis=0)
    rows = rows[np.argsort(-model.log_potential(rows), kind="stable")[:CANDIDATES]]
    free = np.array([[v not in codes for v in range(len(domain.observed))]]).repeat(len(rows), 0)
    rows, scores = improved(model.hidden_states, rows, free)
    row, score = rows[scores.argmax()], float(scores.max())
    exact = bound - score <= TOLERANCE
    better = f"best found; no instance is more than {max(0.0, bound - score):.2g} nats better"
    run = Run("exact", exact=exact, note="" if exact else better)
    shown = [v for v in range(len(domain)) if v not in summed]
    return Assignment(
        domain.subset(shown).decode(row[shown]),
        score + known.constant,
        run,
        bound=max(bound, score) + known.constant,
    )


def improved(states: HiddenStates, rows: Codes, free: BoolArray) -> tuple[Codes, FloatArray]:
    """Change one free variable of each row at a time for as long as that makes the row more probable."""
    cards = states.domain.observed.cards
    rows = rows.copy()
    owner = np.repeat(np.arange(len(cards)), cards)
    state = np.arange(len(owner)) - np.repeat(np.cumsum(cards) - cards, cards)
    scores = states.log_potential(rows)
    todo = np.flatnonzero(free.any(axis=1))
    for _ in range(MAX_CHANGES):
        if not len(todo):
            break
        logs = states.log_changes(rows[todo])
        logs[~free[todo][:, owner]] = -np.inf
        best = logs.argmax(axis=1)
        better = logs[np.arange(len(todo)), best] > scores[todo] + 1e-12
        todo, best = todo[better], best[better]
        rows[todo, owner[best]] = state[best]
        scores[todo] = states.log_potential(rows[todo])
    return rows, scores
