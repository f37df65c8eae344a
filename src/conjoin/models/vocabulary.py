"""The distinct tests of a model: "variable X is in the set S of states"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray, UIntArray
from conjoin.data.domain import Domain
from conjoin.data.labels import shown, statement
from conjoin.data.table import Codes


def mask_words(cards: IntArray) -> int:
    """Return the number of 64-bit words that can hold a set of states of any variable."""
    return max(1, -(-int(cards.max(initial=1)) // 64))


def full_masks(cards: IntArray) -> UIntArray:
    """Return, for each variable, the mask of all its states."""
    words = mask_words(cards)
    low = np.arange(words) * 64
    bits = np.clip(cards[:, None] - low, 0, 64).astype(np.uint64)
    ones = (np.uint64(1) << np.minimum(bits, np.uint64(63))) - np.uint64(1)
    return np.where(bits == 64, ~np.uint64(0), ones)


def state_masks(states: npt.ArrayLike, words: int) -> UIntArray:
    """Return the masks of single states."""
    code = np.asarray(states, np.int64)
    masks = np.zeros((len(code), words), np.uint64)
    masks[np.arange(len(code)), code >> 6] = np.uint64(1) << (code & 63).astype(np.uint64)
    return masks


def range_masks(first: IntArray, last: IntArray, words: int) -> UIntArray:
    """Return the masks of neighbouring states."""
    masks = state_masks(first, words)
    for state in range(int((last - first).max(initial=0))):
        more = np.flatnonzero(first + state < last)
        masks[more] |= state_masks(first[more] + state + 1, words)
    return masks


def set_mask(states: Iterable[int], words: int) -> UIntArray:
    """Return the mask of one set of states."""
    return np.bitwise_or.reduce(state_masks(list(states), words), axis=0, keepdims=True)[0]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Distinct tests, sorted by variable."""

    cards: IntArray  # the number of states of each variable of the domain
    var: npt.NDArray[np.int32]  # the variable that each test looks at
    mask: UIntArray  # the states that satisfy it: bit s of word w stands for state 64 w + s

    @classmethod
    def unique(
        cls, cards: IntArray, var: npt.NDArray[np.integer], mask: UIntArray
    ) -> tuple[Vocabulary, npt.NDArray[np.int32]]:
        """Return the distinct tests, and the number of each given test among them."""
        if mask.shape[1] == 1 and int(cards.max(initial=1)) <= 40:  # one number holds both
            order = np.argsort(var.astype(np.uint64) << np.uint64(40) | mask[:, 0])
        else:
            order = np.lexsort((*mask.T[::-1], var))
        sorted_var, sorted_mask = var[order], mask[order]
        new = np.ones(len(order), bool)
        new[1:] = (sorted_var[1:] != sorted_var[:-1]) | (sorted_mask[1:] != sorted_mask[:-1]).any(1)
        number = np.empty(len(order), np.int32)
        number[order] = np.cumsum(new, dtype=np.int32) - 1
        return cls(cards, sorted_var[new].astype(np.int32), sorted_mask[new]), number

    def __len__(self) -> int:
        return len(self.var)

    def members(
        self, which: npt.NDArray[np.integer] | None = None, card: int | None = None
    ) -> BoolArray:
        """Return which states satisfy each test, for as many states as a variable has at most."""
        mask = self.mask if which is None else self.mask[which]
        states = np.arange(int(self.cards.max(initial=1)) if card is None else card)
        words = mask[:, states >> 6] >> (states & 63).astype(np.uint64)
        return (words & np.uint64(1)).astype(bool)

    def holds(self, states: IntArray) -> BoolArray:
        """Return whether each test holds in a given state of its variable, one state per test."""
        word = self.mask[np.arange(len(self)), states >> 6]
        return (word >> (states & 63).astype(np.uint64) & np.uint64(1)).astype(bool)

    def truth(self, codes: Codes) -> BoolArray:
        """Return which tests hold on each row, as a matrix tests by rows."""
        columns = codes.T[self.var]
        shift = (columns & 63).astype(np.uint64)
        if self.mask.shape[1] == 1:
            words = np.broadcast_to(self.mask, columns.shape)
        else:
            words = np.take_along_axis(self.mask, (columns >> 6).astype(np.int64), axis=1)
        return ((words >> shift) & np.uint64(1)).astype(bool)

    def probability(self, marginals: list[FloatArray]) -> FloatArray:
        """Return the probability of each test under a product of marginals."""
        p = np.zeros((len(self.cards), int(self.cards.max(initial=1))))
        for line, marginal in zip(p, marginals, strict=True):
            line[: len(marginal)] = marginal
        return np.asarray(np.einsum("ts,ts->t", p[self.var], self.members()))

    def complement(self) -> UIntArray:
        """Return the masks of the states that fail each test."""
        return full_masks(self.cards)[self.var] & ~self.mask

    def describe(self, domain: Domain) -> list[str]:
        """Return each test in words; neighbouring intervals are a range."""
        words = []
        for test, var in enumerate(self.var.tolist()):
            variable = domain.variables[var]
            name = shown(variable.name)
            member = self.members(np.array([test]), len(variable))[0]
            held = np.flatnonzero(member)
            if variable.numbers is not None and len(held) and len(held) == held[-1] - held[0] + 1:
                words.append(statement(variable, int(held[0]), int(held[-1])))
                continue
            inside, outside = (
                [shown(s) for s, m in zip(variable.states, member, strict=True) if m == wanted]
                for wanted in (True, False)
            )
            if len(inside) == 1:
                words.append(f"{name}={inside[0]}")
            elif len(outside) == 1:
                words.append(f"{name}≠{outside[0]}")
            else:
                words.append(f"{name}∈{{{', '.join(inside)}}}")
        return words
