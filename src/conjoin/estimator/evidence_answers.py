"""What `JointModel` says given evidence, without a table: distributions, rows that it draws."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from conjoin.errors import ConvergenceWarning, ModelError, names_lack_of_memory
from conjoin.estimator.encoding import values_of
from conjoin.estimator.fitted import Fitted
from conjoin.estimator.seeds import integer_seed
from conjoin.inference.evidence import Given
from conjoin.models.left_out import names_left_out


class EvidenceAnswers(Fitted):
    """Distributions, the most probable row, and draws, given evidence."""

    @names_lack_of_memory
    def marginals(self, given: Given = None, **options: Any) -> Any:
        """Return the distribution of each column given what is known (see `conjoin.marginals`).

        With columns of numbers it is a mapping of columns to {state: probability} or to a
        `NumberDistribution`.
        """
        self._fitted()
        from conjoin.inference.engines import marginals

        return marginals(self, given, **options)

    @names_lack_of_memory
    def most_probable(self, given: Given = None, **options: Any) -> Any:
        """Return the most probable row (see `conjoin.most_probable`).

        A number has the median of its most probable interval.
        """
        self._fitted()
        from conjoin.inference.engines import most_probable

        return most_probable(self, given, **options)

    @names_lack_of_memory
    @names_left_out
    def sample(self, n: int = 1, given: Given = None, *, random_state: Any = None) -> Any:
        """Draw rows, as a table of the kind that the model was fitted to.

        Parameters
        ----------
        n : int
            The number of rows.
        given : mapping or str, optional
            {column: value or condition} that all rows agree with, or text such as
            "age > 40, city=Austin".
        random_state : int, numpy Generator, RandomState or None
            With None, every call draws other rows. A generator is advanced.
        """
        encoding = self._fitted()
        if not isinstance(n, int | np.integer) or n < 0:
            raise ModelError(f"n must be a non-negative integer, not {n!r}")
        from conjoin.inference.diagnostics import MAX_R_HAT
        from conjoin.inference.plan import TooLarge
        from conjoin.inference.sampling import sample, sampling_method, table_diagnostics

        seed, known = integer_seed(random_state), encoding.evidence(given)
        r_hat, drawn = None, None
        if sampling_method(self.model_, known) == "exact":
            with suppress(TooLarge):
                drawn = sample(self.model_, n, known, random_state=seed)
        if drawn is None:
            how = {"method": "gibbs", "sweeps_per_row": 10}
            drawn = sample(self.model_, n, known, random_state=seed, **how)  # type: ignore[arg-type]
            r_hat, _ = table_diagnostics(drawn, 4)
        if r_hat is not None and r_hat > MAX_R_HAT:
            warnings.warn(
                f"the model is too dense for exact sampling, and the Gibbs chains that drew these "
                f"rows disagree (R-hat {r_hat:.2f}): do not trust the frequencies of the states",
                ConvergenceWarning,
                stacklevel=2,
            )
        if encoding.empty is None and encoding.dtype is None:
            return drawn
        return encoding.new({name: values_of(drawn, name) for name in drawn.names}, n)
