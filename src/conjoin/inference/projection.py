"""Features projected on free variables, for many rows of evidence on all the others.

The evidence decides all tests of known variables, so of each feature only its tests of free variables
remain. Features for which these are the same form a *unit*. A row of evidence gives each unit a weight,
the sum of its features that are alive in this row; the units of a row are its conditioned network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray
from conjoin.data.row_hashing import code_numbers, group_equal, row_keys
from conjoin.data.table import Codes
from conjoin.kernels.layouts import KnownTests, packed
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm

ROWS = 128
"""Maximum number of rows of evidence per block: the bits of two words."""


@dataclass(frozen=True, eq=False)
class Projection:
    """The units of a network and some free variables.

    Attributes
    ----------
    units : LogLinearForm
        The tests of free variables of each unit; the weights are sums over all features.
    known : KnownTests
        The features of each unit, with their tests of known variables.
    hard_weight : float
        The finite weight that stands for -inf; sums of weights below half of it do as well.
    """

    units: LogLinearForm
    known: KnownTests
    hard_weight: float

    @classmethod
    def of(cls, form: LogLinearForm, free: IntArray) -> Projection:
        """Project the features of a network on the free variables."""
        is_free = np.zeros(len(form.domain), bool)
        is_free[free] = True
        form = form.nonzero().about(is_free)
        hard_weight = form.overwhelming_weight
        form = form.with_hard_weight(hard_weight)
        number = _unit_numbers(form.features, form.owner, is_free)
        place = np.argsort(number, kind="stable")
        features = form.features.select(place)
        is_known = ~is_free[features.entry_var]
        count = int(number.max(initial=-1)) + 1
        unit_first = np.searchsorted(number[place], np.arange(count + 1))
        used, test = np.unique(features.indices[is_known], return_inverse=True)
        off = features.off_values()[is_known]
        feature = features.entry_feature[is_known]
        known = KnownTests(
            test_var=packed(features.tests.var[used], np.int64),
            test_mask=packed(features.tests.mask[used], np.uint64, 2),
            first=packed(_counts_before(is_known, features.indptr), np.int64),
            test=packed(test, np.int64),
            off=packed(off, np.float64),
            plain=packed(np.bincount(feature[off != 0], minlength=len(features)) == 0, np.bool_),
            weight=packed(features.weights, np.float64),
            unit_first=packed(unit_first, np.int64),
        )
        firsts = unit_first[:-1]
        projected = features.select(firsts)
        projected = projected.without_entries(~is_free[projected.entry_var])
        if count:
            projected = replace(projected, weights=np.add.reduceat(features.weights, firsts))
        owner = None if form.owner is None else form.owner[place][firsts]
        return cls(LogLinearForm(form.domain, projected, owner), known, hard_weight)

    @cached_property
    def has_one_weight(self) -> BoolArray:
        """Whether the weight of a unit is the same in all rows in which it is alive."""
        single = np.diff(self.known.unit_first) == 1
        return self.is_constant | (single & self.known.plain[self.known.unit_first[:-1]])

    @cached_property
    def is_constant(self) -> BoolArray:
        """Whether a unit has the same weight in all rows: none of its features has a known test."""
        always = np.diff(self.known.first) == 0
        if not len(always):
            return np.zeros(0, bool)
        return np.logical_and.reduceat(always, self.known.unit_first[:-1])

    def weights(self, codes: Codes) -> RowWeights:
        """Return the weights of the units in at most `ROWS` rows of evidence."""
        from conjoin.kernels.row_projection import live_features

        bits = np.zeros((len(self.known.test_var), 2), np.uint64)
        live = np.zeros((len(self.known.weight), 2), np.uint64)
        kernel: Any = live_features
        kernel(packed(codes, np.uint16, 2), self.known, bits, live)
        firsts = self.known.unit_first[:-1]
        words = np.bitwise_or.reduceat(live, firsts, axis=0) if len(firsts) else live
        return RowWeights(self, len(codes), bits, live, words)


@dataclass(frozen=True, eq=False)
class RowWeights:
    """The weights that some rows of evidence give to the units of a projection.

    Attributes
    ----------
    projection : Projection
        The units.
    rows : int
        The number of rows.
    bits, live : arrays of uint64
        The rows in which known tests hold and in which features are alive, as bits.
    words : array of uint64, shape (units, 2)
        The rows in which any feature of a unit is alive, as bits.
    """

    projection: Projection
    rows: int
    bits: UIntArray
    live: UIntArray
    words: UIntArray

    def alive(self, units: IntArray) -> IntArray:
        """Return those of some units that are alive in any row."""
        return units[self.words[units].any(axis=1)]

    def of_units(self, units: IntArray) -> FloatArray:
        """Return the weights of some units, shape (units, `ROWS`); rows beyond the last are padding."""
        from conjoin.kernels.row_projection import unit_weights

        out = np.zeros((len(units), ROWS))
        kernel: Any = unit_weights
        kernel(packed(units, np.int64), self.projection.known, self.bits, self.live, out)
        return out


def _unit_numbers(features: Features, owner: IntArray | None, is_free: BoolArray) -> IntArray:
    """Number the projections of features, equal ones alike.

    Features with off values are never equal to others, nor are features of different owners.
    """
    inside = is_free[features.entry_var]
    indptr = _counts_before(inside, features.indptr)
    keys = row_keys(indptr, features.indices[inside], code_numbers(len(features.tests)))
    salt = np.zeros(len(features), np.uint64)
    if owner is not None:
        salt += code_numbers(len(is_free))[0][owner]
    soft = features.soft_rows()
    salt[soft] += code_numbers(len(features))[1][soft]
    order, starts, _ = group_equal(keys[0] + salt, keys[1] ^ salt)
    number = np.empty(len(features), np.int64)
    number[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    return number


def _counts_before(chosen: BoolArray, places: IntArray) -> IntArray:
    """Return how many entries are chosen before each of some places."""
    return np.concatenate([[0], np.cumsum(chosen)])[places]
