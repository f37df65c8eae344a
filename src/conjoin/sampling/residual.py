"""Marginals of a few variables given all others, for many rows (the paper's Section 6.2).

The features of a network are projected on the free variables once; each row of the known ones then only
chooses weights. Equal projections are one, so little is left of a network of many long features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray
from conjoin.data.packed_table import pack_bits
from conjoin.data.row_hashing import code_numbers, group_equal, row_keys
from conjoin.models.features import Features, segment_index
from conjoin.sampling.rules import Rules

MAX_BITS = 64
"""The states of all free variables together that fit into one word."""

EXPANDED = 2
"""Conjunctions of up to so many tests on binary variables are written as products of x = 1."""

MAX_SOFT = 8
"""The most free tests of a feature with off values."""

MAX_BYTES = 1 << 28
"""How much memory the bit sets of features may take."""


@dataclass(frozen=True, eq=False)
class Residual:
    """Features projected on free variables: the arrays that `kernels.residual` reads.

    Attributes
    ----------
    cards, bit : arrays of int
        The number of states of each free variable, and where its bits start in a word.
    first_line : array of int
        Where the lines of each start.
    slot_mask, slot_ptr : arrays
        The states that each slot forbids, and where the slots of each line start.
    arrays : tuple
        All that the kernel wants to know of the features, in its order.
    """

    cards: IntArray
    bit: IntArray
    first_line: IntArray
    slot_mask: UIntArray
    slot_ptr: IntArray
    arrays: tuple[Any, ...]


def fits(rules: Rules, free: Sequence[int]) -> bool:
    """Tell whether `project` can be used for these free variables."""
    cards, features = rules.domain.cards, rules.features
    if int(cards[list(free)].sum()) > MAX_BITS or len(free) > MAX_BITS:
        return False
    if (int(cards.sum()) * len(features)) // 8 > MAX_BYTES:
        return False
    soft = features.soft_rows()
    if not soft.any():
        return True
    inside = np.isin(features.entry_var, list(free))
    counts = np.bincount(features.entry_feature[inside], minlength=len(features))
    return int(counts[soft].max(initial=0)) <= MAX_SOFT


def project(rules: Rules, free: Sequence[int]) -> Residual:
    """Project the features of a network on some variables; all others will be known."""
    cards = rules.domain.cards
    free_at = np.array(sorted(free), np.int64)
    local = np.full(len(cards), -1, np.int64)
    local[free_at] = np.arange(len(free_at))
    features, owner = relevant(rules, local)
    soft = features.soft_rows()
    residual_of = equal_projections(features, owner, soft, local)
    # Plain features first, those with one projection side by side.
    place = np.lexsort((residual_of, soft))
    features, residual_of = features.select(place), residual_of[place]
    hard = int((~soft).sum())
    first = np.unique(residual_of, return_index=True)[1]
    cards_in = cards[free_at]
    bit = np.cumsum(cards_in) - cards_in
    lines = _lines(
        features.select(first), None if owner is None else owner[place][first], local, cards_in, bit
    )
    test_var = features.tests.var.astype(np.int64)
    known = local[test_var] < 0
    first_state, dead = _ruled_out(features, hard, known, local)
    soft_ptr, soft_test, soft_off = _known_tests(features, hard, known)
    head = (
        first_state, dead, features.weights, residual_of, np.arange(hard, len(features)), soft_ptr,
        soft_test, soft_off, test_var, features.tests.mask,
    )  # fmt: skip
    slot_mask, slot_ptr, first_line = lines[3], lines[5], lines[7]
    # All alike in memory, so that the kernel is compiled once.
    arrays = tuple(np.require(a, requirements=["C", "W"]) for a in (*head, *lines[:7]))
    return Residual(cards_in, bit, first_line, slot_mask, slot_ptr, arrays)


def relevant(rules: Rules, local: IntArray) -> tuple[Features, IntArray | None]:
    """Return the features that enter the log-odds of a free variable."""
    features, owner = rules.features, rules.owner
    if owner is None:
        keep = np.zeros(len(features), bool)
        keep[features.entry_feature[local[features.entry_var] >= 0]] = True
    else:
        keep = local[owner] >= 0
    rows = np.flatnonzero(keep)
    return features.select(rows), None if owner is None else owner[rows]


def equal_projections(
    features: Features, owner: IntArray | None, soft: BoolArray, local: IntArray
) -> IntArray:
    """Number the projections of features on the free variables, equal ones alike.

    Those with off values stay apart, and so do those of two owners.
    """
    inside = local[features.entry_var] >= 0
    indptr = np.concatenate([[0], np.cumsum(inside)])[features.indptr]
    keys = row_keys(indptr, features.indices[inside], code_numbers(len(features.tests)))
    salt = np.zeros(len(features), np.uint64)
    if owner is not None:
        salt += code_numbers(len(local))[0][owner]
    if soft.any():
        salt[soft] += code_numbers(len(features))[1][soft]
    order, starts, _ = group_equal(keys[0] + salt, keys[1] ^ salt)
    number = np.empty(len(features), np.int64)
    number[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    return number


def _ruled_out(
    features: Features, hard: int, known: BoolArray, local: IntArray
) -> tuple[IntArray, UIntArray]:
    """Return, for each state of each known variable, the plain features that it rules out, as bits."""
    cards = features.tests.cards
    first_state = np.where(local < 0, np.cumsum(cards) - cards, -1)
    words = -(-hard // 64)
    dead = np.zeros((int(cards.sum()), words), np.uint64)
    entries = slice(0, int(features.indptr[hard]))
    test = features.indices[entries].astype(np.int64)
    feature = features.entry_feature[entries]
    order = np.argsort(test, kind="stable")
    order = order[known[test[order]]]
    test, feature = test[order], feature[order]
    bounds = np.searchsorted(test, np.arange(len(known) + 1))
    members = features.tests.members()
    for t in np.flatnonzero(np.diff(bounds)).tolist():
        has = np.zeros(words * 64, bool)
        has[feature[bounds[t] : bounds[t + 1]]] = True
        v = int(features.tests.var[t])
        fails = np.flatnonzero(~members[t, : cards[v]])
        dead[first_state[v] + fails] |= pack_bits(has)
    return first_state, dead


def _known_tests(
    features: Features, hard: int, known: BoolArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the tests on known variables of the features with off values."""
    low = int(features.indptr[hard])
    inside = known[features.indices[low:]]
    indptr = np.concatenate([[0], np.cumsum(inside)])[features.indptr[hard:] - low]
    test = features.indices[low:][inside].astype(np.int64)
    return indptr.astype(np.int64), test, features.off_values()[low:][inside]


