"""What `JointModel` says given evidence, without a table: distributions, rows that it draws."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table
from conjoin.errors import ConvergenceWarning, ModelError, names_lack_of_memory
from conjoin.estimator.fitted import Fitted
from conjoin.estimator.seeds import integer_seed
from conjoin.inference.evidence import Evidence
from conjoin.models.left_out import names_left_out
from conjoin.models.mixed import MixedNetwork


class EvidenceAnswers(Fitted):
    """Distributions, the most probable row, and draws, given evidence."""

    @names_lack_of_memory
    def marginals(self, given: Mapping[Any, Any] | str | None = None, **options: Any) -> Any:
        """Return the distribution of each column given what is known (see `conjoin.marginals`).

        With columns of numbers it is a mapping of columns to {state: probability} or to a
        `NumberDistribution`.
        """
        self._fitted()
        from conjoin.inference.engines import marginals

        return marginals(self, given, **options)

    @names_lack_of_memory
    def most_probable(self, given: Mapping[Any, Any] | str | None = None, **options: Any) -> Any:
        """Return the most probable row (see `conjoin.most_probable`).

        With columns of numbers it is the best row that an ascent from several starts found.
        """
        self._fitted()
        from conjoin.inference.engines import most_probable

        return most_probable(self, given, **options)

    @names_lack_of_memory
    @names_left_out
    def sample(self, n: int = 1, given: Mapping[Any, Any] | str | None = None) -> Any:
        """Draw rows, as a table of the kind that the model was fitted to.

        Parameters
        ----------
        n : int
            The number of rows.
        given : mapping or str, optional
            {column: value or condition} that all rows agree with, or text such as
            "age > 40, city=Austin".
        """
        encoding = self._fitted()
        if not isinstance(n, int | np.integer) or n < 0:
            raise ModelError(f"n must be a non-negative integer, not {n!r}")
        seed = integer_seed(self.random_state)
        drawn: Table | MixedTable
        if isinstance(self.model_, MixedNetwork):
            from conjoin.inference.engines import warn_of_between

            known = self.mixed_known(given)
            warn_of_between(self.model_, known.given)
            drawn = known.sample(n, seed)
        else:
            drawn = self._drawn_states(n, encoding.evidence(given), seed)
        if encoding.empty is None and encoding.dtype is None:
            return drawn
        if isinstance(drawn, Table):
            drawn = MixedTable(self.columns_, drawn, np.empty((n, 0)))
        values = self._of_rows(drawn).new_rows(np.random.default_rng([seed, 1]))
        return encoding.new(values, n)

    def _drawn_states(self, n: int, known: Evidence, seed: int) -> Table:
        from conjoin.inference import exact
        from conjoin.inference.diagnostics import MAX_R_HAT
        from conjoin.inference.plan import TooLarge
        from conjoin.inference.sampling import sample, table_diagnostics

        model = self._discrete("sampling")
        try:
            return exact.sample(model, n, known, random_state=seed)
        except TooLarge:
            table = sample(model, n, known, method="gibbs", sweeps_per_row=10, random_state=seed)
        r_hat, _ = table_diagnostics(table, 4)
        if r_hat is not None and r_hat > MAX_R_HAT:
            warnings.warn(
                f"the model is too dense for exact sampling, and the Gibbs chains that drew these "
                f"rows disagree (R-hat {r_hat:.2f}): do not trust the frequencies of the states",
                ConvergenceWarning,
                stacklevel=3,
            )
        return table
