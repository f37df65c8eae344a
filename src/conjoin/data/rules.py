"""Rules: relations between columns that hold in all rows of a table, or in all but a few.

There are three kinds: the value of a column determines that of another one (a product has one category),
a number is at most another one (nobody is last seen before signing up), and a number is a sum or a
product of others, up to rounding. `rule_search` finds them in a table and reads them from text;
`rule_keeping` changes rows so that they hold.

A rule sees a column as floats, its *rule values*: numbers and dates as such, the states of a category as
numbers if all of them are, or else as codes. NaN is unknown or absent, and a rule of which a row lacks a
value holds in that row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.label_values import is_number
from conjoin.data.labels import shown
from conjoin.data.table import Table
from conjoin.errors import DataError

ROUNDING_ERROR = 1e-12
"""The relative difference of floats that are equal but for rounding errors of the computer."""

Values = Mapping[str, FloatArray]
"""The rule values of columns."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A relation between columns."""

    support: int = (
        0  # the number of rows in which all of its columns are known; 0 if it was only stated
    )
    exceptions: int = 0  # how many of these break it

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, first those that are best computed from the others."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The relation in words."""
        raise NotImplementedError

    def broken(self, values: Values) -> BoolArray:
        """Return which rows break the rule."""
        raise NotImplementedError

    def implied(self, values: Values, column: str) -> FloatArray:
        """Return the value of a column that suits the others best, before rounding; NaN if there is none.

        It is what the column must be, or what it is if the row does not break the rule.
        """
        raise NotImplementedError

    def check(self, domain: Domain) -> None:
        """Reject columns that a domain does not have, or that have no numbers where these are needed."""
        if len(set(self.columns)) < len(self.columns):
            raise DataError(f"the rule {self.text!r} names a column twice")
        if not all(type(n) is int and n >= 0 for n in (self.support, self.exceptions)):
            raise DataError(f"the rule {self.text!r} has invalid numbers of rows")
        for name in self.columns:
            if not (isinstance(self, Determines) or has_numbers(domain[name])):
                raise DataError(
                    f"the rule {self.text!r} needs numbers, and the values of {name!r} are none"
                )

    def counted(self, values: Values, weights: FloatArray | None = None) -> Self:
        """Return the rule with the support and the exceptions that it has in rows."""
        known: BoolArray = ~np.isnan(_combined([values[name] for name in self.columns], False))
        broken = self.broken(values)
        w = np.ones(len(broken)) if weights is None else weights
        return replace(self, support=round(w[known].sum()), exceptions=round(w[broken].sum()))

    def words(self) -> str:
        """Return the relation with its exceptions, if there are any."""
        if not self.exceptions:
            return self.text
        noun = "exception" if self.exceptions == 1 else "exceptions"
        return f"{self.text} ({self.exceptions:,} {noun} in {self.support:,} rows)"


@dataclass(frozen=True)
class Determines(Rule):
    """The value of a column tells that of another one."""

    source: str
    target: str
    keys: tuple[float, ...]  # the values of the source in the table, the most frequent one first
    images: tuple[float, ...]  # the value of the target beside each of these

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns."""
        return self.target, self.source

    @property
    def text(self) -> str:
        """The relation in words."""
        return f"{shown(self.source)} → {shown(self.target)}"

    def check(self, domain: Domain) -> None:
        """Reject columns that a domain does not have, and values that do not belong together."""
        super().check(domain)
        one_each = len(self.keys) == len(self.images) == len(set(self.keys)) > 0
        if not (one_each and np.isfinite([self.keys, self.images]).all()):
            raise DataError(f"the values of the rule {self.text!r} do not belong together")

    @classmethod
    def learn(
        cls, source: str, target: str, values: Values, weights: FloatArray | None = None
    ) -> Determines:
        """Return the most frequent value of a column beside each value of another one."""
        x, y = values[source], values[target]
        keys, images, rows = pair_counts(ranks(x), ranks(y), weights)
        if not len(keys):
            raise DataError(f"no row knows both {source!r} and {target!r}; leave the rule out")
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        first = first[np.argsort(-rows[first], kind="stable")]
        known = np.unique(x)[keys[first]].tolist(), np.unique(y)[images[first]].tolist()
        return cls(source, target, tuple(known[0]), tuple(known[1])).counted(values, weights)

    @cached_property
    def _in_order(self) -> tuple[FloatArray, FloatArray]:
        keys, images = np.array(self.keys, np.float64), np.array(self.images, np.float64)
        order = np.argsort(keys)
        return keys[order], images[order]

    def broken(self, values: Values) -> BoolArray:
        """Return which rows break the rule; a source that the table did not have breaks none."""
        image, x = self.implied(values, self.target), values[self.target]
        return np.asarray((image != x) & ~np.isnan(image) & ~np.isnan(x))

    def implied(self, values: Values, column: str) -> FloatArray:
        """Return the image of the source, or the most frequent source with this image."""
        if column == self.target:
            keys, images = self._in_order
            return _looked_up(keys, images, values[self.source])
        images, first = np.unique(self.images, return_index=True)
        usual = _looked_up(images, np.array(self.keys)[first], values[self.target])
        fits = self.implied(values, self.target) == values[self.target]
        return np.where(fits, values[self.source], usual)


def _looked_up(keys: FloatArray, images: FloatArray, x: FloatArray) -> FloatArray:
    """Return the image of each value, NaN for values that are no key; the keys ascend."""
    at = np.minimum(np.searchsorted(keys, x), len(keys) - 1)
    return np.where(keys[at] == x, images[at], np.nan)


@dataclass(frozen=True)
class Order(Rule):
    """A number or a date is at most another one."""

    low: str
    high: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns."""
        return self.high, self.low

    @property
    def text(self) -> str:
        """The relation in words."""
        return f"{shown(self.low)} ≤ {shown(self.high)}"

    def broken(self, values: Values) -> BoolArray:
        """Return which rows break the rule."""
        return np.asarray(values[self.low] > values[self.high])

    def implied(self, values: Values, column: str) -> FloatArray:
        """Return the nearest value that does not break the rule."""
        nearest = np.maximum if column == self.high else np.minimum
        return np.asarray(nearest(values[self.low], values[self.high]))


