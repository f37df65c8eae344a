"""Loopy belief propagation over tables and features; the cost of a feature is linear in its length.

Messages are log-values with maximum 0, one number per state for every entry of a term. For every variable
and state the sum of the finite messages is kept, and the number of those that are -inf, so that removing
one message again is exact with hard zeros, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.kernels.elimination_layouts import Terms
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Float1, Int1

THRESHOLD = 0.3
"""Each round updates the terms whose residual is at least this fraction of the largest."""

LARGE_RESIDUAL = 1e9
"""The residual of a term after a message became -inf, or ceased to be."""


class Beliefs(NamedTuple):
    """The state of belief propagation."""

    cards: Int1  # the number of states of each variable
    first: Int1  # where the states of each variable start in `sums` and `zeros`
    term_first: Int1  # where the terms of each variable start in `term`
    term: Int1  # the terms of all variables
    slot: Int1  # where the message of each entry starts in `messages`
    messages: Float1  # the messages of all entries
    sums: Float1  # for each variable and state, the sum of its finite messages
    zeros: Int1  # for each variable and state, the number of messages that are -inf
    norms: Float1  # the log-normaliser of each term with its incoming messages


class Work(NamedTuple):
    """Memory for the update of one term."""

    where: np.ndarray  # int64: where the incoming message of each entry starts in `incoming`
    counter: np.ndarray  # int64: the joint state of a table
    incoming: np.ndarray  # the incoming messages
    factor: np.ndarray  # one number per entry of a feature
    prefix: np.ndarray  # the product of the factors before each entry
    new: np.ndarray  # the new messages, at their slots


@inner
def _work_for(terms, beliefs):
    longest, widest = 1, 1
    for t in range(len(terms.first) - 1):
        longest = max(longest, terms.first[t + 1] - terms.first[t])
        width = 0
        for e in range(terms.first[t], terms.first[t + 1]):
            width += beliefs.cards[terms.var[e]]
        widest = max(widest, width)
    return Work(
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
        np.empty(widest),
        np.empty(longest),
        np.empty(longest + 1),
        np.empty(len(beliefs.messages)),
    )


@inner
def _cavity(e, v, beliefs, out):
    """Write the product of a variable's messages except that of one entry."""
    low = beliefs.first[v]
    for s in range(beliefs.cards[v]):
        own = beliefs.messages[beliefs.slot[e] + s]
        total, zeros = beliefs.sums[low + s], beliefs.zeros[low + s]
        if own == -np.inf:
            out[s] = -np.inf if zeros > 1 else total
        else:
            out[s] = -np.inf if zeros > 0 else total - own


@inner
def _normalized(values):
    """Turn log-values into probabilities; return the log-norm."""
    top = -np.inf
    for s in range(len(values)):
        top = max(top, values[s])
    if top == -np.inf:
        return top
    total = 0.0
    for s in range(len(values)):
        values[s] = np.exp(values[s] - top)
        total += values[s]
    for s in range(len(values)):
        values[s] /= total
    return top + np.log(total)


@inner
def _mixture(weight, p):
    """Return log((1 - p) + p exp(weight))."""
    if weight <= 0:
        inside = (1 - p) + p * np.exp(weight)
        return np.log(inside) if inside > 0 else -np.inf
    return weight + np.log(p + (1 - p) * np.exp(-weight))


@inner
def _set_probabilities(low, high, terms, beliefs, work):
    """Write the probability of each test, and the products of the probabilities before it."""
    work.prefix[0] = 1.0
    for i in range(high - low):
        e = low + i
        p = 0.0
        for s in range(beliefs.cards[terms.var[e]]):
            p += work.incoming[work.where[i] + s] * terms.numbers[terms.arg[e] + s]
        work.factor[i] = p
        work.prefix[i + 1] = work.prefix[i] * p


@inner
def _feature_messages(low, high, weight, terms, beliefs, work):
    """Write the messages of exp(weight) where all tests hold and 1 elsewhere; return the log-norm."""
    _set_probabilities(low, high, terms, beliefs, work)
    after = 1.0
    for i in range(high - low - 1, -1, -1):
        e = low + i
        inside = _mixture(weight, min(work.prefix[i] * after, 1.0))
        for s in range(beliefs.cards[terms.var[e]]):
            holds = terms.numbers[terms.arg[e] + s] != 0
            work.new[beliefs.slot[e] + s] = inside if holds else 0.0
        after *= work.factor[i]
    return _mixture(weight, min(after, 1.0))


@inner
def _advance(low, count, at, terms, cards, counter):
    """Move to the next cell of a table; return its position, or -1 after the last."""
    d = count - 1
    while d >= 0:
        stride, card = terms.arg[low + d], cards[terms.var[low + d]]
        counter[d] += 1
        at += stride
        if counter[d] < card:
            return at
        at -= stride * card
        counter[d] = 0
        d -= 1
    return -1


@inner
def _others(i, count, product, work):
    """Multiply a value with the incoming messages of all entries but one."""
    for j in range(count):
        if j != i:
            product *= work.incoming[work.where[j] + work.counter[j]]
    return product


