"""Rules that a user states as text, beside those that are found in the table."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from conjoin.data.domain import Domain
from conjoin.data.rule_search import find_rules
from conjoin.data.rules import Arithmetic, Determines, Order, Rule, in_order, rule_values
from conjoin.data.table import Table
from conjoin.errors import DataError, did_you_mean

AUTO = "auto"
"""What stands for all rules that the table suggests."""

MAX_STATED_EXCEPTIONS = 0.05
"""The largest share of exceptions to a rule that a user states."""


def rules_of(table: Table, wanted: str | Sequence[str] | None = AUTO) -> tuple[Rule, ...]:
    """Return rules: those that hold in a table for "auto", and those that are stated as text.

    Examples
    --------
    >>> domain = Domain({"rain": [0, 1, 2], "wet": [0, 1, 2]})
    >>> table = Table(domain, [[0, 0], [0, 1], [1, 1], [1, 2], [2, 2]])
    >>> [rule.text for rule in rules_of(table, ["rain <= wet"])]
    ['rain ≤ wet']
    """
    stated = [wanted] if isinstance(wanted, str) else list(wanted or ())
    table = table if table.sample is None else table.sample
    rules = {rule.text: rule for rule in (find_rules(table) if AUTO in stated else ())}
    for text in stated:
        if text != AUTO:
            rule = stated_rule(text, table.domain, table)
            rules[rule.text] = rule
    return in_order(rules.values())


def stated_rule(text: str, domain: Domain, table: Table | None = None) -> Rule:
    """Read a rule: ``a <= b``, ``y = a + b``, ``y = a * b`` or ``a -> b``, which takes a table."""
    rule = _read(text, domain)
    rule.check(domain)
    if isinstance(rule, Determines) and table is None:
        raise DataError(
            f"the rule {text!r} is learned from a table; give it when the model is learned"
        )
    if table is None:
        return rule
    values = rule_values(table, rule.columns)
    if isinstance(rule, Determines):
        rule = Determines.learn(rule.source, rule.target, values, table.weights)
    rule = rule.counted(values, table.weights)
    if rule.exceptions > MAX_STATED_EXCEPTIONS * rule.support:
        row = int(np.flatnonzero(rule.broken(values))[0])
        raise DataError(
            f"the rule {text!r} does not hold: {rule.exceptions:,} of {rule.support:,} rows break it, "
            f"row {row + 1} for one; leave the rule out, or correct the table"
        )
    return rule


def _read(text: str, domain: Domain) -> Rule:
    """Read the text of a rule; names may contain the signs of rules, and be in double quotes."""
    errors = []
    for sign in ("->", "→", "<=", "≤", ">=", "≥", "="):
        for place in re.finditer(sign, text):
            try:
                return _relation(text[: place.start()], sign, text[place.end() :], domain)
            except DataError as error:
                errors.append(error)
    if errors:
        raise errors[0]
    raise DataError(
        f"{text!r} is no rule; write 'a <= b', 'total = price * quantity', 'total = net + tax' or "
        "'product -> category', with names of columns"
    )


def _relation(left: str, sign: str, right: str, domain: Domain) -> Rule:
    """Return the rule with this sign between its two sides."""
    if sign == "=":
        product = "*" in right or "×" in right
        terms = right.replace("×", "*").split("*" if product else "+")
        target, *names = (_name(part, domain) for part in (left, *terms))
        return Arithmetic.of(target, names, domain, product=product)
    ends = _name(left, domain), _name(right, domain)
    if sign in ("->", "→"):
        return Determines(*ends, (0.0,), (0.0,))
    return Order(*(ends if sign in ("<=", "≤") else ends[::-1]))


def _name(text: str, domain: Domain) -> str:
    name = text.strip()
    if name not in domain.names and name[:1] == name[-1:] == '"':
        name = name[1:-1]
    if name not in domain.names:
        raise DataError(f"there is no column {name!r}. " + did_you_mean(name, domain.names))
    return name
