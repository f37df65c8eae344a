"""Which rules hold in a table: finding them, and reading those that a user states.

A rule that is found is broken by at most 0.5% of the rows that know all of its columns, and it is no
coincidence. It says something that its parts do not: at least 30 rows, and 20 times as many as the
exceptions, would break it if

- `a → b`: the value of b were always its most frequent one. A row counts as an exception unless the other
  rows with the same value of a have its value of b, so a value of a that occurs once is no support, and
  values must occur five times on average;
- `a ≤ b`: the columns were independent; this must be at least 5% of the rows, so that columns whose
  ranges hardly overlap have no order. And as many rows must keep the order as narrowly as the exceptions
  break it: wrong values are far off, whereas an order that is no rule fades away;
- `y = a + b`, `y = a × b`: any term were left out, or the rows of y were in another order. Sums have up
  to four terms, products up to three.

Rules that follow from others are left out: orders and functions by way of a third column, orders within a
sum or product, functions of equivalent columns (one of these stands for all), sums and orders of equal
columns, longer sums for a number that has a shorter one.

The search screens a sample of rows for pairs and combinations, and tests what is left on all rows. Where
there are more combinations of numbers than `MAX_COMBINATIONS` (of two in tables of more than 400
numbers, of three of more than 110, of four of more than 55), it skips these sums and products; and it
tests the first `MAX_TESTS` functions that the screen lets pass. In tables of more than `MAX_CELLS`
values, it sees a sample of rows only. The order of rows and columns does not change the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from math import comb

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.row_hashing import content_order, in_content_order
from conjoin.data.rules import (
    Arithmetic,
    Determines,
    Order,
    Rule,
    differ,
    half_step,
    has_numbers,
    in_order,
    pair_counts,
    ranks,
    rule_values,
)
from conjoin.data.table import Table

MAX_EXCEPTIONS, MIN_TELLING, TELLING_PER_EXCEPTION = 0.005, 30, 20
"""The largest share of exceptions; the least number of rows that would break a rule if it said nothing,
and the least multiple of the exceptions."""

ROWS_PER_KEY, MIN_DISTINCT, MIN_OVERLAP = 5, 3, 0.05
"""How often a value that determines another column occurs on average; the least number of different
values of a number in a rule; and the share of rows that would break an order of independent columns."""

SCREENED_ROWS, SCREENED_CELLS, SCREENED_SHARE = 2048, 1 << 30, 6
"""Maximum number of rows in the sample, and of these times pairs of columns; and how many times rarer
than by chance differences must be in the sample for a function."""

SUM_SIZES, PRODUCT_SIZES = (2, 3, 4), (2, 3)
"""Numbers of terms of sums and of products."""

MAX_COMBINATIONS, FIRST_ROWS, BLOCK = 1 << 25, 4, 1 << 22
"""Maximum number of combinations of terms and targets of sums and products; number of rows that suggest
them; and number of combinations that are looked at together."""

MAX_TESTS, MAX_CELLS = 1 << 13, 1 << 26
"""Maximum number of functions that are tested on all rows, and of values in these rows."""


def find_rules(table: Table) -> tuple[Rule, ...]:
    """Return the rules that hold in a table (see the module)."""
    if len(table) < MIN_TELLING:
        return ()
    if table.codes.size > MAX_CELLS:
        rows = np.linspace(0, len(table) - 1, MAX_CELLS // len(table.domain)).astype(np.int64)
        table = in_content_order(table).select(rows)
    search = _Search(table)
    equal = search.equal_columns()
    copies = {rule.columns[0] for rule in equal}
    numbers = [name for name in search.numbers if name not in copies]
    functions = search.functions([name for name in search.names if name not in copies])
    rules = [
        *functions,
        *equal,
        *search.arithmetic(numbers, SUM_SIZES, product=False),
        *search.arithmetic(numbers, PRODUCT_SIZES, product=True),
    ]
    orders = search.orders(numbers)
    implied = [set(rule.columns) for rule in rules]
    rules += [rule for rule in orders if not any({rule.low, rule.high} <= s for s in implied)]
    return in_order(rules)


def _telling(exceptions: float, support: float, otherwise: float) -> bool:
    """Return whether a rule holds, and would not if it said nothing: `otherwise` rows would break it."""
    few = exceptions <= MAX_EXCEPTIONS * support
    return bool(few and otherwise >= max(MIN_TELLING, TELLING_PER_EXCEPTION * exceptions))


class _Search:
    """The columns of a table, and a sample of its rows."""

    def __init__(self, table: Table) -> None:
        self.domain, self.names = table.domain, table.domain.sorted_names()
        self.values = rule_values(table, self.names)
        self.weights = np.ones(len(table)) if table.weights is None else table.weights
        self.codes = {name: ranks(self.values[name]) for name in self.names}
        self.distinct = {name: int(codes.max()) + 1 for name, codes in self.codes.items()}
        self.numbers = [
            name
            for name in self.names
            if has_numbers(self.domain[name]) and self.distinct[name] >= MIN_DISTINCT
        ]
        columns = np.stack([self.values[name] for name in self.names], axis=1)
        self.order = content_order(columns, self.weights)
        count = min(len(table), SCREENED_ROWS, max(256, SCREENED_CELLS // len(self.names) ** 2))
        self.rows = self.order[np.linspace(0, len(table) - 1, count).astype(np.int64)]

    def sampled(self, names: Sequence[str]) -> FloatArray:
        """Return the sampled rows of columns."""
        columns = np.array([self.values[name][self.rows] for name in names], np.float64)
        return columns.reshape(len(names), len(self.rows)).T

    def count(self, rows: BoolArray) -> float:
        """Return the weight of rows."""
        return float(self.weights[rows].sum())

    def kind(self, name: str) -> str:
        """Return what a number can be compared with: numbers, dates, or dates with a time."""
        numbers = self.domain[name].numbers
        return "number" if numbers is None else numbers.scale.kind

    # ---- orders

    def orders(self, names: Sequence[str]) -> list[Order]:
        """Return the orders of pairs of columns, without those that follow from two others."""
        rules = {}
        for low, high in self._never_above(names):
            above = self._above_by_chance(low, high)
            if above >= MIN_OVERLAP:
                rule = Order(low, high).counted(self.values, self.weights)
                otherwise = min(above * rule.support, self._near(rule))
                if _telling(rule.exceptions, rule.support, otherwise):
                    rules[low, high] = rule
        return [
            rule for (a, c), rule in rules.items()
            if not any((a, b) in rules and (b, c) in rules for b in names)
        ]  # fmt: skip

    def _never_above(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Return pairs of columns of which the first is hardly ever above the second in the sample."""
        x, pairs = self.sampled(names), []
        for i, name in enumerate(names):
            both = ~np.isnan(x) & ~np.isnan(x[:, [i]])
            above = ((x[:, [i]] > x) & both).sum(axis=0)
            rare = above <= 2 * MAX_EXCEPTIONS * both.sum(axis=0) + 2
            pairs += [
                (name, other) for other, fits in zip(names, rare, strict=True)
                if fits and other != name and self.kind(other) == self.kind(name)
            ]  # fmt: skip
        return pairs

    def _near(self, rule: Order) -> float:
        """Return how many rows keep an order as narrowly as half of its exceptions break it."""
        room, broken = self.values[rule.high] - self.values[rule.low], rule.broken(self.values)
        width = float(np.median(-room[broken])) if broken.any() else np.inf
        return self.count((room >= 0) & (room <= width))

    def _above_by_chance(self, a: str, b: str) -> float:
        """Return how often one column would be above another one if they were independent."""
        x, y = (np.sort(c[~np.isnan(c)]) for c in self.sampled([a, b]).T)
        if not (len(x) and len(y)):
            return 0.0
        return 1 - float(np.searchsorted(x, y, "right").mean()) / len(x)

    # ---- sums and products

    def equal_columns(self) -> list[Rule]:
        """Return the columns of numbers that are equal to one before them in the alphabet."""
        rules = [
            rule for rule in self.arithmetic(self.numbers, (1,), product=False)
            if rule.columns[0] > rule.columns[1]
        ]  # fmt: skip
        copies = {rule.columns[0] for rule in rules}
        return [rule for rule in rules if rule.columns[1] not in copies]

    def arithmetic(
        self, names: Sequence[str], sizes: Sequence[int], *, product: bool
    ) -> list[Rule]:
        """Return the sums or products of these numbers of terms; a target has those with the fewest."""
        rules: list[Rule] = []
        x, variables = self.sampled(names), [self.domain[name] for name in names]
        halves = np.array([[half_step(v, computed=c) for v in variables] for c in (True, False)])
        for size in sizes:
            if comb(len(names), size) * len(names) > MAX_COMBINATIONS:
                break
            done = {rule.columns[0] for rule in rules}
            targets = np.array([i for i, n in enumerate(names) if n not in done], np.int64)
            for target, *terms in sorted(_candidates(x, size, targets, halves, product)):
                rules += self._arithmetic(names[target], [names[i] for i in terms], product)
        return rules

    def _arithmetic(self, target: str, terms: Sequence[str], product: bool) -> list[Rule]:
        """Return the sum or product, if it holds, with the rounding that explains more rows."""
        dates = [self.kind(name) for name in terms if self.kind(name) != "number"]
        kind = self.kind(target)
        if dates != ([] if kind == "number" else [kind]) or (product and dates):
            return []

        def finest_first(name: str) -> tuple[float, float, str]:
            numbers = self.domain[name].numbers
            step = 1.0 if numbers is None else numbers.scale.step or 0.0
            return step, -float(np.nanmedian(np.abs(self.values[name]))), name

        terms = sorted(terms, key=finest_first)
        rules: list[Rule] = []
        for exact in (True, False):
            rule = Arithmetic.of(target, terms, self.domain, product=product, exact=exact)
            counted = rule.counted(self.values, self.weights)
            if _telling(counted.exceptions, counted.support, self._otherwise(rule)):
                rules.append(counted)
        return sorted(rules, key=lambda rule: rule.exceptions)[:1]

    def _otherwise(self, rule: Arithmetic) -> float:
        """Return how many rows would break a rule without a term, or with its target shuffled."""
        y, terms = self.values[rule.target], [self.values[name] for name in rule.terms]
        shuffled = np.empty(len(y))
        shuffled[self.order] = np.roll(y[self.order], len(y) // 2)
        counts = [self.count(differ(shuffled, terms, rule.product, rule.rounding))]
        for i in range(len(terms)):
            rounding = [*rule.rounding[: i + 1], *rule.rounding[i + 2 :]]
            others = [*terms[:i], *terms[i + 1 :]]
            unknown = np.where(np.isnan(terms[i]), np.nan, y)
            counts.append(self.count(differ(unknown, others, rule.product, rounding)))
        return min(counts)

    # ---- functions

    def functions(self, names: Sequence[str]) -> list[Rule]:
        """Return which columns determine which, without those that follow from others."""
        pairs = [pair for pair in self._agreeing(names)[:MAX_TESTS] if self._determines(*pair)]
        return [
            Determines.learn(a, b, self.values, self.weights)
            for a, b in self._without_equivalents(set(pairs))
        ]

    def _agreeing(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Return pairs of columns: sampled rows with equal values of one agree about the other one."""
        codes = np.stack([self.codes[name][self.rows] for name in names], axis=1)
        shares = [np.bincount(c[c >= 0]) / max(1, (c >= 0).sum()) for c in codes.T]
        chance = np.array([1 - float(share @ share) for share in shares])
        pairs = []
        for i, name in enumerate(names):
            known = self.count(self.codes[name] >= 0)
            if not 2 <= self.distinct[name] <= known / ROWS_PER_KEY:
                continue
            order = np.argsort(codes[:, i], kind="stable")
            order = order[codes[order, i] >= 0]
            before, after = codes[order[:-1]], codes[order[1:]]
            both = (before >= 0) & (after >= 0) & (before[:, [i]] == after[:, [i]])
            different = (both & (before != after)).sum(axis=0)
            # An exception differs from two neighbours, so this is lenient
            rare = different <= chance * both.sum(axis=0) / SCREENED_SHARE + 3
            limit = self.distinct[name] + MAX_EXCEPTIONS * len(self.weights)
            pairs += [
                (name, other) for other, fits in zip(names, rare, strict=True)
                if fits and other != name and 2 <= self.distinct[other] <= limit
            ]  # fmt: skip
        return pairs

    def _determines(self, source: str, target: str) -> bool:
        """Return whether the other rows with the same value of a column tell that of another one."""
        keys, images, rows = pair_counts(self.codes[source], self.codes[target], self.weights)
        if not len(keys):
            return False
        # The most frequent image of each key comes first
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        total = np.add.reduceat(rows, first)
        sizes = np.diff(np.append(first, len(rows)))
        second = np.where(sizes > 1, np.append(rows, 0.0)[first + 1], 0.0)
        right = np.where(rows[first] - 1 > second, rows[first], 0.0)
        told = np.repeat(total >= 2, sizes)
        usual = np.bincount(images[told], rows[told], minlength=1).max()
        support = rows[told].sum()
        return _telling(support - right[total >= 2].sum(), support, support - usual)

    def _without_equivalents(self, pairs: set[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return functions that do not follow from others; equivalent columns have one function."""

        def rank(name: str) -> tuple[bool, str]:
            return self.domain[name].numbers is not None, name

        first: dict[str, str] = {name: name for pair in pairs for name in pair}
        for a, b in pairs:
            if (b, a) in pairs:
                first[b] = min(first[b], a, key=rank)
        return [
            (a, b) for a, b in sorted(pairs)
            if first[a] == a and first[b] in (a, b)
            and not any(
                c not in (a, b) and first[c] == c and (a, c) in pairs and (c, b) in pairs
                for c in first if first[b] == b
            )
        ]  # fmt: skip


def _candidates(
    x: FloatArray, size: int, targets: IntArray, halves: FloatArray, product: bool
) -> set[tuple[int, ...]]:
    """Return targets with terms that fit in a sample of rows; `halves`: of targets and of terms."""
    telling = ~np.isnan(x) & (x != 0) & (x != float(product))
    starts = np.argsort(-telling.sum(axis=1), kind="stable")[:FIRST_ROWS]
    found: set[tuple[int, ...]] = set()
    for row in starts.tolist():
        for terms in _combinations(np.flatnonzero(telling[row]), size, len(targets)):
            target, at = _fits(x[row], targets, terms, halves, product)
            keep = (terms[at] != target[:, None]).all(axis=1)
            target, at = target[keep], at[keep]
            for rows in (8, 256):
                y, z = x[:rows, target], [x[:rows, terms[at, i]] for i in range(size)]
                rounding = [halves[0, target], *(halves[1, terms[at, i]] for i in range(size))]
                broken = differ(y, z, product, rounding).sum(axis=0)
                keep = broken <= 2 * MAX_EXCEPTIONS * rows + 1
                target, at = target[keep], at[keep]
            found |= {
                (t, *terms[i].tolist()) for t, i in zip(target.tolist(), at.tolist(), strict=True)
            }
    return found


def _combinations(items: IntArray, size: int, targets: int) -> Iterator[IntArray]:
    """Yield the combinations of items in blocks."""
    listed = combinations(items.tolist(), size)
    while block := list(islice(listed, max(1, BLOCK // max(1, targets)))):
        yield np.array(block, np.int64)


def _fits(
    x: FloatArray, targets: IntArray, terms: IntArray, halves: FloatArray, product: bool
) -> tuple[IntArray, IntArray]:
    """Return which targets are which sums or products in one row: targets, and places in `terms`."""
    y, z = x[targets], [x[terms[:, [i]]] for i in range(terms.shape[1])]
    rounding = [halves[0, targets], *(halves[1, terms[:, [i]]] for i in range(terms.shape[1]))]
    with np.errstate(invalid="ignore"):
        equal = ~differ(y, z, product, rounding) & ~np.isnan(y)
    at, target = np.nonzero(equal)
    return targets[target], at
