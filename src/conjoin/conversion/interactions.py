"""How strongly pairs of variables interact.

The part of a network's log-potential on a pair of variables (see `decomposition`) is a table over the
states of both: the logarithm of the factor by which the pair makes these two states more or less
probable, with all other variables averaged out. Its root mean square, in nats, is the strength of the
pair. Effects that three or more variables have only together are in no pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.conversion.base_distribution import Product, resolve_base
from conjoin.conversion.decomposition import decompose
from conjoin.data.answer_html import Bar, Cell, answer_html
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.data.labels import statement
from conjoin.errors import ModelError
from conjoin.models.network import Network


@dataclass(frozen=True, eq=False)
class Link:
    """The interaction of two variables."""

    variables: tuple[str, str]
    strength: float  # the root mean square of `table`, in nats
    table: FloatArray  # the log of the factor by which the link makes each pair of states likelier
    states: tuple[Any, Any]  # the states, one of each variable, that the link affects most
    odds: float  # the factor of the odds of the one state where the other one holds, too
    words: tuple[str, str]  # that the one and the other state hold, in words

    def __str__(self) -> str:
        relation = "go together" if self.odds >= 1 else "avoid each other"
        factor = f"× {_short(self.odds)}" if self.odds >= 1 else f"÷ {_short(1 / self.odds)}"
        return f"{' and '.join(self.words)} {relation} (odds {factor})"


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """The pairs of variables that interact, strongest first."""

    domain: Domain
    marginals: list[FloatArray]  # the distribution under which strengths are measured
    left: IntArray  # the first variable of each pair, by position
    right: IntArray  # the second, whose position is larger
    strength: FloatArray  # in nats
    first: IntArray  # the first cell of each pair's table
    cells: FloatArray  # the tables of all pairs

    def __len__(self) -> int:
        return len(self.strength)

    def __getitem__(self, number: int) -> Link:
        """Return one of the pairs; number 0 is the strongest."""
        i, j = int(self.left[number]), int(self.right[number])
        p, q = self.marginals[i], self.marginals[j]
        low = self.first[number]
        table = self.cells[low : low + len(p) * len(q)].reshape(len(p), len(q))
        # Each row and column averages to 0, so this is the log odds ratio of two states against all
        # others. A state without an alternative has no odds.
        free = np.outer(1 - p, 1 - q)
        log_odds = np.divide(table, free, out=np.zeros_like(table), where=free > 0)
        weight = np.abs(log_odds) * np.sqrt(np.outer(p * (1 - p), q * (1 - q)))
        # Of equally affected pairs of states the rarest, then the last.
        near = np.argwhere(weight >= weight.max() * (1 - 1e-9))
        s, t = min(near.tolist(), key=lambda c: (round(p[c[0]] * q[c[1]], 12), -c[0], -c[1]))
        a, b = self.domain.variables[i], self.domain.variables[j]
        with np.errstate(over="ignore"):
            odds = float(np.exp(log_odds[s, t]))
        states, words = (a.states[s], b.states[t]), (statement(a, s), statement(b, t))
        return Link((a.name, b.name), float(self.strength[number]), table, states, odds, words)

    def strongest(self, n: int = 10) -> list[Link]:
        """Return the strongest pairs."""
        return [self[k] for k in range(min(n, len(self)))]

    def between(self, pairs: Sequence[tuple[int, int]]) -> FloatArray:
        """Return the strengths of given pairs of positions, 0 for pairs that do not interact."""
        ends = zip(self.left.tolist(), self.right.tolist(), strict=True)
        known = dict(zip(ends, self.strength.tolist(), strict=True))
        return np.array([known.get((min(p), max(p)), 0.0) for p in pairs])

    def __str__(self) -> str:
        lines = [f"{link.strength:.3f}  {link}" for link in self.strongest()]
        if len(self) > len(lines):
            lines.append(f"... and {len(self) - len(lines):,} more")
        return "\n".join(lines) or "no two variables interact"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        most = max(float(self.strength.max(initial=0.0)), 1e-300)
        rows: list[list[Cell]] = [
            [Bar(x.strength / most, f"{x.strength:.3f}"), str(x)] for x in self.strongest()
        ]
        return answer_html("Interactions", rows, f"{len(self):,} pairs in all; strengths in nats")


def pair_interactions(model: Network, table: Any = None, base: Any = None) -> Interactions:
    """Measure how strongly pairs interact in a network without hidden columns (see `joint.interactions`).

    In a dependency network the interaction of a pair is the mean of the interactions in the two CPDs, as
    in a conversion. Impossible states count as one in a million. The cost is linear in the number of
    pairs of tests in features.
    """
    distribution, _ = resolve_base(model.domain, base, table)
    if not isinstance(distribution, Product):
        raise ModelError("interactions need a product of marginals as their base, not instances")
    sets, strengths, firsts = [np.zeros((0, 2), np.int64)], [np.zeros(0)], [np.zeros(0, np.int64)]
    cells = [np.zeros(0)]
    for tables in decompose(model.form, distribution.marginals, 2):
        values = tables.values.mean(axis=0)
        sets.append(tables.sets)
        strengths.append(np.sqrt(tables.mean_squares(values)))
        firsts.append(tables.first + sum(map(len, cells)))
        cells.append(values)
    pairs, strength = np.concatenate(sets), np.concatenate(strengths)
    strongest = strength.max(initial=0.0)
    keep = np.flatnonzero(strength > 1e-12 * strongest)  # the others are rounding errors
    keep = keep[_by_strength(model.domain, pairs[keep], strength[keep] / (strongest or 1.0))]
    return Interactions(
        model.domain,
        distribution.marginals,
        pairs[keep, 0],
        pairs[keep, 1],
        strength[keep],
        np.concatenate(firsts)[keep],
        np.concatenate(cells),
    )


def _by_strength(domain: Domain, pairs: IntArray, strength: FloatArray) -> IntArray:
    """Sort pairs by strength, equal ones (but for rounding) by name whatever the order of columns."""
    names = np.empty(len(domain), np.int64)
    names[sorted(range(len(domain)), key=lambda v: domain.names[v])] = np.arange(len(domain))
    rank = np.sort(names[pairs], axis=1)
    return np.lexsort((rank[:, 1], rank[:, 0], -strength.round(12)))


def _short(factor: float) -> str:
    """Return a factor of at least 1 with two significant digits."""
    if factor > 1e6:
        return "over a million"
    if factor < 9.95:
        return f"{factor:.1f}"
    return f"{float(f'{factor:.2g}'):,.0f}"
