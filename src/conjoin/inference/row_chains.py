"""Gibbs sampling of a row whose exact answer would need tables that are too large."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.table import Codes
from conjoin.inference.chain import Chain, Sampler
from conjoin.kernels.elimination_layouts import MISSING
from conjoin.models.loglinear import LogLinearForm

BURN_IN = 50
"""Number of sweeps that do not count."""

SWEEPS = 400
"""Number of sweeps that marginals are averaged over."""

SWEEPS_PER_ROW = 10
"""Number of sweeps from one drawn row to the next."""

STARTS, ANNEALING = 5, 10
"""A mode is the best of the first number of starts, each annealed for the second number of sweeps."""

CLIMBING_SWEEPS = 1000
"""Maximum number of sweeps that improve a mode after annealing."""


class RowChains:
    """Chains for some of the missing values of one row.

    `asked`: the variables to be sampled; no other missing value may depend on them.
    """

    def __init__(self, form: LogLinearForm, row: Codes, asked: IntArray, seed: int) -> None:
        known = np.flatnonzero(row != MISSING)
        given = dict(zip(known.tolist(), row[known].tolist(), strict=True))
        self.asked, self.sampler = asked, Sampler(form, given, asked)
        self.seeds = np.random.SeedSequence(seed).spawn(STARTS)

    def _started(self) -> Chain:
        return self.sampler.chain(self.seeds[0], BURN_IN)

    def marginals(self) -> FloatArray:
        """Return the probabilities of the states of all variables, side by side."""
        return self._started().run(SWEEPS, batches=1).sums[0] / SWEEPS

    def draws(self, count: int) -> Codes:
        """Return draws of the variables, draws by variables."""
        return self._started().draw(count, SWEEPS_PER_ROW)[:, self.asked]

    def mode(self) -> IntArray:
        """Return the best state that annealing finds, from an inverse temperature of 1 to 5."""
        cooling = 5.0 ** np.linspace(0, 1, ANNEALING)
        best: Chain | None = None
        for seed in self.seeds:
            chain = self.sampler.chain(seed)
            chain.run(np.append(cooling, np.full(CLIMBING_SWEEPS, np.inf)))
            if best is None or chain.log_potential > best.log_potential:
                best = chain
        assert best is not None
        return best.state[self.asked]