@inner
def _table_messages(low, high, base, terms, beliefs, work):
    """Write the messages of a table, from all its cells; return the log-norm."""
    count = high - low
    cells = 1
    for i in range(count):
        work.counter[i] = 0
        card = beliefs.cards[terms.var[low + i]]
        cells *= card
        for s in range(card):
            work.new[beliefs.slot[low + i] + s] = 0.0
    top = -np.inf  # sums are taken relative to the largest value
    for at in range(base, base + cells):
        top = max(top, terms.values[at])
    norm = 0.0
    at = base
    while at >= 0:
        value = terms.values[at]
        if value > -np.inf:
            cell = np.exp(value - top)
            for i in range(count):
                rest = _others(i, count, cell, work)
                work.new[beliefs.slot[low + i] + work.counter[i]] += rest
                if i == 0:
                    norm += rest * work.incoming[work.where[0] + work.counter[0]]
        at = _advance(low, count, at, terms, beliefs.cards, work.counter)
    for e in range(low, high):
        for s in range(beliefs.cards[terms.var[e]]):
            p = work.new[beliefs.slot[e] + s]
            work.new[beliefs.slot[e] + s] = np.log(p) if p > 0 else -np.inf
    return top + np.log(norm) if norm > 0 else -np.inf


@inner
def _compute_messages(t, terms, beliefs, work):
    """Write the new messages of a term; return False if a variable has no possible state."""
    low, high = terms.first[t], terms.first[t + 1]
    n_tables = len(terms.bases)
    at = 0
    for i in range(high - low):
        v = terms.var[low + i]
        work.where[i] = at
        part = work.incoming[at : at + beliefs.cards[v]]
        _cavity(low + i, v, beliefs, part)
        if _normalized(part) == -np.inf:
            return False
        at += len(part)
    if t < n_tables:
        base = terms.bases[t]
        beliefs.norms[t] = _table_messages(low, high, base, terms, beliefs, work)
        return True
    weight = terms.weights[t - n_tables]
    beliefs.norms[t] = _feature_messages(low, high, weight, terms, beliefs, work)
    return True


@inner
def _replace_message(e, v, damping, beliefs, new):
    """Replace the message of an entry, with damping.

    Returns the largest change of a finite value, and whether a value became -inf or ceased to be; the
    change is infinite if every value of the new message is -inf.
    """
    slot, first = beliefs.slot[e], beliefs.first[v]
    top = -np.inf
    for s in range(beliefs.cards[v]):
        top = max(top, new[slot + s])
    if top == -np.inf:
        return np.inf, True
    change, jumped = 0.0, False
    for s in range(beliefs.cards[v]):
        old, value = beliefs.messages[slot + s], new[slot + s] - top
        if value > -np.inf and old > -np.inf:
            value = (1 - damping) * value + damping * old
            change = max(change, abs(value - old))
            beliefs.sums[first + s] += value - old
        elif value > -np.inf:
            beliefs.zeros[first + s] -= 1
            beliefs.sums[first + s] += value
            jumped = True
        elif old > -np.inf:
            beliefs.zeros[first + s] += 1
            beliefs.sums[first + s] -= old
            jumped = True
        beliefs.messages[slot + s] = value
    return change, jumped


@inner
def _largest(values):
    result = 0.0
    for i in range(len(values)):
        result = max(result, values[i])
    return result


@compiled
def propagate(
    terms: Terms,
    damping: float,
    max_updates: int,
    tolerance: float,
    beliefs: Beliefs,
) -> tuple[int, float]:
    """Update the messages of terms, those with the largest residuals first.

    The residual of a term is how far the beliefs of its variables have moved since it was last updated.
    Returns the number of updates, at most `max_updates`, and the largest residual: below `tolerance` if
    the messages have converged, infinite if a variable has no possible state.
    """
    n_terms = len(terms.first) - 1
    work = _work_for(terms, beliefs)
    residual = np.full(n_terms, np.inf)
    updates = 0
    while updates < max_updates:
        largest = _largest(residual)
        if largest < tolerance:
            return updates, largest
        threshold = max(tolerance, THRESHOLD * largest) if largest < np.inf else np.inf
        for t in range(n_terms):
            if residual[t] < threshold:
                continue
            residual[t] = 0.0
            updates += 1
            if not _compute_messages(t, terms, beliefs, work):
                return updates, np.inf
            for e in range(terms.first[t], terms.first[t + 1]):
                v = terms.var[e]
                change, jumped = _replace_message(e, v, damping, beliefs, work.new)
                if change == np.inf:
                    return updates, np.inf
                residual[t] = max(residual[t], change * damping / (1 - damping))
                moved = LARGE_RESIDUAL if jumped else min(change, LARGE_RESIDUAL)
                if moved > 0:
                    for i in range(beliefs.term_first[v], beliefs.term_first[v + 1]):
                        other = beliefs.term[i]
                        if other != t:
                            residual[other] = max(residual[other], moved)
    return updates, _largest(residual)


@compiled
def bethe(terms: Terms, beliefs: Beliefs) -> float:
    """Return the Bethe estimate of log Z at a fixed point."""
    result = 0.0
    widest = np.int64(_largest(beliefs.cards))
    room = np.empty(widest if widest > 1 else 1)
    for v in range(len(beliefs.cards)):
        values = room[: beliefs.cards[v]]
        for s in range(len(values)):
            at = beliefs.first[v] + s
            values[s] = beliefs.sums[at] if beliefs.zeros[at] == 0 else -np.inf
        result += _normalized(values)
    for t in range(len(terms.first) - 1):
        result += beliefs.norms[t]
        for e in range(terms.first[t], terms.first[t + 1]):
            v = terms.var[e]
            values = room[: beliefs.cards[v]]
            _cavity(e, v, beliefs, values)
            _normalized(values)
            joint = 0.0
            for s in range(len(values)):
                message = beliefs.messages[beliefs.slot[e] + s]
                if message > -np.inf:
                    joint += values[s] * np.exp(message)
            result -= np.log(joint)
    return result
