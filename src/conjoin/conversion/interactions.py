"""How strongly pairs of variables act on each other.

Under a product distribution q, the log-potential of a network splits into one part for each set of
variables (the Hoeffding decomposition). The part on a pair is a table over the states of both: the
logarithm of the factor by which the pair makes these two states more or less probable, with all other
variables averaged out. Its root mean square under q, in nats, is the strength of the pair.

For one conjunction with tests C the part on the variables of the tests a and b is
w (1[a] - q(a)) (1[b] - q(b)) times the product of q(c) over the other tests c, so all tables come from
one sum over pairs of tests. What three or more variables do only together is in no pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.conversion.base import Product, resolve_base
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.models.features import Features
from conjoin.models.network import Network

IMPOSSIBLE = float(np.log(1e-6))
"""What a weight of -inf counts as: one in a million."""
BLOCK = 1 << 21
"""How many pairs of tests are added up at a time."""


@dataclass(frozen=True, eq=False)
class Link:
    """What the pair part of a network says of two variables.

    Attributes
    ----------
    variables : tuple of str
        Their names.
    strength : float
        The root mean square of `table`, in nats.
    table : array of float
        The logarithm of the factor by which the link makes each pair of states more probable.
    states : tuple
        The state of each that the link says most about, together.
    odds : float
        By what the link multiplies the odds of the one state where the other holds, against where
        it does not.
    """

    variables: tuple[str, str]
    strength: float
    table: FloatArray
    states: tuple[Any, Any]
    odds: float

    @property
    def meeting(self) -> str:
        """Whether the two states go together or avoid each other, in words."""
        (a, b), (s, t) = self.variables, self.states
        return f"{a}={s} and {b}={t} {'go together' if self.odds >= 1 else 'avoid each other'}"

    @property
    def factor(self) -> str:
        """By what the odds are multiplied or divided, such as "× 3.1" or "÷ 2.0"."""
        if self.odds >= 1:
            return f"× {_short(self.odds)}"
        return f"÷ {_short(1 / self.odds)}"

    def __str__(self) -> str:
        return f"{self.meeting} (odds {self.factor})"


@dataclass(frozen=True, eq=False)
class Interactions:
    """The pairs of variables that act on each other, strongest first.

    Attributes
    ----------
    domain : Domain
        The variables.
    marginals : list of array
        The distribution that the strengths are measured under.
    left, right : array of int
        The variables of each pair, by position, the smaller first.
    strength : array of float
        Their strengths, in nats.
    """

    domain: Domain
    marginals: list[FloatArray]
    left: IntArray
    right: IntArray
    strength: FloatArray
    tables: Any

    def __len__(self) -> int:
        return len(self.strength)

    def __getitem__(self, number: int) -> Link:
        """Return one of the pairs, 0 being the strongest."""
        i, j = int(self.left[number]), int(self.right[number])
        first = np.concatenate([[0], np.cumsum(self.domain.cards)])
        table = self.tables[first[i] : first[i + 1], first[j] : first[j + 1]].toarray()
        p, q = self.marginals[i], self.marginals[j]
        # The log odds ratio of two states against all others, as each row and column averages to 0.
        # A state without an alternative has no odds.
        free = np.outer(1 - p, 1 - q)
        log_odds = np.divide(table, free, out=np.zeros_like(table), where=free > 0)
        weight = np.abs(log_odds) * np.sqrt(np.outer(p * (1 - p), q * (1 - q)))
        near = np.argwhere(
            weight >= weight.max() * (1 - 1e-9)
        )  # of equals the rarest, then the last
        s, t = min(near.tolist(), key=lambda c: (round(p[c[0]] * q[c[1]], 12), -c[0], -c[1]))
        a, b = self.domain.variables[i], self.domain.variables[j]
        with np.errstate(over="ignore"):
            odds = float(np.exp(log_odds[s, t]))
        return Link(
            (a.name, b.name), float(self.strength[number]), table, (a.states[s], b.states[t]), odds
        )

    def strongest(self, n: int = 10) -> list[Link]:
        """Return the strongest pairs."""
        return [self[k] for k in range(min(n, len(self)))]

    def between(self, pairs: Sequence[tuple[int, int]]) -> FloatArray:
        """Return the strengths of given pairs of positions, 0 where there is no pair part."""
        known = {
            (i, j): s
            for i, j, s in zip(
                self.left.tolist(), self.right.tolist(), self.strength.tolist(), strict=True
            )
        }
        return np.array([known.get((min(p), max(p)), 0.0) for p in pairs])

    def __str__(self) -> str:
        lines = [f"{link.strength:.3f}  {link}" for link in self.strongest()]
        if len(self) > len(lines):
            lines.append(f"... and {len(self) - len(lines):,} more")
        return "\n".join(lines) or "no two variables act on each other"


def interactions(
    model: Network,
    table: Table | None = None,
    *,
    base: Mapping[str, Mapping[Any, float]] | str | None = None,
) -> Interactions:
    """Measure how strongly each two variables of a network act on each other.

    The cost is linear in the number of pairs of tests in features. In a dependency network the
    strength of a pair is that of the mean of what its two CPDs say, as in conversion.

    Parameters
    ----------
    model : Network
        A Markov, dependency or Bayesian network. Impossible states count as one in a million.
    table : Table, optional
        Its marginals are the distribution that the strengths are measured under.
    base : None, 'marginals', 'uniform', mapping
        That distribution, as for `convert`; by default uniform if there is no table.

    Returns
    -------
    Interactions

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"], "wind": ["no", "yes"]})
    >>> terms = [(2.0, {"rain": "yes", "wet": "yes"}), (-0.5, {"wet": "yes", "wind": "yes"})]
    >>> print(interactions(MarkovNetwork(domain, Features.from_terms(domain, terms))))
    0.500  rain=yes and wet=yes go together (odds × 7.4)
    0.125  wet=yes and wind=yes avoid each other (odds ÷ 1.6)
    """
    from scipy import sparse

    distribution, _ = resolve_base(model.domain, base, table)
    if not isinstance(distribution, Product):
        raise ModelError("interactions need a product of marginals as their base, not instances")
    features, owner = model.form.features, model.form.owner
    q = features.tests.probability(distribution.marginals)
    counts = _pairs_of_tests(features, owner, q)
    cards = model.domain.cards
    first = np.concatenate([[0], np.cumsum(cards)])
    # Each test as a function of the states of its variable, less its mean.
    var = features.tests.var.astype(np.int64)
    row = np.repeat(np.arange(len(var)), cards[var])
    state = np.arange(len(row)) - np.repeat(np.cumsum(cards[var]) - cards[var], cards[var])
    value = features.tests.members()[row, state] - q[row]
    shape = (len(var), int(first[-1]))
    centred = sparse.csr_array((value, (row, first[var[row]] + state)), shape=shape)
    tables = (centred.T @ counts @ centred).tocoo()
    tables.sum_duplicates()

    size = len(model.domain)
    owner_of_state = np.repeat(np.arange(size), cards)
    i, j = owner_of_state[tables.row], owner_of_state[tables.col]
    p = np.concatenate([*distribution.marginals, np.zeros(0)])
    pair = sparse.coo_array(
        (p[tables.row] * p[tables.col] * tables.data**2, (i, j)), shape=(size, size)
    ).tocsr()
    pair = pair.tocoo()
    pair.sum_duplicates()
    strength = np.sqrt(pair.data)
    # What is within rounding of nothing is nothing.
    keep = np.flatnonzero(strength > 1e-12 * strength.max(initial=0.0))
    keep = keep[np.lexsort((pair.col[keep], pair.row[keep], -strength[keep]))]
    return Interactions(
        model.domain,
        distribution.marginals,
        pair.row[keep].astype(np.int64),
        pair.col[keep].astype(np.int64),
        strength[keep],
        tables.tocsr(),
    )


def _pairs_of_tests(features: Features, owner: IntArray | None, q: FloatArray) -> Any:
    """Return, for each two tests, the sum of the weights with which the two stand together.

    The other tests of a feature are averaged out; of a dependency network's feature only pairs with
    the target count, by half.
    """
    from scipy import sparse

    size = len(features.tests)
    total = sparse.csr_array((size, size))
    weights = np.where(np.isneginf(features.weights), IMPOSSIBLE, features.weights)
    off = features.off_values()
    for length in np.unique(features.lengths).tolist():
        if length < 2:
            continue
        chosen = np.flatnonzero(features.lengths == length)
        step = max(1, BLOCK // (length * (length - 1) // 2))
        for low in range(0, len(chosen), step):
            rows = chosen[low : low + step]
            entry = features.indptr[rows][:, None] + np.arange(length)
            tests = features.indices[entry]
            mean = off[entry] + (1 - off[entry]) * q[tests]
            rise = 1 - off[entry]
            parts = []
            after = np.ones((len(rows), length + 1))  # the product of all later means
            after[:, :-1] = mean[:, ::-1].cumprod(axis=1)[:, ::-1]
            for a in range(length):
                others = mean[:, :a].prod(axis=1)  # all tests but a, as far as b
                for b in range(a + 1, length):
                    value = weights[rows] * rise[:, a] * rise[:, b] * others * after[:, b + 1]
                    others = others * mean[:, b]
                    if owner is not None:
                        mine = features.tests.var[tests[:, [a, b]]] == owner[rows][:, None]
                        value = np.where(mine.any(axis=1), value / 2, 0.0)
                    parts.append((tests[:, a], tests[:, b], value))
            left, right, values = (np.concatenate(x) for x in zip(*parts, strict=True))
            total = total + sparse.coo_array((values, (left, right)), shape=(size, size)).tocsr()
    return total


def _short(factor: float) -> str:
    """Return a factor of at least 1 with two or three digits that count.

    Examples
    --------
    >>> _short(1.234), _short(12.34), _short(123456.0), _short(1e9)
    ('1.2', '12', '120,000', 'over a million')
    """
    if factor > 1e6:
        return "over a million"
    if factor < 9.95:
        return f"{factor:.1f}"
    return f"{float(f'{factor:.2g}'):,.0f}"
