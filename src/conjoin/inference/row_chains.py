"""Gibbs sampling of a row whose exact answer would need tables that are too large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Codes
from conjoin.inference.chain import Chain, Sampler
from conjoin.kernels.elimination_layouts import MISSING
from conjoin.models.loglinear import LogLinearForm

CLIMBING_SWEEPS = 1000
"""Maximum number of sweeps that improve a mode after annealing."""


class SamplingSettings(NamedTuple):
    """How rows are sampled.

    Attributes
    ----------
    burn_in : int
        Sweeps that do not count.
    sweeps : int
        Sweeps that marginals are averaged over.
    sweeps_per_row : int
        Sweeps from one drawn row to the next.
    starts, annealing : int
        A mode is the best of this number of starts, each annealed for this number of sweeps.
    """

    burn_in: int = 50
    sweeps: int = 400
    sweeps_per_row: int = 10
    starts: int = 5
    annealing: int = 10


class RowChains:
    """Chains for some of the missing values of one row.

    Parameters
    ----------
    form : LogLinearForm
        The network.
    row : array of codes
        The row.
    asked : array of int
        The variables to be sampled; no other missing value may depend on them.
    seed : int
        The seed.
    settings : SamplingSettings
        The numbers of sweeps.
    """

    def __init__(
        self,
        form: LogLinearForm,
        row: Codes,
        asked: IntArray,
        seed: int,
        settings: SamplingSettings,
    ) -> None:
        known = np.flatnonzero(row != MISSING)
        self.settings, self.asked = settings, asked
        self.sampler = Sampler(
            form, dict(zip(known.tolist(), row[known].tolist(), strict=True)), asked
        )
        self.seeds = np.random.SeedSequence(seed).spawn(settings.starts)

    def _started(self) -> Chain:
        return self.sampler.chain(self.seeds[0], self.settings.burn_in)

    def marginals(self) -> FloatArray:
        """Return the probabilities of the states of all variables, side by side."""
        return self._started().run(self.settings.sweeps, batches=1).sums[0] / self.settings.sweeps

    def draws(self, count: int) -> Codes:
        """Return draws of the variables, draws by variables."""
        return self._started().draw(count, self.settings.sweeps_per_row)[:, self.asked]

    def mode(self) -> IntArray:
        """Return the best state that annealing finds, from an inverse temperature of 1 to 5."""
        cooling = 5.0 ** np.linspace(0, 1, self.settings.annealing)
        best: Chain | None = None
        for seed in self.seeds:
            chain = self.sampler.chain(seed)
            chain.run(np.append(cooling, np.full(CLIMBING_SWEEPS, np.inf)))
            if best is None or chain.log_potential > best.log_potential:
                best = chain
        assert best is not None
        return best.state[self.asked]
