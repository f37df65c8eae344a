"""Keeping the rules of a model in rows that it draws or fills in.

Rows that break a rule have one of its columns computed from the others. Rules take turns, and a column
that an earlier rule has used is not changed any more: if the total is price times quantity, and also net
plus tax, then the total is computed first and the net after it; but if net and tax are known, the
total is computed from these, and then the price. Only cells that are *free* are changed: no evidence,
and no value that a row had.

Drawn rows that break a rule nevertheless are replaced by other draws, some times; this is how orders are
kept. Where that does not help, a number moves to the nearest value that the order allows. Rows of
which too much is known keep what cannot be mended.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray
from conjoin.data.rules import Order, Rule, Values, rounded, rule_values, with_rule_values
from conjoin.data.table import Table
from conjoin.errors import DataWarning
from conjoin.inference.evidence import Evidence

ATTEMPTS, SPARE = 10, 16
"""Maximum number of times that rows are drawn again; and how many more than twice those needed."""


def with_rules_kept(
    rules: Sequence[Rule], table: Table, known: Evidence, draw: Callable[[int, int], Table]
) -> Table:
    """Return drawn rows that keep rules, and agree with the evidence as before.

    `draw`: returns this number of further rows, given the number of the attempt.
    """
    if not rules or not len(table):
        return table
    fixed = {*known.values, *(known.states.keys() - known.ranges.keys())}
    free = np.array([v not in fixed for v in range(len(table.domain))])
    names = {name for name, is_free in zip(table.names, free, strict=True) if is_free}
    stated, rules = rules, [rule for rule in rules if names & set(rule.columns)]
    computed = [rule for rule in rules if not isinstance(rule, Order)]
    table = _agreeing(known, mended(computed, table, free), table)
    for attempt in range(ATTEMPTS):
        wrong = np.flatnonzero(broken(rules, table).any(axis=0))
        if not len(wrong):
            break
        others = draw(attempt, 2 * len(wrong) + SPARE)
        others = _agreeing(known, mended(computed, others, free), others)
        right = np.flatnonzero(~broken(rules, others).any(axis=0))[: len(wrong)]
        rows = np.arange(len(table))
        rows[wrong[: len(right)]] = len(table) + right
        table = table.with_rows(others).select(rows)
    table = _agreeing(known, mended(rules, table, free), table)
    warn_of_broken(stated, table, "Evidence or other rules leave no room for them")
    return table


def mended(rules: Sequence[Rule], table: Table, free: BoolArray) -> Table:
    """Return rows in which free cells are changed so that rules hold, where this is possible.

    `free`: which columns may be changed, in all rows or for each one; shape (columns,) or
    (rows, columns).
    """
    names = sorted({name for rule in rules for name in rule.columns})
    values = {name: x.copy() for name, x in rule_values(table, names).items()}
    todo = np.flatnonzero(broken(rules, table).any(axis=0))
    if not len(todo):
        return table
    places = [table.domain.index(name) for name in names]
    cells = np.broadcast_to(free, table.codes.shape)[todo][:, places]
    patterns, at = np.unique(cells, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        rows = todo[np.ravel(at) == k]
        part = {name: x[rows] for name, x in values.items()}
        can_change = {name for name, is_free in zip(names, pattern, strict=True) if is_free}
        _mend(rules, table, part, can_change)
        for name in can_change:
            values[name][rows] = part[name]
    return with_rule_values(table, values)


def _mend(
    rules: Sequence[Rule], table: Table, values: dict[str, FloatArray], free: set[str]
) -> None:
    """Change the values of free columns so that rules hold, one rule after another."""
    open_columns, left = set(free), list(rules)
    while left:
        rule = min(left, key=lambda r: _turn(r, left, open_columns))
        left.remove(rule)
        broken = rule.broken(values)
        column = next((c for c in rule.columns if c in open_columns), None)
        if column is not None and broken.any():
            new = rounded(table.domain[column], rule.implied(values, column))
            values[column] = np.where(broken & ~np.isnan(new), new, values[column])
        open_columns -= set(rule.columns)


def _turn(rule: Rule, left: Sequence[Rule], open_columns: set[str]) -> tuple[bool, bool]:
    """Return when it is a rule's turn: rules that leave no choice come first.

    Then those whose columns, but for the first, are not computed by other rules.
    """
    choice = len(open_columns.intersection(rule.columns)) > 1
    return choice, any(other.columns[0] in rule.columns[1:] for other in left)


def _agreeing(known: Evidence, table: Table, before: Table) -> Table:
    """Return rows as they are, or as they were before where they do not agree with evidence any more."""
    agree = np.ones(len(table), bool)
    for v, log_weights in known.likelihoods.items():
        agree &= ~np.isneginf(np.append(log_weights, 0.0)[table.signed_codes()[:, v]])
    for v, (low, high) in known.ranges.items():
        x = rule_values(table, [table.domain.names[v]])[table.domain.names[v]]
        agree &= ~((x < low) | (x > high))
    if agree.all():
        return table
    rows = np.where(agree, np.arange(len(table)), len(table) + np.arange(len(table)))
    return table.with_rows(before).select(rows)


def broken(rules: Sequence[Rule], table: Table) -> BoolArray:
    """Return which rules are broken by which rows; shape (rules, rows)."""
    values: Values = rule_values(table, {name for rule in rules for name in rule.columns})
    found = np.zeros((len(rules), len(table)), bool)
    for i, rule in enumerate(rules):
        found[i] = rule.broken(values)
    return found


def warn_of_broken(rules: Sequence[Rule], table: Table, why: str) -> None:
    """Warn once of the rules that rows break."""
    counts = broken(rules, table).sum(axis=1)
    if counts.any():
        listed = [f"{r.text} ({n:,})" for r, n in zip(rules, counts, strict=True) if n]
        warnings.warn(
            f"{len(listed)} rule{'s' * (len(listed) > 1)} cannot be kept in all of the {len(table):,} "
            f"rows: {'; '.join(listed)}. {why}",
            DataWarning,
            stacklevel=4,
        )
