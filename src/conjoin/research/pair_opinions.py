"""`weighted_conversion`: what the two conditionals of a pair say about it, and how loudly each speaks.

A conversion averages the interactions of a pair in its two CPDs (see `decomposition`), each with the
share of the orders that put its variable first: 1/2 if an order and its reverse count alike. Other
shares convert consistent networks exactly, too. A share that is greater by s adds to the log-potential
s * (the first CPD's interaction - the second's).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conjoin.conversion.base_distribution import Base, Product, resolve_base
from conjoin.conversion.closed_form import MAX_LENGTH, check_kind, convert
from conjoin.conversion.decomposition import decompose
from conjoin.conversion.orders import resolve_orders
from conjoin.data import Domain
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.errors import ModelError
from conjoin.models import DependencyNetwork, Features, MarkovNetwork
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.vocabulary import mask_words, state_masks


@dataclass(frozen=True, eq=False)
class Say:
    """How loudly the two conditionals of each pair of variables speak about their interaction.

    Pairs that are not listed have equal shares.
    """

    pairs: IntArray  # pairs by 2: their positions, the smaller first
    share: FloatArray  # the share of the first variable's conditional; the second has the rest

    def shares(self, pairs: IntArray) -> FloatArray:
        """Return the share of the first conditional of given pairs."""
        share = dict(zip(map(tuple, self.pairs.tolist()), self.share.tolist(), strict=True))
        return np.array([share.get(tuple(pair), 0.5) for pair in pairs.tolist()])


@dataclass(frozen=True, eq=False)
class PairOpinions:
    """The interactions of pairs of variables in their CPDs."""

    cards: IntArray  # the number of states of each variable
    pairs: IntArray  # pairs by 2: their positions, the smaller first
    strength: FloatArray  # 2 by pairs: the root mean squares of the interactions in the two CPDs
    first: IntArray  # the first cell of each pair's table in `difference`
    difference: FloatArray  # the interaction in the first variable's CPD minus that in the second's

    @classmethod
    def of(cls, form: LogLinearForm, base: Base) -> PairOpinions:
        """Return the interactions in the CPDs of a dependency network, under a product of marginals."""
        if not isinstance(base, Product):
            raise ModelError("`say` needs a product of marginals as the base, not instances")
        pairs, strengths = [np.zeros((0, 2), np.int64)], [np.zeros((2, 0))]
        firsts, cells = [np.zeros(0, np.int64)], [np.zeros(0)]
        for tables in decompose(form, base.marginals, 2):
            pairs.append(tables.sets)
            strengths.append(np.sqrt(tables.mean_squares(tables.values)))
            firsts.append(tables.first + sum(map(len, cells)))
            cells.append(tables.values[0] - tables.values[1])
        return cls(
            form.features.tests.cards,
            np.concatenate(pairs),
            np.concatenate(strengths, axis=1),
            np.concatenate(firsts),
            np.concatenate(cells),
        )

    def entries(self) -> DifferenceEntries:
        """Return the differences in terms of states other than the first of a variable.

        The first cell of a table is left out: it only changes log Z.
        """
        left, right = self.pairs.T
        width = self.cards[right]
        pair = np.repeat(np.arange(len(left)), self.cards[left] * width)
        first, d = self.first[pair], self.difference
        a, b = np.divmod(np.arange(len(pair)) - first, width[pair])
        weight = (
            d
            - np.where(b > 0, d[first + a * width[pair]], 0.0)
            - np.where(a > 0, d[first + b], 0.0)
            + np.where((a > 0) & (b > 0), d[first], 0.0)
        )
        keep = np.flatnonzero((a > 0) | (b > 0))
        return DifferenceEntries(pair[keep], a[keep], b[keep], weight[keep])

    def tilted(self, shift: FloatArray) -> Features:
        """Return what is added to the log-potential if the shares of the first CPDs grow by `shift`."""
        entries = self.entries()
        var, state = self.pairs[entries.pair].T, np.stack([entries.left, entries.right])
        side, feature = np.nonzero(state)  # a test for each state that is not the first
        return Features.from_tests(
            self.cards,
            feature,
            var[side, feature],
            state_masks(state[side, feature], mask_words(self.cards)),
            entries.weight * shift[entries.pair],
        )


class DifferenceEntries(NamedTuple):
    """The pair of each entry, the states of its two variables (0: whatever the state), and its weight."""

    pair: IntArray
    left: IntArray
    right: IntArray
    weight: FloatArray


def weighted_conversion(
    dn: DependencyNetwork,
    table: Any,
    say: Say | Mapping[str, float],
    *,
    base: Any = None,
    orders: str = "rotations",
    order: Sequence[Any] | None = None,
    reverse: bool = True,
    max_length: int = MAX_LENGTH,
) -> MarkovNetwork:
    """Convert a dependency network in closed form, with weights for its conditionals.

    Parameters
    ----------
    dn, table, base, orders, order, reverse, max_length
        As for `convert`; the base is a product of marginals.
    say : Say or mapping
        How loudly the conditionals of two variables speak about the interaction of the pair: the
        result of `learn_say`, which measures it on held-out rows, or {name: reliability} (1 if not
        given), to which the shares of the two are proportional. For interactions of more variables, a
        share is the fraction of the orders that put the variable first, as in `convert`.
    """
    check_kind(dn)
    mean = convert(
        dn, table, base=base, orders=orders, order=order, reverse=reverse, max_length=max_length
    )
    opinions = PairOpinions.of(dn.form, resolve_base(dn.domain, base, table)[0])
    family = resolve_orders(dn.domain, orders, order, reverse)
    shift = _shares(opinions, say, dn.domain) - family.first_of_pair(*opinions.pairs.T)
    features = Features.concatenate([mean.features, opinions.tilted(shift)]).merged().nonzero()
    told = "learned" if isinstance(say, Say) else dict(say)
    conversion = {**mean.provenance["conversion"], "say": told}
    return MarkovNetwork(
        dn.domain, features, provenance={**mean.provenance, "conversion": conversion}
    )


def _shares(opinions: PairOpinions, say: Any, domain: Domain) -> FloatArray:
    """Return the share of the first conditional of each pair."""
    if isinstance(say, Say):
        return say.shares(opinions.pairs)
    if not isinstance(say, Mapping):
        raise ModelError(f"`say` must map names to reliabilities, or be a `Say`, not {say!r}")
    reliability = np.ones(len(domain))
    for name, value in say.items():
        if not (isinstance(value, int | float) and 0 < value < np.inf):
            raise ModelError(f"the reliability of {name!r} must be positive, not {value!r}")
        reliability[domain.index(name)] = value
    left, right = reliability[opinions.pairs].T
    return np.asarray(left / (left + right))
