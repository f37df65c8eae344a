"""Weighted conjunctive features as one sparse matrix (the paper's Sections 2 and 4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray, distinct, read_only
from conjoin.data.domain import Domain
from conjoin.data.row_hashing import code_numbers, group_equal, row_keys
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.models.vocabulary import Vocabulary, full_masks, mask_words, set_mask

BLOCK = 1 << 22
"""Number of matrix entries that an evaluation holds in memory at a time."""


def segment_index(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return the positions of consecutive slices: starts[0], starts[0]+1, ..., starts[1], ..."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shift = np.repeat(starts - ends + lengths, lengths)
    return np.arange(total) + shift


@dataclass(frozen=True, eq=False)
class Features:
    """Weighted conjunctions of variable tests.

    A feature is a row of test numbers; its value on an instance is its weight if all of its tests
    hold and 0 otherwise. A row has at most one test per variable, sorted by variable.

    Attributes
    ----------
    tests : Vocabulary
        The distinct tests.
    indptr, indices : arrays of int
        The tests of feature f are ``indices[indptr[f]:indptr[f + 1]]``.
    weights : array of float, shape (features,)
        May be -inf (an impossible conjunction).
    off : array of float, optional
        The factor that each test contributes where it does not hold; None means 0 everywhere.

    Examples
    --------
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> features = Features.from_terms(domain, [(1.5, {"rain": "yes", "wet": "yes"})])
    >>> print(features.describe(domain)[0])
    1.5  rain=yes ∧ wet=yes
    >>> features.evaluate(np.array([[1, 1], [1, 0]], np.uint8)).tolist()
    [1.5, 0.0]
    """

    tests: Vocabulary
    indptr: IntArray
    indices: npt.NDArray[np.int32]
    weights: FloatArray
    off: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("indptr", "indices", "weights", "off"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, read_only(array))

    # ---- building ---------------------------------------------------------------------------

    @classmethod
    def empty(cls, cards: IntArray) -> Features:
        """Return a set of no features."""
        none = Vocabulary(cards, np.zeros(0, np.int32), np.zeros((0, mask_words(cards)), np.uint64))
        return cls(none, np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))

    @classmethod
    def from_tests(
        cls,
        cards: IntArray,
        feature: npt.ArrayLike,
        var: npt.ArrayLike,
        mask: UIntArray,
        weights: npt.ArrayLike,
    ) -> Features:
        """Build from one entry per test: the feature it belongs to, its variable, its states.

        Tests of one variable in one feature are conjoined. Tests that always hold are left out, and
        so are features that never hold.
        """
        weight = np.asarray(weights, np.float64)
        if (np.isnan(weight) | np.isposinf(weight)).any():
            raise ModelError(
                "the weight of a feature must be a number, or -inf if it is impossible"
            )
        owner, variable = np.asarray(feature, np.int64), np.asarray(var, np.int64)
        order = np.lexsort((variable, owner))
        owner, variable, mask = owner[order], variable[order], mask[order]
        new = np.ones(len(order), bool)
        new[1:] = (owner[1:] != owner[:-1]) | (variable[1:] != variable[:-1])
        if not new.all():
            starts = np.flatnonzero(new)
            owner, variable = owner[starts], variable[starts]
            mask = np.bitwise_and.reduceat(mask, starts, axis=0)
        full = full_masks(cards)[variable]
        possible = np.ones(len(weight), bool)
        possible[owner[~(mask & full).any(1)]] = False
        keep = (mask != full).any(1) & possible[owner]
        tests, number = Vocabulary.unique(cards, variable[keep], mask[keep])
        indptr = np.concatenate([[0], np.cumsum(np.bincount(owner[keep], minlength=len(weight)))])
        built = cls(tests, indptr, number, weight)
        return built if possible.all() else built.select(np.flatnonzero(possible))

    @classmethod
    def from_terms(
        cls, domain: Domain, terms: Iterable[tuple[float, Mapping[str, Any]]]
    ) -> Features:
        """Build from (weight, {variable: state, or any of a set or list of states}) pairs, by names."""
        weights, owner, var, masks = [], [], [], []
        words = mask_words(domain.cards)
        for number, (weight, when) in enumerate(terms):
            weights.append(weight)
            for name, states in when.items():
                position = domain.index(name)
                owner.append(number)
                var.append(position)
                masks.append(set_mask(domain.variables[position].indices(states), words))
        mask = np.array(masks, np.uint64).reshape(len(owner), words)
        return cls.from_tests(domain.cards, owner, var, mask, weights)

    @classmethod
    def concatenate(cls, parts: Sequence[Features]) -> Features:
        """Concatenate sets of features over one domain, with a common vocabulary."""
        if len(parts) == 1:
            return parts[0]
        used = list({id(p.tests): p.tests for p in parts}.values())  # many parts may share one
        tests, number = Vocabulary.unique(
            parts[0].tests.cards,
            np.concatenate([tests.var for tests in used]),
            np.concatenate([tests.mask for tests in used]),
        )
        ends_of_tests = np.cumsum([len(tests) for tests in used])
        first_test = {id(t): end - len(t) for t, end in zip(used, ends_of_tests, strict=True)}
        first_entry = np.cumsum([0] + [len(p.indices) for p in parts])
        shifted = [p.indices + first_test[id(p.tests)] for p in parts]
        ends = [p.indptr[1:] + first_entry[i] for i, p in enumerate(parts)]
        off = None
        if any(p.off is not None for p in parts):
            off = np.concatenate([p.off_values() for p in parts])
        return cls(
            tests,
            np.concatenate([[0], *ends]),
            number[np.concatenate(shifted)],
            np.concatenate([p.weights for p in parts]),
            off,
        )

    # ---- looking ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def lengths(self) -> IntArray:
        """The number of tests of each feature."""
        return np.diff(self.indptr)

    @property
    def entry_var(self) -> npt.NDArray[np.int32]:
        """The variable of each entry of `indices`."""
        return self.tests.var[self.indices]

    @property
    def entry_feature(self) -> IntArray:
        """The feature of each entry of `indices`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def off_values(self) -> FloatArray:
        """Return the off value of each entry, zeros where none are stored."""
        return np.zeros(len(self.indices)) if self.off is None else self.off

    def soft_rows(self) -> BoolArray:
        """Return which features have a test with an off value other than 0."""
        soft = np.zeros(len(self), bool)
        if self.off is not None:
            soft[self.entry_feature[self.off != 0]] = True
        return soft

    def __iter__(self) -> Iterator[tuple[float, npt.NDArray[np.int32]]]:
        for f, weight in enumerate(self.weights.tolist()):
            yield weight, self.indices[self.indptr[f] : self.indptr[f + 1]]

    def by_length(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the features of each length, and the places of their tests in `indices`, as a matrix."""
        lengths = self.lengths
        for length in distinct(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            yield rows, self.indptr[rows][:, None] + np.arange(length)

    def by_scope(self) -> dict[tuple[int, ...], IntArray]:
        """Return the features that test the same variables, by these, in order of first appearance."""
        scopes: dict[tuple[int, ...], list[int]] = {}
        var, ends = self.entry_var.tolist(), self.indptr.tolist()
        for f in range(len(self)):
            scopes.setdefault(tuple(var[ends[f] : ends[f + 1]]), []).append(f)
        return {scope: np.array(rows) for scope, rows in scopes.items()}

    def describe(self, domain: Domain) -> list[str]:
        """Return each feature in words, with its weight."""
        words = self.tests.describe(domain)
        parts = [
            words[t] + (f" (else ×{o:.6g})" if o else "")
            for t, o in zip(self.indices.tolist(), self.off_values().tolist(), strict=True)
        ]
        ends = zip(self.weights.tolist(), self.indptr[:-1], self.indptr[1:], strict=True)
        return [f"{w:.6g}  {' ∧ '.join(parts[low:high]) or 'always'}" for w, low, high in ends]

    # ---- selecting and merging ----------------------------------------------------------------

    def select(self, rows: npt.NDArray[np.integer]) -> Features:
        """Return some of the features, in the order given."""
        lengths = self.lengths[rows]
        entries = segment_index(self.indptr[rows], lengths)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        off = None if self.off is None else self.off[entries]
        return Features(self.tests, indptr, self.indices[entries], self.weights[rows], off)

    def reweighted(self, weights: FloatArray) -> Features:
        """Return the features with other weights."""
        return replace(self, weights=weights)

    def nonzero(self) -> Features:
        """Return the features whose weight is not 0."""
        keep = self.weights != 0
        return self if keep.all() else self.select(np.flatnonzero(keep))

    def merged(self) -> Features:
        """Return the features with equal ones merged, in order of first appearance.

        Features with off values are left as they are, after the others.
        """
        soft = self.soft_rows()
        if soft.any():
            hard = replace(self.select(np.flatnonzero(~soft)), off=None)
            return Features.concatenate([hard.merged(), self.select(np.flatnonzero(soft))])
        keys = row_keys(self.indptr, self.indices, code_numbers(len(self.tests)))
        order, starts, first = group_equal(*keys)
        if len(starts) == len(self):
            return replace(self, off=None)
        weights = np.add.reduceat(self.weights[order], starts)
        ordered = np.argsort(first)
        return replace(self.select(first[ordered]), weights=weights[ordered], off=None)

    def condition(self, evidence: Mapping[int, int]) -> Features:
        """Fix variables, by position, to states, so that their tests always hold or always fail.

        A test that holds is left out; one that fails multiplies the weight by its off value.
        """
        return self.conditioned(evidence)[0]

    def conditioned(self, evidence: Mapping[int, int]) -> tuple[Features, npt.NDArray[np.intp]]:
        """Condition like `condition`, and also return which features remain."""
        given = np.array([evidence.get(i, -1) for i in range(len(self.tests.cards))], np.int64)
        state = given[self.tests.var]
        fixed = state >= 0
        holds = self.tests.holds(np.maximum(state, 0))
        drop = fixed[self.indices]
        factor = np.where(drop & ~holds[self.indices], self.off_values(), 1.0)
        scale = segment_reduce(np.multiply, factor, self.indptr)
        weights = np.where(scale == 0, 0.0, self.weights) * scale
        left = np.flatnonzero(scale != 0)
        return replace(self.without_entries(drop), weights=weights).select(left), left

    def without_entries(self, dropped: BoolArray) -> Features:
        """Remove tests from features; the weights stay."""
        indptr = np.concatenate([[0], np.cumsum(~dropped)])[self.indptr]
        off = None if self.off is None else self.off[~dropped]
        return replace(self, indptr=indptr, indices=self.indices[~dropped], off=off)

    def without_variables(self, dropped: Sequence[int]) -> Features:
        """Remove variables that no test depends on, and renumber the others."""
        keep = np.setdiff1d(np.arange(len(self.tests.cards)), dropped)
        new = np.full(len(self.tests.cards), -1, np.int64)
        new[keep] = np.arange(len(keep))
        used, indices = np.unique(self.indices, return_inverse=True)
        cards = self.tests.cards[keep]
        mask = self.tests.mask[used, : mask_words(cards)]
        tests = Vocabulary(cards, new[self.tests.var[used]].astype(np.int32), mask)
        return replace(self, tests=tests, indices=indices.astype(np.int32))

    def moved(self, cards: IntArray, position: IntArray) -> Features:
        """Return the features over reordered variables: their `cards`, and the new position of each."""
        tests, number = Vocabulary.unique(cards, position[self.tests.var], self.tests.mask)
        return replace(self, tests=tests, indices=number[self.indices]).with_sorted_tests()

    def with_sorted_tests(self) -> Features:
        """Sort the tests of each feature by number, and thereby by variable."""
        order = np.lexsort((self.indices, self.entry_feature))
        off = None if self.off is None else self.off[order]
        return replace(self, indices=self.indices[order], off=off)

    def sorted(self) -> Features:
        """Return the features sorted by length, then by tests, off values and weight."""
        off, order = self.off_values(), [np.zeros(0, np.int64)]
        for rows, entry in self.by_length():
            keys = [*self.indices[entry].T, *off[entry].T, self.weights[rows]]
            order.append(rows[np.lexsort(keys[::-1])])
        return self.select(np.concatenate(order))

    def touching(self, variable: int) -> tuple[Features, npt.NDArray[np.int32], FloatArray]:
        """Return the features that test a variable, without that test, its number and its off value."""
        entries = np.flatnonzero(self.entry_var == variable)
        rows = np.searchsorted(self.indptr, entries, side="right") - 1
        sub = self.select(rows)
        rest = sub.without_entries(sub.entry_var == variable)
        return rest, self.indices[entries], self.off_values()[entries]

    # ---- evaluating -----------------------------------------------------------------------------

    def _blocks(self, codes: Codes) -> Iterator[tuple[slice, slice, FloatArray]]:
        """Yield (feature slice, row slice, unweighted values) of blocks of bounded size."""
        rows_at_once = max(256, min(len(codes), BLOCK // max(1, len(self.tests))))
        features_at_once = max(1, BLOCK // rows_at_once)
        for low in range(0, len(codes), rows_at_once):
            rows = slice(low, min(low + rows_at_once, len(codes)))
            truth = self.tests.truth(codes[rows])
            packed = np.packbits(truth, axis=1)
            for start in range(0, len(self), features_at_once):
                part = slice(start, min(start + features_at_once, len(self)))
                if self.off is None:
                    bits = self._held(part, packed)
                    values = np.unpackbits(bits, axis=1, count=truth.shape[1]).astype(np.float64)
                else:
                    indptr = self.indptr[part.start : part.stop + 1]
                    entries = slice(indptr[0], indptr[-1])
                    factors = np.where(truth[self.indices[entries]], 1.0, self.off[entries, None])
                    values = segment_reduce(np.multiply, factors, indptr - indptr[0])
                yield part, rows, values

    def _held(self, part: slice, packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Return on which rows each conjunction holds, packed."""
        indptr = self.indptr[part.start : part.stop + 1]
        held = packed[self.indices[indptr[0] : indptr[-1]]]
        return segment_reduce(np.bitwise_and, held, indptr - indptr[0])

    def evaluate(self, codes: Codes) -> FloatArray:
        """Return the sum of the weighted features on each row of codes."""
        total = np.zeros(len(codes))
        for part, rows, values in self._blocks(codes):
            total[rows] += finite_product(self.weights[part, None], values)[0]
        return total

    def truth(self, codes: Codes) -> BoolArray:
        """Return on which rows each conjunction holds, features by rows."""
        packed = np.packbits(self.tests.truth(codes), axis=1)
        held = self._held(slice(0, len(self)), packed)
        return np.unpackbits(held, axis=1, count=len(codes)).astype(bool)

    def sums(self, codes: Codes, weights: FloatArray | None = None) -> FloatArray:
        """Return the sum of each feature, without its weight, over rows, which may have weights."""
        total = np.zeros(len(self))
        for part, rows, values in self._blocks(codes):
            total[part] += values.sum(axis=1) if weights is None else values @ weights[rows]
        return total

    def logits(self, variable: int, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row) up to a constant per row, rows by states."""
        card = int(self.tests.cards[variable])
        rest, test, off = self.touching(variable)
        by_state = np.where(self.tests.members(test, card), 1.0, off[:, None])
        with np.errstate(invalid="ignore"):
            weighted = np.where(by_state == 0, 0.0, rest.weights[:, None] * by_state)
        total = np.zeros((len(codes), card))
        for part, rows, values in rest._blocks(codes):
            total[rows] += finite_product(weighted[part], values).T
        return total


def segment_reduce(
    operation: np.ufunc, values: npt.NDArray[Any], indptr: IntArray
) -> npt.NDArray[Any]:
    """Combine the lines of each segment by an operation; an empty one becomes its identity."""
    neutral = np.array(operation.identity).astype(values.dtype)
    result = np.full((len(indptr) - 1, *values.shape[1:]), neutral)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        result[filled] = operation.reduceat(values, indptr[filled], axis=0)
    return result


def finite_product(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return weights.T @ values, where a weight of -inf counts only if its value is not 0."""
    endless = np.isneginf(weights)
    if not endless.any():
        return weights.T @ values
    result = np.where(endless, 0.0, weights).T @ values
    result[(endless.astype(np.float64).T @ np.abs(values)) > 0] = -np.inf
    return result
