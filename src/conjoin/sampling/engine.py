"""What all engines of `sampling.rows` share: settings, the shape of an answer, a block of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from conjoin.data.arrays import BoolArray, Float32Array, FloatArray, IntArray, UIntArray
from conjoin.data.table import Codes
from conjoin.errors import ModelError

BATCHES = 25
"""In how many parts the sweeps of a chain are summed, for the errors."""

BLOCK = 128
"""How many rows an engine is asked for at a time; the lanes of `kernels.lanes`."""

Marginals = tuple[FloatArray, Float32Array, BoolArray]


@dataclass(frozen=True)
class Settings:
    """How chains are run.

    Attributes
    ----------
    burn_in : int
        Sweeps that do not count.
    samples : int
        Sweeps that do; a multiple of the number of batches.
    batches : int
        In how many parts they are summed.
    """

    burn_in: int
    samples: int
    batches: int

    @classmethod
    def of(cls, burn_in: int, samples: int) -> Settings:
        """Round the sweeps up to whole batches."""
        if burn_in < 0 or samples < 2:
            raise ModelError("burn_in must not be negative, samples must be 2 or more")
        batches = min(BATCHES, samples)
        return cls(burn_in, -(-samples // batches) * batches, batches)

    def limit(self, variables: int) -> int:
        """Return up to how many states enumerating them is no dearer than sampling."""
        return (self.burn_in + self.samples) * variables // 4


class Engine(Protocol):
    """Marginals of fixed free variables for rows of the others."""

    def marginals(self, codes: Codes, counters: UIntArray) -> Marginals:
        """Return marginals given each of at most `BLOCK` rows.

        Parameters
        ----------
        codes : array of codes, shape (rows, variables)
            What they say of the free variables is ignored.
        counters : array of uint64, shape (rows,)
            Where the random numbers of each row start.

        Returns
        -------
        mean : array of float, shape (rows, states of all free variables)
            The marginals, side by side.
        batch : array of float32, shape (batches, states, rows or more)
            Sums of the conditionals by batch, where they are not exact.
        exact : array of bool, shape (rows, free variables)
            Which marginals are exact.
        """
        ...


def filled(
    mean: FloatArray, batch: Float32Array, exact: BoolArray, cards: IntArray, settings: Settings
) -> Marginals:
    """Put means of what was sampled beside what was worked out exactly."""
    if not exact.all():
        sampled = batch[:, :, : len(mean)].sum(axis=0, dtype=np.float64).T / settings.samples
        known = np.repeat(exact, cards, axis=1)
        mean = np.where(known, mean, sampled) if known.any() else np.ascontiguousarray(sampled)
    return mean, batch, exact