def _lines(
    features: Features, owner: IntArray | None, local: IntArray, cards: IntArray, bit: IntArray
) -> tuple[Any, ...]:
    """Write projections as terms of the log-odds of the free variables.

    A binary variable has one line, the log-odds of its state 1; others have one a state. A test on
    another variable is ``c0 + c1 [no forbidden state]``; the product of several is multiplied out, and
    the terms with one mask are one slot of the line.
    """
    tests = features.tests
    n_lines = np.where(cards == 2, 1, np.where(cards == 1, 0, cards))
    first_line = np.cumsum(n_lines) - n_lines
    line_var = np.repeat(np.arange(len(cards)), n_lines)
    used = np.flatnonzero(local[tests.var] >= 0)
    where = np.full(len(tests), -1, np.int64)
    where[used] = np.arange(len(used))
    var = local[tests.var[used]]
    card = cards[var]
    member = tests.members(used, int(cards.max(initial=1)))
    states = np.arange(member.shape[1])
    shift = np.minimum(bit[var][:, None] + states, 63).astype(np.uint64)
    beyond = states >= card[:, None]
    forbids = np.where(member | beyond, np.uint64(0), np.uint64(1) << shift)
    mask = np.bitwise_or.reduce(forbids, axis=1)
    zero_bit = np.uint64(1) << bit[var].astype(np.uint64)
    negative = (card == 2) & member[:, 0]  # the test x = 0

    out: list[tuple[npt.NDArray[Any], ...]] = []
    inside = local[features.entry_var] >= 0
    indptr = np.concatenate([[0], np.cumsum(inside)])[features.indptr]
    test = where[features.indices[inside]]
    off = features.off_values()[inside]
    soft = features.soft_rows()
    lengths = np.diff(indptr)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        entry = indptr[rows][:, None] + np.arange(length)
        t, o = test[entry], off[entry]
        short = length - 1 <= EXPANDED
        expand = soft[rows][:, None] | (negative[t] & short)
        turned = expand & negative[t]
        c0 = np.where(turned, 1.0, np.where(expand, o, 0.0))
        c1 = np.where(turned, o - 1.0, np.where(expand, 1.0 - o, 1.0))
        m = np.where(turned, zero_bit[t], mask[t])
        scope = np.uint64(1) << var[t].astype(np.uint64)
        for j in range(int(length)):
            mine = np.arange(len(rows))
            if owner is not None:
                mine = np.flatnonzero(var[t[:, j]] == local[owner[rows]])
            terms = [(mine, np.ones(len(mine)), *(np.zeros(len(mine), np.uint64),) * 2)]
            for i in range(int(length)):
                if i != j:
                    terms = _times(terms, c0[:, i], c1[:, i], m[:, i], scope[:, i])
            for at, coef, masks, scopes in terms:
                out.append((rows[at], t[at, j], coef * (1.0 - o[at, j]), masks, scopes))
    if not out:
        out.append((np.zeros(0, np.int64),) * 2 + (np.zeros(0),) + (np.zeros(0, np.uint64),) * 2)
    residual, own, coef, masks, scopes = (np.concatenate(parts) for parts in zip(*out, strict=True))
    # One record for each line that the owner's test speaks of.
    binary = card[own] == 2
    count = np.where(binary, 1, member.sum(1)[own])
    record = np.repeat(np.arange(len(own)), count)
    state_at = np.argsort(~member, axis=1, kind="stable")  # members first
    step = segment_index(np.zeros(len(own), np.int64), count)
    line = first_line[var[own[record]]] + np.where(binary[record], 0, state_at[own[record], step])
    sign = np.where(binary & negative[own], -1.0, 1.0)
    coef, masks, scopes = (coef * sign)[record], masks[record], scopes[record]
    order = np.lexsort((masks, line))
    new = np.ones(len(order), bool)
    new[1:] = (line[order][1:] != line[order][:-1]) | (masks[order][1:] != masks[order][:-1])
    slot = np.empty(len(order), np.int64)
    slot[order] = np.cumsum(new) - 1
    starts = order[new]
    slot_ptr = np.searchsorted(line[starts], np.arange(len(line_var) + 1))
    by_residual = np.argsort(residual[record], kind="stable")
    res_ptr = np.searchsorted(residual[record][by_residual], np.arange(len(features) + 1))
    return (
        res_ptr.astype(np.int64), slot[by_residual], coef[by_residual], masks[starts],
        scopes[starts], slot_ptr.astype(np.int64), line_var.astype(np.int64), first_line,
    )  # fmt: skip


def _times(
    terms: list[tuple[Any, ...]], c0: FloatArray, c1: FloatArray, mask: UIntArray, scope: UIntArray
) -> list[tuple[Any, ...]]:
    """Multiply terms by c0 + c1 [mask]; what is 0 is left out."""
    result = []
    for at, coef, masks, scopes in terms:
        for factor, more, wider in ((c0, np.uint64(0), np.uint64(0)), (c1, mask, scope)):
            some = np.flatnonzero(factor[at])
            if len(some):
                to = at[some]
                extra = more if isinstance(more, np.uint64) else more[to]
                wide = wider if isinstance(wider, np.uint64) else wider[to]
                result.append(
                    (to, coef[some] * factor[to], masks[some] | extra, scopes[some] | wide)
                )
    return result