@dataclass(frozen=True)
class Arithmetic(Rule):
    """A number is the sum or the product of others, up to rounding; an equal column is a sum, too."""

    target: str
    terms: tuple[str, ...]
    product: bool
    # By how much rounding may have changed the target and each term: half a step of the column, or 0
    # for terms that are exact
    rounding: tuple[float, ...]

    @classmethod
    def of(
        cls,
        target: str,
        terms: Sequence[str],
        domain: Domain,
        *,
        product: bool,
        exact: bool = False,
    ) -> Arithmetic:
        """Return a rule with the rounding of its columns; `exact`: only the target is rounded."""
        halves = [0.0 if exact else half_step(domain[name]) for name in terms]
        return cls(
            target, tuple(terms), product, (half_step(domain[target], computed=True), *halves)
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns."""
        return self.target, *self.terms

    @property
    def text(self) -> str:
        """The relation in words."""
        sign = " × " if self.product else " + "
        return f"{shown(self.target)} = {sign.join(map(shown, self.terms))}"

    def check(self, domain: Domain) -> None:
        """Reject columns that a domain does not have or that have no numbers, and invalid rounding."""
        super().check(domain)
        finite = np.isfinite(self.rounding).all() and min(self.rounding, default=-1.0) >= 0
        if not (finite and len(self.rounding) == len(self.columns) > 1):
            raise DataError(f"the rule {self.text!r} does not say how its columns are rounded")

    def broken(self, values: Values) -> BoolArray:
        """Return which rows differ from the rule by more than rounding explains."""
        terms = [values[name] for name in self.terms]
        return differ(values[self.target], terms, self.product, self.rounding)

    def implied(self, values: Values, column: str) -> FloatArray:
        """Return what the others add up to, or leave for a term."""
        rest = _combined([values[name] for name in self.terms if name != column], self.product)
        if column == self.target or not self.product:
            return rest if column == self.target else values[self.target] - rest
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(rest == 0, np.nan, values[self.target] / rest)


def _combined(columns: Sequence[FloatArray], product: bool) -> FloatArray:
    """Return the sum or the product of columns, of which there may be none."""
    result = np.asarray(float(product))
    for x in columns:
        result = result * x if product else result + x
    return result


def differ(
    y: FloatArray, terms: Sequence[FloatArray], product: bool, rounding: Sequence[Any]
) -> BoolArray:
    """Return where a sum or a product differs from `y` by more than rounding (see `Arithmetic`)."""
    found = _combined(terms, product)
    size = np.abs(found) if product else _combined([np.abs(x) for x in terms], False)
    allowed = rounding[0] + ROUNDING_ERROR * (np.abs(y) + size)
    for i, half in enumerate(rounding[1:]):
        if np.any(half):
            others = [*terms[:i], *terms[i + 1 :]] if product else []
            allowed = allowed + half * np.abs(_combined(others, True))
    return np.asarray(np.abs(found - y) > allowed)


def rule_to_json(rule: Rule) -> dict[str, Any]:
    """Return a rule in types of JSON."""
    return {"kind": type(rule).__name__, **asdict(rule)}


def rule_from_json(entry: Mapping[str, Any]) -> Rule:
    """Undo `rule_to_json`; what is not valid for a domain is left to `Rule.check`."""
    given = dict(entry)
    kinds: dict[str, Any] = {kind.__name__: kind for kind in (Determines, Arithmetic, Order)}
    rule: Rule = kinds[given.pop("kind")](
        **{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    )
    return rule


def half_step(variable: Variable, *, computed: bool = False) -> float:
    """Return by how much rounding changes a value at most; whole numbers are exact unless computed."""
    if variable.numbers is None or variable.numbers.scale.step is None:
        return 0.0
    exact = variable.numbers.scale.integer and not computed
    return 0.0 if exact else variable.numbers.scale.step / 2


def in_order(rules: Collection[Rule]) -> tuple[Rule, ...]:
    """Return rules in the order in which they are applied and shown."""
    kinds = (Determines, Arithmetic, Order)

    def place(rule: Rule) -> tuple[int, bool, str]:
        return kinds.index(type(rule)), not getattr(rule, "product", False), rule.text

    return tuple(sorted(rules, key=place))


# ---- columns of tables as rule values ------------------------------------------------------------


def has_numbers(variable: Variable) -> bool:
    """Return whether the values of a column are numbers or dates."""
    return variable.numbers is not None or all(map(is_number, variable.values))


def rule_values(table: Table, names: Collection[str] | None = None) -> dict[str, FloatArray]:
    """Return the rule values of columns, by default all."""
    return {name: _column(table, name) for name in (table.names if names is None else names)}


def _column(table: Table, name: str) -> FloatArray:
    variable, v = table.domain[name], table.domain.index(name)
    if variable.numbers is not None:
        return np.full(len(table), np.nan) if table.numbers is None else table.column(name)
    unknown = table.holes[:, v] | table.absent[:, v]
    return np.append(_states(variable), np.nan)[
        np.where(unknown, -1, table.codes[:, v].astype(np.int64))
    ]


def _states(variable: Variable) -> FloatArray:
    """Return the rule value of each state of a category."""
    if has_numbers(variable):
        return np.array([*variable.values, *[np.nan] * variable.absent], np.float64)
    return np.arange(len(variable), dtype=np.float64)


def rounded(variable: Variable, values: FloatArray) -> FloatArray:
    """Return the values that a column can have next to these; NaN stays."""
    if variable.numbers is not None:
        return np.asarray(variable.numbers.scale.rounded(values))
    states = np.sort(_states(variable)[: len(variable.values)])
    middles = (states[:-1] + states[1:]) / 2
    return np.where(np.isnan(values), np.nan, states[np.searchsorted(middles, values)])


def with_rule_values(table: Table, changed: Values) -> Table:
    """Return a table with other values in some columns, which all have a value that they can have."""
    codes, numbers = table.signed_codes(), None if table.numbers is None else table.numbers.copy()
    for name, values in changed.items():
        variable, v = table.domain[name], table.domain.index(name)
        known = ~np.isnan(values)
        if variable.numbers is None:
            states = _states(variable)[: len(variable.values)]
            order = np.argsort(states)
            at = np.minimum(np.searchsorted(states[order], values[known]), len(states) - 1)
            codes[known, v] = order[at]
        elif numbers is not None:
            numbers[known, table.domain.numeric.index(name)] = values[known]
            codes[known, v] = variable.numbers.codes(values[known])
    return Table.adopt(table.domain, codes, table.weights, numbers, table.lacking)


def ranks(values: FloatArray) -> IntArray:
    """Return the rank of each value among the different ones, -1 where it is unknown."""
    known = ~np.isnan(values)
    codes = np.full(len(values), -1, np.int64)
    codes[known] = np.unique(values[known], return_inverse=True)[1]
    return codes


def pair_counts(
    a: IntArray, b: IntArray, weights: FloatArray | None
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the pairs of ranks that occur and their numbers of rows, by a, the most frequent b first."""
    known = (a >= 0) & (b >= 0)
    width = int(b.max(initial=0)) + 1
    pairs, at = np.unique(a[known] * width + b[known], return_inverse=True)
    w = None if weights is None else weights[known]
    rows = np.bincount(at, w, minlength=1).astype(np.float64)[: len(pairs)]
    order = np.lexsort((pairs % width, -rows, pairs // width))
    return pairs[order] // width, pairs[order] % width, rows[order]
